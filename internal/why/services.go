package why

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func (w *world) service(ctx context.Context, s *corev1.Service) *verdict {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return fine(s, "it is another name of %s", s.Spec.ExternalName)
	}
	endpoints, on := w.endpoints(ctx, s)
	if len(s.Spec.Selector) == 0 {
		if endpoints == 0 {
			return waits(s, "NoSelector",
				"it has no selector, and nobody has given it endpoints").until("somebody makes an EndpointSlice")
		}
		return fine(s, "it has %d endpoints", endpoints)
	}
	// Those after the first are of the same templates.
	all, _ := w.firstPods(ctx, s.Namespace, labels.SelectorFromSet(s.Spec.Selector))
	pods := slices.DeleteFunc(slices.Clone(all), podutil.Finished)
	switch unread := w.unlisted(client.KindFor[*corev1.Pod](), s.Namespace); {
	case unread && len(pods) == 0:
		return waits(s, "PodsUnread", "it has %d endpoints, and its pods could not be read", endpoints).inferred()
	case len(pods) == 0:
		return w.noPods(ctx, s, all)
	}
	if v := w.wrongPort(s, pods); v != nil {
		return v
	}
	if endpoints == 0 {
		return w.noEndpoints(ctx, s, pods)
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
		return waits(s, "NoLoadBalancer",
			"it has %d endpoints and no load balancer yet; a cloud controller manager makes one", endpoints).
			until("a controller of load balancers runs")
	}
	if p := s.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
		return w.local(ctx, s, endpoints, on)
	}
	return fine(s, "it has %d endpoints", endpoints)
}

// noEndpoints is a verdict on a Service without ready endpoints that has pods.
func (w *world) noEndpoints(ctx context.Context, s *corev1.Service, pods []*corev1.Pod) *verdict {
	if w.unlisted(client.KindFor[*discoveryv1.EndpointSlice](), s.Namespace) {
		return waits(s, "EndpointsUnread", "its EndpointSlices could not be read").inferred()
	}
	ready := 0
	for _, p := range pods {
		if podutil.Ready(p) && p.DeletionTimestamp == nil {
			ready++
		}
	}
	if ready > 0 {
		return waits(s, "NoEndpoints", "%d of its pods are ready, and it has no endpoint yet", ready).
			through(w.leader(ctx))
	}
	return waits(s, "NoEndpoints", "it has pods, and none is ready").through(w.worst(ctx, pods))
}

// local is a verdict on a Service that only pods on the nodes of its own pods reach.
func (w *world) local(ctx context.Context, s *corev1.Service, endpoints int, on map[string]bool) *verdict {
	if nodes := list[*corev1.Node](ctx, w, "", nil); len(on) < len(nodes) {
		return fails(s, "InternalTrafficPolicy",
			"internalTrafficPolicy is Local, and %d of %d nodes have no endpoint: pods there do not reach it",
			len(nodes)-len(on), len(nodes)).inferred()
	}
	return fine(s, "it has %d endpoints", endpoints)
}

// endpoints counts the ready endpoints of a Service, and names the nodes that they are on.
func (w *world) endpoints(ctx context.Context, s *corev1.Service) (count int, on map[string]bool) {
	on = map[string]bool{}
	of := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: s.Name})
	for _, slice := range list[*discoveryv1.EndpointSlice](ctx, w, s.Namespace, of) {
		for _, e := range slice.Endpoints {
			if ptr.Deref(e.Conditions.Ready, true) {
				count++
				on[ptr.Deref(e.NodeName, "")] = true
			}
		}
	}
	return count, on
}

// noPods is a verdict on a Service none of whose pods may become ready: these have ended, or there is none.
func (w *world) noPods(ctx context.Context, s *corev1.Service, ended []*corev1.Pod) *verdict {
	selector := labels.SelectorFromSet(s.Spec.Selector)
	v := fails(s, "NoPods", "its selector %s matches no pod", selector)
	if len(ended) > 0 {
		v.says = fmt.Sprintf("all %d pods that its selector %s matches have ended", len(ended), selector)
	}
	var worst *verdict
	for _, o := range w.workloads(ctx, s.Namespace, selector) {
		if below := w.explain(ctx, o); below != nil && (below.worse(worst) || worst.reason == scaledToZero) {
			worst = below
		}
	}
	switch {
	case worst != nil && worst.state != AsWanted:
		return v.through(worst)
	case len(ended) > 0:
		return v.through(w.worst(ctx, ended))
	}
	if near, labels := w.nearest(ctx, s); near != nil {
		v.says += fmt.Sprintf("; %s comes nearest, its labels are %s", refOf(near), labels)
	}
	return v.until("its selector names the labels of pods")
}

// workloads are those of a namespace whose pods a selector matches, without those that others control.
func (w *world) workloads(ctx context.Context, namespace string, s labels.Selector) (all []plan.Object) {
	add := func(o plan.Object, pods map[string]string) {
		if metav1.GetControllerOfNoCopy(o) == nil && s.Matches(labels.Set(pods)) {
			all = append(all, o)
		}
	}
	for _, o := range list[*appsv1.Deployment](ctx, w, namespace, nil) {
		add(o, o.Spec.Template.Labels)
	}
	for _, o := range list[*appsv1.StatefulSet](ctx, w, namespace, nil) {
		add(o, o.Spec.Template.Labels)
	}
	for _, o := range list[*appsv1.DaemonSet](ctx, w, namespace, nil) {
		add(o, o.Spec.Template.Labels)
	}
	for _, o := range list[*appsv1.ReplicaSet](ctx, w, namespace, nil) {
		add(o, o.Spec.Template.Labels)
	}
	for _, o := range list[*corev1.ReplicationController](ctx, w, namespace, nil) {
		if o.Spec.Template != nil {
			add(o, o.Spec.Template.Labels)
		}
	}
	for _, o := range list[*batchv1.Job](ctx, w, namespace, nil) {
		add(o, o.Spec.Template.Labels)
	}
	return all
}

// nearest is the Deployment or StatefulSet whose pods a Service has probably meant: it shares the most labels, or its
// name.
func (w *world) nearest(ctx context.Context, s *corev1.Service) (near plan.Object, of labels.Set) {
	best := 0
	consider := func(o plan.Object, pods map[string]string) {
		score := 0
		for key, value := range s.Spec.Selector {
			if pods[key] == value {
				score += 2
			}
		}
		if o.GetName() == s.Name {
			score++
		}
		if score > best {
			best, near, of = score, o, pods
		}
	}
	for _, d := range list[*appsv1.Deployment](ctx, w, s.Namespace, nil) {
		consider(d, d.Spec.Template.Labels)
	}
	for _, set := range list[*appsv1.StatefulSet](ctx, w, s.Namespace, nil) {
		consider(set, set.Spec.Template.Labels)
	}
	return near, of
}

// wrongPort is a verdict on a port that the pods of a Service do not have; nil if they do.
func (w *world) wrongPort(s *corev1.Service, pods []*corev1.Pod) *verdict {
	if s.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	var ports []corev1.ContainerPort
	silent := false // a container need not name its ports: one that names none may serve any
	for _, p := range pods {
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			ports = append(ports, c.Ports...)
		}
		silent = silent ||
			slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return len(c.Ports) == 0 })
	}
	for _, port := range s.Spec.Ports {
		target := port.TargetPort
		if target.Type == intstr.Int && target.IntVal == 0 {
			target = intstr.FromInt32(port.Port)
		}
		if slices.ContainsFunc(ports, func(c corev1.ContainerPort) bool {
			return target.Type == intstr.String && c.Name == target.StrVal || target.Type == intstr.Int &&
				c.ContainerPort == target.IntVal
		}) {
			continue
		}
		if target.Type == intstr.String {
			return fails(s, "NoSuchPort",
				"its port %d goes to targetPort %q, and no container of its pods has a port of that name%s",
				port.Port, target.StrVal, portsText(ports))
		}
		if !silent { // who names some has named all that matter
			return fails(s, "NoSuchPort",
				"its port %d goes to targetPort %d, and the containers of its pods name others%s", port.Port,
				target.IntVal, portsText(ports)).inferred()
		}
	}
	return nil
}

// portsText names some ports.
func portsText(ports []corev1.ContainerPort) string {
	var texts []string
	for _, p := range ports {
		if text := strings.TrimPrefix(fmt.Sprintf("%s %d", p.Name, p.ContainerPort), " "); !slices.Contains(texts,
			text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return fmt.Sprintf(" (they have: %s)", strings.Join(texts, ", "))
}

func (w *world) ingress(ctx context.Context, in *networkingv1.Ingress) *verdict {
	if class := in.Spec.IngressClassName; class != nil {
		if _, is := get[*networkingv1.IngressClass](ctx, w, "", *class); is == absent {
			return fails(in, "NoIngressClass", "its ingress class does not exist").
				through(lacking[*networkingv1.IngressClass]("", *class, "it does not exist, and Ingress %s wants it",
					in.Name))
		}
	}
	backends := []*networkingv1.IngressBackend{in.Spec.DefaultBackend}
	for _, rule := range in.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for i := range rule.HTTP.Paths {
			backends = append(backends, &rule.HTTP.Paths[i].Backend)
		}
	}
	for _, b := range backends {
		if b == nil || b.Service == nil {
			continue
		}
		if v := w.backend(ctx, in, b.Service); v != nil {
			return v
		}
	}
	if len(in.Status.LoadBalancer.Ingress) == 0 {
		return fine(in, "its Services have endpoints; no ingress controller has given it an address")
	}
	return fine(in, "its Services have endpoints")
}

// backend is a verdict on a Service behind an Ingress; nil if it is as it should be.
func (w *world) backend(ctx context.Context, in *networkingv1.Ingress, b *networkingv1.IngressServiceBackend) *verdict {
	v := fails(in, "Backend", "its backend %s does not answer", b.Name)
	s, is := get[*corev1.Service](ctx, w, in.Namespace, b.Name)
	if is == absent {
		return v.through(lacking[*corev1.Service](in.Namespace, b.Name, "it does not exist, and Ingress %s wants it",
			in.Name))
	}
	if is != present {
		return nil
	}
	if !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return b.Port.Name != "" && p.Name == b.Port.Name || b.Port.Number != 0 && p.Port == b.Port.Number
	}) && (b.Port.Name != "" || b.Port.Number != 0) {
		return fails(in, "NoSuchPort", "its backend %s has no port %s%d", b.Name, b.Port.Name, b.Port.Number)
	}
	if below := w.explain(ctx, s); below != nil && below.state != AsWanted {
		return v.through(below)
	}
	return nil
}
