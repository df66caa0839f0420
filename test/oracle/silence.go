package oracle

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// NoUnknownBeforeTheGracePeriod is S28: a node is declared Unknown only when it has given no sign of life for its grace period, by the
// times at which the server has stored renewals of its Lease and reports of its status (NL-5, NL-6, NL-15). A sign that comes within the
// lag of a manager, after a silence that was long enough, excuses: it had not been seen. What the history begins with may have been there
// for long: it is as old as it says itself.
func NoUnknownBeforeTheGracePeriod() Oracle {
	return Oracle{"S28", "no node that gives signs of life is declared Unknown", func(j *judge) hooks {
		signs := map[string][2]time.Time{} // the last two of each node, the later one first
		see := func(r *revision, says time.Time) {
			when := j.now
			if created := r.Object.GetCreationTimestamp().Time; r.Type == Added && !created.IsZero() &&
				j.now.Sub(created) > j.o.Slack+time.Second {
				when = earlier(j.now, created)
				if says.After(when) {
					when = earlier(j.now, says)
				}
			}
			if name, last := r.Object.GetName(), signs[r.Object.GetName()][0]; when.After(last) {
				signs[name] = [2]time.Time{when, last}
			}
		}
		return hooks{before: func(r *revision) {
			switch o := r.Object.(type) {
			case *coordinationv1.Lease:
				if o.Namespace == corev1.NamespaceNodeLease && r.Type != Deleted {
					see(r, ptr.Deref(o.Spec.RenewTime, metav1.MicroTime{}).Time)
				}
			case *corev1.Node:
				old, _ := r.old.(*corev1.Node)
				switch {
				case r.Type == Deleted:
					delete(signs, o.Name)
				case r.manager && becomesUnknown(old, o):
					j.silent(r, old, signs[o.Name])
				case !r.manager && (old == nil || !reportedAt(old).Equal(reportedAt(o))):
					see(r, reportedAt(o))
				}
			}
		}}
	}}
}

// silent judges that a node is declared Unknown, whose last two signs of life are given.
func (j *judge) silent(r *revision, old *corev1.Node, signs [2]time.Time) {
	grace := j.o.NodeGrace
	if readyOf(old) == nil {
		grace = j.o.NodeStartupGrace
	}
	grace -= j.o.Slack
	switch {
	case j.now.Sub(signs[0]) >= grace:
		j.judges(false)
	case !signs[0].Before(j.lag(r)) && signs[0].Sub(signs[1]) >= grace:
		j.judges(true)
	default:
		j.judges(false)
		j.report(r, []string{Lease + "/" + corev1.NamespaceNodeLease + "/" + old.Name},
			"the node has given a sign of life %v before it is declared Unknown, and another one %v before that",
			j.now.Sub(signs[0]), signs[0].Sub(signs[1]))
	}
}

func becomesUnknown(before, after *corev1.Node) bool {
	is, was := readyOf(after), readyOf(before)
	return before != nil && is != nil && is.Status == corev1.ConditionUnknown && (was == nil || was.Status != corev1.ConditionUnknown)
}

// readyOf returns the condition, nil if there is none.
func readyOf(n *corev1.Node) *corev1.NodeCondition {
	if n == nil {
		return nil
	}
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

func reportedAt(n *corev1.Node) time.Time {
	if c := readyOf(n); c != nil {
		return c.LastHeartbeatTime.Time
	}
	return time.Time{}
}
