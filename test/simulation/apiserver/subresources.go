package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// subresource is a part of objects that has requests of its own.
type subresource struct {
	schema.GroupVersionKind // of what is sent
	verbs                   []string
	empty                   func() Object // what is sent, nil if it is the object itself

	// keep sets what a write of the subresource may not change to what it was. It is for those whose document is the object.
	keep func(k *Kind, o, old Object)
	// show and take are for those that are read and replaced: the document, and the object with what was sent.
	show func(Object) Object
	take func(o, sent Object) field.ErrorList
	// create is for those that are created: it does what was asked for.
	create func(s *Server, st *store, old Object, w Write) (after Object, answer runtime.Object, err error)
}

var readAndWrite = []string{"get", "patch", "update"}

// subresourcesOf returns the subresources of a kind, by name.
func subresourcesOf(k *Kind) map[string]subresource {
	subs := map[string]subresource{}
	if k.hasStatus() {
		subs["status"] = subresource{GroupVersionKind: k.GroupVersionKind, verbs: readAndWrite, keep: keepContent}
	}
	if k.replicas != nil {
		subs["scale"] = subresource{
			GroupVersionKind: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), verbs: readAndWrite,
			empty: func() Object { return &autoscalingv1.Scale{} }, show: k.showScale, take: k.takeScale,
		}
	}
	post := func(gvk schema.GroupVersionKind, empty func() Object, create func(*Server, *store, Object, Write) (Object, runtime.Object,
		error)) subresource {
		return subresource{GroupVersionKind: gvk, verbs: []string{"create"}, empty: empty, create: create}
	}
	switch k.key {
	case "pods":
		subs["eviction"] = post(policyv1.SchemeGroupVersion.WithKind("Eviction"), func() Object { return &policyv1.Eviction{} }, evict)
		subs["binding"] = post(corev1.SchemeGroupVersion.WithKind("Binding"), func() Object { return &corev1.Binding{} }, bind)
	case "serviceaccounts":
		subs["token"] = post(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"),
			func() Object { return &authenticationv1.TokenRequest{} }, issueToken)
	case "namespaces":
		subs["finalize"] = subresource{GroupVersionKind: k.GroupVersionKind, verbs: []string{"update"}, keep: keepAllButFinalizers}
	case "certificatesigningrequests":
		subs["status"] = subresource{GroupVersionKind: k.GroupVersionKind, verbs: readAndWrite, keep: keepApproval}
		subs["approval"] = subresource{GroupVersionKind: k.GroupVersionKind, verbs: readAndWrite, keep: keepAllButApproval}
	}
	return subs
}

// doSubresource carries out a write of a subresource.
func (s *Server) doSubresource(st *store, old Object, w Write) (after Object, answer runtime.Object, err error) {
	sub, ok := st.subs[w.Subresource]
	verb := string(w.Verb)
	switch {
	case !ok:
		return nil, nil, unknownPath(verb, w.Resource+"/"+w.Name+"/"+w.Subresource)
	case !slices.Contains(sub.verbs, verb):
		return nil, nil, apierrors.NewMethodNotSupported(st.groupResource(), verb)
	case old == nil:
		return nil, nil, apierrors.NewNotFound(st.groupResource(), w.Name)
	case sub.create != nil:
		return sub.create(s, st, old, w)
	case sub.show == nil:
		if err := sameName(w); err != nil {
			return nil, nil, err
		}
		after, err = s.change(st, old, w)
		return after, nil, err
	}
	o, err := sub.replaced(st, old, w)
	if err != nil {
		return nil, nil, err
	}
	if after, err = s.replace(st, old, o, w); err != nil {
		return nil, nil, err
	}
	return after, sub.show(after), nil
}

// replaced returns the object with what was sent.
func (sub subresource) replaced(st *store, old Object, w Write) (Object, error) {
	sent := w.Object
	if w.Verb == Patch {
		var err error
		if sent, err = patched(sub.show(old), sub.empty(), st.groupResource(), w); err != nil {
			return nil, err
		}
	} else if err := sameName(w); err != nil {
		return nil, err
	}
	if err := checkUID(st, old, sent.GetUID()); err != nil {
		return nil, err
	}
	o := old.DeepCopyObject().(Object)
	o.SetResourceVersion(sent.GetResourceVersion())
	if errs := sub.take(o, sent); len(errs) > 0 {
		return nil, apierrors.NewInvalid(sub.GroupKind(), w.Name, errs)
	}
	return o, nil
}

// keepMeta keeps the metadata as well, but for the version that the write comes from.
func keepMeta(o, old Object) {
	o.SetLabels(old.GetLabels())
	o.SetAnnotations(old.GetAnnotations())
	o.SetFinalizers(old.GetFinalizers())
	o.SetOwnerReferences(old.GetOwnerReferences())
}

// keepContent is for the status: besides it only the metadata may change, and of custom resources not even that.
func keepContent(k *Kind, o, old Object) {
	k.copyContent(o, old)
	if k.custom() {
		keepMeta(o, old)
	}
}

// keepMetaWithStatus is for the kinds whose status does not let the metadata change either.
func keepMetaWithStatus(o, old Object, subresource string) {
	if subresource == "status" {
		keepMeta(o, old)
	}
}

func keepAllButFinalizers(k *Kind, o, old Object) {
	n := o.(*corev1.Namespace)
	finalizers := n.Spec.Finalizers
	k.copyContent(o, old)
	k.copyStatus(o, old)
	n.Spec.Finalizers = finalizers
}

func decides(c certificatesv1.CertificateSigningRequestCondition) bool {
	return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied
}

// keepApproval keeps the conditions that only those who approve may change.
func keepApproval(k *Kind, o, old Object) {
	k.copyContent(o, old)
	now, before := &o.(*certificatesv1.CertificateSigningRequest).Status, old.(*certificatesv1.CertificateSigningRequest).Status
	conditions := slices.DeleteFunc(slices.Clone(now.Conditions), decides)
	now.Conditions = append(conditions, slices.DeleteFunc(slices.Clone(before.Conditions), notDecides)...)
}

func notDecides(c certificatesv1.CertificateSigningRequestCondition) bool { return !decides(c) }

// keepAllButApproval keeps the rest of the status.
func keepAllButApproval(k *Kind, o, old Object) {
	r := o.(*certificatesv1.CertificateSigningRequest)
	conditions := r.Status.Conditions
	k.copyContent(o, old)
	k.copyStatus(o, old)
	keepMeta(o, old)
	r.Status.Conditions = conditions
}

// replicaFields are what the subresource scale shows of an object.
type replicaFields struct {
	wanted   **int32 // spec.replicas
	observed int32
	selector string
}

func (k *Kind) showScale(o Object) Object {
	f := k.replicas(o)
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
			CreationTimestamp: o.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: ptr.Deref(*f.wanted, 0)},
		Status: autoscalingv1.ScaleStatus{Replicas: f.observed, Selector: f.selector},
	}
}

func (k *Kind) takeScale(o, sent Object) field.ErrorList {
	n := sent.(*autoscalingv1.Scale).Spec.Replicas
	if n < 0 {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), n, "must be greater than or equal to 0")}
	}
	*k.replicas(o).wanted = &n
	return nil
}

// created is the answer to the creation of what is not stored.
func created() *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Code: http.StatusCreated}
}

// bind is what a scheduler asks for: the pod goes to a node.
func bind(s *Server, st *store, old Object, w Write) (Object, runtime.Object, error) {
	node := w.Object.(*corev1.Binding).Target.Name
	p := old.DeepCopyObject().(*corev1.Pod)
	switch {
	case p.Spec.NodeName != "":
		return nil, nil, conflict(st, w.Name, fmt.Errorf("pod %s is already assigned to node %q", w.Name, p.Spec.NodeName))
	case p.DeletionTimestamp != nil:
		return nil, nil, conflict(st, w.Name, fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", w.Name))
	}
	if err := checkUID(st, old, w.Object.GetUID()); err != nil {
		return nil, nil, err
	}
	p.Spec.NodeName = node
	p.Status.Conditions = append(slices.Clone(p.Status.Conditions), corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now(),
	})
	if err := s.admit(w, old, p); err != nil {
		return nil, nil, err
	}
	s.commit(st, old, p, false)
	return p, created(), nil
}

// issueToken answers with a token that names the account. Nobody checks it.
func issueToken(s *Server, _ *store, old Object, w Write) (Object, runtime.Object, error) {
	t := w.Object.DeepCopyObject().(*authenticationv1.TokenRequest)
	orPointer(&t.Spec.ExpirationSeconds, 3600)
	if *t.Spec.ExpirationSeconds < 600 {
		return nil, nil,
			apierrors.NewInvalid(schema.GroupKind{Group: authenticationv1.GroupName, Kind: "TokenRequest"}, "", field.ErrorList{
				field.Invalid(field.NewPath("spec", "expirationSeconds"), *t.Spec.ExpirationSeconds,
					"may not specify a duration less than 10 minutes")})
	}
	if err := s.admit(w, old, old); err != nil {
		return nil, nil, err
	}
	t.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"}
	t.Namespace, t.Name, t.UID, t.CreationTimestamp = old.GetNamespace(), old.GetName(), old.GetUID(), now()
	if len(t.Spec.Audiences) == 0 {
		t.Spec.Audiences = []string{"https://kubernetes.default.svc.cluster.local"}
	}
	t.Status.Token = fmt.Sprintf("token.%s.%s.%s", t.Namespace, t.Name, old.GetUID())
	t.Status.ExpirationTimestamp = metav1.NewTime(now().Add(time.Duration(*t.Spec.ExpirationSeconds) * time.Second))
	return old, t, nil
}
