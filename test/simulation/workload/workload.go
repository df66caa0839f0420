// Package workload is what users and operators do to a cluster: the operations of scripts, and random scripts made of them.
package workload

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// Users do what scripts say, in the namespace default.
type Users struct {
	Server  *apiserver.Server
	Cluster *actors.Cluster

	operations map[string]Operation // by the words that lines begin with
	quota      atomic.Int64         // how many pods there may be; negative for no limit
}

// New returns users of a cluster who know the operations of the environment and others, by the words that lines begin with.
func New(s *apiserver.Server, c *actors.Cluster, operations map[string]Operation) *Users {
	u := &Users{Server: s, Cluster: c, operations: maps.Clone(environment)}
	u.quota.Store(-1)
	maps.Copy(u.operations, operations)
	s.Admit = u.admit
	return u
}

const (
	By        = "user"                  // who users are
	Namespace = metav1.NamespaceDefault // where they work
)

// Operation does what a line of a script says. An error is what the server answers: operations on what is not there fail.
type Operation func(*Users, script.Line) error

// environment are the words of lines about what no controller of ours owns. A remark on each says what else the line has.
var environment = map[string]Operation{
	"pod":   (*Users).pod,   // NAME n= do=delete, relabel, restore, evict
	"quota": (*Users).limit, // pods=, -1 for none
	"node":  (*Users).node,  // NAME do=stop, start, remove, taint
}

// Known reports whether there is such an operation.
func (u *Users) Known(op string) bool { return u.operations[op] != nil }

// Do does what a line says.
func (u *Users) Do(l script.Line) error { return u.operations[l.Op()](u, l) }

// LabelsOf are the labels of all that belongs to an app.
func LabelsOf(app string) map[string]string { return map[string]string{"app": app} }

// Template is what the pods of an app are made from.
func Template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: LabelsOf(app)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: image, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		}}},
	}
}

// Remove deletes an object, with the policy that the line names.
func (u *Users) Remove(resource, name string, l script.Line) error {
	w := apiserver.Write{By: By, Verb: apiserver.Delete, Resource: resource, Namespace: Namespace, Name: name}
	policy := metav1.DeletePropagationBackground
	if s, ok := l.Get("policy"); ok {
		policy = metav1.DeletionPropagation(s)
	}
	w.Options.PropagationPolicy = &policy
	_, err := u.Server.Do(w)
	return err
}

func (u *Users) limit(l script.Line) error {
	n, _ := l.Int("pods")
	u.quota.Store(int64(n))
	return nil
}

// admit is the quota: pods that have not finished count.
func (u *Users) admit(a apiserver.Admission) error {
	if _, ok := a.After.(*corev1.Pod); !ok || a.Before != nil || u.quota.Load() < 0 {
		return nil
	}
	used := u.Server.CountLocked("pods", func(o apiserver.Object) bool {
		p := o.(*corev1.Pod)
		return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
	})
	quota := int(u.quota.Load())
	if used < quota {
		return nil
	}
	return apierrors.NewForbidden(corev1.Resource("pods"), a.After.GetName(),
		fmt.Errorf("exceeded quota: q, requested: pods=1, used: pods=%d, limited: pods=%d", used, quota))
}

func (u *Users) node(l script.Line) error {
	name := l.Arg(0)
	do, _ := l.Get("do")
	switch do {
	case "stop":
		u.Cluster.StopNode(name)
	case "start":
		return u.Cluster.AddNode(name)
	case "remove":
		u.Cluster.RemoveNode(name)
	case "taint":
		return u.Cluster.Taint(name)
	default:
		return fmt.Errorf("a node can be stopped, started, removed and tainted, not %q", do)
	}
	return nil
}

// Choose returns one of the objects whose names begin with that of the line.
func Choose[T apiserver.Object](u *Users, l script.Line, wanted func(T) bool) (found T, err error) {
	n, _ := l.Int("n")
	var all []T
	for _, o := range apiserver.All[T](u.Server) {
		if o.GetNamespace() == Namespace && strings.HasPrefix(o.GetName(), l.Arg(0)+"-") && wanted(o) {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return found, fmt.Errorf("nothing there for %q", l)
	}
	return all[n%len(all)], nil
}

// Relabel changes the label app, by which owners find what they own.
func Relabel[T apiserver.Object](u *Users, o T, to string) error {
	_, err := actors.Edit(u.Server, By, Namespace, o.GetName(), "", func(o T) {
		labels := map[string]string{}
		for k, v := range o.GetLabels() {
			labels[k] = v
		}
		labels["app"] = to
		o.SetLabels(labels)
	})
	return err
}

func (u *Users) pod(l script.Line) error {
	do, _ := l.Get("do")
	p, err := Choose(u, l, func(p *corev1.Pod) bool { return (do == "restore") == (p.Labels["app"] == Quarantine) })
	if err != nil {
		return err
	}
	switch do {
	case "delete":
		_, err = u.Server.Do(apiserver.Write{By: By, Verb: apiserver.Delete, Resource: "pods", Namespace: Namespace, Name: p.Name})
	case "relabel":
		err = Relabel(u, p, Quarantine)
	case "restore":
		err = Relabel(u, p, l.Arg(0))
	case "evict":
		if p.Status.Phase == corev1.PodSucceeded {
			return fmt.Errorf("pod %s has succeeded: no kubelet evicts it", p.Name)
		}
		_, err = actors.Edit(u.Server, "kubelet", Namespace, p.Name, "status", func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
		})
	default:
		err = fmt.Errorf("a pod can be deleted, relabelled, restored and evicted, not %q", do)
	}
	return err
}

// Quarantine is the label app of what was taken away from its owner.
const Quarantine = "Quarantine"
