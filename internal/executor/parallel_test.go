package executor

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// A panic in one of many parallel writes ends at the key, like any other.
func TestInParallelPassesPanicsOn(t *testing.T) {
	defer func() {
		if cause := recover(); cause != "too much" {
			t.Errorf("recovered %v", cause)
		}
	}()
	_ = inParallel(100, func(i int) error {
		if i == 42 {
			panic("too much")
		}
		return nil
	})
	t.Error("the panic was lost")
}

func TestInParallelKeepsTheFirstErrorInOrder(t *testing.T) {
	var mu sync.Mutex
	var called []int
	err := inParallel(500, func(i int) error {
		mu.Lock()
		defer mu.Unlock()
		called = append(called, i)
		if i%7 == 3 {
			return fmt.Errorf("error %d", i)
		}
		return nil
	})
	slices.Sort(called)
	if err == nil || err.Error() != "error 3" || len(called) != 500 || called[499] != 499 {
		t.Errorf("%v after %d calls", err, len(called))
	}
}
