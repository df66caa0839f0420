package rootcacertpublisher

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func namespace(phase corev1.NamespacePhase) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Status: corev1.NamespaceStatus{Phase: phase}}
}

// configMap is one as it should be, if the bundle is "CA".
func configMap(edits ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kube-root-ca.crt",
			Annotations: map[string]string{descriptionKey: description}},
		Data: map[string]string{"ca.crt": "CA"},
	}
	for _, edit := range edits {
		edit(m)
	}
	return m
}

func holding(data map[string]string) func(*corev1.ConfigMap) {
	return func(m *corev1.ConfigMap) { m.Data = data }
}

func described(text string) func(*corev1.ConfigMap) {
	return func(m *corev1.ConfigMap) { m.Annotations[descriptionKey] = text }
}

func extras(m *corev1.ConfigMap) {
	m.UID, m.ResourceVersion = "u", "7"
	m.Labels, m.Annotations["team"], m.BinaryData = map[string]string{"app": "x"}, "a", map[string][]byte{"x": {1}}
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name string
		snapshot
		want *corev1.ConfigMap // what is created or written; nil for nothing
	}{
		{"RCA-1 a namespace without one", snapshot{Namespace: namespace("Active")}, configMap()},
		{"RCA-4 a namespace of any phase", snapshot{Namespace: namespace("")}, configMap()},
		{"RCA-5 a namespace that is being deleted", snapshot{Namespace: namespace("Terminating")}, nil},
		{"a namespace that is gone", snapshot{}, nil},
		{"RCA-6 it is as it should be", snapshot{Namespace: namespace("Active"), ConfigMap: configMap(extras)}, nil},
		{"RCA-2 another description", snapshot{Namespace: namespace("Active"), ConfigMap: configMap(described("Contains a CA bundle."))},
			nil},
		{"RCA-2 an empty description", snapshot{Namespace: namespace("Active"), ConfigMap: configMap(described(""))}, configMap()},
		{"RCA-2 no annotations",
			snapshot{Namespace: namespace("Active"), ConfigMap: configMap(func(m *corev1.ConfigMap) { m.Annotations = nil })}, configMap()},
		{"RCA-6 other data",
			snapshot{Namespace: namespace("Active"), ConfigMap: configMap(extras, holding(map[string]string{"ca.crt": "old"}))},
			configMap(extras)},
		{"RCA-6 more data",
			snapshot{Namespace: namespace("Active"), ConfigMap: configMap(holding(map[string]string{"ca.crt": "CA", "x": "y"}))},
			configMap()},
		{"RCA-8 the key among the binary data", snapshot{Namespace: namespace("Active"),
			ConfigMap: configMap(func(m *corev1.ConfigMap) { m.BinaryData = map[string][]byte{"ca.crt": {1}, "x": {2}} })},
			configMap(func(m *corev1.ConfigMap) { m.BinaryData = map[string][]byte{"x": {2}} })},
		{"RCA-6 no data", snapshot{Namespace: namespace("Active"), ConfigMap: configMap(described("mine"), holding(nil))},
			configMap(described("mine"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.Bundle, c.Restores = "CA", true
			var got *corev1.ConfigMap
			switch p := planConfigMap(epoch, c.snapshot); {
			case p.Why == "":
				t.Error("the plan does not say why")
			case len(p.Steps) == 1 && c.ConfigMap == nil:
				got = p.Steps[0].(plan.Create).Object.(*corev1.ConfigMap)
			case len(p.Steps) == 1:
				change := p.Steps[0].(plan.Change)
				if got = change.New.(*corev1.ConfigMap); change.Old != plan.Object(c.ConfigMap) || got == c.ConfigMap {
					t.Error("it does not change what was observed")
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, c := range []*corev1.ConfigMap{configMap(), configMap(described("")), configMap(holding(nil))} {
		if p := planConfigMap(epoch, snapshot{Namespace: namespace("Active"), ConfigMap: c, Bundle: "other"}); !p.Empty() {
			t.Errorf("without --root-ca-file a ConfigMap is changed: %s", p.Why)
		}
	}
	if p := planConfigMap(epoch, snapshot{Namespace: namespace("Active"), Bundle: "CA"}); p.Empty() {
		t.Error("without --root-ca-file a missing ConfigMap is not made")
	}
	if p := planConfigMap(epoch, snapshot{Namespace: namespace("Active")}); !p.Empty() { // RCA-3
		t.Error("an empty bundle is published")
	}
}

func TestEnqueues(t *testing.T) { // RCA-4
	for _, c := range []struct {
		name string
		keys []plan.Key
		want int
	}{
		{"a new namespace", informers.Existing(nil, namespace("")), 1},
		{"a namespace that changes", informers.Existing(namespace(""), namespace("Active")), 1},
		{"a namespace that is gone", informers.Existing(namespace("Active"), nil), 0},
		{"a new ConfigMap", enqueuedByConfigMap(nil, configMap()), 0},
		{"a ConfigMap that changes", enqueuedByConfigMap(configMap(), configMap()), 1},
		{"a ConfigMap that is deleted", enqueuedByConfigMap(configMap(), nil), 1},
		{"another ConfigMap", enqueuedByConfigMap(configMap(func(m *corev1.ConfigMap) { m.Name = "x" }), nil), 0},
	} {
		if len(c.keys) != c.want || c.want == 1 && c.keys[0] != (plan.Key{Name: "shop"}) {
			t.Errorf("%s enqueues %v", c.name, c.keys)
		}
	}
}

// draw is any snapshot.
func draw(t *rapid.T) snapshot {
	fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
	s := snapshot{Bundle: rapid.SampledFrom([]string{"", "CA"}).Draw(t, "bundle"), Restores: rapid.Bool().Draw(t, "restores")}
	if rapid.Bool().Draw(t, "namespace") {
		s.Namespace = &corev1.Namespace{}
		fill(s.Namespace)
		s.Namespace.Status.Phase = rapid.SampledFrom([]corev1.NamespacePhase{"Active", "Terminating", "", "odd"}).Draw(t, "phase")
	}
	if rapid.Bool().Draw(t, "ConfigMap") {
		s.ConfigMap = &corev1.ConfigMap{}
		fill(s.ConfigMap)
		if rapid.Bool().Draw(t, "right") {
			s.ConfigMap.Data = map[string]string{"ca.crt": "CA"}
		}
	}
	return s
}

// Whatever the objects are, planning does not panic or change them.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		namespace, observed := s.Namespace.DeepCopy(), s.ConfigMap.DeepCopy()
		p := planConfigMap(epoch, s)
		if diff := cmp.Diff(observed, s.ConfigMap) + cmp.Diff(namespace, s.Namespace); diff != "" || p.Why == "" || p.Requeue != 0 {
			t.Errorf("%q, again in %v, changed: %s", p.Why, p.Requeue, diff)
		}
	})
}

// RCA-2, RCA-3, RCA-8: what is published is the bundle and nothing else, and never an empty one. Nothing that exists is changed unless
// the bundle is known to be right. When the plan was carried out, nothing is left to do.
func TestPublishesTheBundleOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		existed := s.ConfigMap != nil
		p := planConfigMap(epoch, s)
		if p.Empty() {
			return
		}
		switch step := p.Steps[0].(type) {
		case plan.Create:
			s.ConfigMap = step.Object.(*corev1.ConfigMap)
		case plan.Change:
			s.ConfigMap = step.New.(*corev1.ConfigMap)
		}
		if existed && !s.Restores || s.Bundle == "" {
			t.Errorf("%s: of a ConfigMap that existed: %t", p.Why, existed)
		}
		if diff := cmp.Diff(map[string]string{dataKey: s.Bundle}, s.ConfigMap.Data); diff != "" ||
			s.ConfigMap.Annotations[descriptionKey] == "" {
			t.Errorf("%+v: %s", s.ConfigMap, diff)
		}
		if again := planConfigMap(epoch, s); !again.Empty() {
			t.Errorf("it is not done: %s", again.Why)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		plantest.Same(t, planConfigMap(epoch, s), planConfigMap(epoch, plantest.Restored(t, s)))
	})
}

// The controller asks for no cache where there is nothing to publish, as in managertest.Projection, so the fields that it reads stand
// here, too.
func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := projection.New(
		projection.Fields{Kinds: map[schema.GroupVersionKind][]string{client.KindFor[*corev1.Namespace](): {"status.phase"},
			client.KindFor[*corev1.ConfigMap](): {}}})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if s.ConfigMap != nil {
			s.ConfigMap.ManagedFields = nil // which no cache has
		}
		cached := s
		cached.Namespace, cached.ConfigMap = plantest.Kept(t, kept, s.Namespace), plantest.Kept(t, kept, s.ConfigMap)
		plantest.Same(t, planConfigMap(epoch, s), planConfigMap(epoch, cached))
	})
}

// run runs the controller on a server with these objects and a file of authorities.
func run(t *testing.T, objects []plan.Object, before func(clienttest.Write) error, test func(s *clienttest.Server, file string)) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	write(t, file, authority(t, 0))
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.NewServer()
		for _, o := range objects {
			if _, err := server.Put(o); err != nil {
				t.Fatal(err)
			}
		}
		server.BeforeWrite(before)
		entry := New(Options{})
		c := managertest.Context(t, server, entry, managertest.Cache{Example: &corev1.Namespace{}},
			managertest.Cache{Example: &corev1.ConfigMap{}, Selector: fields.OneTermEqualSelector("metadata.name", configMapName)})
		c.RootCAFile = file
		managertest.Run(t, c, entry, func() { test(server, file) })
	})
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// authority is one of a few certificates.
func authority(t *testing.T, i int) string {
	t.Helper()
	all, err := os.ReadFile("../../../internal/credentials/testdata/authorities.pem")
	if err != nil {
		t.Fatal(err)
	}
	const begin = "-----BEGIN CERTIFICATE-----"
	return begin + strings.Split(string(all), begin)[1+i]
}

func published(t *testing.T, s *clienttest.Server) string {
	t.Helper()
	mapping := client.MappingFor[*corev1.ConfigMap]()
	m := &corev1.ConfigMap{}
	if err := s.Get(t.Context(), mapping, plan.Key{Namespace: "shop", Name: configMapName}, m); err != nil {
		t.Error(err)
	}
	return m.Data["ca.crt"]
}

func TestEditsAndDeletionsAreUndone(t *testing.T) { // RCA-8, RCA-11
	run(t, []plan.Object{namespace("Active")}, nil, func(s *clienttest.Server, _ string) {
		want := authority(t, 0)
		mapping := client.MappingFor[*corev1.ConfigMap]()
		if err := s.Delete(t.Context(), mapping, plan.Key{Namespace: "shop", Name: configMapName}, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if published(t, s) != want {
			t.Error("it is not back a second after its deletion")
		}
		if _, err := s.Update(t.Context(), mapping, configMap(), client.WriteOptions{}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if published(t, s) != want {
			t.Error("it is not as before a second after its change")
		}
	})
}

// The file is read again when it changes, and what is not a certificate is not published.
func TestAuthoritiesThatChange(t *testing.T) { // RCA-12
	run(t, []plan.Object{namespace("Active")}, nil, func(s *clienttest.Server, file string) {
		if published(t, s) != authority(t, 0) {
			t.Error("not published byte for byte")
		}
		for _, c := range []struct{ content, want string }{
			{authority(t, 1), authority(t, 1)}, {"no certificate", authority(t, 1)}, {"", authority(t, 1)},
			{authority(t, 0), authority(t, 0)},
		} {
			write(t, file, c.content)
			time.Sleep(6 * time.Second)
			synctest.Wait()
			if published(t, s) != c.want {
				t.Errorf("%q is published after the file says %q", published(t, s), c.content)
			}
		}
		if n := len(s.Writes()); n != 3 {
			t.Errorf("%d writes", n)
		}
	})
}

// What the original has published is taken over without a write.
func TestTakenOverWithoutAWrite(t *testing.T) {
	own := configMap(described("Contains a CA bundle that can be used to verify something."),
		holding(map[string]string{"ca.crt": authority(t, 0)}))
	run(t, []plan.Object{namespace("Active"), own}, nil, func(s *clienttest.Server, _ string) {
		if log := s.Log(); len(log) > 0 {
			t.Errorf("writes: %v", log)
		}
	})
}

func TestErrorsAreRetried(t *testing.T) { // RCA-7
	run(t, []plan.Object{namespace("Active")}, clienttest.RefuseFirst(20,
		apierrors.NewInternalError(os.ErrClosed), apierrors.NewAlreadyExists(corev1.Resource("configmaps"), configMapName),
	), func(s *clienttest.Server, _ string) {
		if published(t, s) == "" {
			t.Error("given up")
		}
	})
}

// Files that are no good end the process; no authorities at all leave the controller off.
func TestInit(t *testing.T) {
	entry := New(Options{})
	garbage := filepath.Join(t.TempDir(), "garbage")
	write(t, garbage, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	for _, c := range []struct {
		name, file, want string
		client           *rest.Config
		skipped          bool
	}{
		{"TOK-3 a missing file", "/nope", "error parsing root-ca-file at /nope: open /nope: no such file or directory", nil, false},
		{"TOK-3 a broken file", garbage, "error parsing root-ca-file at " + garbage + ": ", nil, false},
		{"RCA-3 no authorities", "", "neither --root-ca-file nor the kubeconfig has", &rest.Config{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := managertest.Context(t, clienttest.NewServer(), entry)
			from.RootCAFile, from.Config = c.file, c.client
			runner, err := entry.Init(from)
			if runner != nil {
				t.Error("the controller is on")
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v", err)
			}
			if skipped := errors.As(err, &manager.Off{}); skipped != c.skipped {
				t.Errorf("skipped: %t", skipped)
			}
		})
	}
}

// BenchmarkPlan plans for a namespace that lacks nothing.
func BenchmarkPlan(b *testing.B) {
	s := snapshot{Namespace: namespace("Active"), ConfigMap: configMap(), Bundle: "CA", Restores: true}
	for b.Loop() {
		if p := planConfigMap(epoch, s); !p.Empty() {
			b.Fatal(p.Why)
		}
	}
}
