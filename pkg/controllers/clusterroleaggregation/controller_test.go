package clusterroleaggregation

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// bench is a cluster in memory in which the controller works.
type bench struct {
	*testing.T
	*clienttest.Server
	mapping client.Mapping
	records *explain.Records
}

// run runs the controller on a server with these roles.
func run(t *testing.T, roles []*rbacv1.ClusterRole, before func(clienttest.Write) error, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		mapping := client.MappingFor[*rbacv1.ClusterRole]()
		b := &bench{T: t, Server: clienttest.NewServer(), mapping: mapping}
		for _, r := range roles {
			b.put(r)
		}
		b.BeforeWrite(before)
		entry := New(Options{})
		c := managertest.Context(t, b.Server, entry, managertest.Cache{Example: &rbacv1.ClusterRole{}})
		c.Access.Client = applier{b.Server}
		runner, err := entry.Init(c)
		if err != nil {
			t.Fatal(err)
		}
		b.records = runner.(reconcile.Part).Records()[0]
		clienttest.Run(t, runner.Run, func() { test(b) })
	})
}

// applier does what the server does not: rules that are applied are then owned by the controller, and they go when they are no longer
// applied (SM-5, SM-6).
type applier struct{ client.Client }

func (a applier) Patch(ctx context.Context, m client.Mapping, key plan.Key, patch client.Patch,
	o client.WriteOptions) (*metav1.PartialObjectMetadata, error) {
	var fields map[string]any
	if err := json.Unmarshal(patch.Data, &fields); err != nil {
		return nil, err
	}
	metadata := fields["metadata"].(map[string]any)
	if _, ok := fields["rules"]; ok {
		metadata["managedFields"] = owned(&rbacv1.ClusterRole{}).ManagedFields
	} else {
		fields["rules"], metadata["managedFields"] = nil, nil
	}
	var err error
	if patch.Data, err = json.Marshal(fields); err != nil {
		return nil, err
	}
	return a.Client.Patch(ctx, m, key, patch, o)
}

// put is what a user does.
func (b *bench) put(r *rbacv1.ClusterRole) {
	b.Helper()
	r.UID, r.ResourceVersion = "", ""
	if _, err := b.Put(r); err != nil {
		b.Fatal(err)
	}
}

// edit is what a user does.
func (b *bench) edit(name string, edit func(*rbacv1.ClusterRole)) {
	b.Helper()
	r := b.get(name)
	before := r.DeepCopy().Rules
	edit(r)
	if !sameRules(before, r.Rules) { // then the user owns them
		r.ManagedFields = nil
	}
	if _, err := b.Update(b.Context(), b.mapping, r, client.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) get(name string) *rbacv1.ClusterRole {
	b.Helper()
	r := &rbacv1.ClusterRole{}
	if err := b.Get(b.Context(), b.mapping, plan.Key{Name: name}, r); err != nil {
		b.Fatal(err)
	}
	return r
}

// soon checks the rules of a role after a second.
func (b *bench) soon(name string, want ...rbacv1.PolicyRule) {
	b.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	if diff := cmp.Diff(want, b.get(name).Rules); len(want)+len(b.get(name).Rules) > 0 && diff != "" {
		b.Errorf("%s: %s", name, diff)
	}
}

var (
	get, list, watch = rule("pods", "get"), rule("pods", "list"), rule("pods", "watch")
	wellKnown        = func() []*rbacv1.ClusterRole {
		return []*rbacv1.ClusterRole{
			aggregate(role("admin", nil), match(to("admin"))), aggregate(role("edit", to("admin")), match(to("edit"))),
			aggregate(role("view", to("edit")), match(to("view"))),
			role("x-admin", to("admin"), watch), role("x-edit", to("edit"), list), role("x-view", to("view"), get),
		}
	}
)

func TestWellKnownRoles(t *testing.T) {
	run(t, wellKnown(), nil, func(b *bench) {
		b.soon("view", get) // SM-8
		b.soon("edit", get, list)
		b.soon("admin", get, list, watch) // SM-7
		writes := len(b.Log())
		if writes != 3 {
			b.Errorf("%d writes", writes)
		}
		nodes := rule("nodes", "get")
		b.put(role("operator", to("view"), nodes)) // of a custom resource
		b.soon("view", nodes, get)
		b.soon("edit", nodes, get, list)
		b.soon("admin", nodes, get, list, watch)
		if writes = len(b.Log()) - writes; writes != 3 {
			b.Errorf("%d writes", writes)
		}
		if err := b.Delete(b.Context(), b.mapping, plan.Key{Name: "operator"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.soon("view", get)
		b.soon("admin", get, list, watch)
		b.edit("x-view", func(r *rbacv1.ClusterRole) { r.Labels = nil })
		b.soon("view") // SM-6
		b.soon("edit", list)
		b.soon("admin", list, watch)
		if view := b.get("view"); len(view.ManagedFields) > 0 {
			t.Errorf("rules that are gone are owned: %v", view.ManagedFields)
		}
	})
}

// What the original has written is taken over without a write (SM-4, SM-12).
func TestTakenOverWithoutAWrite(t *testing.T) {
	run(t, []*rbacv1.ClusterRole{
		aggregate(role("view", nil, list, get), match(to("view"))), role("x-view", to("view"), get, list), role("y", nil, watch),
	}, nil, func(b *bench) {
		if log := b.Log(); len(log) > 0 {
			b.Errorf("writes: %v", log)
		}
	})
}

// A role that nobody selects enqueues nothing (SM-11).
func TestOtherRolesEnqueueNothing(t *testing.T) {
	run(t, wellKnown(), nil, func(b *bench) {
		last := func() time.Time {
			record, ok := b.records.Get(plan.Key{Name: "view"})
			if !ok {
				b.Error("nothing is known of view")
			}
			return record.Time
		}
		before := last()
		b.put(role("other", to("other"), get))
		b.edit("other", func(r *rbacv1.ClusterRole) { r.Rules = nil })
		b.edit("x-view", func(r *rbacv1.ClusterRole) { r.Annotations = map[string]string{"x": "y"} })
		time.Sleep(time.Minute)
		if !last().Equal(before) {
			b.Error("view was reconciled")
		}
		if _, ok := b.records.Get(plan.Key{Name: "other"}); ok {
			b.Error("a role without an aggregation rule was reconciled")
		}
		b.edit("x-view", func(r *rbacv1.ClusterRole) { r.Rules = append(r.Rules, list) })
		b.soon("view", get, list)
		if last().Equal(before) {
			b.Error("view was not reconciled")
		}
	})
}

func TestRulesOfOthers(t *testing.T) {
	run(t, wellKnown(), nil, func(b *bench) {
		b.edit("view", func(r *rbacv1.ClusterRole) { r.Rules = append(r.Rules, watch) })
		b.soon("view", get) // SM-6
		b.edit("view", func(r *rbacv1.ClusterRole) { r.AggregationRule = nil })
		b.edit("x-view", func(r *rbacv1.ClusterRole) { r.Rules = []rbacv1.PolicyRule{list} })
		b.soon("view", get) // SM-9
		b.edit("view", func(r *rbacv1.ClusterRole) { aggregate(r, match(to("view"))) })
		b.soon("view", list)
		b.edit("x-view", func(r *rbacv1.ClusterRole) { r.Labels = nil })
		b.soon("view") // SM-6: what was applied is gone
		writes := len(b.Log())
		b.edit("view", func(r *rbacv1.ClusterRole) { r.Rules = []rbacv1.PolicyRule{watch} })
		b.soon("view", watch) // what a user has written stays, and is aggregated
		b.soon("edit", watch, list)
		b.soon("admin", list, watch)                     // as before
		if writes = len(b.Log()) - writes; writes != 2 { // the edit is one
			b.Errorf("%d writes", writes)
		}
		b.edit("x-view", func(r *rbacv1.ClusterRole) { r.Labels = to("view") })
		b.soon("view", list)
		b.edit("x-view", func(r *rbacv1.ClusterRole) { r.Rules = nil })
		b.soon("view")
	})
}

// Who owns the rules is read live, and only of a role that has rules and is to have none (SM-6). A role that is gone meanwhile, or is
// another one of the name, is left to its event.
func TestOwnersAreReadLive(t *testing.T) {
	ours := owned(role("r", nil, get)).ManagedFields
	for _, c := range []struct {
		name   string
		role   *rbacv1.ClusterRole
		others []*rbacv1.ClusterRole
		reader liveRole
		reads  int
		exists bool
		owns   bool
		fails  bool
	}{
		{"SM-6 the rules were applied", aggregate(role("r", nil, get), match(to("r"))), nil, liveRole{uid: "u-1", fields: ours}, 1, true,
			true, false},
		{"SM-6 somebody else has written them", aggregate(role("r", nil, get), match(to("r"))), nil, liveRole{uid: "u-1"}, 1, true, false,
			false},
		{"SM-6 no source has rules", aggregate(role("r", nil, get), match(to("r"))),
			[]*rbacv1.ClusterRole{role("a", to("r"), rule("pods"))}, liveRole{uid: "u-1", fields: ours}, 1, true, true, false},
		{"SM-2 a source has rules", aggregate(role("r", nil, get), match(to("r"))), []*rbacv1.ClusterRole{role("a", to("r"), list)},
			liveRole{}, 0, true, false, false},
		{"SM-4 it has none", aggregate(role("r", nil), match(to("r"))), nil, liveRole{}, 0, true, false, false},
		{"SM-3 a selector is invalid", aggregate(role("r", nil, get), broken), nil, liveRole{}, 0, true, false, true},
		{"SM-9 it aggregates nothing", role("r", nil, get), nil, liveRole{}, 0, false, false, false},
		{"it is gone", aggregate(role("r", nil, get), match(to("r"))), nil,
			liveRole{err: apierrors.NewNotFound(rbacv1.Resource("clusterroles"), "r")}, 1, false, false, false},
		{"it is another one", aggregate(role("r", nil, get), match(to("r"))), nil, liveRole{uid: "u-2", fields: ours}, 1, false, false,
			false},
		{"it cannot be read", aggregate(role("r", nil, get), match(to("r"))), nil, liveRole{err: errors.New("x")}, 1, false, false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := clienttest.NewServer()
			for _, r := range append(c.others, c.role) {
				if _, err := server.Put(r); err != nil {
					t.Fatal(err)
				}
			}
			k, err := newCaches(managertest.Context(t, server, New(Options{}), managertest.Cache{Example: &rbacv1.ClusterRole{}}).Informers)
			if err != nil {
				t.Fatal(err)
			}
			clienttest.Settle()
			o, err := k.observe(t.Context(), reconcile.Request[struct{}]{Key: plan.Key{Name: "r"}, Reader: &c.reader})
			if (err != nil) != c.fails || o.Exists != c.exists || o.Snapshot.OwnsRules != c.owns || c.reader.reads != c.reads {
				t.Errorf("%s: exists %t, owns %t, %d reads, %v", c.name, o.Exists, o.Snapshot.OwnsRules, c.reader.reads, err)
			}
		})
	}
}

// liveRole is what a server knows of a role.
type liveRole struct {
	client.Reader
	uid    types.UID
	fields []metav1.ManagedFieldsEntry
	err    error
	reads  int
}

func (l *liveRole) Get(_ context.Context, _ client.Mapping, _ plan.Key, into plan.Object) error {
	l.reads++
	into.SetUID(l.uid)
	into.SetManagedFields(l.fields)
	return l.err
}

// Roles that aggregate one another, and themselves, come to rest (SM-7).
func TestCycles(t *testing.T) {
	run(t, []*rbacv1.ClusterRole{
		aggregate(role("a", to("b"), watch), match(to("a"))), aggregate(role("b", to("a")), match(to("b"))), role("c", to("a"), get),
	}, nil, func(b *bench) {
		writes := len(b.Log())
		b.soon("a", get) // the other rule came from nowhere
		b.soon("b", get)
		time.Sleep(time.Hour)
		if len(b.Log()) != writes {
			b.Error("it goes on and on")
		}
	})
}

// An invalid selector is tried again, in case it is mended, and hinders no other role (SM-3).
func TestInvalidSelectors(t *testing.T) {
	run(t, append(wellKnown(), aggregate(role("bad", nil), broken)), nil, func(b *bench) {
		b.soon("view", get)
		if record, ok := b.records.Get(plan.Key{Name: "bad"}); !ok || record.Error == "" || record.Retries < 3 {
			b.Errorf("%+v", record)
		}
		b.edit("bad", func(r *rbacv1.ClusterRole) { aggregate(r, match(to("view"))) })
		b.soon("bad", get)
	})
}

func TestErrorsAreRetried(t *testing.T) { // SM-10: while the right to escalate is missing, the server refuses
	run(t, wellKnown(), clienttest.RefuseFirst(20,
		apierrors.NewConflict(rbacv1.Resource("clusterroles"), "view", errors.New("x")),
		apierrors.NewForbidden(rbacv1.Resource("clusterroles"), "view", errors.New("attempting to grant rights not currently held")),
	), func(b *bench) {
		time.Sleep(time.Hour)
		b.soon("admin", get, list, watch)
	})
}

// A role that is gone is not created again (SM-9).
func TestRolesThatAreGone(t *testing.T) {
	run(t, wellKnown(), nil, func(b *bench) {
		b.FreezeWatches(client.KindFor[*rbacv1.ClusterRole]())
		if err := b.Delete(b.Context(), b.mapping, plan.Key{Name: "view"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.ResumeWatches(client.KindFor[*rbacv1.ClusterRole]())
		b.edit("x-view", func(r *rbacv1.ClusterRole) { r.Rules = nil })
		clienttest.Settle()
		for _, name := range b.Names(client.KindFor[*rbacv1.ClusterRole]()) {
			if name == "view" {
				b.Error("it is back")
			}
		}
	})
}
