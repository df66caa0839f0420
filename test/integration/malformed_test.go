package integration

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// Objects that should not exist make nothing panic, keep nobody waiting, and are tried at a falling rate: each controller does its
// work beside them, also if it finds them when it starts.
func TestMalformedObjectsHarmNobody(t *testing.T) {
	b := alone(t)
	scenarios := b.prepareScenarios()
	begin, began := b.AuditEnd(t), time.Now()
	m := b.Manager(t, suite.ControllersFlag(), suite.GatesFlag, "--horizontal-pod-autoscaler-sync-period=1s",
		"--legacy-service-account-token-clean-up-period="+suite.LegacyTokenPeriod)
	// A manager that starts deletes Endpoints that have no Service. It is done with that when it has served one.
	b.service("early", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "nobody"} })
	b.waitEndpoints("early")
	stored := b.storeMalformed()
	b.Run("work", func(t *testing.T) { // all at the same time
		for controller, play := range scenarios {
			t.Run(controller, func(t *testing.T) {
				t.Parallel()
				play(t)
			})
		}
	})
	b.triedAtAFallingRate(begin, time.Since(began), stored)
	b.create(deployment("web", 3))
	b.waitComplete("web")
	b.setImage("web", "web:2")
	b.waitComplete("web")
	for _, p := range b.pods() {
		if app := p.Labels["app"]; app != "web" && !stored[p.Name] {
			t.Errorf("there is a pod %s", p.Name)
		}
	}

	m.Kill(t) // and a manager that finds them when it starts, with few enough terminated pods for the scenario of podgc
	podgc := suite.Entries()[slices.IndexFunc(suite.Entries(), func(e suite.Entry) bool { return e.Controller == podGC })].Scenarios[0]
	gc := &bench{t, b.Cluster, b.Namespace(t)}
	podgc.Prepare(gc.user())
	b.Manager(t, suite.ControllersFlag(), suite.GatesFlag, fmt.Sprintf("--terminated-pod-gc-threshold=%d", suite.TerminatedThreshold))
	podgc.Play(gc.user())
	b.setImage("web", "web:3")
	b.waitComplete("web")
	if err := b.Unstore("configmaps/kube-public/cluster-info"); err != nil { // without this one, there may be one that is signed
		b.Error(err)
	}
	b.workOfBootstrapTokens()
}

const podGC = "pod-garbage-collector-controller"

// nodePatches begins what two controllers do to malformed nodes.
const nodePatches = "node-controller patch nodes/ "

// storeMalformed stores the malformed objects of all entries, and returns their names.
func (b *bench) storeMalformed() map[string]bool {
	b.Helper()
	names, all := map[string]bool{}, b.malformed()
	for key, object := range all {
		b.store(key, object)
		names[path.Base(key)] = true
	}
	client, err := dynamic.NewForConfig(b.RESTConfig)
	if err != nil {
		b.Fatal(err)
	}
	b.wait("the server shows them, or has deleted them", func() error {
		var errs []error
		for key, object := range all {
			_, err := client.Resource(resourceOf(b.T, object)).Namespace(b.namespaceOf(object)).Get(b.Context(), path.Base(key),
				metav1.GetOptions{})
			if apierrors.IsNotFound(err) && b.unstored(key, object) {
				continue
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	return names
}

// malformed are the malformed objects of all entries, by key, of the resources that the server has.
func (b *bench) malformed() map[string]string {
	b.Helper()
	all := map[string]string{}
	for _, e := range servedEntries(b.T, b.Cluster) {
		for key, object := range e.Malformed {
			if serves(b.T, b.Cluster, resourceOf(b.T, object)) {
				all[key] = object
			}
		}
	}
	return all
}

// prepareScenarios prepares a scenario of each entry, in a namespace of its own, and returns what plays them. That of podgc needs a manager
// with another flag.
func (b *bench) prepareScenarios() map[string]func(*testing.T) {
	b.Helper()
	all := map[string]func(*testing.T){}
	for _, e := range servedEntries(b.T, b.Cluster) {
		if len(e.Scenarios) == 0 || e.Controller == podGC {
			continue
		}
		s, in := e.Scenarios[0], &bench{b.T, b.Cluster, b.Namespace(b.T)}
		if s.Prepare != nil {
			s.Prepare(in.user())
		}
		all[e.Controller] = func(t *testing.T) { s.Play((&bench{t, in.Cluster, in.ns}).user()) }
	}
	return all
}

// triedEachSecond are the accounts that may try once a second, and why.
var triedEachSecond = map[string]string{
	"horizontal-pod-autoscaler": "its period is a second here, and takes the place of the back-off",
}

// triedAtAFallingRate counts what the controllers have asked about the malformed objects since the audit log had that length. Each change
// in their namespace may lead to one more try.
func (b *bench) triedAtAFallingRate(begin int64, d time.Duration, names map[string]bool) {
	b.Helper()
	asked, changes := map[string]int{}, 0
	requests, _ := b.Requests(b.T, begin)
	for _, r := range requests {
		o := r.ObjectRef
		if r.ResponseStatus.Code < 300 && o.Namespace == b.ns && slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb) &&
			o.Resource != "events" {
			changes++
		}
		if account, ours := strings.CutPrefix(r.User.Username, "system:serviceaccount:"+rbac.Home+":"); ours && names[o.Name] &&
			(o.Namespace == b.ns || o.Namespace == "") {
			asked[fmt.Sprint(account, " ", r.Verb, " ", o.Resource, "/", o.Subresource, " ", o.Name)]++
		}
	}
	for what, n := range asked {
		most := mostTries(d) + changes
		if strings.HasPrefix(what, nodePatches) { // node IPAM and the node lifecycle have one account
			most += mostTries(d)
		}
		if account, _, _ := strings.Cut(what, " "); triedEachSecond[account] != "" {
			most = int(d/time.Second) + mostTries(time.Second) + changes
		}
		if n > most {
			b.Errorf("%s: %d times in %v with %d changes, want at most %d", what, n, d, changes, most)
		}
	}
	if len(asked) < 20 {
		b.Errorf("only %d kinds of requests are about the malformed objects", len(asked))
	}
}

// mostTries returns how often something may be tried in that time, if each failure doubles the pause up to [queue.MaxBackoff], of
// which a tenth may be taken off.
func mostTries(d time.Duration) (n int) {
	for at := time.Duration(0); at <= d; n++ {
		at += min(5*time.Millisecond<<min(n, 20), queue.MaxBackoff) * 9 / 10
	}
	return n
}

// resourceOf returns the resource of an object as suite.Entry has it.
func resourceOf(t *testing.T, object string) schema.GroupVersionResource {
	t.Helper()
	var kind metav1.TypeMeta
	if err := json.Unmarshal([]byte(filled(object, "")), &kind); err != nil {
		t.Fatal(err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind.GroupVersionKind())
	return resource
}

// namespaceOf returns the namespace of an object as suite.Entry has it; empty if objects of its kind have none.
func (b *bench) namespaceOf(object string) string {
	b.Helper()
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(filled(object, "")), &o); err != nil {
		b.Fatal(err)
	}
	if m, ok := client.BuiltIn(o.GroupVersionKind()); ok && !m.Namespaced {
		return ""
	}
	return cmp.Or(o.Namespace, b.ns)
}

// filled returns the object with its metadata.
func filled(object, metadata string) string {
	object = strings.ReplaceAll(object, `"metadata":${META}`, `"metadata":{`+metadata+`}`)
	if metadata == "" {
		object = strings.ReplaceAll(object, `,${META}`, "")
	}
	return strings.ReplaceAll(object, `${META}`, metadata)
}

// storedAt is where the API server keeps an object, for [cluster.Cluster.Store]. See suite.Entry for its key.
func (b *bench) storedAt(key, object string) string {
	return path.Join(path.Dir(key), b.namespaceOf(object), path.Base(key))
}

// unstored reports whether an object is no longer where it was stored.
func (b *bench) unstored(key, object string) bool {
	b.Helper()
	there, err := b.Stored(b.storedAt(key, object))
	if err != nil {
		b.Fatal(err)
	}
	return !there
}

// store puts an object where the API server keeps it, past the server. See suite.Entry for its key.
func (b *bench) store(key, object string) {
	b.Helper()
	at := b.storedAt(key, object)
	object = filled(object, fmt.Sprintf(`"namespace":%q,"name":%q,"uid":%q,"generation":1`, b.namespaceOf(object), path.Base(key), key))
	if !json.Valid([]byte(object)) {
		b.Fatalf("%s is not JSON: %s", key, object)
	}
	if err := b.Store(at, []byte(object)); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { // some could not be deleted through the server
		if err := b.Unstore(at); err != nil {
			b.Error(err)
		}
	})
}
