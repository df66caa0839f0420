package clustertrustbundlepublisher

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type (
	bundle = certificatesv1.ClusterTrustBundle
	edit   = func(*bundle)
)

// ownName is the name of the bundle whose content is "CA".
const ownName = "kubernetes.io:kube-apiserver-serving:4b650e5c4785025dee7bd65e"

// newBundle is a bundle of the signer.
func newBundle(name, content string, edits ...edit) *bundle {
	b := &bundle{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid of " + name), ResourceVersion: "7"},
		Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: "kubernetes.io/kube-apiserver-serving", TrustBundle: content}}
	for _, edit := range edits {
		edit(b)
	}
	return b
}

// other is one of the signer with another content.
func other(edits ...edit) *bundle {
	return newBundle("kubernetes.io:kube-apiserver-serving:old", "old CA", edits...)
}

func own(edits ...edit) *bundle { return newBundle(ownName, "CA", edits...) }

func holding(content string) edit { return func(b *bundle) { b.Spec.TrustBundle = content } }

func leaving(b *bundle) { b.DeletionTimestamp = &metav1.Time{Time: epoch} }

func labelled(b *bundle) { b.Labels = map[string]string{"team": "a"} }

func ofSomebody(b *bundle) { b.Spec.SignerName = "example.com/s" }

func TestCTB3Name(t *testing.T) {
	if got := nameOf("CA"); got != ownName {
		t.Errorf("%s", got)
	}
}

// writes are the writes of a plan in words.
func writes(p plan.Plan) (all []string) {
	for _, step := range p.Steps {
		switch step := step.(type) {
		case plan.Create:
			all = append(all, "create "+step.Object.GetName())
		case plan.Change:
			all = append(all, "change "+step.New.GetName())
		case plan.Delete:
			for _, o := range step.Objects {
				all = append(all, "delete "+o.GetName())
			}
		}
	}
	return all
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	const creates, changes, deletes = "create " + ownName, "change " + ownName, "delete kubernetes.io:kube-apiserver-serving:old"
	for _, c := range []struct {
		name    string
		bundles []*bundle
		kubecfg bool // there is no --root-ca-file
		want    []string
	}{
		{"CTB-3 there is none", nil, false, []string{creates}},
		{"CTB-3 it is as it should be", []*bundle{own(labelled)}, false, nil},
		{"CTB-3 its content differs", []*bundle{own(holding("x"))}, false, []string{changes}},
		{"CTB-3 there is another one only: it goes when its successor is there", []*bundle{other()}, false, []string{creates, deletes}},
		{"CTB-3 there is another one, too", []*bundle{other(), own()}, false, []string{deletes}},
		{"another one with the same content", []*bundle{other(holding("CA")), own()}, false, []string{deletes}},
		{"another one that is being deleted", []*bundle{other(leaving), own()}, false, nil},
		{"one of another signer", []*bundle{other(ofSomebody), own()}, false, nil},
		{"it is being deleted: the others stay until there is a new one", []*bundle{other(), own(leaving)}, false, nil},
		{"CTB-20 a kubeconfig says what to publish, and there is none", nil, true, []string{creates}},
		{"CTB-20 a kubeconfig does not say that others are wrong", []*bundle{other()}, true, []string{creates}},
		{"CTB-20 but what is called after its content has it", []*bundle{other(), own(holding("x"))}, true, []string{changes}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planBundle(epoch, snapshot{Authorities: "CA", Authoritative: !c.kubecfg, Bundles: c.bundles})
			got := writes(p)
			if diff := cmp.Diff(c.want, got); diff != "" || p.Why == "" || p.Requeue != 0 {
				t.Errorf("%s, again in %v: %s", p.Why, p.Requeue, diff)
			}
		})
	}
	if p := planBundle(epoch, snapshot{Authoritative: true, Bundles: []*bundle{other()}}); !p.Empty() {
		t.Error("an empty bundle is published")
	}
}
