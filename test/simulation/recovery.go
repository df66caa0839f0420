package simulation

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// A history alone does not say what L2, L4 and L5 are about: the end of the same work without faults, and when faults ended.
// Two of them depend on how long the work itself takes and on whether its end is always the same, so a script asks for them:
//
//	set compare 1     L2: the end is that of the same script without its faults
//	set recovery N    L4: the managers have done all N seconds after the end of all faults; the world waits long for what is late
//
// L5 is asked of all scripts.

// patient is how long a world with "set recovery" must be without a change to be at rest.
const patient = 15 * time.Minute

// differences returns how the end of a run differs from that of a run without faults (L2).
func differences(want, got []oracle.Object) (broken []string) {
	for _, line := range oracle.Diff(want, got, nil) {
		broken = append(broken, "L2 the end differs from that without faults: "+line)
	}
	return broken
}

func compares(s script.Script) bool { return s.Setting("compare", 0) == 1 }

// lateWork returns whether the managers went on working for too long after the end of all faults (L4).
func (w *world) lateWork() (broken []string) {
	bound := time.Duration(w.script.Setting("recovery", 0)) * time.Second
	if bound == 0 {
		return nil
	}
	if took := oracle.Recovery(w.record.history(), oracle.Options{}, w.healed); took > bound {
		broken = append(broken,
			fmt.Sprintf("L4 the last write came %v after the end of all faults, not within %v", took.Round(time.Millisecond), bound))
	}
	return broken
}

// takeoverWithin is how long the lease may go without a renewal once all processes have started and nothing hinders them: the
// lease of the previous leader expires (15 s) after a new process has first seen it. A request that a fault has left hanging
// (5 s) and the time that a process takes to start come first.
const takeoverWithin = 28 * time.Second

// leaderless returns whether the lease had no living holder for too long after the end of all faults (L5).
func (w *world) leaderless() (broken []string) {
	if w.script.Setting("elect", 1) == 0 {
		return nil
	}
	for _, e := range w.electionLease() {
		if took := e.Time.Sub(w.ready); took > 0 {
			if took > takeoverWithin {
				broken = append(broken,
					fmt.Sprintf("L5 for %v after the last start of a process nobody renewed the lease", took.Round(time.Millisecond)))
			}
			return broken
		}
	}
	return []string{"L5 nobody renewed the lease after the last start of a process"}
}

// electionLease returns the changes of the Lease of the election. Nodes have Leases, too.
func (w *world) electionLease() []*apiserver.Event {
	return slices.DeleteFunc(w.server.Since("leases", 0), func(e *apiserver.Event) bool {
		return e.Object.GetNamespace() != metav1.NamespaceSystem
	})
}

// keepsLease reports whether a process holds the lease.
func (w *world) keepsLease(name string) bool {
	leases := w.electionLease()
	if len(leases) == 0 {
		return false
	}
	last := leases[len(leases)-1]
	l, ok := last.Object.(*coordinationv1.Lease)
	return ok && last.By == name && ptr.Deref(l.Spec.HolderIdentity, "") != ""
}
