// Package workload is what users and operators do to a cluster: the operations of scripts, and random scripts made of them.
package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// Users do what scripts say, in the namespace default.
type Users struct {
	Server  *apiserver.Server
	Cluster *actors.Cluster

	quota int // how many pods there may be; negative for no limit
}

// New returns users of a cluster.
func New(s *apiserver.Server, c *actors.Cluster) *Users {
	u := &Users{Server: s, Cluster: c, quota: -1}
	s.Admit = u.admit
	return u
}

const (
	by = "user"
	ns = metav1.NamespaceDefault
)

// operations are the words that lines begin with. A remark on each says what else the line has.
func (u *Users) operations() map[string]func(script.Line) error {
	return map[string]func(script.Line) error{
		"create":   u.create,   // NAME replicas= image= and the keys of configure
		"edit":     u.edit,     // NAME and the keys of configure
		"image":    u.image,    // NAME IMAGE
		"rollback": u.rollback, // NAME to=REVISION, by default the last but one; annotate=true by the annotation
		"delete":   u.delete,   // NAME policy=Background, Foreground, Orphan
		"service":  u.service,  // NAME app=, of that name by default; type=; delete=true
		"pod":      u.pod,      // NAME n= do=delete, relabel, restore, evict
		"set":      u.set,      // NAME n= do=delete, relabel, restore, orphan: to a ReplicaSet
		"bare":     u.bare,     // NAME replicas= image=: a ReplicaSet without Deployment; again: scales it
		"quota":    u.limit,    // pods=, -1 for none
		"node":     u.node,     // NAME do=stop, start, remove, taint
	}
}

// Known reports whether there is such an operation.
func (u *Users) Known(op string) bool { return u.operations()[op] != nil }

// Do does what a line says. An error is what the server answers: operations on what is not there fail.
func (u *Users) Do(l script.Line) error { return u.operations()[l.Op()](l) }

func labelsOf(app string) map[string]string { return map[string]string{"app": app} }

func template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(app)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: image, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		}}},
	}
}

func (u *Users) create(l script.Line) error {
	image, _ := l.Get("image")
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: l.Arg(0)},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labelsOf(l.Arg(0))}, Template: template(l.Arg(0), image),
			ProgressDeadlineSeconds: ptr.To[int32](60),
		},
	}
	configure(d, l)
	_, err := u.Server.Do(apiserver.Write{By: by, Verb: apiserver.Create, Object: d})
	return err
}

// configure sets what a line says of a Deployment.
func configure(d *appsv1.Deployment, l script.Line) {
	if n, ok := l.Int("replicas"); ok {
		d.Spec.Replicas = ptr.To(int32(n))
	}
	if n, ok := l.Int("minready"); ok {
		d.Spec.MinReadySeconds = int32(n)
	}
	if n, ok := l.Int("history"); ok {
		d.Spec.RevisionHistoryLimit = ptr.To(int32(n))
	}
	if n, ok := l.Int("deadline"); ok {
		d.Spec.ProgressDeadlineSeconds = ptr.To(int32(n))
	}
	if s, ok := l.Get("paused"); ok {
		d.Spec.Paused = s == "true"
	}
	if s, ok := l.Get("note"); ok {
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations["kubernetes.io/change-cause"] = s
	}
	if s, ok := l.Get("strategy"); ok {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.DeploymentStrategyType(s)}
	}
	surge, ok1 := l.Get("surge")
	unavailable, ok2 := l.Get("unavailable")
	if ok1 && ok2 {
		s, n := intstr.Parse(surge), intstr.Parse(unavailable)
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &n},
		}
	}
}

// change edits a Deployment; one that is not there makes it fail.
func (u *Users) change(name string, do func(*appsv1.Deployment)) error {
	found, err := actors.Edit(u.Server, by, ns, name, "", do)
	if err == nil && !found {
		err = apierrors.NewNotFound(appsv1.Resource("deployments"), name)
	}
	return err
}

func (u *Users) edit(l script.Line) error {
	return u.change(l.Arg(0), func(d *appsv1.Deployment) { configure(d, l) })
}

func (u *Users) image(l script.Line) error {
	return u.change(l.Arg(0), func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = l.Arg(1) })
}

// rollback goes back to an earlier revision, as kubectl rollout undo does or, with annotate=true, as the deprecated
// annotation asks the controller to.
func (u *Users) rollback(l script.Line) error {
	to, _ := l.Int("to")
	if annotate, _ := l.Get("annotate"); annotate == "true" {
		return u.change(l.Arg(0), func(d *appsv1.Deployment) {
			if d.Annotations == nil {
				d.Annotations = map[string]string{}
			}
			d.Annotations[appsv1.DeprecatedRollbackTo] = strconv.Itoa(to)
		})
	}
	d := apiserver.One[*appsv1.Deployment](u.Server, ns, l.Arg(0))
	if d == nil {
		return fmt.Errorf("no Deployment %s", l.Arg(0))
	}
	sets := u.setsOf(d)
	slices.SortStableFunc(sets, func(a, b *appsv1.ReplicaSet) int { return revision(b) - revision(a) })
	for i, rs := range sets {
		if to == 0 && i == 1 || to != 0 && revision(rs) == to {
			return u.change(d.Name, func(d *appsv1.Deployment) {
				d.Spec.Template = *rs.Spec.Template.DeepCopy()
				delete(d.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
			})
		}
	}
	return fmt.Errorf("no revision %d", to)
}

func revision(rs *appsv1.ReplicaSet) int {
	n, _ := strconv.Atoi(rs.Annotations["deployment.kubernetes.io/revision"])
	return n
}

func (u *Users) setsOf(d *appsv1.Deployment) (sets []*appsv1.ReplicaSet) {
	for _, rs := range apiserver.All[*appsv1.ReplicaSet](u.Server) {
		if ref := metav1.GetControllerOf(rs); ref != nil && ref.UID == d.UID {
			sets = append(sets, rs)
		}
	}
	return sets
}

func (u *Users) delete(l script.Line) error {
	return u.remove("deployments", l.Arg(0), l)
}

func (u *Users) remove(resource, name string, l script.Line) error {
	w := apiserver.Write{By: by, Verb: apiserver.Delete, Resource: resource, Namespace: ns, Name: name}
	policy := metav1.DeletePropagationBackground
	if s, ok := l.Get("policy"); ok {
		policy = metav1.DeletionPropagation(s)
	}
	w.Options.PropagationPolicy = &policy
	_, err := u.Server.Do(w)
	return err
}

func (u *Users) service(l script.Line) error {
	name := l.Arg(0)
	if gone, _ := l.Get("delete"); gone == "true" {
		return u.remove("services", name, l)
	}
	app := name
	if s, ok := l.Get("app"); ok {
		app = s
	}
	found, err := actors.Edit(u.Server, by, ns, name, "", func(s *corev1.Service) {
		s.Spec.Selector = labelsOf(app)
		if _, ok := l.Get("unready"); ok {
			s.Spec.PublishNotReadyAddresses = true
		}
	})
	if found || err != nil {
		return err
	}
	_, err = u.Server.Do(apiserver.Write{By: by, Verb: apiserver.Create, Object: &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: corev1.ServiceSpec{Selector: labelsOf(app), Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromString("http")},
		}},
	}})
	return err
}

// bare makes or scales a ReplicaSet that no Deployment owns.
func (u *Users) bare(l script.Line) error {
	n, _ := l.Int("replicas")
	found, err := actors.Edit(u.Server, by, ns, l.Arg(0), "", func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = ptr.To(int32(n)) })
	if found || err != nil {
		return err
	}
	image, _ := l.Get("image")
	_, err = u.Server.Do(apiserver.Write{By: by, Verb: apiserver.Create, Object: &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: l.Arg(0)},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To(int32(n)), Selector: &metav1.LabelSelector{MatchLabels: labelsOf(l.Arg(0))}, Template: template(l.Arg(0), image),
		},
	}})
	return err
}

func (u *Users) limit(l script.Line) error {
	u.quota, _ = l.Int("pods")
	return nil
}

// admit is the quota: pods that have not finished count.
func (u *Users) admit(o apiserver.Object) error {
	if _, ok := o.(*corev1.Pod); !ok || u.quota < 0 {
		return nil
	}
	used := u.Server.CountLocked("pods", func(o apiserver.Object) bool {
		p := o.(*corev1.Pod)
		return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
	})
	if used < u.quota {
		return nil
	}
	return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(),
		fmt.Errorf("exceeded quota: q, requested: pods=1, used: pods=%d, limited: pods=%d", used, u.quota))
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

// choose returns one of the objects whose names begin with that of the line.
func choose[T apiserver.Object](u *Users, l script.Line, wanted func(T) bool) (found T, err error) {
	n, _ := l.Int("n")
	var all []T
	for _, o := range apiserver.All[T](u.Server) {
		if o.GetNamespace() == ns && strings.HasPrefix(o.GetName(), l.Arg(0)+"-") && wanted(o) {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return found, fmt.Errorf("nothing there for %q", l)
	}
	return all[n%len(all)], nil
}

// relabel changes the label app, by which owners find what they own.
func relabel[T apiserver.Object](u *Users, o T, to string) error {
	_, err := actors.Edit(u.Server, by, ns, o.GetName(), "", func(o T) {
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
	p, err := choose(u, l, func(p *corev1.Pod) bool { return (do == "restore") == (p.Labels["app"] == quarantine) })
	if err != nil {
		return err
	}
	switch do {
	case "delete":
		_, err = u.Server.Do(apiserver.Write{By: by, Verb: apiserver.Delete, Resource: "pods", Namespace: ns, Name: p.Name})
	case "relabel":
		err = relabel(u, p, quarantine)
	case "restore":
		err = relabel(u, p, l.Arg(0))
	case "evict":
		_, err = actors.Edit(u.Server, "kubelet", ns, p.Name, "status", func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
		})
	default:
		err = fmt.Errorf("a pod can be deleted, relabelled, restored and evicted, not %q", do)
	}
	return err
}

const quarantine = "quarantine"

func (u *Users) set(l script.Line) error {
	do, _ := l.Get("do")
	rs, err := choose(u, l, func(rs *appsv1.ReplicaSet) bool { return (do == "restore") == (rs.Labels["app"] == quarantine) })
	if err != nil {
		return err
	}
	switch do {
	case "delete":
		return u.remove("replicasets", rs.Name, l)
	case "relabel":
		return relabel(u, rs, quarantine)
	case "restore":
		return relabel(u, rs, l.Arg(0))
	case "orphan":
		_, err := actors.Edit(u.Server, by, ns, rs.Name, "", func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil })
		return err
	}
	return fmt.Errorf("a ReplicaSet can be deleted, relabelled, restored and orphaned, not %q", do)
}
