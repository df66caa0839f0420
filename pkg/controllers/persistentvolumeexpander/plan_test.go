package persistentvolumeexpander

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// alike compares two claims, for which no annotations are as good as none.
func alike(a, b *corev1.PersistentVolumeClaim) bool { return cmp.Equal(a, b, cmpopts.EquateEmpty()) }

const (
	waits = "Normal ExternalExpanding waiting for an external controller to expand this PVC"
	ofEBS = "Normal ExternalExpanding CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc"
)

func saw(size string) *resource.Quantity { return ptr.To(resource.MustParse(size)) }

// A row is a sentence: a claim, its volume and what it asked for when it was last seen, and what is said and written.
func TestPlan(t *testing.T) {
	grows := newClaim(asks("2Gi"))
	for _, c := range []struct {
		name string
		seen snapshot
		want outcome
	}{
		{"ST-3 a claim that has what it asks for", snapshot{Claim: newClaim(), Volume: newVolume()}, outcome{}},
		{"ST-3 one that has more", snapshot{Claim: newClaim(has("2Gi")), Volume: newVolume()}, outcome{}},
		{"ST-1 one that is not bound", snapshot{Claim: newClaim(asks("2Gi"), phase(corev1.ClaimPending)), Volume: newVolume()}, outcome{}},
		{"ST-5 one that asks for more of a CSI volume", snapshot{Claim: grows, Volume: newVolume()}, outcome{Event: waits}},
		{"ST-5 one that asks for more of a volume that nobody makes larger",
			snapshot{Claim: grows, Volume: newVolume(from(corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}))},
			outcome{Event: waits}},
		{"ST-5 FlexVolumes are no exception",
			snapshot{Claim: grows,
				Volume: newVolume(from(corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: "x"}}))},
			outcome{Event: waits}},
		{"ST-4 one that asks for more of a volume of an earlier plugin", snapshot{Claim: grows, Volume: newVolume(ebs())},
			outcome{Event: ofEBS, Annotation: "ebs.csi.aws.com"}},
		{"ST-4 one that names another resizer", snapshot{Claim: newClaim(asks("2Gi"), named("other")), Volume: newVolume(ebs())},
			outcome{Event: ofEBS, Annotation: "ebs.csi.aws.com"}},
		{"ST-4 one that names the resizer", snapshot{Claim: newClaim(asks("2Gi"), named("ebs.csi.aws.com")), Volume: newVolume(ebs())},
			outcome{Event: ofEBS}},
		{"ST-81 one that was seen with the same request", snapshot{Claim: grows, Volume: newVolume(), Seen: saw("2Gi")}, outcome{}},
		{"ST-81 and in other words", snapshot{Claim: grows, Volume: newVolume(), Seen: saw("2048Mi")}, outcome{}},
		{"ST-81 one that has got a part of it", snapshot{Claim: newClaim(asks("4Gi"), has("2Gi")), Volume: newVolume(), Seen: saw("4Gi")},
			outcome{}},
		{"ST-1 one that asks for even more", snapshot{Claim: newClaim(asks("4Gi")), Volume: newVolume(), Seen: saw("2Gi")},
			outcome{Event: waits}},
		{"ST-7 one that asks for less than before", snapshot{Claim: grows, Volume: newVolume(), Seen: saw("4Gi")}, outcome{}},
		{"ST-4 one that was seen, but not handed over", snapshot{Claim: grows, Volume: newVolume(ebs()), Seen: saw("2Gi")},
			outcome{Annotation: "ebs.csi.aws.com"}},
		{"ST-82 one without a volume", snapshot{Claim: grows}, outcome{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := plantest.Restored(t, c.seen)
			p := planHandOver(epoch, c.seen)
			if p.Why == "" || p.Requeue != 0 {
				t.Errorf("%+v", p)
			}
			if diff := cmp.Diff(c.want, of(t, p)); diff != "" {
				t.Errorf("%s: %s", p.Why, diff)
			}
			if !cmp.Equal(before, plantest.Restored(t, c.seen)) {
				t.Error("the plan changes what was observed")
			}
		})
	}
}

// The reason says who has to act.
func TestExplain(t *testing.T) {
	grows := newClaim(asks("2Gi"))
	for want, s := range map[string]snapshot{
		"the claim asks for no more than it has":                               {Claim: newClaim()},
		`the claim asks for more than it has, and waits for its volume "disk"`: {Claim: grows},
		"the claim asks for 2Gi: wait until the resizer of the CSI driver csi.example.com makes its volume larger": {Claim: grows,
			Volume: newVolume()},
		"the claim asks for 2Gi: wait until the resizer of the CSI driver ebs.csi.aws.com makes its volume larger": {Claim: grows,
			Volume: newVolume(ebs())},
		"the claim asks for 2Gi: wait until an external controller makes its volume larger": {Claim: grows,
			Volume: newVolume(from(corev1.PersistentVolumeSource{}))},
	} {
		if p := planHandOver(epoch, s); p.Why != want {
			t.Errorf("%q, want %q", p.Why, want)
		}
	}
}
