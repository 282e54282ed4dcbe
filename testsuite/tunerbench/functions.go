package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// Function is one of the functions that contenders minimise. Its parameters are
// called x0, x1, … and are uniform between its bounds.
type Function struct {
	Name    string
	Low     []float64
	High    []float64
	Minimum float64   // the least value within the bounds
	At      []float64 // where it has it
	Value   func(x []float64) float64
}

// Space is the search space as NNI writes it.
func (f *Function) Space() json.RawMessage {
	members := make([]string, len(f.Low))
	for i := range f.Low {
		members[i] = fmt.Sprintf(`"x%d": {"_type": "uniform", "_value": [%v, %v]}`, i, f.Low[i], f.High[i])
	}
	return json.RawMessage("{" + strings.Join(members, ", ") + "}")
}

// Regret is how far the value at parameters lies above the minimum.
func (f *Function) Regret(parameters json.RawMessage) (float64, error) {
	var given map[string]float64
	if err := json.Unmarshal(parameters, &given); err != nil {
		return 0, fmt.Errorf("parameters %s of %s: %w", parameters, f.Name, err)
	}
	x := make([]float64, len(f.Low))
	for i := range x {
		value, ok := given[fmt.Sprintf("x%d", i)]
		if margin := 1e-9 * (f.High[i] - f.Low[i]); !ok || value < f.Low[i]-margin || value > f.High[i]+margin {
			return 0, fmt.Errorf("parameters %s of %s: want x%d in [%v, %v]", parameters, f.Name, i, f.Low[i], f.High[i])
		}
		x[i] = value
	}
	return f.Value(x) - f.Minimum, nil
}

// cube is the bounds of a function that has the same in every dimension.
func cube(dimensions int, low, high float64) (lows, highs []float64) {
	return repeated(dimensions, low), repeated(dimensions, high)
}

func repeated(dimensions int, x float64) []float64 {
	all := make([]float64, dimensions)
	for i := range all {
		all[i] = x
	}
	return all
}

func onCube(name string, low, high, minimum float64, at []float64, value func([]float64) float64) Function {
	f := Function{Name: name, Minimum: minimum, At: at, Value: value}
	f.Low, f.High = cube(len(at), low, high)
	return f
}

// Functions returns the 14 functions with the bounds that the evaluation set of
// Dewancker et al., "A Stratified Analysis of Bayesian Optimization Methods", 2016,
// gives them. Where no other source is named, the formula is that of Surjanovic and
// Bingham's Virtual Library of Simulation Experiments.
func Functions() []Function {
	return []Function{
		{"Branin01", []float64{-5, 0}, []float64{10, 15}, 0.39788735772973816, []float64{math.Pi, 2.275}, branin},
		onCube("Hartmann3", 0, 1, -3.8627821478, []float64{0.114614, 0.555649, 0.852547}, hartmann3),
		onCube("Hartmann6", 0, 1, -3.3223680115, []float64{0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573}, hartmann6),
		onCube("Ackley", -10, 30, 0, repeated(5, 0), ackley),
		{"SixHumpCamel", []float64{-2, -1.5}, []float64{2, 1.5}, -1.0316284535, []float64{0.0898420, -0.7126564}, sixHumpCamel},
		onCube("GoldsteinPrice", -2, 2, 3, []float64{0, -1}, goldsteinPrice),
		onCube("Rastrigin", -5, 2, 0, repeated(8, 0), rastrigin),
		onCube("Levy03", -10, 10, 0, repeated(8, 1), levy03),
		onCube("RosenbrockLog", -2, 2, 0, repeated(11, 1), rosenbrockLog),
		onCube("StyblinskiTang", -5, 5, -156.664662815, repeated(4, -2.9035340), styblinskiTang),
		onCube("Michalewicz", 0, math.Pi, -4.687658179, []float64{2.202906, 1.570796, 1.284992, 1.923058, 1.720470}, michalewicz),
		onCube("Shekel07", 0, 10, -10.402940567, []float64{4.000573, 4.000690, 3.999490, 3.999606}, shekel07),
		onCube("Griewank", -50, 20, 0, repeated(2, 0), griewank),
		onCube("McCourt02", 0, 1, -2.7416211680, []float64{0.4068, 0.4432, 0.6479, 0.1978, 0.7660, 0.7553, 0.5640}, mcCourt02),
	}
}

func square(x float64) float64 { return x * x }

func branin(x []float64) float64 {
	b, c, t := 5.1/(4*square(math.Pi)), 5/math.Pi, 1/(8*math.Pi)
	return square(x[1]-b*square(x[0])+c*x[0]-6) + 10*(1-t)*math.Cos(x[0]) + 10
}

// hartmann is minus a sum of four bumps.
func hartmann(x []float64, steepness, centres [4][]float64) float64 {
	sum := 0.0
	for i, height := range []float64{1, 1.2, 3, 3.2} {
		exponent := 0.0
		for j := range x {
			exponent += steepness[i][j] * square(x[j]-centres[i][j])
		}
		sum += height * math.Exp(-exponent)
	}
	return -sum
}

func hartmann3(x []float64) float64 {
	return hartmann(x,
		[4][]float64{{3, 10, 30}, {.1, 10, 35}, {3, 10, 30}, {.1, 10, 35}},
		[4][]float64{{.3689, .1170, .2673}, {.4699, .4387, .7470}, {.1091, .8732, .5547}, {.03815, .5743, .8828}})
}

func hartmann6(x []float64) float64 {
	return hartmann(x,
		[4][]float64{{10, 3, 17, 3.5, 1.7, 8}, {.05, 10, 17, .1, 8, 14}, {3, 3.5, 1.7, 10, 17, 8}, {17, 8, .05, 10, .1, 14}},
		[4][]float64{{.1312, .1696, .5569, .0124, .8283, .5886}, {.2329, .4135, .8307, .3736, .1004, .9991},
			{.2348, .1451, .3522, .2883, .3047, .6650}, {.4047, .8828, .8732, .5743, .1091, .0381}})
}

func ackley(x []float64) float64 {
	squares, cosines := 0.0, 0.0
	for _, xi := range x {
		squares += square(xi)
		cosines += math.Cos(2 * math.Pi * xi)
	}
	n := float64(len(x))
	return 20 + math.E - 20*math.Exp(-.2*math.Sqrt(squares/n)) - math.Exp(cosines/n)
}

func sixHumpCamel(x []float64) float64 {
	a, b := square(x[0]), square(x[1])
	return (4-2.1*a+a*a/3)*a + x[0]*x[1] + (4*b-4)*b
}

func goldsteinPrice(x []float64) float64 {
	a, b := x[0], x[1]
	first := 1 + square(a+b+1)*(19-14*a+3*a*a-14*b+6*a*b+3*b*b)
	second := 30 + square(2*a-3*b)*(18-32*a+12*a*a+48*b-36*a*b+27*b*b)
	return first * second
}

func rastrigin(x []float64) float64 {
	sum := 0.0
	for _, xi := range x {
		sum += 10 + square(xi) - 10*math.Cos(2*math.Pi*xi)
	}
	return sum
}

func levy03(x []float64) float64 {
	w := func(i int) float64 { return 1 + (x[i]-1)/4 }
	last := len(x) - 1
	sum := square(math.Sin(math.Pi * w(0)))
	for i := range last {
		sum += square(w(i)-1) * (1 + 10*square(math.Sin(math.Pi*w(i)+1)))
	}
	return sum + square(w(last)-1)*(1+square(math.Sin(2*math.Pi*w(last))))
}

// rosenbrockLog is log(1 + Rosenbrock), as in the evaluation set.
func rosenbrockLog(x []float64) float64 {
	sum := 0.0
	for i := range len(x) - 1 {
		sum += 100*square(x[i+1]-square(x[i])) + square(1-x[i])
	}
	return math.Log1p(sum)
}

func styblinskiTang(x []float64) float64 {
	sum := 0.0
	for _, xi := range x {
		sum += square(square(xi)) - 16*square(xi) + 5*xi
	}
	return sum / 2
}

func michalewicz(x []float64) float64 {
	sum := 0.0
	for i, xi := range x {
		sum += math.Sin(xi) * math.Pow(math.Sin(float64(i+1)*square(xi)/math.Pi), 20)
	}
	return -sum
}

func shekel07(x []float64) float64 {
	sum := 0.0
	for i, centre := range [][]float64{{4, 4, 4, 4}, {1, 1, 1, 1}, {8, 8, 8, 8}, {6, 6, 6, 6}, {3, 7, 3, 7}, {2, 9, 2, 9}, {5, 5, 3, 3}} {
		distance := []float64{.1, .2, .2, .4, .4, .6, .3}[i]
		for j := range x {
			distance += square(x[j] - centre[j])
		}
		sum += 1 / distance
	}
	return -sum
}

func griewank(x []float64) float64 {
	squares, product := 0.0, 1.0
	for i, xi := range x {
		squares += square(xi)
		product *= math.Cos(xi / math.Sqrt(float64(i+1)))
	}
	return 1 + squares/4000 - product
}

// mcCourt02 is a sum of six inverse multiquadrics, whose centres, widths and
// heights are the evaluation set's.
func mcCourt02(x []float64) float64 {
	bumps := []struct {
		height, steepness float64
		centre            []float64
	}{
		{-1, 5, []float64{.1, .1, .1, .1, .1, .1, .1}},
		{-1, 1.5, []float64{.3, .1, .5, .1, .8, .8, .6}},
		{-2, 1, []float64{.6, .7, .8, .3, .7, .8, .6}},
		{1, 5, []float64{.4, .7, .4, .9, .4, .1, .9}},
		{1, 5, []float64{.9, .3, .3, .5, .2, .7, .2}},
		{-1, 5, []float64{.5, .5, .2, .8, .5, .3, .4}},
	}
	sum := 0.0
	for _, b := range bumps {
		distance := 0.0
		for j := range x {
			distance += square(x[j] - b.centre[j])
		}
		sum += b.height / math.Sqrt(1+b.steepness*distance)
	}
	return sum
}
