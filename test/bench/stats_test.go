package main

import "testing"

func TestMedian(t *testing.T) {
	for _, row := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{5, 1, 3}, 3}, {[]float64{4, 1, 100, 2}, 3},
	} {
		if got := median(row.values); got != row.want {
			t.Errorf("median of %v: %v, want %v", row.values, got, row.want)
		}
	}
	unsorted := []float64{3, 1, 2}
	if median(unsorted); unsorted[0] != 3 {
		t.Error("the values were sorted in place")
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, row := range []struct {
		values []int
		p      int
		want   int
	}{
		{nil, 50, 0}, {[]int{7}, 99, 7}, {[]int{1, 2}, 50, 1}, {[]int{1, 2, 3}, 50, 2}, {hundred, 50, 50}, {hundred, 99, 99},
		{hundred, 100, 100}, {[]int{2, 1}, 0, 1},
	} {
		if got := percentile(row.values, row.p); got != row.want {
			t.Errorf("%d%% of %v: %d, want %d", row.p, row.values, got, row.want)
		}
	}
}
