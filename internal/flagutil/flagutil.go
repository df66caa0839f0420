package flagutil

import (
	"fmt"
	"strings"
	"time"
)

// mostWorkers bounds the workers of a controller: each is a goroutine that waits, and more make nothing faster.
const mostWorkers = 10_000

// Workers rejects a number of workers with which a controller would start and never do anything (CLI-18), and one that
// would only take memory.
func Workers(flag string, workers int32) []error {
	switch {
	case workers < 1:
		return []error{fmt.Errorf("--%s must be at least 1, not %d", flag, workers)}
	case workers > mostWorkers:
		return []error{fmt.Errorf("--%s must be at most %d, not %d", flag, mostWorkers, workers)}
	}
	return nil
}

// Between rejects a number outside of limits, which are allowed themselves.
func Between(flag string, value, least, most int32) []error {
	switch {
	case value < least:
		return []error{fmt.Errorf("--%s must not be less than %d, but got %d", flag, least, value)}
	case value > most:
		return []error{fmt.Errorf("--%s must not be more than %d, but got %d", flag, most, value)}
	}
	return nil
}

// NotNegative rejects a negative duration.
func NotNegative(flag string, d time.Duration) []error {
	if d < 0 {
		return []error{fmt.Errorf("--%s must not be negative: %v", flag, d)}
	}
	return nil
}

// NoneBlank rejects a list with an item that says nothing, such as a variable that was not set.
func NoneBlank(flag string, list []string) []error {
	for _, item := range list {
		if strings.TrimSpace(item) == "" {
			return []error{fmt.Errorf("--%s must not have empty items: %q", flag, list)}
		}
	}
	return nil
}

// Default returns what an option stands for that code has set, where zero says something: zero is the default, and a
// negative value is zero.
func Default[T int32 | float32 | float64 | time.Duration](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return max(0, value)
}
