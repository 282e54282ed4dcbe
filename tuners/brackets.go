package tuners

// bracket is one run of successive halving: s rungs after the first, each with
// about 1/eta of the configurations of the one before and eta times the budget.
type bracket struct {
	s     int
	rungs []rung
}

// rung is one round of a bracket: how many configurations run, and the budget of
// each, in the user's own unit.
type rung struct {
	size   int
	budget int
}

// bracketsOf is one round of Hyperband (Li et al., "Hyperband", JMLR 2018) as NNI
// counts it: brackets from the largest s, whose first budget is the least that
// is not below minimum, down to s = 0, in which every configuration gets maximum.
// Bracket s starts with ceil((s_max+1) eta^s / (s+1)) configurations. It wants
// 0 < minimum <= maximum and eta > 1.
func bracketsOf(minimum, maximum, eta int) []bracket {
	largest := 0
	for scale := eta; maximum/scale >= minimum; scale *= eta {
		largest++
	}
	brackets := make([]bracket, 0, largest+1)
	for s := largest; s >= 0; s-- {
		brackets = append(brackets, bracketOf(s, largest, maximum, eta))
	}
	return brackets
}

func bracketOf(s, largest, maximum, eta int) bracket {
	b := bracket{s: s, rungs: make([]rung, s+1)}
	size := ((largest+1)*power(eta, s) + s) / (s + 1) // rounded up
	for i := range b.rungs {
		b.rungs[i] = rung{size: size / power(eta, i), budget: maximum / power(eta, s-i)}
	}
	return b
}

func power(base, exponent int) int {
	product := 1
	for range exponent {
		product *= base
	}
	return product
}
