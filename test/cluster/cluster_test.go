package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestPodsArePlayedAsTheirAnnotationsSay(t *testing.T) {
	c := Start(t)
	for _, played := range []struct {
		annotation, value string
		phase             corev1.PodPhase
		ready             bool
	}{
		{"", "", corev1.PodRunning, true},
		{Pending, "true", corev1.PodPending, false},
		{NeverReady, "true", corev1.PodRunning, false},
		{ReadyAfter, "2s", corev1.PodRunning, true},
		{Fail, "true", corev1.PodFailed, false},
	} {
		t.Run("annotation "+strings.TrimPrefix(played.annotation, "localcluster.standalone-kcm.io/"), func(t *testing.T) {
			namespace := c.Namespace(t)
			c.createPod(t, namespace, played.annotation, played.value)
			check := func() error { return c.podIs(t, namespace, played.phase, played.ready) }
			Eventually(t, 20*time.Second, "the pod is as it should be", check)
			Always(t, time.Second, "the pod is as it should be", check)
		})
	}
}

func TestReadinessFollowsTheAnnotation(t *testing.T) {
	c := Start(t)
	namespace := c.Namespace(t)
	c.createPod(t, namespace, "", "")
	for _, step := range []struct {
		annotate string
		ready    bool
	}{{NeverReady + "=true", false}, {NeverReady + "-", true}} {
		c.Kubectl(t, "--namespace", namespace, "annotate", "pod", "p", step.annotate)
		Eventually(t, 20*time.Second, "readiness follows", func() error { return c.podIs(t, namespace, corev1.PodRunning, step.ready) })
	}
}

func TestTerminationTakesItsTime(t *testing.T) {
	c := Start(t)
	namespace := c.Namespace(t)
	c.createPod(t, namespace, TerminateAfter, "2s")
	Eventually(t, 20*time.Second, "the pod runs", func() error { return c.podIs(t, namespace, corev1.PodRunning, true) })
	start := time.Now()
	if err := c.Client.CoreV1().Pods(namespace).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	Eventually(t, 20*time.Second, "the pod is gone", func() error {
		_, err := c.Client.CoreV1().Pods(namespace).Get(t.Context(), "p", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
	if took := time.Since(start); took < 2*time.Second {
		t.Errorf("it was gone after %v", took)
	}
}

func TestQuotaRefusesPods(t *testing.T) {
	c := Start(t)
	namespace := c.Namespace(t)
	c.Kubectl(t, "--namespace", namespace, "create", "quota", "q", "--hard=pods=0")
	// No quota controller runs, so the test says what is counted.
	c.Kubectl(t, "--namespace", namespace, "patch", "quota", "q", "--subresource=status", "--type=merge",
		"--patch", `{"status":{"hard":{"pods":"0"},"used":{"pods":"0"}}}`)
	Eventually(t, 20*time.Second, "pods are refused", func() error {
		_, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod("", ""), metav1.CreateOptions{DryRun: []string{"All"}})
		if apierrors.IsForbidden(err) {
			return nil
		}
		return fmt.Errorf("got %w", err)
	})
}

func TestManagerIdentity(t *testing.T) {
	c := Start(t)
	whoami, err := c.TryKubectl(t, "--kubeconfig", c.ManagerKubeconfig, "auth", "whoami", "--output=jsonpath={.status.userInfo.username}")
	if err != nil || whoami != "system:kube-controller-manager" {
		t.Errorf("the manager's kubeconfig is of %q (%v)", whoami, err)
	}
	if may, _ := c.TryKubectl(t, "--kubeconfig", c.ManagerKubeconfig, "auth", "can-i", "delete", "pods"); strings.TrimSpace(may) != "no" {
		t.Errorf("may the manager's user delete pods? %s", may)
	}
	c.Kubectl(t, "--kubeconfig", c.ManagerKubeconfig, "--namespace=kube-system", "create", "serviceaccount", "identity-test")
	token := c.Kubectl(t, "--kubeconfig", c.ManagerKubeconfig, "--namespace=kube-system", "create", "token", "identity-test")
	user := c.Kubectl(t, "--kubeconfig=/dev/null", "--server", c.Server, "--certificate-authority", c.CAFile,
		"--token", strings.TrimSpace(token), "auth", "whoami", "--output=jsonpath={.status.userInfo.username}")
	if user != "system:serviceaccount:kube-system:identity-test" {
		t.Errorf("the token is of %q", user)
	}
}

func TestAPIServerStopsAndStarts(t *testing.T) {
	c := Start(t)
	namespace := c.Namespace(t)
	c.StopAPIServer(t)
	if _, err := c.Client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err == nil {
		t.Error("it answers")
	}
	c.StartAPIServer(t)
	if _, err := c.Client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err != nil {
		t.Errorf("what was stored is gone: %v", err)
	}
}

func TestCountingProxyInFrontOfTheAPIServer(t *testing.T) {
	c := Start(t)
	namespace := c.Namespace(t)
	proxy, kubeconfig := c.CountingProxy(t, c.AdminKubeconfig)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	configMaps := client.CoreV1().ConfigMaps(namespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	if object, err = configMaps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := configMaps.Create(t.Context(), object, metav1.CreateOptions{}); err == nil {
		t.Error("created with a version")
	}
	stale := object.DeepCopy()
	if object, err = configMaps.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil { // changes nothing
		t.Fatal(err)
	}
	object.Data = map[string]string{"a": "b"}
	if _, err = configMaps.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	stale.Data = map[string]string{"a": "c"}
	if _, err := configMaps.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	patch := []byte(`{"data":{"a":"b"}}`)
	// changes nothing
	if _, err := configMaps.Patch(t.Context(), "c", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	writes := proxy.Writes()
	if writes.Total != 6 || writes.Refused != 2 || writes.NoOps != 2 {
		t.Errorf("want 6 writes, 2 refused, 2 without effect; got\n%s", writes)
	}
	conflicts := 0
	for _, row := range writes.Rows {
		if row.Verb == "update" && row.Code == http.StatusConflict {
			conflicts += row.Count
		}
	}
	if conflicts != 1 {
		t.Errorf("want 1 conflict; got\n%s", writes)
	}
}

func TestManagerFlagsHaveDefaults(t *testing.T) {
	c := &Cluster{ManagerKubeconfig: "K", CAFile: "CA", Dir: "D"}
	got := c.withDefaults([]string{"--leader-elect", "--secure-port=1", "--controllers=*"})
	want := []string{"--kubeconfig=K", "--root-ca-file=CA", "--service-account-private-key-file=D/localcluster/pki/sa.key",
		"--use-service-account-credentials=true",
		"--allocate-node-cidrs=true", "--cluster-cidr=10.0.0.0/8,fd00:64::/48", "--service-cluster-ip-range=10.0.0.0/24",
		"--cluster-signing-cert-file=CA", "--cluster-signing-key-file=D/pki/ca.key", "--leader-elect", "--secure-port=1", "--controllers=*"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = c.withDefaults([]string{"--cluster-signing-kubelet-client-cert-file=X", "--cluster-signing-duration=1h"})
	if slices.Contains(got, "--cluster-signing-cert-file=CA") {
		t.Errorf("a CA for one signer and one for all exclude one another: %q", got)
	}
}

func TestManagerIsStoppedKilledAndWaitedFor(t *testing.T) {
	c := fakeManager(t, "trap 'echo ending; exit 3' TERM; echo started; while :; do sleep 0.02; done")
	m := c.Manager(t)
	m.WaitForLog(t, 10*time.Second, "started")
	if code := m.Stop(t); code != 3 {
		t.Errorf("stopped: exit code %d, want 3", code)
	}
	if !strings.HasSuffix(m.Log(), "ending\n") {
		t.Errorf("its log: %q", m.Log())
	}
	m.Stop(t) // once more does nothing

	m = c.Manager(t)
	m.WaitForLog(t, 10*time.Second, "started")
	m.Kill(t)
	if code := m.Wait(t, 10*time.Second); code != -1 {
		t.Errorf("killed: exit code %d, want -1", code)
	}

	c.Manager(t).WaitForLog(t, 10*time.Second, "started") // ended by the test's clean-up
}

func TestManagerThatEndsByItselfFailsTheTest(t *testing.T) {
	c := fakeManager(t, "echo no such flag; exit 1")
	inner := &recorder{TB: t}
	m := c.Manager(inner)
	<-m.Ended()
	m.cleanUp(inner)
	if log := inner.text.String(); !strings.Contains(log, "exit code 1") || !strings.Contains(log, "no such flag") {
		t.Errorf("the test says %q", log)
	}

	m = c.Manager(inner)
	if code := m.Wait(t, 10*time.Second); code != 1 { // now it was expected
		t.Errorf("exit code %d, want 1", code)
	}
}

// recorder is a test whose failures are noted only.
type recorder struct {
	testing.TB
	text strings.Builder
}

func (r *recorder) Cleanup(func())            {}
func (r *recorder) Failed() bool              { return r.text.Len() > 0 }
func (r *recorder) Errorf(f string, a ...any) { fmt.Fprintf(&r.text, f, a...) }
func (r *recorder) Logf(f string, a ...any)   { fmt.Fprintf(&r.text, f, a...) }

// fakeManager has a shell script in the place of the manager's binary.
func fakeManager(t *testing.T, script string) *Cluster {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manager")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return &Cluster{buildManager: func() (string, error) { return path, nil }}
}

func TestLogTailBeginsWithALine(t *testing.T) {
	var log logBuffer
	fmt.Fprint(&log, "first\nsecond\nthird\n")
	if got := log.tail(9); got != "(the beginning is left out)\nthird\n" {
		t.Errorf("got %q", got)
	}
	if got := log.tail(100); got != log.String() {
		t.Errorf("got %q", got)
	}
}

func TestFindRepositoryFailsOutsideOne(t *testing.T) {
	if dir, err := findRepository(os.TempDir()); err == nil {
		t.Errorf("found %s", dir)
	}
}

func pod(annotation, value string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if annotation != "" {
		p.Annotations = map[string]string{annotation: value}
	}
	return p
}

func (c *Cluster) createPod(t *testing.T, namespace, annotation, value string) {
	t.Helper()
	if _, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod(annotation, value), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// podIs says how the pod differs from what is wanted.
func (c *Cluster) podIs(t *testing.T, namespace string, phase corev1.PodPhase, ready bool) error {
	p, err := c.Client.CoreV1().Pods(namespace).Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if p.Spec.NodeName == "" {
		return errors.New("it is not bound to a node")
	}
	isReady := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	if p.Status.Phase != phase || isReady != ready {
		return fmt.Errorf("its phase is %s, ready %t; want %s, %t", p.Status.Phase, isReady, phase, ready)
	}
	return nil
}

func TestRefusalsCountExceptWhileAnAPIServerStarts(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit.log")
	var lines, offsets = "", []int64(nil)
	for _, user := range []string{"first", "second", "third", "fourth"} {
		offsets = append(offsets, int64(len(lines)))
		lines += fmt.Sprintf(
			`{"user":{"username":"system:serviceaccount:kube-system:%s"},"annotations":{"authorization.k8s.io/decision":"forbid"}}`+"\n",
			user)
	}
	lines += `{"user":{"username":"kubernetes-admin"},"annotations":{"authorization.k8s.io/decision":"forbid"}}` + "\n"
	lines += `{"user":{"username":"system:serviceaccount:kube-system:half` // no whole line
	if err := os.WriteFile(audit, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{AuditLog: audit}
	if err := c.checkRights(); err != nil {
		t.Errorf("the roles are not the installed ones: %v", err)
	}
	c.Roles.installed, c.Roles.rightless = true, []int64{offsets[1], offsets[3]}
	err := c.checkRights()
	if err == nil || strings.Count(err.Error(), " may not ") != 2 || !strings.Contains(err.Error(), ":first may not") ||
		!strings.Contains(err.Error(), ":fourth may not") {
		t.Errorf("got %v", err)
	}
}

func TestPanicsFailTheTest(t *testing.T) {
	c := fakeManager(t, "echo A controller panicked over a key; exec sleep 60")
	inner := &recorder{TB: t}
	m := c.Manager(inner)
	m.WaitForLog(t, 10*time.Second, "panicked")
	m.cleanUp(inner)
	if log := inner.text.String(); !strings.Contains(log, "a controller has panicked: A controller panicked over a key") {
		t.Errorf("the test says %q", log)
	}
}
