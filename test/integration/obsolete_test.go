package integration

import (
	"slices"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/suite"
)

// Requests for the certificates of pods go when they are old, whatever became of them.
func TestOldRequestsForCertificatesOfPodsGo(t *testing.T) { share(t).oldPodCertificateRequests() } // CSR-43, PCC-1

func (b *bench) oldPodCertificateRequests() { b.play("podcertificaterequest-cleaner-controller") }

// The trust bundle of the API server is published, brought back and never missing, and others of its signer go.
func TestTheTrustBundleOfTheAPIServer(t *testing.T) { share(t).disturbedTrustBundle() } // CTB-1 to CTB-4

func (b *bench) disturbedTrustBundle() {
	b.play("kube-apiserver-serving-clustertrustbundle-publisher-controller")
}

// What API servers have reported goes with their Leases.
func TestStorageVersionsOfAPIServersThatAreGone(t *testing.T) { share(t).endOfAPIServers() } // SVG-1 to SVG-3

func (b *bench) endOfAPIServers() { b.play("storageversion-garbage-collector-controller") }

// play plays the scenario of a controller, if the server has the API that it needs.
func (b *bench) play(controller string) {
	b.Helper()
	all := servedEntries(b.T, b.Cluster)
	i := slices.IndexFunc(all, func(e suite.Entry) bool { return e.Controller == controller })
	if i < 0 {
		b.Logf("%s: the server does not have the API", controller)
		return
	}
	all[i].Scenarios[0].Play(b.user())
}
