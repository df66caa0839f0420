package integration

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

const (
	// What one tenant may cost the manager in half a minute, beside what others have it do, and how much memory it may take then.
	tenantCPU    = 15 * time.Second
	tenantMemory = 250 << 20
	tenantWrites = 2000
	// How long health checks and metrics may take to answer meanwhile, on a machine that is busy with the API server.
	answersWithin = 5 * time.Second
)

// One tenant does at once all that has cost others most. What another one has the manager do takes about as long as without that.
func TestOneTenantCostsOthersLittle(t *testing.T) {
	b := alone(t)
	port := freePort(t)
	m := b.Manager(t, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), openPaths)
	m.WaitForLog(t, patience, "Serving")
	b.ordinaryWork("warm") // what is needed once
	used := m.CPU(t)
	alone := b.ordinaryWork("quiet")
	quiet, server := m.CPU(t)-used, b.serverTakes()

	ctx, cancel := context.WithCancel(t.Context())
	hostile := &hostileTenant{bench: &bench{t, b.Cluster, b.Cluster.Namespace(t)}, ctx: ctx}
	asked := &asker{url: fmt.Sprintf("https://127.0.0.1:%d", port), longest: map[string]time.Duration{}}
	var all sync.WaitGroup
	for _, f := range append(hostile.all(), func() error { return asked.ask(ctx) }) {
		all.Go(func() {
			if err := f(); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	began, audited := time.Now(), b.AuditEnd(t)
	used = m.CPU(t)
	busy := b.serverTakes()
	beside := b.ordinaryWork("beside")
	busy = max(busy, b.serverTakes())
	for time.Since(began) < 30*time.Second {
		time.Sleep(time.Second) // most that the tenant does lasts so long
	}
	loud := m.CPU(t) - used
	writes := b.writesOfManager(audited)
	cancel()
	all.Wait()

	t.Logf("writes of the manager beside the tenant: %d", writes)
	if writes > tenantWrites {
		t.Errorf("the manager has written %d times", writes)
	}
	// How much slower the API server is for everybody, on a machine that has other things to do. That the manager does not keep it busy
	// is what its writes and its CPU say.
	slower := min(max(float64(busy)/float64(server), 1), 4)
	t.Logf("requests of no manager take %.1f times as long", float64(busy)/float64(server))
	for _, what := range slices.Sorted(maps.Keys(alone)) {
		t.Logf("%s: %v alone, %v beside the tenant", what, alone[what].Round(10*time.Millisecond), beside[what].Round(10*time.Millisecond))
		if beside[what] > 5*time.Second+time.Duration(2*slower*float64(alone[what])) {
			t.Errorf("%s takes %v beside the tenant, and %v without", what, beside[what], alone[what])
		}
	}
	t.Logf("CPU: %v alone, %v beside the tenant", quiet, loud)
	if loud > quiet+tenantCPU {
		t.Errorf("the tenant costs %v of CPU", loud-quiet)
	}
	if peak := peakMemory(t, m); peak > tenantMemory {
		t.Errorf("the manager has taken %d MB", peak>>20)
	} else {
		t.Logf("memory: %d MB", peak>>20)
	}
	for path, took := range asked.longest {
		t.Logf("%s: %v at most", path, took)
		if took > answersWithin {
			t.Errorf("%s has taken %v", path, took)
		}
	}
}

// serverTakes is how long the API server takes for requests with which no manager has to do.
func (b *bench) serverTakes() time.Duration {
	b.Helper()
	began := time.Now()
	maps := b.Client.CoreV1().ConfigMaps(b.ns)
	for range 50 {
		nobodys := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "nobodys-"}}
		made, err := maps.Create(b.Context(), nobodys, metav1.CreateOptions{})
		if err == nil {
			err = maps.Delete(b.Context(), made.Name, metav1.DeleteOptions{})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(began)
}

// writesOfManager counts what the manager, or a controller of it, has written since the audit log had that length.
func (b *bench) writesOfManager(since int64) (count int) {
	b.Helper()
	requests, _ := b.Requests(b.T, since)
	for _, r := range requests {
		if strings.HasPrefix(r.User.Username, "system:serviceaccount:kube-system:") &&
			slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb) {
			count++
		}
	}
	return count
}

// ordinaryWork has the manager do what tenants have it do, and returns how long each took.
func (b *bench) ordinaryWork(round string) map[string]time.Duration {
	b.Helper()
	took := map[string]time.Duration{}
	measure := func(what string, do func()) {
		began := time.Now()
		do()
		took[what] = time.Since(began)
	}
	name := "web-" + round
	d := deployment(name, 5)
	measure("a rollout", func() {
		b.create(d)
		b.waitComplete(name)
		b.setImage(name, "web:2")
		b.waitComplete(name)
	})
	measure("a budget", func() {
		b.pdb(name, d.Spec.Template.Labels["app"], nil)
		b.waitBudget(name, "1 5 4 5 SufficientPods")
	})
	measure("a Job", func() {
		b.createJob("job-"+round, 4)
		for _, p := range b.podsOfJob("job-"+round, 4) {
			b.endPod(p, corev1.PodSucceeded)
		}
		b.waitJob("job-"+round, "is complete", over(batchv1.JobComplete))
	})
	measure("a namespace", func() {
		n := newTenant(b.T, b.Cluster)
		for i := range 20 {
			n.configMap(fmt.Sprint("c", i))
		}
		n.delete()
		n.waitGone()
	})
	measure("dependents", func() {
		f := &family{b.T, b.Cluster, b.ns}
		owner := f.make("owner-" + round)
		f.make("dependent-"+round, owner)
		f.delete(owner.Name, metav1.DeletePropagationBackground)
		cluster.Eventually(b.T, patience, "the dependent is gone", func() error {
			if f.get("dependent-"+round) != nil {
				return errors.New("it is there")
			}
			return nil
		})
	})
	return took
}

// hostileTenant does what tenants may do, in a namespace of its own.
type hostileTenant struct {
	*bench
	ctx context.Context
}

func (h *hostileTenant) all() []func() error {
	return []func() error{h.references, h.expressions, h.selectors, h.dependents, h.services}
}

// every does something again and again until the test ends it.
func (h *hostileTenant) every(pause time.Duration, do func(i int) error) error {
	for i := 0; ; i++ {
		if err := do(i); err != nil && !apierrors.IsConflict(err) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-h.ctx.Done():
			return nil
		}
	}
}

// references are those of two ConfigMaps with 6000 owners that nobody has. They differ in the last one.
func (h *hostileTenant) references() error {
	return h.every(4*time.Second, func(i int) error {
		for _, name := range []string{"a", "b"} {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
			for n := range 6000 {
				o.OwnerReferences = append(o.OwnerReferences,
					metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "a", UID: types.UID(fmt.Sprint("u", n))})
			}
			o.OwnerReferences[5999].Name = fmt.Sprint(name, i)
			if err := h.put("configmaps", o); err != nil {
				return fmt.Errorf("owner references: %w", err)
			}
		}
		return nil
	})
}

// put creates or replaces an object of the core group.
func (h *hostileTenant) put(resource string, o metav1.Object) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	path := []string{"api", "v1", "namespaces", h.ns, resource}
	client := h.Client.CoreV1().RESTClient()
	for { // the garbage collector may delete what was there
		if err = client.Post().AbsPath(path...).Body(text).Do(h.ctx).Error(); apierrors.IsAlreadyExists(err) {
			err = client.Put().AbsPath(slices.Concat(path, []string{o.GetName()})...).Body(text).Do(h.ctx).Error()
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
}

// expressions are those of a budget with 8000 of them, which is changed every few seconds.
func (h *hostileTenant) expressions() error {
	budgets := h.Client.PolicyV1().PodDisruptionBudgets(h.ns)
	p := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "wide"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}
	for i := range 8000 {
		p.Spec.Selector.MatchExpressions = append(p.Spec.Selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpIn, Values: []string{"x"}})
	}
	if _, err := budgets.Create(h.ctx, p, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("expressions: %w", err)
	}
	return h.every(4*time.Second, func(i int) error {
		p.Spec.Selector.MatchExpressions[7999].Values[0] = fmt.Sprint("x", i)
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"selector": p.Spec.Selector}})
		if err == nil {
			_, err = budgets.Patch(h.ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		return err
	})
}

// selectors are those of a Service that is patched 150 times, each time with other keys, and deleted.
func (h *hostileTenant) selectors() error {
	services := h.Client.CoreV1().Services(h.ns)
	if err := h.put("services", headless("changing", map[string]string{"app": "web"})); err != nil {
		return fmt.Errorf("selectors: %w", err)
	}
	for i := range 150 {
		keys := map[string]string{}
		for n := range 1000 {
			keys[fmt.Sprintf("v%d-%d", i, n)] = "x"
		}
		patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/selector", "value": keys}})
		if err != nil {
			return err
		}
		if _, err := services.Patch(h.ctx, "changing", types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("selectors: %w", err)
		}
		h.rest()
	}
	return services.Delete(h.ctx, "changing", metav1.DeleteOptions{})
}

func headless(name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: selector}}
}

// dependents are 1000 of an object that is deleted in the foreground.
func (h *hostileTenant) dependents() error {
	maps := h.Client.CoreV1().ConfigMaps(h.ns)
	owner, err := maps.Create(h.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("dependents: %w", err)
	}
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: ptr.To(true)}
	if err := h.each(1000, func(i int) error {
		return h.put("configmaps",
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("of-", i), OwnerReferences: []metav1.OwnerReference{ref}}})
	}); err != nil {
		return fmt.Errorf("dependents: %w", err)
	}
	return maps.Delete(h.ctx, owner.Name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
}

// services are a hundred with a selector of their own each, in a namespace with enough pods to be worth indexes.
func (h *hostileTenant) services() error {
	err := h.put("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("services: %w", err)
	}
	if err := h.each(250, func(i int) error {
		return h.put("pods", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p-", i), Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"no": "node"},
				Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}})
	}); err != nil {
		return fmt.Errorf("services: %w", err)
	}
	return h.each(100, func(i int) error {
		return h.put("services", headless(fmt.Sprint("s-", i), map[string]string{fmt.Sprint("k", i): "x"}))
	})
}

// rest leaves the API server time for others: it is the manager that is to be kept busy.
func (h *hostileTenant) rest() { time.Sleep(100 * time.Millisecond) }

// each does something n times, ten at a time.
func (h *hostileTenant) each(n int, do func(i int) error) error {
	for i := range n {
		if h.ctx.Err() != nil {
			return nil
		}
		if err := do(i); err != nil {
			return err
		}
		if i%10 == 9 {
			h.rest()
		}
	}
	return nil
}

// asker asks for health and metrics all the time.
type asker struct {
	url     string
	longest map[string]time.Duration
}

func (a *asker) ask(ctx context.Context) error {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // its certificate is its own
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	for ctx.Err() == nil {
		for _, path := range []string{"/healthz", "/livez", "/readyz", "/metrics"} {
			began := time.Now()
			answer, err := client.Get(a.url + path)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if err != nil || answer.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: %s: %w: %.300s", path, answer.Status, err, text)
			}
			a.longest[path] = max(a.longest[path], time.Since(began))
		}
		time.Sleep(200 * time.Millisecond)
	}
	return nil
}

// peakMemory is the most memory that the manager has had so far; zero where there is no /proc.
func peakMemory(t *testing.T, m *cluster.Manager) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.Pid()))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatal("no VmHWM")
	}
	kilobytes, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
