package oracle

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	servingSigner = "kubernetes.io/kube-apiserver-serving"
	servingPrefix = "kubernetes.io:kube-apiserver-serving:"

	identityLabel = "apiserver.kubernetes.io/identity"
)

// OnlyTheObsoleteGoes is S39. Of ClusterTrustBundles managers write only those of the API server's own signer: what they create or change
// is called after its content (CTB-3), and one goes only while there is such a bundle, or was within the lag. Of a StorageVersion they drop
// entries, and write nothing else about them: those of API servers without a Lease (SVG-1, SVG-2), or whose Lease has come within the lag.
// A cache that lacks a Lease for longer excuses nothing, nor does a read that has failed (SVG-20).
func OnlyTheObsoleteGoes() Oracle {
	return Oracle{"S39", "trust bundles and entries of StorageVersions go only when they are obsolete", func(j *judge) hooks {
		o := &obsoleteJudge{judge: j, leases: map[string]time.Time{}, bundles: map[string]bool{}}
		return hooks{before: o.before, after: o.after}
	}}
}

// obsoleteJudge is what S39 remembers.
type obsoleteJudge struct {
	*judge
	leases  map[string]time.Time // since when API servers have one
	bundles map[string]bool      // that are called after their content
	lost    time.Time            // when the last of these has gone; zero if none ever has
}

func (o *obsoleteJudge) before(r *revision) {
	if !r.manager {
		return
	}
	switch object := r.Object.(type) {
	case *certificatesv1.ClusterTrustBundle:
		o.bundle(r, object)
	case *apiserverinternalv1alpha1.StorageVersion:
		if old, ok := r.old.(*apiserverinternalv1alpha1.StorageVersion); ok {
			o.entries(r, old, object)
		}
	}
}

// bundle judges what a manager does to a trust bundle.
func (o *obsoleteJudge) bundle(r *revision, b *certificatesv1.ClusterTrustBundle) {
	own := len(o.bundles)
	if o.bundles[b.Name] {
		own--
	}
	switch {
	case b.Spec.SignerName != servingSigner:
		o.judges(false)
		o.report(r, nil, "a manager writes a bundle of the signer %q", b.Spec.SignerName)
	case !r.deletes():
		if o.judges(false); !calledAfterContent(b) {
			o.report(r, nil, "a manager publishes a bundle whose content is not that of its name")
		}
	case own > 0:
		o.judges(false)
	case o.recent(r, o.lost, ClusterTrustBundle):
		o.judges(true)
	default:
		o.judges(false)
		o.report(r, nil, "deleted while nothing is published in its place")
	}
}

// calledAfterContent reports whether a bundle has the content that its name says.
func calledAfterContent(b *certificatesv1.ClusterTrustBundle) bool {
	sum := sha256.Sum256([]byte(b.Spec.TrustBundle))
	return b.Spec.SignerName == servingSigner && b.Name == servingPrefix+hex.EncodeToString(sum[:])[:24]
}

// entries judges what a manager does to the entries of a StorageVersion.
func (o *obsoleteJudge) entries(r *revision, old, v *apiserverinternalv1alpha1.StorageVersion) {
	left := v.Status.StorageVersions
	if r.deletes() {
		left = nil
	}
	excused := false
	for _, e := range old.Status.StorageVersions {
		stays := slices.ContainsFunc(left, func(l apiserverinternalv1alpha1.ServerStorageVersion) bool {
			return equality.Semantic.DeepEqual(e, l)
		})
		since, there := o.leases[e.APIServerID]
		switch {
		case stays || !there:
		case o.recent(r, since, r.kind):
			excused = true
		default:
			o.judges(false)
			o.report(r, []string{"Lease/" + metav1.NamespaceSystem + "/" + e.APIServerID}, "the entry of %s is dropped, which has a Lease since %s",
				e.APIServerID, since.UTC().Format("15:04:05.000"))
			return
		}
	}
	o.judges(excused)
}

// after notes which API servers there are, and which bundles are called after their content.
func (o *obsoleteJudge) after(r *revision) {
	switch object := r.Object.(type) {
	case *coordinationv1.Lease:
		_, known := o.leases[object.Name]
		switch is := r.Type != Deleted && object.Labels[identityLabel] == "kube-apiserver"; {
		case object.Namespace != metav1.NamespaceSystem:
		case !is:
			delete(o.leases, object.Name)
		case !known:
			o.leases[object.Name] = o.now
		}
	case *certificatesv1.ClusterTrustBundle:
		switch sound := r.Type != Deleted && object.DeletionTimestamp == nil && calledAfterContent(object); {
		case sound:
			o.bundles[object.Name] = true
		case o.bundles[object.Name]:
			delete(o.bundles, object.Name)
			o.lost = o.now
		}
	}
}
