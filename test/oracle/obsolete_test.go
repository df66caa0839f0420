package oracle

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOnlyTheObsoleteGoes(t *testing.T) { // S39
	t.Run("bundles", testBundles)
	t.Run("storage versions", testStorageVersions)
}

func aBundle(name, signer, content string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: content}}
}

// ownBundle is called after its content.
func ownBundle(content string) *certificatesv1.ClusterTrustBundle {
	sum := sha256.Sum256([]byte(content))
	return aBundle(servingPrefix+hex.EncodeToString(sum[:])[:24], servingSigner, content)
}

func testBundles(t *testing.T) {
	old := func() *certificatesv1.ClusterTrustBundle { return aBundle(servingPrefix+"old", servingSigner, "old") }
	mine := func(o Object) { o.(*certificatesv1.ClusterTrustBundle).Spec.TrustBundle = "mine" }
	run(t, OnlyTheObsoleteGoes(), []history{
		{name: "CTB-3 published", write: func(s *scene) { s.Manager().Create(ownBundle("CA")) }},
		{name: "CTB-3 published with another name", write: func(s *scene) { s.Manager().Create(old()) }, want: "not that of its name"},
		{name: "CTB-3 brought back", write: func(s *scene) {
			b := s.User().Create(ownBundle("CA"))
			s.Manager().Edit(s.User().Edit(b, mine), func(o Object) { o.(*certificatesv1.ClusterTrustBundle).Spec.TrustBundle = "CA" })
		}},
		{name: "CTB-3 changed to what its name does not say", want: "not that of its name",
			write: func(s *scene) { s.Manager().Edit(s.User().Create(ownBundle("CA")), mine) }},
		{name: "CTB-3 another one goes", write: func(s *scene) {
			b := s.User().Create(old())
			s.Manager().Create(ownBundle("CA"))
			s.Manager().Delete(b)
		}},
		{name: "CTB-3 another one goes first", write: func(s *scene) { s.Manager().Delete(s.User().Create(old())) }, want: "in its place"},
		{name: "CTB-3 the only one goes", write: func(s *scene) { s.Manager().Delete(s.User().Create(ownBundle("CA"))) }, want: "in its place"},
		{name: "another one goes, and its successor went a moment ago", write: func(s *scene) {
			b, own := s.User().Create(old()), s.Manager().Create(ownBundle("CA"))
			s.User().Delete(own)
			s.Manager().Delete(b)
		}},
		{name: "another one goes, and its successor went long ago", write: func(s *scene) {
			b, own := s.User().Create(old()), s.Manager().Create(ownBundle("CA"))
			s.User().Delete(own)
			s.Wait(time.Minute)
			s.Manager().Delete(b)
		}, want: "in its place"},
		{name: "one of another signer goes", write: func(s *scene) {
			b := s.User().Create(aBundle("example.com:s:a", "example.com/s", "CA"))
			s.Manager().Create(ownBundle("CA"))
			s.Manager().Delete(b)
		}, want: "a bundle of the signer"},
		{name: "a user deletes all", write: func(s *scene) { s.User().Delete(s.User().Create(ownBundle("CA"))) }},
	})
}

func testStorageVersions(t *testing.T) {
	const dropped = "which has a Lease since"
	lease := func(s *scene, id, of string) Object {
		return s.User().Create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: id,
			Labels: map[string]string{identityLabel: of}}})
	}
	version := func(s *scene, ids ...string) Object {
		v := &apiserverinternalv1alpha1.StorageVersion{ObjectMeta: metav1.ObjectMeta{Name: "apps.deployments"}}
		for _, id := range ids {
			v.Status.StorageVersions = append(v.Status.StorageVersions,
				apiserverinternalv1alpha1.ServerStorageVersion{APIServerID: id, EncodingVersion: "v1"})
		}
		return s.User().Create(v)
	}
	first := func(o Object) {
		v := o.(*apiserverinternalv1alpha1.StorageVersion)
		v.Status.StorageVersions = v.Status.StorageVersions[1:]
	}
	run(t, OnlyTheObsoleteGoes(), []history{
		{name: "SVG-2 there was never a Lease", write: func(s *scene) { s.Manager().Edit(version(s, "a", "b"), first) }},
		{name: "SVG-1 the Lease is gone", write: func(s *scene) {
			l := lease(s, "a", "kube-apiserver")
			v := version(s, "a", "b")
			s.User().Delete(l)
			s.Manager().Edit(v, first)
		}},
		{name: "SVG-20 the Lease is there", write: func(s *scene) {
			lease(s, "a", "kube-apiserver")
			s.Wait(time.Minute)
			s.Manager().Edit(version(s, "a", "b"), first)
		}, want: dropped},
		{name: "SVG-20 the Lease is there, and all goes", write: func(s *scene) {
			lease(s, "a", "kube-apiserver")
			s.Wait(time.Minute)
			s.Manager().Delete(version(s, "a"))
		}, want: dropped},
		{name: "SVG-2 a Lease of somebody else", write: func(s *scene) {
			lease(s, "a", "x")
			s.Wait(time.Minute)
			s.Manager().Edit(version(s, "a", "b"), first)
		}},
		{name: "a Lease that has come a moment ago", write: func(s *scene) {
			v := version(s, "a", "b")
			lease(s, "a", "kube-apiserver")
			s.Manager().Edit(v, first)
		}},
		{name: "an entry is changed of an API server that is there", write: func(s *scene) {
			lease(s, "a", "kube-apiserver")
			s.Wait(time.Minute)
			s.Manager().Edit(version(s, "a"), func(o Object) {
				o.(*apiserverinternalv1alpha1.StorageVersion).Status.StorageVersions[0].EncodingVersion = "v2"
			})
		}, want: dropped},
		{name: "a user drops it", write: func(s *scene) {
			lease(s, "a", "kube-apiserver")
			s.Wait(time.Minute)
			s.User().Edit(version(s, "a", "b"), first)
		}},
	})
}
