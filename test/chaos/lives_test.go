package chaos

import (
	"fmt"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/oracle"
)

// lives are the processes of a manager, one after the other.
type lives struct {
	name string

	mu      sync.Mutex
	started []time.Time
}

// begin notes that a process starts.
func (l *lives) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = append(l.started, time.Now())
}

// identity names the process that did something at a time.
func (l *lives) identity(at time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.started) && !l.started[n].After(at) {
		n++
	}
	return fmt.Sprintf("%s-%d", l.name, n)
}

// own are the outages that a proxy has seen since a time, as those of the process that lived when they began.
func (l *lives) own(all []oracle.Outage, since time.Time) (own []oracle.Outage) {
	for _, o := range all {
		if o.To.After(since) {
			o.Manager = l.identity(o.From)
			own = append(own, o)
		}
	}
	return own
}

// byUser is the identity of a manager's process in recorded requests.
func byUser(r oracle.Request) string { return r.User }

// TestProcessesAreToldApart: S13 sees a write of a process that has ended, or should have, when the next one has the lease.
func TestProcessesAreToldApart(t *testing.T) {
	l := &lives{name: "manager"}
	l.begin()
	first := time.Now()
	time.Sleep(time.Millisecond)
	l.begin()
	second := time.Now()
	if l.identity(first) != "manager-1" || l.identity(second) != "manager-2" {
		t.Fatalf("the processes are %q and %q", l.identity(first), l.identity(second))
	}
	for _, late := range []bool{false, true} {
		s := oracle.NewScript()
		by := func(at time.Time) oracle.Hand {
			h := s.Manager()
			h.Request.User = l.identity(at)
			return h
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "lease"}}
		lease.Spec.HolderIdentity = ptr.To("one")
		held := by(first).Create(lease)
		set := by(first).Create(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
		by(second).Edit(held, func(o oracle.Object) { o.(*coordinationv1.Lease).Spec.HolderIdentity = ptr.To("two") })
		if late {
			by(first).Delete(set)
		}
		o := runOptions(oracle.Options{Lease: "kube-system/lease"})
		if found := oracle.Check(&s.History, o, oracle.NoWriteWithoutLease()); (len(found) == 1) != late {
			t.Errorf("with a late write %v, S13 sees %v", late, found)
		}
	}
}
