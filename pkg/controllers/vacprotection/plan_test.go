package vacprotection

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func some(n int, namespace, name string) users {
	return users{Count: n, First: plan.Key{Namespace: namespace, Name: name}}
}

// A row is a sentence. want are the finalizers that are written; nil for no write.
func TestPlan(t *testing.T) {
	doomed := newClass(leaving, with(finalizer))
	for _, c := range []struct {
		name string
		seen snapshot
		want []string
		why  string // nothing is written
	}{
		{"ST-40 ST-43 a class that lacks the finalizer gets it", snapshot{Class: newClass()}, []string{finalizer}, ""},
		{"ST-43 other finalizers stay", snapshot{Class: newClass(with("example.com/a"))}, []string{"example.com/a", finalizer}, ""},
		{"ST-43 a class that has it", snapshot{Class: newClass(with(finalizer))}, nil, "there is nothing to do"},
		{"ST-43 a class that nobody uses may go", snapshot{Class: newClass(leaving, with("example.com/a", finalizer)), Proved: true},
			[]string{"example.com/a"}, ""},
		{"ST-42 a claim keeps it", snapshot{Class: doomed, Claims: some(1, "shop", "data"), Proved: true}, nil,
			"the class is being deleted, and stays because of the claim shop/data"},
		{"ST-42 a volume keeps it", snapshot{Class: doomed, Volumes: some(1, "", "disk"), Proved: true}, nil,
			"the class is being deleted, and stays because of the volume disk"},
		{"ST-88 many keep it", snapshot{Class: doomed, Claims: some(3, "shop", "data"), Volumes: some(2, "", "disk"), Proved: true}, nil,
			"the class is being deleted, and stays because of the claim shop/data and 2 others, and the volume disk and 1 others"},
		{"ST-94 caches that may be older than the deletion are no proof", snapshot{Class: doomed}, nil,
			"the class is being deleted, and waits until the caches of claims and volumes show a state that is later"},
		{"ST-41 a class that is being deleted gets no finalizer any more", snapshot{Class: newClass(leaving)}, nil,
			"there is nothing to do"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.seen.Class.DeepCopy()
			p := planFinalizer(epoch, c.seen)
			if p.Why == "" || c.why != "" && p.Why != c.why {
				t.Error(p.Why)
			}
			if diff := cmp.Diff(c.want, written(t, p)); diff != "" {
				t.Errorf("%s: %s", p.Why, diff)
			}
			if diff := cmp.Diff(before, c.seen.Class); diff != "" {
				t.Errorf("the plan changes what was observed: %s", diff)
			}
		})
	}
}

// Caches that show nothing new are waited for only so long.
func TestPatience(t *testing.T) { // ST-44, ST-94
	s := snapshot{Class: newClass(leaving, with(finalizer))}
	for after, waits := range map[time.Duration]bool{-time.Minute: true, 0: true, 5*time.Second - 1: true, 5 * time.Second: false,
		time.Hour: false} {
		p := planFinalizer(epoch.Add(after), s)
		if p.Empty() != waits || (p.Requeue > 0) != waits {
			t.Errorf("after %v: %+v", after, p)
		}
	}
	s.Claims.Count = 1
	if p := planFinalizer(epoch.Add(time.Hour), s); !p.Empty() || p.Requeue != 0 {
		t.Errorf("a claim that uses it keeps it however long: %+v", p)
	}
}

// written returns the finalizers that a plan writes, and checks that it changes nothing else.
func written(t interface{ Errorf(string, ...any) }, p plan.Plan) []string {
	if p.Empty() {
		return nil
	}
	step := p.Steps[0].(plan.Change)
	before, after := step.Old.(*storagev1.VolumeAttributesClass).DeepCopy(), step.New.(*storagev1.VolumeAttributesClass)
	before.Finalizers = after.Finalizers
	if diff := cmp.Diff(before, after); diff != "" || len(p.Steps) != 1 || p.Requeue != 0 {
		t.Errorf("more is changed than finalizers: %s", diff)
	}
	return after.Finalizers
}
