package tainteviction

import (
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// back has the kubelet of the node say whether it is ready.
func (b *bench) back(status corev1.ConditionStatus) {
	b.Helper()
	n := &corev1.Node{}
	if err := b.Server.Get(b.Context(), client.MappingFor[*corev1.Node](), plan.Key{Name: "n"}, n); err != nil {
		b.Fatal(err)
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	b.put(n)
}

// tainted puts a taint on the node that has been there for so long, and a pod that tolerates it for five minutes.
func (b *bench) tainted(since time.Duration) {
	b.Helper()
	p := pod(tolerates(corev1.TaintNodeUnreachable, 300))
	p.Name, p.UID = "web", ""
	p.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	p.Status.Conditions[0].LastTransitionTime = p.CreationTimestamp
	b.put(p)
	t := now(corev1.TaintNodeUnreachable)
	t.TimeAdded.Time = t.TimeAdded.Add(-since)
	b.taint(t)
}

// A node was down, and is back, while nobody led: its pods stay, though the time of their tolerations is over.
func TestNodeThatIsBack(t *testing.T) {
	run(t, 0, func(b *bench) {
		b.back(corev1.ConditionTrue)
		b.tainted(10 * time.Minute)
	}, func(b *bench) { // ten minutes later
		b.left("web")
		b.back(corev1.ConditionUnknown) // it is down again
		time.Sleep(readAgain + time.Second)
		b.left()
	})
}

// What was due before this process leads is not due before kubelets have had time to say how their nodes are.
func TestNodeThatIsNotBack(t *testing.T) {
	var began, deleted time.Time
	var mu sync.Mutex
	run(t, 0, func(b *bench) {
		b.back(corev1.ConditionUnknown)
		b.tainted(10 * time.Minute)
		b.BeforeWrite(func(w clienttest.Write) error {
			mu.Lock()
			defer mu.Unlock()
			if w.Verb == "delete" {
				deleted = time.Now()
			}
			return nil
		})
		began = time.Now()
	}, func(b *bench) { b.left() })
	if took := deleted.Sub(began); took < gracePeriod || took > gracePeriod+time.Second {
		t.Errorf("the pod is deleted %s after the process began to lead", took)
	}
}

// While nodes cannot be read, and for a while after that, no pod goes because its node was down.
func TestNodesThatCouldNotBeRead(t *testing.T) {
	run(t, 0, func(b *bench) {
		b.back(corev1.ConditionUnknown)
		b.tainted(0)
		time.Sleep(4 * time.Minute)
		b.down.Store(true)
		time.Sleep(3 * time.Minute)
		b.down.Store(false)
		time.Sleep(44 * time.Second)
		b.left("web")
		time.Sleep(12 * time.Second)
		b.left()
	})
}

// What this process has seen begin does not depend on the wall clock, which may jump.
func TestWallClockJumps(t *testing.T) {
	began := time.Now()
	seen := snapshot{Pod: pod(tolerates("k", 1800)), Node: node(taint("k", 0)), Grace: gracePeriod, Term: began.Add(-time.Hour)}
	seen.Memory = memory{UID: seen.Pod.UID, Began: map[string]time.Time{"k": began}}
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		if d, p := planEviction(plantest.Jumped(began.Add(time.Minute), by), seen); p.Requeue != 29*time.Minute {
			t.Errorf("a jump by %v: %+v, again in %s", by, d, p.Requeue)
		}
	}
	s := snapshot{Pod: pod(tolerates("k", 1800)), Node: node(taint("k", -3600)), Grace: gracePeriod, Term: at(-600)}
	s.Memory = memory{UID: s.Pod.UID, Began: map[string]time.Time{"k": at(-60)}}
	if d, p := planEviction(at(0), s); p.Requeue != 29*time.Minute {
		t.Errorf("%+v, again in %s", d, p.Requeue)
	}
	s.Memory = memory{} // first seen when this process has led for long: the time of the taint is that of another clock
	if d, p := planEviction(at(0), s); p.Requeue != 30*time.Minute {
		t.Errorf("%+v, again in %s", d, p.Requeue)
	}
}
