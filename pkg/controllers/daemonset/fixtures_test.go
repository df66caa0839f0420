package daemonset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/workloads/history"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// now is long after the objects of the scenes came into being.
var now = plantest.Epoch.Add(time.Hour)

type (
	edit     = func(*appsv1.DaemonSet)
	podEdit  = func(*corev1.Pod)
	nodeEdit = func(*corev1.Node)
)

// agent is a DaemonSet that runs image v2, as a server defaults it. It is its second template.
func agent(edits ...edit) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: plantest.Namespace, Name: "agent", UID: "uid-agent", Generation: 2,
			CreationTimestamp: metav1.NewTime(plantest.Epoch),
			Annotations:       map[string]string{appsv1.DeprecatedTemplateGeneration: "2"},
		},
		Spec: appsv1.DaemonSetSpec{
			Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}},
			Template:             plantest.Template("agent", "v2"),
			RevisionHistoryLimit: ptr.To[int32](10),
		},
		Status: appsv1.DaemonSetStatus{ObservedGeneration: 2},
	}
	moves("0", "1")(d)
	for _, e := range edits {
		e(d)
	}
	return d
}

func image(v string) edit {
	return func(d *appsv1.DaemonSet) { d.Spec.Template = plantest.Template("agent", v) }
}

func template(change func(*corev1.PodSpec)) edit {
	return func(d *appsv1.DaemonSet) { change(&d.Spec.Template.Spec) }
}

func moves(surge, unavailable string) edit {
	return func(d *appsv1.DaemonSet) {
		d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type: appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: ptr.To(intstr.Parse(surge)),
				MaxUnavailable: ptr.To(intstr.Parse(unavailable))},
		}
	}
}

func onDelete(d *appsv1.DaemonSet) {
	d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
}

func minReady(seconds int32) edit {
	return func(d *appsv1.DaemonSet) { d.Spec.MinReadySeconds = seconds }
}

func keeps(n int32) edit { return func(d *appsv1.DaemonSet) { d.Spec.RevisionHistoryLimit = &n } }

// worker is a node without taints.
func worker(name string, edits ...nodeEdit) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name),
		Labels: map[string]string{"kubernetes.io/hostname": name}}}
	for _, e := range edits {
		e(n)
	}
	return n
}

func label(key, value string) nodeEdit {
	return func(n *corev1.Node) {
		n.Labels = maps.Clone(n.Labels)
		n.Labels[key] = value
	}
}

func taint(key string, effect corev1.TaintEffect) nodeEdit {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(slices.Clone(n.Spec.Taints), corev1.Taint{Key: key, Effect: effect})
	}
}

// oldHash is the hash of the template before the present one.
const oldHash = "old"

// pod is a running pod of the agent on a node, ready for half an hour, with the present template.
func pod(name, on string, edits ...podEdit) *corev1.Pod {
	p := newPod(agent(), presentOf(agent(), revisions{}), on)
	p.Name, p.GenerateName, p.UID, p.CreationTimestamp = name, "", types.UID("uid-"+name), metav1.NewTime(plantest.Epoch)
	p.Spec.NodeName = on
	plantest.Ready(now.Add(-30 * time.Minute))(p)
	for _, e := range edits {
		e(p)
	}
	return p
}

func old(p *corev1.Pod) {
	p.Labels[hashLabel], p.Labels[templateGeneration] = oldHash, "1"
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func pending(p *corev1.Pod) {
	p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
}

func readyFor(d time.Duration) podEdit { return plantest.Ready(now.Add(-d)) }

func age(d time.Duration) podEdit {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-d)) }
}

func phase(ph corev1.PodPhase) podEdit {
	return func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: ph} }
}

var failedPhase, succeededPhase = phase(corev1.PodFailed), phase(corev1.PodSucceeded)

func terminating(p *corev1.Pod) { plantest.Terminating(p) }

func orphan(p *corev1.Pod) { p.OwnerReferences = nil }

// revisionOf is the revision that the controller makes of the DaemonSet's template.
func revisionOf(d *appsv1.DaemonSet, number int64, edits ...func(*appsv1.ControllerRevision)) *appsv1.ControllerRevision {
	r, err := history.New(d, kind(), &d.Spec.Template, number)
	if err != nil {
		panic(err)
	}
	name, hash := newRevisionName(d)
	r.Name, r.Labels[hashLabel] = name, hash
	for _, e := range edits {
		e(r)
	}
	r.UID = types.UID("uid-" + r.Name)
	return r
}

// newSnapshot is a set, its pods and revisions, and what they mean.
func newSnapshot(d *appsv1.DaemonSet, pods []*corev1.Pod, all []*appsv1.ControllerRevision) view {
	s := view{snapshot: snapshot{Set: d, Pods: pods, Revisions: all}}
	s.derive()
	return s
}

// scene is a snapshot of the agent with its two revisions on nodes of which all are eligible, unless a name is followed by "~"
// (tolerated) or "!" (excluded).
func scene(d *appsv1.DaemonSet, nodes string, pods ...*corev1.Pod) view {
	before := revisionOf(agent(image("v1")), 1, func(r *appsv1.ControllerRevision) { r.Labels[hashLabel] = oldHash })
	s := newSnapshot(d, pods, []*appsv1.ControllerRevision{before, revisionOf(d, 2)})
	s.Nodes = nodesOf(nodes)
	return s
}

func nodesOf(names string) (nodes []node) {
	for _, name := range strings.Fields(names) {
		n := node{name, eligible}
		if rest, ok := strings.CutSuffix(name, "~"); ok {
			n = node{rest, tolerated}
		} else if rest, ok := strings.CutSuffix(name, "!"); ok {
			n = node{rest, excluded}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// lines says what steps do, sorted: "create on n1", "delete a".
func lines(steps []plan.Step) (all []string) {
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Create:
			all = append(all, fmt.Sprintf("create %T %s", s.Object, s.Object.GetName()))
		case plan.CreateAll:
			for _, o := range s.Objects {
				all = append(all, "create on "+podutil.TargetNode(o.(*corev1.Pod)))
			}
		case plan.Delete:
			for _, o := range s.Objects {
				all = append(all, "delete "+o.GetName())
			}
		case plan.Change:
			all = append(all, changeLine(s))
		case plan.Each:
			for _, sequence := range s.Sequences {
				all = append(all, lines(sequence)...)
			}
		case plan.RecordEvent:
			all = append(all, "event "+s.Event.Type+" "+s.Event.Reason+": "+s.Event.Message)
		}
	}
	slices.Sort(all)
	return all
}

func changeLine(s plan.Change) string {
	verb := "change "
	switch {
	case s.Subresource != "":
		verb = s.Subresource + " "
	case s.Adopt:
		verb = "adopt "
	case len(s.New.GetOwnerReferences()) < len(s.Old.GetOwnerReferences()):
		verb = "release "
	}
	line := verb + s.New.GetName()
	if hash := s.New.GetLabels()[hashLabel]; hash != s.Old.GetLabels()[hashLabel] {
		line += " hash=" + hash
	}
	if r, ok := s.New.(*appsv1.ControllerRevision); ok && r.Revision != s.Old.(*appsv1.ControllerRevision).Revision {
		line += " revision=" + strconv.FormatInt(r.Revision, 10)
	}
	return line
}
