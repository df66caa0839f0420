package oracle

import (
	"encoding/json"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	desiredAnnotation  = "deployment.kubernetes.io/desired-replicas"
	rollbackAnnotation = "deprecated.deployment.rollback.to"
	hashLabel          = "pod-template-hash"
)

// controller is the owner reference that controls an object.
func controller(o metav1.Object) (metav1.OwnerReference, bool) {
	for _, ref := range o.GetOwnerReferences() {
		if ptr.Deref(ref.Controller, false) {
			return ref, true
		}
	}
	return metav1.OwnerReference{}, false
}

// finished reports whether a pod has ended by itself.
func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// active pods are those that count for their ReplicaSet (RS-12).
func active(p *corev1.Pod) bool { return !finished(p) && p.DeletionTimestamp == nil }

func podCondition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func ready(p *corev1.Pod) bool {
	c := podCondition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// available reports whether a pod has been ready for long enough (RS-44).
func available(p *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	c := podCondition(p, corev1.PodReady)
	if c == nil || c.Status != corev1.ConditionTrue {
		return false
	}
	if minReadySeconds <= 0 || now.Equal(epoch) {
		return true
	}
	return !c.LastTransitionTime.IsZero() && !c.LastTransitionTime.Add(time.Duration(minReadySeconds)*time.Second).After(now)
}

// selector is that of a ReplicaSet or Deployment; one that is empty or broken selects nothing (RS-8, DEP-4).
func selector(s *metav1.LabelSelector) labels.Selector {
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || parsed.Empty() {
		return labels.Nothing()
	}
	return parsed
}

// fences are a Deployment's maxSurge and maxUnavailable in pods (DEP-29..31).
func fences(d *appsv1.Deployment) (surge, unavailable int32) {
	replicas := ptr.Deref(d.Spec.Replicas, 1)
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return 0, 0
	}
	if rolling := d.Spec.Strategy.RollingUpdate; rolling != nil {
		surge = share(rolling.MaxSurge, replicas, math.Ceil)
		unavailable = share(rolling.MaxUnavailable, replicas, math.Floor)
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, replicas)
}

// share is a number or a percentage of the total; what cannot be read is zero.
func share(of *intstr.IntOrString, total int32, round func(float64) float64) int32 {
	if of == nil {
		return 0
	}
	if of.Type == intstr.Int {
		return max(0, of.IntVal)
	}
	percent, err := strconv.Atoi(strings.TrimSuffix(of.StrVal, "%"))
	if err != nil || percent < 0 || !strings.HasSuffix(of.StrVal, "%") {
		return 0
	}
	return int32(round(float64(percent) * float64(total) / 100))
}

// template is a pod template without the label that each ReplicaSet adds to it (DEP-10). Equal strings are equal templates:
// nil and empty are the same, and quantities are in their canonical form.
func template(t *corev1.PodTemplateSpec) string {
	if _, labelled := t.Labels[hashLabel]; labelled {
		t = t.DeepCopy()
		delete(t.Labels, hashLabel)
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// revisionOf is the revision annotation as a number (DEP-11).
func revisionOf(o metav1.Object) (n int64, ok bool) {
	n, err := strconv.ParseInt(o.GetAnnotations()[revisionAnnotation], 10, 64)
	return n, err == nil
}

func condition(d *appsv1.Deployment, t appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == t {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

// failing reports whether a ReplicaSet says that it cannot make or remove pods (RS-52).
func failing(rs *appsv1.ReplicaSet) bool {
	for _, c := range rs.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func nodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func outOfService(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService {
			return !nodeReady(n)
		}
	}
	return false
}

// family is the address family that Endpoints of a Service have: 4 or 6, or 0 for that of each pod's first address (EP-13).
func family(s *corev1.Service) int {
	if len(s.Spec.IPFamilies) > 0 {
		if s.Spec.IPFamilies[0] == corev1.IPv6Protocol {
			return 6
		}
		return 4
	}
	if ip, err := netip.ParseAddr(s.Spec.ClusterIP); err == nil {
		return familyOf(ip)
	}
	return 0
}

func familyOf(ip netip.Addr) int {
	if ip.Unmap().Is4() {
		return 4
	}
	return 6
}

// address is the one that a pod has in the Endpoints of a Service, empty if none (EP-14).
func address(s *corev1.Service, p *corev1.Pod) string {
	want := family(s)
	if want == 0 {
		ip, err := netip.ParseAddr(p.Status.PodIP)
		if err != nil {
			return ""
		}
		want = familyOf(ip)
	}
	for _, each := range p.Status.PodIPs {
		if ip, err := netip.ParseAddr(each.IP); err == nil && familyOf(ip) == want {
			return ip.String()
		}
	}
	return ""
}

// hasEndpoints reports whether the controller keeps Endpoints for a Service (EP-9).
func hasEndpoints(s *corev1.Service) bool {
	return s.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.Selector != nil
}

// served reports whether a pod belongs into the Endpoints of a Service, and whether as ready (EP-10, EP-11, EP-16).
func served(s *corev1.Service, p *corev1.Pod) (in, asReady bool) {
	publish := s.Spec.PublishNotReadyAddresses
	in = hasEndpoints(s) && s.Namespace == p.Namespace && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels)) &&
		!finished(p) && (p.DeletionTimestamp == nil || publish) && address(s, p) != ""
	return in, in && (publish || ready(p))
}
