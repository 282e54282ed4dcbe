package searchspace

import "strings"

// Nearest returns the candidate that a mistyped word most likely means, or "" if
// none is close: at most a third of its letters differ (Levenshtein distance,
// letter case aside). Of equally close candidates the first wins.
func Nearest(word string, candidates []string) string {
	best, least := "", max(len(word)/3, 1)+1
	for _, candidate := range candidates {
		distance := editDistance(strings.ToLower(word), strings.ToLower(candidate))
		if distance < least {
			best, least = candidate, distance
		}
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substituted := diagonal
			if a[i] != b[j] {
				substituted++
			}
			diagonal = row[j+1]
			row[j+1] = min(substituted, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
