package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// One tenant's many requests do not keep another one's few: they are served by turns.
func TestSlotsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1)
		var mu sync.Mutex
		var served []string
		var all sync.WaitGroup
		request := func(namespace, owner string) {
			all.Go(func() {
				if err := s.Take(t.Context(), namespace, types.UID(owner)); err != nil {
					t.Error(err)
				}
				mu.Lock()
				served = append(served, namespace+owner)
				mu.Unlock()
				time.Sleep(time.Second)
				s.Release(namespace)
			})
			synctest.Wait()
		}
		for range 8 {
			request("a", "1")
		}
		request("b", "1")
		request("a", "2")
		request("b", "1")
		if s.Used() != 1 {
			t.Errorf("%d slots are used", s.Used())
		}
		began := time.Now()
		all.Wait()
		if took := time.Since(began); took != 11*time.Second {
			t.Errorf("all took %v", took)
		}
		if got := strings.Join(served, " "); got != "a1 a1 b1 a2 b1 a1 a1 a1 a1 a1 a1" {
			t.Error(got)
		}
		if s.Used() != 0 {
			t.Errorf("%d slots are used when all is done", s.Used())
		}
	})
}

// One tenant's requests that are not answered keep half of the slots from nobody, and all are its own while it is alone.
func TestSlotsOfANamespaceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, hangs = 4, time.Minute
		s := NewSlots(most)
		var mu sync.Mutex
		served := map[string]int{}
		of := func(namespace string) int {
			mu.Lock()
			defer mu.Unlock()
			return served[namespace]
		}
		var all sync.WaitGroup
		request := func(namespace string, n int, takes time.Duration) {
			for range n {
				all.Go(func() {
					if err := s.Take(t.Context(), namespace, ""); err != nil {
						t.Error(err)
					}
					mu.Lock()
					served[namespace]++
					mu.Unlock()
					time.Sleep(takes)
					s.Release(namespace)
				})
			}
			synctest.Wait()
		}
		request("hangs", 3*most, hangs)
		if of("hangs") != most {
			t.Errorf("%d requests have a slot of %d, while nobody else wants one", of("hangs"), most)
		}
		request("works", 20, time.Second)
		time.Sleep(10 * time.Second)
		if synctest.Wait(); of("works") != 20 || of("hangs") != most {
			t.Errorf("after 10s: %d work, %d hang", of("works"), of("hangs"))
		}
		request("other", 10, hangs)
		time.Sleep(hangs)
		if synctest.Wait(); s.Used() != most || of("hangs") > most+most/2 {
			t.Errorf("when two hang: %d hang, %d are used", of("hangs"), s.Used())
		}
		all.Wait()
		if s.Used() != 0 {
			t.Errorf("%d slots are used when all is done", s.Used())
		}
	})
}

// Who gives up leaves no slot taken, also at the moment at which it is given one.
func TestSlotsOfWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1)
		for i := range 100 {
			if err := s.Take(t.Context(), "a", ""); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for n := range 3 {
				all.Go(func() {
					err := s.Take(ctx, fmt.Sprint(n), "")
					if err == nil {
						s.Release(fmt.Sprint(n))
					} else if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			if i%2 == 0 {
				cancel()
				s.Release("a")
			} else {
				s.Release("a")
				cancel()
			}
			all.Wait()
			if s.Used() != 0 || !s.waiting.empty() {
				t.Fatalf("round %d: %d slots are used", i, s.Used())
			}
		}
	})
}
