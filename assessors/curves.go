package assessors

import (
	"cmp"
	"math"
	"slices"
)

// curve is a family of learning curves that rise to an end.
type curve struct {
	at    func(x float64, p []float64) float64
	start []float64 // where fits begin: means over many curves (Domhan et al.)
}

// curves are the families that NNI fits (Domhan, Springenberg and Hutter, "Speeding
// up Automatic Hyperparameter Optimization of Deep Neural Networks by Extrapolation
// of Learning Curves", IJCAI 2015). ilog2 is the paper's: in NNI's it divides by the
// logarithm of 1 at the first step and so never fits.
func curves() []curve {
	return []curve{
		{vapor, []float64{-0.622028, -0.470050, 0.042322}},
		{pow3, []float64{0.84, 0.52, 0.01}},
		{linear, []float64{1, 0}},
		{logLinear, []float64{0.378106, 0.046506}},
		{hill, []float64{0.772320, 0.586449, 2.460843}},
		{logPower, []float64{0.77, 2.98, -0.51}},
		{pow4, []float64{0.1, 200, 0, 0.8}},
		{mmf, []float64{0.7, 0.1, 0.01, 5}},
		{exp4, []float64{0.7, 0.8, -0.8, 0.3}},
		{ilog2, []float64{0.78, 0.43}},
		{weibull, []float64{0.7, 0.1, 0.01, 1}},
		{janoschek, []float64{0.73, 0.07, 0.355, 0.46}},
	}
}

func vapor(x float64, p []float64) float64     { return math.Exp(p[0] + p[1]/x + p[2]*math.Log(x)) }
func pow3(x float64, p []float64) float64      { return p[0] - p[1]*math.Pow(x, -p[2]) }
func linear(x float64, p []float64) float64    { return p[0]*x + p[1] }
func logLinear(x float64, p []float64) float64 { return p[0]*math.Log(x) + p[1] }
func logPower(x float64, p []float64) float64  { return p[0] / (1 + math.Pow(x/math.Exp(p[1]), p[2])) }
func pow4(x float64, p []float64) float64      { return p[3] - math.Pow(p[1]*x+p[2], -p[0]) }
func ilog2(x float64, p []float64) float64     { return p[0] - p[1]/math.Log(1+x) }

func hill(x float64, p []float64) float64 {
	return p[0] * math.Pow(x, p[1]) / (math.Pow(p[2], p[1]) + math.Pow(x, p[1]))
}

func mmf(x float64, p []float64) float64 {
	return p[0] - (p[0]-p[1])/(1+math.Pow(p[2]*x, p[3]))
}

func exp4(x float64, p []float64) float64 {
	return p[0] - math.Exp(-p[1]*math.Pow(x, p[3])+p[2])
}

func weibull(x float64, p []float64) float64 {
	return p[0] - (p[0]-p[1])*math.Exp(-math.Pow(p[2]*x, p[3]))
}

func janoschek(x float64, p []float64) float64 {
	return p[0] - (p[0]-p[1])*math.Exp(-p[2]*math.Pow(x, p[3]))
}

// leastCurves is how many families must agree on a forecast.
const leastCurves = 4

// forecast predicts the value at step target of a rising curve with these values at
// these steps; false where too few families of curves fit and agree. A family fits
// if it is nearer to the values than zero is, and agrees if its forecast is within
// len(steps)/10 standard deviations of the median forecast. (NNI measures from the
// median of the present values instead, which the better the fits, the fewer curves
// pass.) The forecast is the mean of those that agree, weighted by one over the
// variance of what each misses. (NNI's sampler hardly moves from equal weights, with
// which a straight line counts as much as a curve that fits.)
func forecast(steps, values []float64, target float64) (float64, bool) {
	scale := 0.0
	for _, value := range values {
		scale = max(scale, math.Abs(value))
	}
	if scale == 0 {
		return 0, len(values) > 0
	}
	unit := make([]float64, len(values))
	for i, value := range values {
		unit[i] = value / scale
	}
	value, ok := agreed(forecasts(steps, unit, target), float64(len(steps))/10)
	return value * scale, ok
}

// extrapolation is what one family says about the target.
type extrapolation struct {
	value  float64
	weight float64
}

// leastVariance keeps a family that meets every value from counting alone.
const leastVariance = 1e-6

// forecasts are those of the families that fit, in ascending order.
func forecasts(steps, values []float64, target float64) []extrapolation {
	steps, values = thinned(steps), thinned(values)
	worst := 0.0
	for _, value := range values {
		worst += value * value
	}
	var all []extrapolation
	for _, c := range curves() {
		fitted := fit(c.at, c.start, steps, values)
		value := c.at(target, fitted.parameters)
		if fitted.squares < worst && !math.IsNaN(value) && !math.IsInf(value, 0) {
			all = append(all, extrapolation{value, 1 / (fitted.squares/float64(len(values)) + leastVariance)})
		}
	}
	slices.SortFunc(all, func(a, b extrapolation) int { return cmp.Compare(a.value, b.value) })
	return all
}

// agreed is the weighted mean of what lies within so many standard deviations of the
// median; false where that is fewer than leastCurves.
func agreed(all []extrapolation, deviations float64) (float64, bool) {
	if len(all) < leastCurves {
		return 0, false
	}
	median := (all[(len(all)-1)/2].value + all[len(all)/2].value) / 2
	near := deviations * deviation(all)
	count, sum, weights := 0, 0.0, 0.0
	for _, e := range all {
		if math.Abs(e.value-median) <= near {
			count, sum, weights = count+1, sum+float64(e.value*e.weight), weights+e.weight
		}
	}
	return sum / weights, count >= leastCurves
}

func deviation(all []extrapolation) float64 {
	sum, squares := 0.0, 0.0
	for _, e := range all {
		sum += e.value
	}
	for _, e := range all {
		off := e.value - sum/float64(len(all))
		squares += float64(off * off)
	}
	return math.Sqrt(squares / float64(len(all)))
}

// mostPoints bounds what a fit looks at, and so its time.
const mostPoints = 25

// thinned leaves every so many-th value out, never the last.
func thinned(values []float64) []float64 {
	if len(values) <= mostPoints {
		return values
	}
	kept := make([]float64, mostPoints)
	for i := range kept {
		kept[i] = values[(i+1)*len(values)/mostPoints-1]
	}
	return kept
}
