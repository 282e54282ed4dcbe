package progress

import "slices"

var blocks = []rune("▁▂▃▄▅▆▇█")

// Spark draws values as a line of blocks, each block the mean of as many values as the
// width asks for. All of the same height where all are equal.
func Spark(values []float64, width int) string {
	means := squeeze(values, width)
	if len(means) == 0 {
		return ""
	}
	least, greatest := slices.Min(means), slices.Max(means)
	line := make([]rune, len(means))
	for i, mean := range means {
		line[i] = blocks[level(mean, least, greatest)]
	}
	return string(line)
}

func level(value, least, greatest float64) int {
	// Halves keep the difference of two great numbers finite.
	if share := (value/2 - least/2) / (greatest/2 - least/2); share >= 0 && share <= 1 {
		return int(share*float64(len(blocks)-1) + 0.5)
	}
	return len(blocks) / 2
}

// squeeze is the values themselves, or the means of width pieces of them.
func squeeze(values []float64, width int) []float64 {
	if len(values) <= width {
		return values
	}
	means := make([]float64, width)
	for i := range means {
		piece := values[i*len(values)/width : (i+1)*len(values)/width]
		for _, value := range piece {
			means[i] += value / float64(len(piece))
		}
	}
	return means
}
