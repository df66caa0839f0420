package suite

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// Operation does what a line of a script says. An error is what the server answers: operations on what is not there fail.
type Operation func(*User, script.Line) error

// environment are the words of lines about what no controller of ours owns. A remark on each says what else the line has.
var environment = map[string]Operation{
	"pod":   disturbPod, // NAME n= do=delete, relabel, restore, evict
	"quota": limitPods,  // pods=, -1 for none
	"node":  node,       // NAME do=stop, start, remove, taint, cordon
	"wait":  wait,       // nothing: the script goes on until then
}

// Operations returns the words of scripts: those of the environment and of all entries.
func Operations() map[string]Operation {
	all := maps.Clone(environment)
	for _, e := range Entries() {
		maps.Copy(all, e.Operations)
	}
	return all
}

var operations = sync.OnceValue(Operations)

// Do does what a line of a script says.
func (u *User) Do(l script.Line) error {
	do := operations()[l.Op()]
	if do == nil {
		return fmt.Errorf("no such operation")
	}
	return do(u, l)
}

// Machines are what a cluster consists of besides its API server: what they do is no request of a user.
type Machines interface {
	StopNode(name string) error            // its kubelet stops
	StartNode(name string) error           // its kubelet works again; the node is added if there is none
	RemoveNode(name string) error          // for good, with what runs on it
	LimitPods(n int) error                 // no more pods are admitted than so many that have not finished; negative for no limit
	SetLoad(app string, milli int64) error // what the pods of an app use of the CPU, together
	// the external-attachers of CSI drivers fail or stop, kubelets hang, or all of them start to work again
	SetAttacher(mode string) error
	Authorize(allowed func() bool) error // whether anybody may have certificates; it is asked each time
	// Mirror has an aggregated API server show an object of its own under the uid of this one, or show the end of it.
	Mirror(o metav1.Object, exists bool) error
}

// machines returns those of the user's cluster.
func (u *User) machines() Machines {
	if u.Machines == nil {
		return noMachines{}
	}
	return u.Machines
}

// noMachines are those of a cluster that does not obey.
type noMachines struct{}

var errNoMachines = errors.New("nobody can tell the machines of this cluster to do it")

func (noMachines) StopNode(string) error            { return errNoMachines }
func (noMachines) StartNode(string) error           { return errNoMachines }
func (noMachines) RemoveNode(string) error          { return errNoMachines }
func (noMachines) LimitPods(int) error              { return errNoMachines }
func (noMachines) SetLoad(string, int64) error      { return errNoMachines }
func (noMachines) SetAttacher(string) error         { return errNoMachines }
func (noMachines) Authorize(func() bool) error      { return errNoMachines }
func (noMachines) Mirror(metav1.Object, bool) error { return errNoMachines }

// labelsOf are the labels of all that belongs to an app.
func labelsOf(app string) map[string]string { return map[string]string{"app": app} }

// Template is what the pods of an app are made from.
func Template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(app)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: image, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		}}},
	}
}

// says reports whether a line has key=true.
func says(l script.Line, key string) bool {
	value, _ := l.Get(key)
	return value == "true"
}

// removeAsToldBy deletes an object, with the policy that the line names.
func removeAsToldBy[T Object](u *User, name string, l script.Line) error {
	policy := metav1.DeletePropagationBackground
	if s, ok := l.Get("policy"); ok {
		policy = metav1.DeletionPropagation(s)
	}
	return remove[T](u, name, propagation(policy))
}

// choose returns one of the objects whose names begin with that of the line.
func choose[T Object](u *User, l script.Line, wanted func(T) bool) (found T, err error) {
	n, _ := l.Int("n")
	objects, err := list[T](u)
	if err != nil {
		return found, err
	}
	var all []T
	for _, o := range objects {
		if strings.HasPrefix(o.GetName(), l.Arg(0)+"-") && wanted(o) {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return found, fmt.Errorf("nothing there for %q", l)
	}
	return all[n%len(all)], nil
}

// quarantine is the label app of what was taken away from its owner.
const quarantine = "Quarantine"

func quarantined(o metav1.Object) bool { return o.GetLabels()["app"] == quarantine }

// relabel changes the label app, by which owners find what they own.
func relabel[T Object](u *User, name, to string) error {
	return edit(u, name, func(o T) {
		labels := maps.Clone(o.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels["app"] = to
		o.SetLabels(labels)
	})
}

func limitPods(u *User, l script.Line) error {
	n, _ := l.Int("pods")
	return u.machines().LimitPods(n)
}

func node(u *User, l script.Line) error {
	name := u.unique(l.Arg(0))
	switch do, _ := l.Get("do"); do {
	case "stop":
		return u.machines().StopNode(name)
	case "start":
		return u.machines().StartNode(name)
	case "remove":
		return u.machines().RemoveNode(name)
	case "cordon":
		return edit(u.as("admin"), name, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	case "taint": // a stopped node is declared to be out of service
		return edit(u.as("admin"), name, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
		})
	default:
		return fmt.Errorf("a node can be stopped, started, removed, tainted and cordoned, not %q", do)
	}
}

func wait(*User, script.Line) error { return nil }

func disturbPod(u *User, l script.Line) error {
	do, _ := l.Get("do")
	p, err := choose(u, l, func(p *corev1.Pod) bool { return (do == "restore") == quarantined(p) })
	if err != nil {
		return err
	}
	switch do {
	case "delete":
		return remove[*corev1.Pod](u, p.Name)
	case "relabel":
		return relabel[*corev1.Pod](u, p.Name, quarantine)
	case "restore":
		return relabel[*corev1.Pod](u, p.Name, l.Arg(0))
	case "evict":
		if p.Status.Phase == corev1.PodSucceeded {
			return fmt.Errorf("pod %s has succeeded: no kubelet evicts it", p.Name)
		}
		return edit(u.as("kubelet"), p.Name, func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
		}, "status")
	}
	return fmt.Errorf("a pod can be deleted, relabelled, restored and evicted, not %q", do)
}
