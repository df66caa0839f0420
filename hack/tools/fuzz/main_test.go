package main

import (
	"slices"
	"testing"
)

func TestParseList(t *testing.T) {
	out := "?   \texample.com/none\t[no test files]\nFuzzA\nFuzzB\nok  \texample.com/a\t0.01s\nok  \texample.com/b\t0.01s\nFuzzC\nok  \texample.com/c\t(cached)\n"
	want := []target{{"example.com/a", "FuzzA"}, {"example.com/a", "FuzzB"}, {"example.com/c", "FuzzC"}}
	if got := parseList(out); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
