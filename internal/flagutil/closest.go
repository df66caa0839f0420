package flagutil

import "strings"

// Closest returns the candidate that word was probably meant to be, or nothing. About one letter in four may be
// wrong; the beginning of a name, of four letters at least, also counts as a slip.
func Closest(word string, candidates []string) (guess string) {
	if len(word) > 64 {
		return "" // no name is that long, and the comparison is quadratic
	}
	best := max(1, len(word)/4) + 1
	word = strings.ReplaceAll(strings.ToLower(word), "_", "-")
	for _, c := range candidates {
		d := distance(word, c)
		if len(word) >= 4 && strings.HasPrefix(c, word) {
			d = min(d, 1)
		}
		if d < best || d == best && guess != "" && len(c) < len(guess) {
			best, guess = d, c
		}
	}
	return guess
}

// distance counts how many letters must be inserted, left out, replaced or swapped with a neighbour to make b of a.
func distance(a, b string) int {
	var before, above []int // the two rows over the current one
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, above, row = above, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			replaced := above[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
