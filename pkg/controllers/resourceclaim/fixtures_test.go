package resourceclaim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type podEdit = func(*corev1.Pod)

func newPod(name string, edits ...podEdit) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "5"}}
	p.Status.Phase = corev1.PodPending
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// wants gives a pod an entry that names a template.
func wants(entry, template string) podEdit {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims,
			corev1.PodResourceClaim{Name: entry, ResourceClaimTemplateName: &template})
	}
}

// shares gives a pod an entry that names a claim.
func shares(claim string) podEdit {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "shared-" + claim, ResourceClaimName: &claim})
	}
}

// records has the status of a pod name the claim of an entry; without a name it says that none is needed.
func records(entry, claim string) podEdit {
	return func(p *corev1.Pod) {
		s := corev1.PodResourceClaimStatus{Name: entry}
		if claim != "" {
			s.ResourceClaimName = &claim
		}
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, s)
	}
}

// extended has the status of a pod name the claim of its extended resources.
func extended(claim string) podEdit {
	return func(p *corev1.Pod) {
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim}
	}
}

func leaving(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: epoch} }

func grouped(p *corev1.Pod) {
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("gang")}
}

func on(node string) podEdit { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func phase(to corev1.PodPhase) podEdit { return func(p *corev1.Pod) { p.Status.Phase = to } }

func uid(of types.UID) podEdit { return func(p *corev1.Pod) { p.UID = of } }

// newTemplate is a template of claims with an annotation of its own.
func newTemplate(name string) *resourcev1.ResourceClaimTemplate {
	t := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}}
	t.Spec.Labels, t.Spec.Annotations = map[string]string{"from": name}, map[string]string{"note": name}
	t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}}
	return t
}

type claimEdit = func(*resourcev1.ResourceClaim)

func newClaim(name string, edits ...claimEdit) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name),
		ResourceVersion: "6"}}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// of has a claim belong to the entry of a pod.
func of(pod *corev1.Pod, entry string) claimEdit {
	return func(c *resourcev1.ResourceClaim) {
		c.Annotations = map[string]string{resourcev1.PodResourceClaimAnnotation: entry}
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}}
	}
}

// allocated gives a claim devices, the finalizer, and reservations of pods.
func allocated(pods ...*corev1.Pod) claimEdit {
	return func(c *resourcev1.ResourceClaim) {
		c.Finalizers = []string{resourcev1.Finalizer}
		c.Status.Allocation = &resourcev1.AllocationResult{AllocationTimestamp: &metav1.Time{Time: epoch}}
		for _, p := range pods {
			c.Status.ReservedFor = append(c.Status.ReservedFor,
				resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
		}
	}
}

// reservedByGroup adds a reservation that is not that of a pod.
func reservedByGroup(c *resourcev1.ResourceClaim) {
	c.Status.ReservedFor = append(c.Status.ReservedFor,
		resourcev1.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "gang", UID: "uid-gang"})
}

func doomed(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: epoch} }

func bare(c *resourcev1.ResourceClaim) { c.Finalizers = nil }

func deallocated(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil }

// newTestCaches returns caches with these objects.
func newTestCaches(t interface{ Fatal(...any) }, objects ...plan.Object) *caches {
	k, err := newCaches(informers.NewFactory(fake.NewClientset(), 0), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		k.cache(t, o)
	}
	return k
}

func (k *caches) cache(t interface{ Fatal(...any) }, o plan.Object) {
	informer := k.pods.Informer()
	switch o.(type) {
	case *resourcev1.ResourceClaim:
		informer = k.claims.Informer()
	case *resourcev1.ResourceClaimTemplate:
		informer = k.templates.Informer()
	case *podGroup:
		informer = k.groups.byClaim.Informer()
	}
	if err := informer.GetIndexer().Add(o); err != nil {
		t.Fatal(err)
	}
}

func request[M any](name string) reconcile.Request[M] {
	return reconcile.Request[M]{Key: plan.Key{Namespace: "shop", Name: name}, Now: epoch}
}

// created returns the claims that a plan creates, and told the messages of the events that it records.
func created(p plan.Plan) (claims []*resourcev1.ResourceClaim) {
	for _, s := range p.Steps {
		if each, ok := s.(plan.Each); ok {
			for _, sequence := range each.Sequences {
				claims = append(claims, sequence[0].(plan.Create).Object.(*resourcev1.ResourceClaim))
			}
		}
	}
	return claims
}

func told(p plan.Plan) (messages []string) {
	for _, s := range p.Steps {
		if e, ok := s.(plan.RecordEvent); ok {
			messages = append(messages, e.Event.Type+" "+e.Event.Reason+" "+e.Event.Message)
		}
	}
	return messages
}

// entriesOf returns the entries that claims are made for.
func entriesOf(claims []*resourcev1.ResourceClaim) (names []string) {
	for _, c := range claims {
		names = append(names, c.Annotations[resourcev1.PodResourceClaimAnnotation])
	}
	return names
}
