package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const fields = "S 1 2 3 0 -1 4194560 100 0 0 0 250 51 0 0 20 0 9 0 12345 0 0"
	for _, row := range []struct {
		stat string
		want time.Duration
		bad  bool
	}{
		{"42 (controller-manager) " + fields, 3010 * time.Millisecond, false},
		{"42 (a) b) S (c) " + fields, 3010 * time.Millisecond, false}, // a name with a parenthesis
		{"42 (short) S 1 2", 0, true},
		{"", 0, true},
		{"42 (x) " + strings.Replace(fields, "250", "x", 1), 0, true},
	} {
		got, err := parseStat(row.stat)
		if got != row.want || (err != nil) != row.bad {
			t.Errorf("%q: %v, %v", row.stat, got, err)
		}
	}
}

func TestParseStatus(t *testing.T) {
	status := "Name:\tkcm\nVmPeak:\t  2000 kB\nVmHWM:\t   1536 kB\nVmRSS:\t   1024 kB\nThreads:\t9\n"
	for name, want := range map[string]int64{"VmHWM": 1536 << 10, "VmRSS": 1 << 20, "Threads": -1, "VmSwap": -1} {
		got, err := parseStatus(status, name)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}

func TestOutputKeepsCollectionsApart(t *testing.T) {
	o := &output{}
	for _, part := range []string{
		"I0101 starting\ngc 1 @0.012s 2%: 0.01+0.5+0.02 ms clock, 0.02+0.1/0.4/0+0.04 ms cpu, 4->5->3 MB, 4 MB goal, 0 MB stacks, 0 MB " +
			"globals, 2 P\n",
		"gc 2 @120.5s 0%: 0.01+0.5+0.02 ms clock, 0.02+0.1/0.4/0+0.04 ms cp",
		"u, 9->9->7 MB, 10 MB goal, 0 MB stacks, 0 MB globals, 2 P (forced)\nI0101 half",
		" a line\nrest",
	} {
		if n, err := o.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if heap, forced := o.collected(); heap != 7<<20 || forced != 1 || o.tail() != "I0101 starting\nI0101 half a line" {
		t.Errorf("%d, %d, %q", heap, forced, o.tail())
	}
	for i := range 2 * mostLines {
		fmt.Fprintf(o, "\nline %d", i)
	}
	if lines := strings.Split(o.tail(), "\n"); len(lines) != mostLines || lines[mostLines-1] != fmt.Sprintf("line %d", 2*mostLines-2) {
		t.Errorf("%d lines, the last one %q", len(lines), lines[len(lines)-1])
	}
}
