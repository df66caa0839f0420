package executor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
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

// A quota is used up: of thousands of creations some are tried, each time others, and an event tells no more than people read.
func TestManyRefusedCreations(t *testing.T) {
	b := newBench(t)
	var tried, made atomic.Int64
	allMade := make(chan struct{})
	b.AfterWrite(func(clienttest.Write) error {
		if made.Add(1) == 100 {
			close(allMade)
		}
		return nil
	})
	b.BeforeWrite(func(clienttest.Write) error {
		if tried.Add(1) > 100 {
			<-allMade // one that is made begins the row of refusals anew
			return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New(strings.Repeat("\u00e4", 4000)))
		}
		return nil
	})
	owner := put(b, newSet())
	var each plan.Each
	for i := range 5000 {
		each.Sequences = append(each.Sequences, []plan.Step{plan.Create{Object: newPod(fmt.Sprint("p", i), owner),
			Events: plan.Events{Failed: plan.Event{Type: "Warning", Reason: "FailedCreate", Message: "{error}"}}}})
	}
	did := b.apply(owner, each)
	if n := tried.Load(); n < 100+mostRefusals || n > 100+mostRefusals+2*parallelWrites || did.Err == nil {
		t.Errorf("%d tries, %v", n, did.Err)
	}
	for _, e := range b.recorded() {
		if len(e) > longestMessage+100 || !utf8.ValidString(e) || !strings.HasSuffix(e, " ...") {
			t.Errorf("an event of %d bytes: %.100q", len(e), e)
		}
	}
}
