package clustertrustbundlepublisher

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// draw is any snapshot that Observe may return.
func draw(t *rapid.T) snapshot {
	s := snapshot{Authorities: rapid.SampledFrom([]string{"CA", "CA", "CA", ""}).Draw(t, "authorities"),
		Authoritative: rapid.Bool().Draw(t, "authoritative")}
	found := map[string]*bundle{}
	for range rapid.IntRange(0, 4).Draw(t, "bundles") {
		b := newBundle(rapid.SampledFrom([]string{ownName, "a", "b", "c"}).Draw(t, "name"),
			rapid.SampledFrom([]string{"CA", "old", ""}).Draw(t, "content"))
		rapid.SampledFrom([]edit{leaving, labelled, ofSomebody, func(*bundle) {}}).Draw(t, "state")(b)
		if b.Name == ownName {
			b.Spec.SignerName = signer // the server makes sure of that
		}
		found[b.Name] = b
	}
	for _, name := range []string{"a", "b", "c", ownName} {
		if found[name] != nil {
			s.Bundles = append(s.Bundles, found[name])
		}
	}
	return s
}

// carryOut does what a plan says.
func carryOut(s snapshot, p plan.Plan) snapshot {
	there := map[string]*bundle{}
	for _, b := range s.Bundles {
		there[b.Name] = b
	}
	for _, step := range p.Steps {
		switch step := step.(type) {
		case plan.Create:
			there[step.Object.GetName()] = step.Object.(*bundle)
		case plan.Change:
			there[step.New.GetName()] = step.New.(*bundle)
		case plan.Delete:
			for _, o := range step.Objects {
				delete(there, o.GetName())
			}
		}
	}
	s.Bundles = nil
	for _, b := range there {
		s.Bundles = append(s.Bundles, b)
	}
	return s
}

// CTB-3: afterwards there is the bundle and no other of the signer, if it is known what is right. Those of other signers stay, and so do
// all while there is none in their place. There is nothing left to do.
func TestPublishesTheAuthoritiesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		p := planBundle(epoch, s)
		after := carryOut(s, p)
		if again := planBundle(epoch, after); !again.Empty() {
			t.Errorf("it is not done: %s", again.Why)
		}
		kept, has, leaves := 0, false, false
		for _, b := range after.Bundles {
			switch {
			case b.Name == ownName:
				leaves = b.DeletionTimestamp != nil
				has = !leaves && b.Spec.TrustBundle == "CA" && b.Spec.SignerName == signer
			case b.Spec.SignerName == signer && b.DeletionTimestamp == nil:
				kept++
			}
		}
		switch {
		case s.Authorities == "":
			if !p.Empty() {
				t.Errorf("nothing is to be published: %s", p.Why)
			}
		case !has && !leaves:
			t.Errorf("it is not published: %s", p.Why)
		case kept > 0 && s.Authoritative && !leaves, len(after.Bundles) < len(s.Bundles) && (!s.Authoritative || leaves):
			t.Errorf("%d others are left: %s", kept, p.Why)
		}
		for _, b := range s.Bundles {
			if b.Spec.SignerName != signer && carryOut(s, p).find(b.Name) != b {
				t.Errorf("%s is not of the signer, and was written: %s", b.Name, p.Why)
			}
		}
	})
}

func (s snapshot) find(name string) *bundle {
	for _, b := range s.Bundles {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// What deletes comes after what creates: whoever mounts the bundle finds one at any time.
func TestCTB3CreatesBeforeItDeletes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := planBundle(epoch, draw(t))
		for i, step := range p.Steps {
			if _, deletes := step.(plan.Delete); deletes && i != len(p.Steps)-1 {
				t.Errorf("%v", writes(p))
			}
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		plantest.Same(t, planBundle(epoch, s), planBundle(epoch, plantest.Restored(t, s)))
	})
}

// The controller asks for no cache where there is nothing to publish, as in managertest.Projection, so what it reads stands here, too.
func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := projection.New(projection.Fields{Kinds: map[schema.GroupVersionKind][]string{
		client.KindFor[*certificatesv1.ClusterTrustBundle](): {}}})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		cached := s
		cached.Bundles = nil
		for _, b := range s.Bundles {
			cached.Bundles = append(cached.Bundles, plantest.Kept(t, kept, b))
		}
		plantest.Same(t, planBundle(epoch, s), planBundle(epoch, cached))
	})
}

// Whatever the bundles are, planning does not panic or change them.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		s := draw(t)
		var before []*bundle
		for _, b := range s.Bundles {
			name := b.Name
			fill(b)
			if b.Name = name; rapid.Bool().Draw(t, "of the signer") {
				b.Spec.SignerName = signer
			}
			before = append(before, b.DeepCopy())
		}
		p := planBundle(epoch, s)
		if diff := cmp.Diff(before, s.Bundles); diff != "" || p.Why == "" || p.Requeue != 0 {
			t.Errorf("%q, again in %v, changed: %s", p.Why, p.Requeue, diff)
		}
	})
}
