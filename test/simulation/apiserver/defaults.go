package apiserver

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// orDefault gives a field its default if it is not set.
func orDefault[T comparable](field *T, value T) {
	var unset T
	if *field == unset {
		*field = value
	}
}

func orPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func defaultPod(o Object) {
	p := o.(*corev1.Pod)
	defaultPodSpec(&p.Spec)
	orPointer(&p.Spec.EnableServiceLinks, true)
}

func defaultPodSpec(s *corev1.PodSpec) {
	orDefault(&s.RestartPolicy, corev1.RestartPolicyAlways)
	orDefault(&s.DNSPolicy, corev1.DNSClusterFirst)
	orDefault(&s.SchedulerName, corev1.DefaultSchedulerName)
	orPointer(&s.TerminationGracePeriodSeconds, 30)
	orPointer(&s.SecurityContext, corev1.PodSecurityContext{})
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			defaultContainer(&list[i])
		}
	}
}

func defaultContainer(c *corev1.Container) {
	orDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	orDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	policy := corev1.PullIfNotPresent
	if _, tag, tagged := strings.Cut(c.Image, ":"); !tagged || tag == "latest" {
		policy = corev1.PullAlways
	}
	orDefault(&c.ImagePullPolicy, policy)
	for i := range c.Ports {
		orDefault(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

// createPod does what else the server, and the admission plugins that are on by default, do to a new pod.
func createPod(_ *Server, o Object) {
	p := o.(*corev1.Pod)
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort}
	orPointer(&p.Spec.Priority, 0)
	orPointer(&p.Spec.PreemptionPolicy, corev1.PreemptLowerPriority)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)})
	}
}

// updatePod keeps what may be changed nowhere, or not by way of the status.
func updatePod(o, old Object, subresource string) {
	if subresource == "status" {
		o.SetOwnerReferences(old.GetOwnerReferences())
	}
	p, before := o.(*corev1.Pod), old.(*corev1.Pod)
	orDefault(&p.Status.QOSClass, before.Status.QOSClass)
}

// podGrace is how long a pod may take to end: none that has not begun, or has ended, needs time.
func podGrace(o Object, asked *int64) int64 {
	p := o.(*corev1.Pod)
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return 0
	}
	seconds := ptr.Deref(asked, ptr.Deref(p.Spec.TerminationGracePeriodSeconds, 30))
	if seconds < 0 {
		return 1
	}
	return seconds
}

func defaultTemplate(t *corev1.PodTemplateSpec) { defaultPodSpec(&t.Spec) }

func defaultReplicaSet(o Object) {
	rs := o.(*appsv1.ReplicaSet)
	orPointer(&rs.Spec.Replicas, 1)
	defaultTemplate(&rs.Spec.Template)
}

func defaultDeployment(o Object) {
	d := o.(*appsv1.Deployment)
	orPointer(&d.Spec.Replicas, 1)
	orPointer(&d.Spec.RevisionHistoryLimit, 10)
	orPointer(&d.Spec.ProgressDeadlineSeconds, 600)
	orDefault(&d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		orPointer(&d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		orPointer(&d.Spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
		orPointer(&d.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
	}
	defaultTemplate(&d.Spec.Template)
}

// updateDeployment: a write of the status changes annotations, but no labels (DEP-17).
func updateDeployment(o, old Object, subresource string) {
	if subresource == "status" {
		o.SetLabels(old.GetLabels())
	}
}

func defaultService(o Object) {
	s := &o.(*corev1.Service).Spec
	orDefault(&s.Type, corev1.ServiceTypeClusterIP)
	orDefault(&s.SessionAffinity, corev1.ServiceAffinityNone)
	if s.Type != corev1.ServiceTypeExternalName {
		orPointer(&s.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	for i := range s.Ports {
		orDefault(&s.Ports[i].Protocol, corev1.ProtocolTCP)
		orDefault(&s.Ports[i].TargetPort, intstr.FromInt32(s.Ports[i].Port))
	}
}

// createService gives a service its address.
func createService(server *Server, o Object) {
	s := &o.(*corev1.Service).Spec
	if s.Type == corev1.ServiceTypeExternalName {
		return
	}
	if s.ClusterIP == "" {
		server.addresses++
		s.ClusterIP = fmt.Sprintf("10.0.%d.%d", server.addresses/250, 1+server.addresses%250)
	}
	s.ClusterIPs = []string{s.ClusterIP}
	orPointer(&s.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	if s.IPFamilies == nil {
		s.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
}

// updateService keeps the address.
func updateService(o, old Object, _ string) {
	s, before := &o.(*corev1.Service).Spec, &old.(*corev1.Service).Spec
	if s.Type == corev1.ServiceTypeExternalName {
		return
	}
	orDefault(&s.ClusterIP, before.ClusterIP)
	if s.ClusterIPs == nil {
		s.ClusterIPs = before.ClusterIPs
	}
	if s.IPFamilyPolicy == nil {
		s.IPFamilyPolicy = before.IPFamilyPolicy
	}
	if s.IPFamilies == nil {
		s.IPFamilies = before.IPFamilies
	}
}

func defaultEndpoints(o Object) {
	subsets := o.(*corev1.Endpoints).Subsets
	for i := range subsets {
		for j := range subsets[i].Ports {
			orDefault(&subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}

// sliceContent is what the generation of a slice counts the changes of.
func sliceContent(o Object) any {
	s := o.(*discoveryv1.EndpointSlice)
	return &struct {
		Labels    map[string]string
		Endpoints []discoveryv1.Endpoint
		Ports     []discoveryv1.EndpointPort
	}{s.Labels, s.Endpoints, s.Ports}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func createNamespace(_ *Server, o Object) {
	n := o.(*corev1.Namespace)
	n.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[corev1.LabelMetadataName] = n.Name
}

// doomNamespace holds a namespace until its content is gone. The real server has a subresource for this finalizer.
func doomNamespace(o Object) {
	n := o.(*corev1.Namespace)
	n.Status.Phase = corev1.NamespaceTerminating
	if !slices.Contains(n.Finalizers, string(corev1.FinalizerKubernetes)) {
		n.Finalizers = append(n.Finalizers, string(corev1.FinalizerKubernetes))
	}
}
