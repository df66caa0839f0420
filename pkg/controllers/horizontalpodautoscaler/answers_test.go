package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// HPA-66: what several autoscalers of a namespace need is asked once in a period, also if the answer is an error.
func TestAutoscalersShareRequests(t *testing.T) {
	b := newBench(t)
	use := map[string]int64{}
	var keys []plan.Key
	for i := range 5 {
		name := fmt.Sprint("web-", i)
		h := web(called(name, name),
			measuring(used(corev1.ResourceCPU, "50m"), usedByContainer("main", 50), external("queue", valued("1"), nil)))
		p := pod(0, func(p *corev1.Pod) { p.Name, p.Labels = name+"-x", map[string]string{"app": name} })
		use[p.Name] = int64(100 + i)
		b.put(t, h, deployment(name, 1), p)
		keys = append(keys, plan.Key{Namespace: h.Namespace, Name: h.Name})
	}
	b.raw[podMetricsPath] = podMetrics(use)
	at := now
	for round := 1; round <= 3; round++ {
		for i, key := range keys {
			s := b.observed(t, at, key, nil)
			if got := shown(s.Readings[0], autoscalingv2.ResourceMetricSourceType); got != fmt.Sprintf("%s-x=%d/30s", key.Name, 100+i) {
				t.Error(got)
			}
			if s.Readings[2].Err == "" {
				t.Error("there is no external metric")
			}
		}
		want := slices.Repeat([]string{podMetricsPath, externalPath + "queue"}, round)
		if !slices.Equal(b.asked, want) {
			t.Errorf("asked for %q, want %q", b.asked, want)
		}
		at = at.Add(15 * time.Second)
	}
	for i := range 1000 { // too many pods that no autoscaler looks at
		b.put(t, pod(i, func(p *corev1.Pod) { p.Labels = nil }))
	}
	b.asked = nil
	b.observed(t, at, keys[0], nil)
	if b.asked[0] != podMetricsPath+"?labelSelector=app=web-0" {
		t.Error(b.asked)
	}
}

// HPA-8: an autoscaler that is evaluated at once, because it is new or its spec has changed, does not take an answer that another one, or
// itself, was given earlier in the period: the pods that it has since got are not in it, so that it would seem to be within its limits.
func TestHPA8EvaluatedAtOnceAsksAnew(t *testing.T) {
	b := newBench(t)
	h := web(between(1, 3), measuring(used(corev1.ResourceCPU, "50m")))
	key := plan.Key{Namespace: h.Namespace, Name: h.Name}
	b.put(t, h, deployment("web", 2), pod(0), pod(1))
	evaluate := func(at time.Time, m *memory, use map[string]int64) (string, *memory) {
		b.raw[podMetricsPath] = podMetrics(use)
		s := b.observed(t, at, key, m)
		d := decide(at, s)
		did := carriedOut(planned(at, s))
		return reasonOf(settled(at, s, d, did), limits), remember(at, s, d, did)
	}
	one := map[string]int64{"web-0": 50}
	both := map[string]int64{"web-0": 100, "web-1": 100}
	began := now.Add(b.schedule.wait(now, h.Namespace)) // a period
	said, m := evaluate(began, nil, one)
	if said != "False DesiredWithinRange" {
		t.Fatal(said)
	}
	for _, c := range []struct {
		name string
		at   time.Duration
		use  map[string]int64
		want string
		asks int
	}{
		{"within a second it takes the answer", time.Second, both, "False DesiredWithinRange", 0},
		{"later it asks", 2 * time.Second, both, "True TooManyReplicas", 1},
		{"once", 2 * time.Second, one, "True TooManyReplicas", 0},
	} {
		b.asked = nil
		if said, _ := evaluate(began.Add(c.at), m, c.use); said != c.want || len(b.asked) != c.asks {
			t.Errorf("%s: it says %s, and has asked %q", c.name, said, b.asked)
		}
	}
	m.Due = began.Add(2 * time.Second)
	if b.asked = nil; len(b.observed(t, began.Add(5*time.Second), key, m).Readings) != 1 || len(b.asked) != 0 {
		t.Errorf("an autoscaler whose period is over takes the answer of others: %q", b.asked)
	}
}

// An answer that is still to come, and one that was not given in time, are not asked for again at once.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers(schedule{15 * time.Second})
		asked := 0
		ask := func(path string, read func(context.Context) (any, error)) {
			a.forget(question{path: path}, time.Now().Add(-promptAge))
			_, _ = a.get(t.Context(), time.Now(), "g", "a", question{path: path}, func(ctx context.Context) (any, error) {
				asked++
				return read(ctx)
			})
		}
		time.Sleep(a.schedule.wait(time.Now(), "a"))
		slow := func(context.Context) (any, error) { time.Sleep(4 * time.Second); return 1, nil }
		go ask("slow", slow)
		time.Sleep(2 * time.Second)
		ask("slow", slow)
		ask("never", hang)
		time.Sleep(time.Second)
		if ask("never", hang); asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// hang is a question that is not answered.
func hang(ctx context.Context) (any, error) { <-ctx.Done(); return nil, ctx.Err() }

// A question without an answer is not asked again for a period. Nobody else is held up, nor told what it was about.
func TestAQuestionWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers(schedule{15 * time.Second})
		asked, began := 0, time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 40 {
				_, err := a.get(t.Context(), time.Now(), "g", "shop", question{path: "slow"},
					func(ctx context.Context) (any, error) { asked++; return hang(ctx) })
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				time.Sleep(a.schedule.wait(time.Now(), "shop"))
			}
		}()
		for range 40 {
			at := time.Now()
			v, err := a.get(t.Context(), at, "g", "bank", question{path: "quick"}, func(context.Context) (any, error) { return 3, nil })
			if v != 3 || err != nil || time.Since(at) != 0 {
				t.Error(v, err, time.Since(at))
			}
			time.Sleep(a.schedule.wait(time.Now(), "bank"))
		}
		<-done
		if periods := int(time.Since(began) / a.schedule.Period); asked < periods/2-1 || asked > periods/2+1 {
			t.Errorf("asked %d times in %d periods", asked, periods)
		}
	})
}

// An API that answers nobody is asked once in a period, so it does not hold up all workers. When it answers again, all are told.
func TestAnAPIThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers(schedule{15 * time.Second})
		hangs, asked, errs := false, 0, map[string]error{}
		period := func() (longest time.Duration) { // one worker, eight namespaces
			for i := range 8 {
				name, at := fmt.Sprint("ns-", i), time.Now()
				_, errs[name] = a.get(t.Context(), at, "g", name, question{path: name}, func(ctx context.Context) (any, error) {
					if asked++; hangs {
						return hang(ctx)
					}
					return 3, errors.New("not well, but it answers")
				})
				longest = max(longest, time.Since(at))
			}
			return longest
		}
		for range 5 { // however long it was not asked, it is not taken for one that hangs
			period()
			time.Sleep(time.Hour)
		}
		if asked != 5*8 {
			t.Errorf("asked %d times", asked)
		}
		hangs = true
		for began := time.Now(); time.Since(began) <= unansweredPeriods*a.schedule.Period; {
			period()
		}
		for range 20 {
			asked = 0
			began := time.Now()
			period()
			if asked > 1 || time.Since(began) > readTimeout {
				t.Errorf("asked %d times, in %v", asked, time.Since(began))
			}
			time.Sleep(a.schedule.Period)
			if v, err := a.get(t.Context(), time.Now(), "other", "shop", question{path: "c"},
				func(context.Context) (any, error) { return 3, nil }); v != 3 || err != nil {
				t.Error(v, err)
			}
		}
		unanswered := 0
		for _, err := range errs {
			if errors.Is(err, errUnanswered) {
				unanswered++
			}
		}
		if unanswered < 7 {
			t.Errorf("%v", errs)
		}
		hangs = false
		for range 3 {
			time.Sleep(a.schedule.Period)
			period()
		}
		for name, err := range errs {
			if err == nil || err.Error() != "not well, but it answers" {
				t.Error(name, err)
			}
		}
	})
}

// Answers are forgotten when nobody asks for them any more, those that were late included.
func TestAnswersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers(schedule{15 * time.Second})
		for i := range 20 {
			read := func(context.Context) (any, error) { return 3, nil }
			if i%5 == 0 {
				read = hang
			}
			_, _ = a.get(t.Context(), time.Now(), "g", "shop", question{path: fmt.Sprint(i)}, read)
			time.Sleep(a.schedule.wait(time.Now(), "shop"))
		}
		if len(a.all) > 3 {
			t.Errorf("%d answers are kept", len(a.all))
		}
	})
}

// Whoever gives up has no answer for the others: those who wait for the same one ask anew.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers(schedule{15 * time.Second})
		read := func(ctx context.Context) (any, error) {
			select {
			case <-time.After(time.Second):
				return 1, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		get := func(ctx context.Context) (any, error) {
			return a.get(ctx, time.Now(), "g", "a", question{path: "x"}, read)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := get(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		synctest.Wait()
		for range 2 {
			go func() {
				if v, err := get(t.Context()); v != 1 || err != nil {
					t.Error(v, err)
				}
			}()
		}
		synctest.Wait()
		cancel()
		time.Sleep(2 * time.Second)
		if v, err := get(t.Context()); v != 1 || err != nil {
			t.Error(v, err)
		}
	})
}

// Those who ask the same at the same time share the request.
func TestOneRequestAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers(schedule{15 * time.Second})
		asked := 0
		for range 3 {
			go func() {
				v, err := a.get(t.Context(), time.Now(), "g", "a", question{path: "x"},
					func(context.Context) (any, error) { asked++; time.Sleep(time.Second); return asked, nil })
				if v != 1 || err != nil {
					t.Error(v, err)
				}
			}()
		}
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = a.get(t.Context(), time.Now(), "g", "a", question{path: "y"},
				func(context.Context) (any, error) { time.Sleep(time.Second); return nil, nil })
		}()
		synctest.Wait()
		cancel()
		if _, err := a.get(ctx, time.Now(), "g", "a", question{path: "y"}, nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
	})
}
