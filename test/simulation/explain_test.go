package simulation

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// mostAnswer is how large the whole answer about one object of these small worlds may be.
const mostAnswer = 1 << 20

// unnamed are keys that no object is named after, by controller.
var unnamed = map[string][]string{
	"pod-garbage-collector-controller":                               {"orphaned"},
	"legacy-serviceaccount-token-cleaner-controller":                 {"all"},
	"node-ipam-controller":                                           {"allocation"},
	"selinux-warning-controller":                                     {url.PathEscape("kubernetes.io/fc/[" + playground + "-a]")},
	"kube-apiserver-serving-clustertrustbundle-publisher-controller": {"kubernetes.io:kube-apiserver-serving"},
}

// recordsOnly are controllers that cannot say what they see: the graph of the garbage collector is one for all objects.
var recordsOnly = []string{"garbage-collector-controller"}

// readsLive are controllers that read live in each Observe, which takes time.
var readsLive = []string{
	"certificatesigningrequest-approving-controller", "legacy-serviceaccount-token-cleaner-controller", "namespace-controller",
}

// TestExplain asks all controllers about everything that they work on, while users play: what they have made of it, see now and would do.
// Each answer can be read, is bounded, and has no content of a Secret. Nothing else changes by that: it is what the scenario expects. To
// look has no side effects either: two looks at a key at one moment say the same, also if all other keys were looked at in between.
func TestExplain(t *testing.T) {
	told, compared := map[string]int{}, map[string]int{}
	for _, e := range suite.Entries() {
		scenario := suite.Scenario{Prepare: e.Budgets[0].Prepare, Play: e.Budgets[0].Do}
		if len(e.Scenarios) > 0 {
			scenario = e.Scenarios[0]
		}
		t.Run(e.Controller, func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T) {
				w := newWorld(ScenarioScript(1), controllers.Registry)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					look := func() {
						details, same := w.explained(t, e.Controller)
						told[e.Controller] += details
						compared[e.Controller] += same
					}
					for ctx.Err() == nil {
						look()
						soon := time.After(time.Second)
						if told[e.Controller] > 0 {
							<-soon
							continue
						}
						select { // some objects are soon gone
						case <-w.server.Changed():
							time.Sleep(time.Millisecond)
							look()
							time.Sleep(time.Millisecond)
						case <-soon:
						}
					}
				}()
				o := w.play(t, scenario)
				cancel()
				<-done
				for _, v := range o.Violations {
					t.Error(v)
				}
			})
			if told[e.Controller] == 0 && !slices.Contains(recordsOnly, e.Controller) {
				t.Error("it was asked for no detail")
			}
			if compared[e.Controller] == 0 && !slices.Contains(recordsOnly, e.Controller) && !slices.Contains(readsLive, e.Controller) {
				t.Error("no look was compared with another one at the same moment")
			}
			t.Logf("%d details, %d of which were looked at twice", told[e.Controller], compared[e.Controller])
		})
	}
	if len(told) != len(controllers.Registry()) {
		t.Errorf("%d controllers were asked", len(told))
	}
}

// look is what a controller says of a key at one moment.
type look struct {
	explain.Record
	History []explain.Record
	explain.Detail

	version uint64 // of the server
	at      time.Time
}

func backwards(paths []string) []string {
	paths = slices.Clone(paths)
	slices.Reverse(paths)
	return paths
}

// sameLook compares two looks at a key, between which others were looked at: to look has no side effects. If something else has happened
// between them, or if there is no object, they are not compared.
func (w *world) sameLook(t *testing.T, path string, before, now look) bool {
	if before.Snapshot == nil || before.version != now.version ||
		w.server.Version() != now.version || !before.at.Equal(now.at) || !time.Now().Equal(now.at) ||
		!reflect.DeepEqual(before.Record, now.Record) || !reflect.DeepEqual(before.History, now.History) {
		return false
	}
	if !reflect.DeepEqual(before.Detail, now.Detail) {
		one, _ := json.Marshal(before.Detail)
		other, _ := json.Marshal(now.Detail)
		t.Errorf("%s: two looks at one moment differ:\n%s\n%s", path, one, other)
	}
	return true
}

// explained asks a controller about all objects of its kinds, twice, and returns how many details it was told, and how many of these it
// compared.
func (w *world) explained(t *testing.T, controller string) (details, compared int) {
	m := w.processes[0].manager.Load()
	if m == nil {
		return 0, 0
	}
	ask := func(root, path string, into any) (body string, ok bool) {
		answer := httptest.NewRecorder()
		m.Explain().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, root+controller+path, nil))
		if answer.Code != http.StatusOK {
			return "", false
		}
		if err := json.Unmarshal(answer.Body.Bytes(), into); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return answer.Body.String(), true
	}
	var overview struct{ Kinds []string }
	if _, ok := ask("/debug/explain/", "", &overview); !ok {
		return 0, 0
	}
	var secrets, paths []string
	for _, name := range unnamed[controller] {
		paths = append(paths, "/"+name)
	}
	for _, o := range w.server.Everything() {
		if s, ok := o.Object.(*corev1.Secret); ok {
			secrets = append(secrets, string(s.Data["token"]), string(s.Data["token-secret"]))
		}
		if kind, err := client.KindOf(o.Object); err == nil && slices.Contains(overview.Kinds, kind.Kind) {
			paths = append(paths, strings.TrimSuffix("/"+o.GetNamespace(), "/")+"/"+o.GetName())
		}
	}
	looked := map[string]look{}
	for i, path := range slices.Concat(paths, backwards(paths)) {
		var told look
		told.version, told.at = w.server.Version(), time.Now()
		body, ok := ask("/debug/snapshot/", path, &told)
		if !ok {
			continue
		}
		if i >= len(paths) {
			if before, ok := looked[path]; ok && w.sameLook(t, path, before, told) {
				compared++
			}
			continue
		}
		looked[path] = told
		if told.Snapshot != nil {
			details++
		}
		if len(body) > mostAnswer || strings.Contains(body, "left out: ") {
			t.Errorf("%s: %d bytes: %.2000s", path, len(body), body)
		}
		for _, secret := range secrets {
			if secret != "" &&
				(strings.Contains(body, secret) || strings.Contains(body, base64.StdEncoding.EncodeToString([]byte(secret)))) {
				t.Errorf("%s shows a credential: %s", path, body)
			}
		}
	}
	return details, compared
}
