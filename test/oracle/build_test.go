package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// scene is a script with builders.
type scene struct {
	*Script
	n int
}

func newScene() *scene { return &scene{Script: NewScript()} }

func pointer[T any](v T) *T { return &v }

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}}
}

func podTemplate(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}}}
}

// aDeployment rolls with surge 1 and nothing unavailable.
func aDeployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: named("web"), Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: podTemplate("a"),
		RevisionHistoryLimit: pointer[int32](1), ProgressDeadlineSeconds: pointer[int32](600),
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromInt32(1)),
				MaxUnavailable: ptr.To(intstr.FromInt32(0))}},
	}}
}

func recreate(d *appsv1.Deployment) *appsv1.Deployment {
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	return d
}

func ownedBy(o Object, kind string, owner Object) {
	o.SetOwnerReferences([]metav1.OwnerReference{{Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true)}})
}

// aSet is a ReplicaSet of a Deployment, or of nobody.
func aSet(owner Object, image string, size int32) *appsv1.ReplicaSet {
	name := "web-" + image
	rs := &appsv1.ReplicaSet{ObjectMeta: named(name)}
	t := podTemplate(image)
	rs.Labels[hashLabel], t.Labels[hashLabel] = image, image
	rs.Annotations = map[string]string{revisionAnnotation: "1"}
	rs.Spec = appsv1.ReplicaSetSpec{Replicas: &size, Template: t,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", hashLabel: image}}}
	if owner != nil {
		ownedBy(rs, Deployment, owner)
	}
	return rs
}

// aPod is a new pod of a ReplicaSet.
func (s *scene) aPod(set Object) *corev1.Pod {
	s.n++
	p := &corev1.Pod{ObjectMeta: named(fmt.Sprintf("%s-%d", set.GetName(), s.n)), Status: corev1.PodStatus{Phase: corev1.PodPending}}
	for k, v := range set.(*appsv1.ReplicaSet).Spec.Template.Labels {
		p.Labels[k] = v
	}
	ownedBy(p, ReplicaSet, set)
	return p
}

// pods are new pods, as the manager makes them.
func (s *scene) pods(set Object, n int) (all []Object) {
	for range n {
		all = append(all, s.Manager().Create(s.aPod(set)))
	}
	return all
}

// up are pods that are ready.
func (s *scene) up(set Object, n int) (all []Object) {
	for _, p := range s.pods(set, n) {
		all = append(all, s.User().Edit(p, s.run))
	}
	return all
}

func (s *scene) run(o Object) {
	p := o.(*corev1.Pod)
	s.n++
	p.Spec.NodeName = "n1"
	ip := fmt.Sprintf("10.0.0.%d", s.n)
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.Now)}}}
}

func fail(o Object) {
	o.(*corev1.Pod).Status.Phase = corev1.PodFailed
	o.(*corev1.Pod).Status.Conditions = nil
}

func unready(o Object) { o.(*corev1.Pod).Status.Conditions = nil }

func size(n int32) func(Object) {
	return func(o Object) {
		switch o := o.(type) {
		case *appsv1.ReplicaSet:
			o.Spec.Replicas = &n
		case *appsv1.Deployment:
			o.Spec.Replicas = &n
		}
	}
}

// observe is the report that the present generation was seen.
func observe(o Object) {
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		o.Status.ObservedGeneration = o.Generation
	case *appsv1.Deployment:
		o.Status.ObservedGeneration = o.Generation
	}
}

func image(name string) func(Object) {
	return func(o Object) { o.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image = name }
}

func status(replicas, ready, available int32) func(Object) {
	return func(o Object) {
		switch o := o.(type) {
		case *appsv1.ReplicaSet:
			o.Status = appsv1.ReplicaSetStatus{Replicas: replicas, FullyLabeledReplicas: replicas, ReadyReplicas: ready,
				AvailableReplicas: available, ObservedGeneration: o.Generation}
		case *appsv1.Deployment:
			o.Status.Replicas, o.Status.UpdatedReplicas, o.Status.ReadyReplicas, o.Status.AvailableReplicas = replicas, replicas, ready,
				available
			o.Status.ObservedGeneration = o.Generation
		}
	}
}

// says sets the conditions of a Deployment.
func says(available corev1.ConditionStatus, progressing corev1.ConditionStatus, reason string, at time.Time) func(Object) {
	return func(o Object) {
		o.(*appsv1.Deployment).Status.Conditions = []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: available},
			{Type: appsv1.DeploymentProgressing, Status: progressing, Reason: reason, LastUpdateTime: metav1.NewTime(at)},
		}
	}
}

func all(edits ...func(Object)) func(Object) {
	return func(o Object) {
		for _, e := range edits {
			e(o)
		}
	}
}

func annotate(key, value string) func(Object) {
	return func(o Object) {
		a := map[string]string{}
		for k, v := range o.GetAnnotations() {
			a[k] = v
		}
		a[key] = value
		o.SetAnnotations(a)
	}
}

func aNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

func aLease(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
}

func holds(holder string) func(Object) {
	return func(o Object) { o.(*coordinationv1.Lease).Spec.HolderIdentity = &holder }
}

func aService() *corev1.Service {
	s := &corev1.Service{ObjectMeta: named("web"),
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, ClusterIP: "10.1.0.1",
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80), Protocol: corev1.ProtocolTCP}}}}
	return s
}

// someEndpoints have the pods as ready addresses.
func someEndpoints(pods ...Object) *corev1.Endpoints {
	e := &corev1.Endpoints{ObjectMeta: named("web")}
	e.Labels[managedBy] = endpointController
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Port: 80, Protocol: corev1.ProtocolTCP}}}
	for _, o := range pods {
		p := o.(*corev1.Pod)
		subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: p.Status.PodIP, NodeName: &p.Spec.NodeName,
			TargetRef: &corev1.ObjectReference{Kind: Pod, Namespace: p.Namespace, Name: p.Name, UID: p.UID}})
	}
	if len(pods) > 0 {
		e.Subsets = []corev1.EndpointSubset{subset}
	}
	return e
}

// judged says what an oracle finds.
func judged(t *testing.T, o Oracle, h *History, options Options) []Violation {
	t.Helper()
	found, counts := CheckAndCount(h, options, o)
	if len(found) > 0 && counts[o.ID].Judged == 0 {
		t.Errorf("%s reports what it has not judged", o.ID)
	}
	for _, v := range found {
		if v.Oracle != o.ID || v.Message == "" || v.Object == "" || v.Kind == "" {
			t.Errorf("a violation says too little: %+v", v)
		}
		if v.Version != 0 && len(v.Around) == 0 {
			t.Errorf("nothing around %v", v)
		}
	}
	return found
}
