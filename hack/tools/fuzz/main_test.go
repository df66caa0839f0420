package main

import (
	"slices"
	"testing"
	"time"
)

func TestParseList(t *testing.T) {
	out := "?   \texample.com/none\t[no test files]\nFuzzA\nFuzzB\nok  \texample.com/a\t0.01s\nok  \texample.com/b\t0.01s\nFuzzC\nok  \texample.com/c\t(cached)\n"
	want := []target{{"example.com/a", "FuzzA"}, {"example.com/a", "FuzzB"}, {"example.com/c", "FuzzC"}}
	if got := parseList(out); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		all             time.Duration
		atOnce, targets int
		want            time.Duration
	}{
		{time.Minute, 2, 15, 7 * time.Second},
		{time.Minute, 2, 4, 30 * time.Second},
		{time.Minute, 1, 1, time.Minute},
		{time.Second, 2, 15, time.Second},
	} {
		if got := share(c.all, c.atOnce, c.targets); got != c.want {
			t.Errorf("%v for %d targets, %d at once: %v each, want %v", c.all, c.targets, c.atOnce, got, c.want)
		}
	}
}
