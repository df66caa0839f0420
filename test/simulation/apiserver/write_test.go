package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func labelled(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": value}}}
}

func deployment(name string) *appsv1.Deployment {
	l := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: l},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l}, Spec: pod("", "").Spec}},
	}
}

func TestDryRunsChangeNothing(t *testing.T) {
	s := New(1)
	made(t, s, labelled("a", "x"))
	c := client(t, s, nil, runtime.ContentTypeJSON).CoreV1().ConfigMaps("default")
	version, dry := s.Version(), []string{metav1.DryRunAll}
	created, err := c.Create(t.Context(), labelled("b", "x"), metav1.CreateOptions{DryRun: dry})
	if err != nil || created.UID == "" || created.ResourceVersion != "" {
		t.Errorf("created %v, %v", created, err)
	}
	patched, err := c.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"k":"v"}}`), metav1.PatchOptions{DryRun: dry})
	if err != nil || patched.Data["k"] != "v" {
		t.Errorf("patched %v, %v", patched, err)
	}
	if err := c.Delete(t.Context(), "a", metav1.DeleteOptions{DryRun: dry}); err != nil {
		t.Error(err)
	}
	if s.Version() != version || len(All[*corev1.ConfigMap](s)) != 1 {
		t.Error("something has changed")
	}
}

func TestDeleteCollection(t *testing.T) {
	s := New(1)
	for i := range 3 {
		made(t, s, labelled(fmt.Sprint("a", i), "a"))
	}
	made(t, s, labelled("b", "b"))
	var told []string
	s.Wrote = func(w Write, _ Result) { told = append(told, string(w.Verb)+" "+w.Name) }
	c := client(t, s, nil, runtime.ContentTypeProtobuf).CoreV1().ConfigMaps("default")
	if err := c.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=a"}); err != nil {
		t.Fatal(err)
	}
	if left := All[*corev1.ConfigMap](s); len(left) != 1 || left[0].Name != "b" {
		t.Errorf("left is %v", left)
	}
	if fmt.Sprint(told) != "[deletecollection a0 deletecollection a1 deletecollection a2]" {
		t.Errorf("told was %v", told)
	}
}

func TestAdmission(t *testing.T) {
	s := New(1)
	made(t, s, labelled("a", "x"))
	var asked []string
	refusal := errors.New("refused")
	s.Admit = func(a Admission) error {
		asked = append(asked, fmt.Sprintf("%s/%s %v %v", a.Verb, a.Subresource, a.Before != nil, a.After != nil))
		return refusal
	}
	version := s.Version()
	for _, w := range []Write{
		{Verb: Create, Object: labelled("b", "x")},
		{Verb: Update, Object: labelled("a", "y")},
		{Verb: Patch, Resource: "configmaps", Namespace: "default", Name: "a", PatchType: types.MergePatchType,
			Patch: []byte(`{"data":{"k":"v"}}`)},
		{Verb: Delete, Resource: "configmaps", Namespace: "default", Name: "a"},
	} {
		if _, err := s.Do(w); !errors.Is(err, refusal) {
			t.Errorf("%s: %v", w.Verb, err)
		}
	}
	if want := "[create/ false true update/ true true patch/ true true delete/ true false]"; fmt.Sprint(asked) != want {
		t.Errorf("asked was %v, expected %s", asked, want)
	}
	if s.Version() != version {
		t.Error("something has changed")
	}
}

func TestScaleChangesTheSpec(t *testing.T) {
	s := New(1)
	made(t, s, deployment("d"))
	c := client(t, s, nil, runtime.ContentTypeProtobuf).AppsV1().Deployments("default")
	scale, err := c.GetScale(t.Context(), "d", metav1.GetOptions{})
	if err != nil || scale.Spec.Replicas != 1 || scale.Status.Selector != "app=d" {
		t.Fatalf("the scale is %v, %v", scale, err)
	}
	stale := scale.DeepCopy()
	scale.Spec.Replicas = 3
	if scale, err = c.UpdateScale(t.Context(), "d", scale, metav1.UpdateOptions{}); err != nil || scale.Spec.Replicas != 3 {
		t.Fatalf("the answer is %v, %v", scale, err)
	}
	if d := One[*appsv1.Deployment](s, "default", "d"); *d.Spec.Replicas != 3 || d.Generation != 2 {
		t.Errorf("%d replicas, generation %d", *d.Spec.Replicas, d.Generation)
	}
	if _, err := c.UpdateScale(t.Context(), "d", stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an outdated scale is answered with %v", err)
	}
	if _, err := c.UpdateScale(t.Context(), "d",
		&autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: autoscalingv1.ScaleSpec{Replicas: -1}},
		metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a negative scale is answered with %v", err)
	}
}

func TestEvictionSpendsTheBudget(t *testing.T) {
	s := New(1)
	for _, name := range []string{"a", "b"} {
		p := pod(name, "n")
		p.Labels = map[string]string{"app": "x"}
		p = made(t, s, p).DeepCopy()
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if _, err := s.Do(Write{Verb: Update, Object: p, Subresource: "status"}); err != nil {
			t.Fatal(err)
		}
	}
	budget := made(t, s, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}}).DeepCopy()
	evict := func(name string) error {
		_, err := s.Do(Write{Verb: Create, Resource: "pods", Subresource: "eviction", Namespace: "default", Name: name,
			Object: &policyv1.Eviction{}})
		return err
	}
	if err := evict("a"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("before the budget is known: %v", err)
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1}
	if _, err := s.Do(Write{Verb: Update, Object: budget, Subresource: "status"}); err != nil {
		t.Fatal(err)
	}
	if err := evict("a"); err != nil {
		t.Error(err)
	}
	if p := One[*corev1.Pod](s, "default", "a"); p.DeletionTimestamp == nil {
		t.Error("the pod is not being deleted")
	}
	if err := evict("b"); !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		t.Errorf("when the budget is spent: %v", err)
	}
}

func TestOnlyApproversApprove(t *testing.T) {
	s := New(1)
	r := made(t, s, &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}}).DeepCopy()
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved,
		Status: corev1.ConditionTrue}}
	r.Status.Certificate = []byte("certificate")
	status, err := s.Do(Write{Verb: Update, Object: r.DeepCopy(), Subresource: "status"})
	if got := status.(*certificatesv1.CertificateSigningRequest).Status; err != nil || len(got.Conditions) != 0 || got.Certificate == nil {
		t.Fatalf("by the status: %v, %v", got, err)
	}
	r.ResourceVersion, r.Status.Certificate = "", nil
	approved, err := s.Do(Write{Verb: Update, Object: r, Subresource: "approval"})
	if got := approved.(*certificatesv1.CertificateSigningRequest).Status; err != nil || len(got.Conditions) != 1 ||
		got.Certificate == nil {
		t.Errorf("by the approval: %v, %v", got, err)
	}
}

func TestTokens(t *testing.T) {
	s := New(1)
	made(t, s, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
	token, err := client(t, s, nil, runtime.ContentTypeProtobuf).CoreV1().ServiceAccounts("default").
		CreateToken(t.Context(), "a", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil || token.Status.Token == "" || token.Status.ExpirationTimestamp.IsZero() {
		t.Errorf("got %v, %v", token, err)
	}
}

func TestNamespacesAreFinalized(t *testing.T) {
	s := New(1)
	made(t, s, namespace("x"))
	if _, err := s.Do(Write{Verb: Delete, Resource: "namespaces", Name: "x"}); err != nil {
		t.Fatal(err)
	}
	n := One[*corev1.Namespace](s, "", "x")
	if n == nil || n.Status.Phase != corev1.NamespaceTerminating || n.DeletionTimestamp == nil {
		t.Fatalf("it is %v", n)
	}
	n = n.DeepCopy()
	n.Spec.Finalizers = nil
	if _, err := s.Do(Write{Verb: Update, Object: n, Subresource: "finalize"}); err != nil {
		t.Fatal(err)
	}
	if One[*corev1.Namespace](s, "", "x") != nil {
		t.Error("it is still there")
	}
}

func TestJobsOrphanUnlessToldOtherwise(t *testing.T) {
	s := New(1)
	j := made(t, s,
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j"},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod("", "").Spec}}})
	if j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] != string(j.UID) {
		t.Errorf("its selector is %v", j.Spec.Selector)
	}
	if _, err := s.Do(Write{Verb: Delete, Resource: "jobs", Namespace: "default", Name: "j"}); err != nil {
		t.Fatal(err)
	}
	if j = One[*batchv1.Job](s, "default", "j"); j == nil || fmt.Sprint(j.Finalizers) != "[orphan]" {
		t.Errorf("it is %v", j)
	}
}

func TestJSONPatch(t *testing.T) {
	s := New(1)
	made(t, s, deployment("d"))
	c := client(t, s, nil, runtime.ContentTypeJSON).AppsV1().Deployments("default")
	d, err := c.Patch(t.Context(), "d", types.JSONPatchType,
		[]byte(`[{"op":"test","path":"/spec/replicas","value":1},{"op":"replace","path":"/spec/replicas","value":4}]`),
		metav1.PatchOptions{})
	if err != nil || *d.Spec.Replicas != 4 {
		t.Errorf("got %v, %v", d, err)
	}
	if _, err := c.Patch(t.Context(), "d", types.JSONPatchType, []byte(`[{"op":"test","path":"/spec/replicas","value":1}]`),
		metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a test that fails is answered with %v", err)
	}
}

func TestApply(t *testing.T) {
	s := New(1)
	c := client(t, s, nil, runtime.ContentTypeJSON).AppsV1().Deployments("default")
	apply := func(manager string, force bool, d *appsv1.Deployment) (*appsv1.Deployment, error) {
		d.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return c.Patch(t.Context(), "d", types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: manager, Force: &force})
	}
	wanted := deployment("d")
	wanted.Labels = map[string]string{"a": "b"}
	d, err := apply("one", false, wanted)
	if err != nil || d.Labels["a"] != "b" || len(d.ManagedFields) != 1 {
		t.Fatalf("created %v, %v", d, err)
	}
	version := d.ResourceVersion
	if d, err = apply("one", false, wanted); err != nil || d.ResourceVersion != version {
		t.Errorf("the same again made version %s of %s, %v", d.ResourceVersion, version, err)
	}
	wanted.Labels = nil
	if d, err = apply("one", false, wanted); err != nil || d.Labels["a"] != "" {
		t.Errorf("what is no longer applied stays: %v, %v", d.Labels, err)
	}
	wanted.Spec.MinReadySeconds = 5
	if _, err := c.Patch(t.Context(), "d", types.MergePatchType, []byte(`{"spec":{"minReadySeconds":3}}`),
		metav1.PatchOptions{FieldManager: "other"}); err != nil {
		t.Fatal(err)
	}
	if _, err := apply("one", false, wanted); !apierrors.IsConflict(err) {
		t.Errorf("what somebody else has written is answered with %v", err)
	}
	if d, err = apply("one", true, wanted); err != nil || d.Spec.MinReadySeconds != 5 {
		t.Errorf("by force: %v, %v", d.Spec.MinReadySeconds, err)
	}
}

// An update of what has taken another object's place is a conflict, even if it has no version either.
func TestTheUIDIsCheckedFirst(t *testing.T) {
	s := New(1)
	b := made(t, s, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}).DeepCopy()
	b.UID, b.ResourceVersion = "another", ""
	if _, err := s.Do(Write{Verb: Update, Object: b}); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
}

func TestAttachmentsStatusKeepsTheMetadata(t *testing.T) {
	s := New(1)
	a := made(t, s, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}}).DeepCopy()
	a.Labels, a.Status.Attached = map[string]string{"a": "b"}, true
	status, err := s.Do(Write{Verb: Update, Object: a.DeepCopy(), Subresource: "status"})
	if got, _ := status.(*storagev1.VolumeAttachment); err != nil || !got.Status.Attached || len(got.Labels) > 0 {
		t.Errorf("by the status: %v, %v", got, err)
	}
	a.ResourceVersion = ""
	if _, err := s.Do(Write{Verb: Update, Object: a}); !apierrors.IsInvalid(err) {
		t.Errorf("without a version: %v", err)
	}
}

// A node gets its ranges once. A patch of somebody who has not seen them would add others.
func TestRangesOfNodesStay(t *testing.T) {
	s := New(1)
	made(t, s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	patch := func(text string) error {
		_, err := s.Do(Write{Verb: Patch, Resource: "nodes", Name: "n", PatchType: types.StrategicMergePatchType, Patch: []byte(text)})
		return err
	}
	if err := patch(`{"spec":{"podCIDR":"10.0.1.0/24","podCIDRs":["10.0.1.0/24"]}}`); err != nil {
		t.Fatal(err)
	}
	for text, refused := range map[string]bool{
		`{"spec":{"podCIDR":"10.0.2.0/24","podCIDRs":["10.0.2.0/24"]}}`: true,
		`{"spec":{"unschedulable":true}}`:                               false,
	} {
		if err := patch(text); apierrors.IsInvalid(err) != refused {
			t.Errorf("%s: %v", text, err)
		}
	}
}
