package validatingadmissionpolicystatus

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers/metadata"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// bench is a server on which the controller works in virtual time.
type bench struct {
	*testing.T
	*clienttest.Server
	reads       *reads
	definitions *metadatafake.FakeMetadataClient
}

// reads are those of the controller, which may fail.
type reads struct {
	*clienttest.Server
	mu    sync.Mutex
	paths []string
	fail  error
}

func (r *reads) GetRaw(ctx context.Context, path string, query url.Values) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paths = append(r.paths, path); r.fail != nil {
		return nil, r.fail
	}
	return r.Server.GetRaw(ctx, path, query)
}

func (r *reads) failWith(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

// read returns how often a path was read.
func (r *reads) read(path string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.paths {
		if p == path {
			n++
		}
	}
	return n
}

// run has the controller work on a server that publishes documents.
func run(t *testing.T, test func(b *bench), before ...func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		server := clienttest.NewServer()
		b := &bench{T: t, Server: server, reads: &reads{Server: server},
			definitions: metadatafake.NewSimpleMetadataClient(scheme, definition1("gadgets.example.com"))}
		publish(b.Server, documents)
		for _, do := range before {
			do(b)
		}
		entry := New(Options{})
		c := managertest.Context(t, b.Server, entry, managertest.Cache{Example: &policy{}})
		c.Access.Client = b.reads
		c.Metadata = metadata.New(b.definitions)
		defer c.Metadata.Shutdown()
		managertest.Run(t, c, entry, func() { test(b) })
	})
}

// definition1 is the metadata of a CustomResourceDefinition.
func definition1(name string) *metav1.PartialObjectMetadata {
	d := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	d.SetGroupVersionKind(definitions.GroupVersion().WithKind("CustomResourceDefinition"))
	return d
}

func (b *bench) put(p *policy) {
	b.Helper()
	p.UID, p.ResourceVersion = "", ""
	if _, err := b.Put(p); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) status(name string) string {
	b.Helper()
	synctest.Wait()
	p := &policy{}
	if err := b.Get(b.Context(), client.MappingFor[*policy](), plan.Key{Name: name}, p); err != nil {
		b.Fatal(err)
	}
	if p.Status.TypeChecking == nil {
		return "not checked"
	}
	text := ""
	for _, w := range p.Status.TypeChecking.ExpressionWarnings {
		first, _, _ := strings.Cut(w.Warning, "\n")
		text += w.FieldRef + ": " + first
	}
	return text
}

// want compares what the status of a policy says.
func (b *bench) want(what, name, said string) {
	b.Helper()
	if got := b.status(name); got != said && (said == "" || !strings.Contains(got, said)) {
		b.Errorf("%s: %q, in place of %q", what, got, said)
	}
}

// A policy is checked when it is made, and again when it changes. One that was checked costs nothing.
func TestVAP2LifeOfAPolicy(t *testing.T) { // VAP-1
	run(t, func(b *bench) {
		b.put(newPolicy(says("object.spec.replicas > 1")))
		time.Sleep(time.Second)
		b.want("it is made", "p", "")
		b.put(newPolicy(wasChecked(), hasChanged, says("object.spec.replica > 1")))
		time.Sleep(time.Second)
		b.want("it has changed", "p", "undefined field 'replica'")
		b.put(newPolicy(wasChecked(someWarning), hasChanged, says("true")))
		time.Sleep(time.Second)
		b.want("it was mended", "p", "")
		before := b.reads.read("/openapi/v3")
		time.Sleep(24 * time.Hour)
		if log := b.Log(); len(log) != 3 || b.reads.read("/openapi/v3") != before {
			b.Errorf("%v, %d reads", log, b.reads.read("/openapi/v3")-before)
		}
	})
}

// What was read for one policy does for others, for a minute.
func TestManyPoliciesReadOnce(t *testing.T) {
	run(t, func(b *bench) {
		b.put(newPolicy(named("first"), says("true")))
		time.Sleep(time.Second)
		for i := range 20 {
			b.put(newPolicy(named("p"+string(rune('a'+i))), says("object.x")))
		}
		time.Sleep(time.Second)
		b.want("the last one", "pt", "undefined field 'x'")
		if n := b.reads.read("/openapi/v3/apis/apps/v1"); n != 1 {
			b.Errorf("the document was read %d times", n)
		}
		time.Sleep(2 * time.Minute)
		b.put(newPolicy(named("late"), says("true")))
		time.Sleep(time.Second)
		if n := b.reads.read("/openapi/v3/apis/apps/v1"); n != 2 {
			b.Errorf("the document was read %d times", n)
		}
	})
}

// When a CustomResourceDefinition changes, the policies about its group are checked again: at once, and when the API server has had time to
// publish the new types.
func TestVAP20DefinitionsThatChange(t *testing.T) {
	run(t, func(b *bench) {
		others := map[string]string{"apis/example.com/v1": widgetsWith(`"size": {"type": "string"}`)}
		b.put(newPolicy(about("example.com/v1/widgets"), says("object.size > 5")))
		b.put(newPolicy(named("other"), says("true")))
		time.Sleep(time.Minute)
		b.want("the type is right", "p", "")
		if err := b.definitions.Tracker().Add(definition1("widgets.example.com")); err != nil {
			b.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		publish(b.Server, others)
		b.want("the server has published nothing new yet", "p", "")
		time.Sleep(9 * time.Second)
		b.want("it has", "p", "found no matching overload for '_>_' applied to '(string, int)'")
		before := b.reads.read("/openapi/v3")
		time.Sleep(time.Hour)
		if n := b.reads.read("/openapi/v3") - before; n != 0 {
			b.Errorf("%d reads while nothing happens", n)
		}
		publish(b.Server, nil)
		if err := b.definitions.Tracker().Delete(definitions, "", "widgets.example.com"); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := b.reads.read("/openapi/v3") - before; n == 0 {
			b.Error("the end of the definition is no news")
		}
	})
}

// While the API server does not say what it publishes, a policy waits. If the account may not read it, the policy counts as checked.
func TestDocumentsThatCannotBeRead(t *testing.T) { // VAP-2, VAP-5
	run(t, func(b *bench) {
		b.reads.failWith(errors.New("connection refused"))
		b.put(newPolicy(says("object.x")))
		time.Sleep(10 * time.Minute)
		b.want("the server does not answer", "p", "not checked")
		b.reads.failWith(nil)
		time.Sleep(2 * time.Minute)
		b.want("it answers", "p", "undefined field 'x'")
		b.reads.failWith(apierrors.NewForbidden(schema.GroupResource{}, "", nil))
		b.put(newPolicy(named("other"), says("object.x")))
		time.Sleep(time.Second)
		b.want("the account may not read it", "other", "")
	})
	run(t, func(b *bench) { // a document that is none
		publish(b.Server, map[string]string{"apis/apps/v1": "{"})
		b.put(newPolicy(says("object.x")))
		time.Sleep(time.Minute)
		b.want("the document is broken", "p", "not checked")
		publish(b.Server, documents)
		time.Sleep(2 * time.Minute)
		b.want("it was repaired", "p", "undefined field 'x'")
	})
}

// A write that is refused is tried again.
func TestRefusals(t *testing.T) { // VAP-1
	run(t, func(b *bench) {
		b.BeforeWrite(clienttest.RefuseFirst(5, errors.New("no")))
		b.put(newPolicy(says("object.x")))
		time.Sleep(10 * time.Minute)
		b.want("the first writes were refused", "p", "undefined field 'x'")
	})
}

// At most ten types of a rule are looked for.
func TestMostTypes(t *testing.T) { // VAP-4
	s := clienttest.NewServer()
	var paths, schemas, resources []string
	for i := range 15 {
		name := string(rune('a' + i))
		of := `{"group": "apps", "version": "v1", "kind": "` + strings.ToUpper(name) + `"}`
		paths = append(paths, `"/apis/apps/v1/`+name+`": {"get": {"x-kubernetes-group-version-kind": `+of+`}}`)
		schemas = append(schemas, `"`+name+`": {"type": "object", "x-kubernetes-group-version-kind": [`+of+`]}`)
		resources = append(resources, name)
	}
	publish(s, map[string]string{"apis/apps/v1": `{"paths": {` + strings.Join(paths, ",") + `}, "components": {"schemas": {` +
		strings.Join(schemas, ",") + `}}}`})
	p := newPolicy(about(), says("true"))
	for _, chosen := range [][]string{resources, {"o"}} {
		about("apps/v1/" + chosen[0])(p)
		p.Spec.MatchConstraints.ResourceRules[0].Resources = chosen
		o, err := newCaches(t, p).observe(t.Context(), request{Key: plan.KeyOf(p), Reader: s})
		if want := min(len(chosen), mostTypes); err != nil || len(o.Snapshot.Types) != want || !slices.IsSorted(kinds(o.Snapshot.Types)) {
			t.Errorf("%v, %v", kinds(o.Snapshot.Types), err)
		}
	}
}

func TestEntry(t *testing.T) {
	c := New(Options{})
	if c.Name != "validatingadmissionpolicy-status-controller" || c.Alias != "" || c.Account != c.Name || c.OffByDefault {
		t.Errorf("%+v", c)
	}
}
