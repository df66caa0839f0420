package main

import (
	"cmp"
	"slices"
	"time"
)

// median is the middle one of the values, or the mean of the two in the middle. It is zero if there are none.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// percentile is the smallest of the values that p percent of them don't exceed (the nearest rank). It is zero if there are
// none.
func percentile[T cmp.Ordered](values []T, p int) T {
	if len(values) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
