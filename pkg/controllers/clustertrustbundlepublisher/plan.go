package clustertrustbundlepublisher

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// signer is that of the bundles, by which pods select them (CTB-3).
	signer = "kubernetes.io/kube-apiserver-serving"
	// prefix begins the names of its bundles, as the API server demands.
	prefix = "kubernetes.io:kube-apiserver-serving"
	digits = 24 // of the hash of the content, in a name
)

// snapshot is what is to be published, and the bundles of the signer. Observe fills it; planBundle and the metrics read
// it. The objects belong to a shared cache.
type snapshot struct {
	Authorities   string // in PEM
	Authoritative bool   // they are known to be right, so other bundles are wrong
	Bundles       []*certificatesv1.ClusterTrustBundle
	Began         time.Time // when the reconcile did
}

// nameOf is the name of the bundle with this content (CTB-3).
func nameOf(authorities string) string {
	sum := sha256.Sum256([]byte(authorities))
	return prefix + ":" + hex.EncodeToString(sum[:])[:digits]
}

// planBundle creates the bundle that is called after its content, or brings it back to that. Then it deletes the others
// of the signer, but only if --root-ca-file says what is right: a kubeconfig may have the authority of a proxy, and
// that of another manager another one.
func planBundle(_ time.Time, s snapshot) plan.Plan {
	if s.Authorities == "" {
		return plan.Plan{Why: "there are no certificate authorities to publish"}
	}
	name := nameOf(s.Authorities)
	var own *certificatesv1.ClusterTrustBundle
	var others []plan.Object
	for _, b := range s.Bundles {
		switch {
		case b.Name == name:
			own = b
		case b.DeletionTimestamp == nil && b.Spec.SignerName == signer:
			others = append(others, b)
		}
	}
	p := publish(name, s.Authorities, own)
	switch {
	case len(others) == 0:
	case !s.Authoritative:
		p.Why += fmt.Sprintf("; without --root-ca-file %d others stay", len(others))
	case own != nil && own.DeletionTimestamp != nil:
		p.Why += fmt.Sprintf("; until then %d others stay", len(others))
	default:
		const why = "the bundle does not have the certificate authorities of --root-ca-file"
		p.Why += fmt.Sprintf("; then delete %d others", len(others))
		p.Steps = append(p.Steps, plan.Delete{Objects: others, Why: why})
	}
	return p
}

// publish creates the bundle, or brings the one that there is back to its content.
func publish(name, authorities string, own *certificatesv1.ClusterTrustBundle) plan.Plan {
	switch {
	case own == nil:
		return plan.Plan{Why: "create the bundle " + name, Steps: []plan.Step{plan.Create{
			Object: &certificatesv1.ClusterTrustBundle{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: authorities},
			},
			Why: "there is no bundle " + name,
		}}}
	case own.DeletionTimestamp != nil:
		return plan.Plan{Why: "the bundle " + name + " is being deleted: when it is gone, another one is created"}
	case own.Spec.TrustBundle == authorities:
		return plan.Plan{Why: "the bundle " + name + " is as it should be"}
	}
	after := own.DeepCopy()
	after.Spec.TrustBundle = authorities
	const why = "its content is not what its name says"
	return plan.Plan{Why: "change the bundle " + name + ": " + why,
		Steps: []plan.Step{plan.Change{Old: own, New: after, Why: why}}}
}
