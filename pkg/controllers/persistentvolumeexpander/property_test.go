package persistentvolumeexpander

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

// sizes that claims ask for and have.
func drawSize(t *rapid.T, what string) string {
	return rapid.SampledFrom([]string{"0", "1Gi", "1024Mi", "1500Mi", "2Gi", "10Gi"}).Draw(t, what)
}

// draw is a claim with its volume, or without one.
func draw(t *rapid.T) snapshot {
	s := snapshot{Claim: newClaim(asks(drawSize(t, "asks")), has(drawSize(t, "has")))}
	s.Claim.Status.Phase = rapid.SampledFrom([]corev1.PersistentVolumeClaimPhase{corev1.ClaimBound, corev1.ClaimBound, corev1.ClaimPending,
		corev1.ClaimLost, ""}).Draw(t, "phase")
	if name := rapid.SampledFrom([]string{"", "ebs.csi.aws.com", "other"}).Draw(t, "resizer"); name != "" {
		named(name)(s.Claim)
	}
	if rapid.Bool().Draw(t, "seen") {
		s.Seen = saw(drawSize(t, "saw"))
	}
	switch rapid.SampledFrom([]string{"none", "csi", "ebs", "any"}).Draw(t, "volume") {
	case "csi":
		s.Volume = newVolume()
	case "ebs":
		s.Volume = newVolume(ebs())
	case "any":
		s.Volume = newVolume()
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(&s.Volume.Spec.PersistentVolumeSource)
		plantest.OneOf(&s.Volume.Spec.PersistentVolumeSource, rapid.IntRange(0, 99).Draw(t, "source"))
	}
	return s
}

// An event tells of each larger request once, a claim of a volume of an earlier plugin names its resizer, and what was written leaves
// nothing to do.
func TestEachRequestIsToldOnce(t *testing.T) { // ST-4, ST-5, ST-81
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		p := planHandOver(epoch, s)
		did := of(t, p)
		request, capacity := s.Claim.Spec.Resources.Requests[corev1.ResourceStorage], s.Claim.Status.Capacity[corev1.ResourceStorage]
		waits := s.Claim.Status.Phase == corev1.ClaimBound && request.Cmp(capacity) > 0 && s.Volume != nil
		if told := did.Event != ""; told != (waits && (s.Seen == nil || s.Seen.Cmp(request) < 0)) {
			t.Errorf("%s: %+v", p.Why, did)
		}
		if !waits {
			if did.Annotation != "" {
				t.Errorf("%s: %+v", p.Why, did)
			}
			return
		}
		after := s
		after.Claim, after.Seen = s.Claim.DeepCopy(), &request
		if _, driver := volumes.MigratedPlugin(s.Volume); did.Annotation != "" || driver != "" && s.Claim.Annotations[resizer] != driver {
			if did.Annotation != driver {
				t.Errorf("%s: it is handed to %q, not to %q", p.Why, did.Annotation, driver)
			}
			named(driver)(after.Claim)
		}
		if again := planHandOver(epoch, after); !again.Empty() {
			t.Errorf("it is not done: %s", again.Why)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		p := planHandOver(epoch, s)
		again := planHandOver(epoch, plantest.Restored(t, s))
		if again.Why != p.Why || of(t, again) != of(t, p) {
			t.Errorf("%s, and after it was stored: %s", p.Why, again.Why)
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		cached := s
		claim, err := kept.Project(s.Claim)
		if err != nil {
			t.Fatal(err)
		}
		cached.Claim = claim.(*corev1.PersistentVolumeClaim)
		if s.Volume != nil {
			volume, err := kept.Project(s.Volume)
			if err != nil {
				t.Fatal(err)
			}
			cached.Volume = volume.(*corev1.PersistentVolume)
			if holds(s.Volume, s.Claim) != holds(cached.Volume, cached.Claim) {
				t.Error("the volume is another claim's, as the cache has it")
			}
		}
		a, b := planHandOver(epoch, s), planHandOver(epoch, cached)
		if diff := cmp.Diff(of(t, a), of(t, b)); diff != "" || a.Why != b.Why {
			t.Errorf("%s, and from the cache: %s: %s", a.Why, b.Why, diff)
		}
		if len(enqueuedByClaim(nil, s.Claim)) != len(enqueuedByClaim(nil, cached.Claim)) {
			t.Error("other keys are enqueued")
		}
	})
}
