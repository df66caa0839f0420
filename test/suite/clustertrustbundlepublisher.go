package suite

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

type trustBundle = certificatesv1.ClusterTrustBundle

const (
	servingSigner = "kubernetes.io/kube-apiserver-serving" // of the bundles with the authorities of the API server (CTB-3)
	otherSigner   = "example.com/signer"
)

func trustBundlePublisherEntry() Entry {
	return Entry{
		Controller: "kube-apiserver-serving-clustertrustbundle-publisher-controller",
		Alone:      "there is one bundle for the whole cluster",
		Operations: map[string]Operation{
			// do=edit, delete: the bundles of the API server; NAME signer=: another bundle, of the API server if there is no other signer
			"trustbundle": changeTrustBundle,
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			g.Add(at, "trustbundle %s-%d signer=%s", app, g.IntN(2), workload.Pick(g, servingSigner, servingSigner, otherSigner))
			g.Add(soon, "trustbundle do=%s", workload.Pick(g, "delete", "edit"))
		}}},
		Settled: trustBundlesSettled,
		Scenarios: []Scenario{{Name: "the trust bundle is changed and deleted, and others come", Play: func(u *User) {
			for i := range 2 {
				u.disturbTrustBundle(func(name string) error { return remove[*trustBundle](u, name) })
				u.disturbTrustBundle(u.editTrustBundle)
				u.disturbTrustBundle(func(string) error {
					return ignoreExists(create(u, newTrustBundle(fmt.Sprint("old-", i), servingSigner)))
				})
			}
		}}},
		Malformed: map[string]string{
			"clustertrustbundles/kubernetes.io:kube-apiserver-serving:odd": `{"apiVersion":"certificates.k8s.io/v1","kind":"ClusterTrustBundle","metadata":${META},
				"spec":{"signerName":"kubernetes.io/kube-apiserver-serving","trustBundle":""}}`,
		},
		Mutants: trustBundleMutants,
		Budgets: []Budget{{
			Name: "the trust bundle is changed 20 times", Floor: floor.Writes{Other: 20},
			Do: func(u *User) {
				for range 20 {
					u.disturbTrustBundle(u.editTrustBundle)
				}
			},
		}},
	}
}

// newTrustBundle returns a bundle with another authority than that of the API server.
func newTrustBundle(name, signer string) *trustBundle {
	content, _ := newAuthority("other")
	return &trustBundle{ObjectMeta: metav1.ObjectMeta{Name: strings.ReplaceAll(signer, "/", ":") + ":" + name},
		Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: string(content)}}
}

// trustBundleName is the name of the bundle with this content.
func trustBundleName(content string) string {
	sum := sha256.Sum256([]byte(content))
	return strings.ReplaceAll(servingSigner, "/", ":") + ":" + hex.EncodeToString(sum[:])[:24]
}

// editTrustBundle gives a bundle another content.
func (u *User) editTrustBundle(name string) error {
	return edit(u, name, func(b *trustBundle) { b.Spec.TrustBundle = newTrustBundle("", "").Spec.TrustBundle })
}

// changeTrustBundle does to trust bundles what users should not, and creates others.
func changeTrustBundle(u *User, l script.Line) error {
	do, ok := l.Get("do")
	if !ok {
		signer, _ := l.Get("signer")
		return create(u, newTrustBundle(l.Arg(0), signer))
	}
	all, err := list[*trustBundle](u)
	for _, b := range all {
		switch {
		case b.Spec.SignerName != servingSigner || err != nil:
		case do == "delete":
			err = remove[*trustBundle](u, b.Name)
		default:
			err = u.editTrustBundle(b.Name)
		}
	}
	return err
}

// publishedBundle is the name of the only bundle of the API server, whose content is that of its name; empty if there is another one.
func (u *User) publishedBundle() string {
	all, err := list[*trustBundle](u)
	var published []string
	for _, b := range all {
		if b.Spec.SignerName == servingSigner {
			published = append(published, b.Name)
			if b.Name != trustBundleName(b.Spec.TrustBundle) {
				return ""
			}
		}
	}
	if err != nil || len(published) != 1 {
		return ""
	}
	return published[0]
}

// disturbTrustBundle does something about the bundle when it is published, and waits until it is so again.
func (u *User) disturbTrustBundle(do func(name string) error) {
	u.Helper()
	name := ""
	published := func() error {
		name = u.publishedBundle()
		return unless(name != "", "the bundle is not published, or another one is")
	}
	u.Wait("the trust bundle is published", Patience, published)
	u.Try("disturb the trust bundle", func() error { return ignoreNotFound(do(name)) })
	u.Wait("the trust bundle is published again", Patience, published)
}

// trustBundlesSettled says which bundles of the API server are there besides that with its authorities (CTB-3).
func trustBundlesSettled(s *View) (wrong []string) {
	authorities, err := os.ReadFile(s.Authority())
	if err != nil {
		return []string{err.Error()}
	}
	name, there := trustBundleName(string(authorities)), false
	for _, b := range subjects[*trustBundle](s) {
		switch {
		case b.Spec.SignerName != servingSigner || b.DeletionTimestamp != nil:
		case b.Name != name:
			wrong = append(wrong, fmt.Sprintf("there is another bundle of the API server, %s", b.Name))
		case b.Spec.TrustBundle != string(authorities):
			wrong = append(wrong, "the bundle of the API server has another content")
		default:
			there = true
		}
	}
	if len(wrong) == 0 && !there {
		wrong = append(wrong, "there is no bundle with the authorities of the API server")
	}
	return wrong
}

const trustBundlePlan = "pkg/controllers/clustertrustbundlepublisher/plan.go"

var trustBundleMutants = []Mutant{
	{
		Name: "another trust bundle goes before there is one in its place",
		Edits: []Edit{{trustBundlePlan, "p.Steps = append(p.Steps, plan.Delete{Objects: others, Why: why})",
			"p.Steps = append([]plan.Step{plan.Delete{Objects: others, Why: why}}, p.Steps...)"}},
		Script: withoutElection + "\n\t\t\tat 0s  trustbundle old signer=" + servingSigner,
		Oracle: "S39",
	},
	{
		Name:   "a trust bundle is not called after its content",
		Edits:  []Edit{{trustBundlePlan, "hex.EncodeToString(sum[:])[:digits]", "hex.EncodeToString(sum[:])[1 : digits+1]"}},
		Script: withoutElection + "\n\t\t\tat 10s  trustbundle do=delete",
		Oracle: "S39",
	},
	{
		Name:   "edits of a trust bundle stay",
		Edits:  []Edit{{trustBundlePlan, "case own.Spec.TrustBundle == authorities:", "case len(own.Spec.TrustBundle) >= min(1, len(authorities)):"}},
		Script: withoutElection + "\n\t\t\tat 10s  trustbundle do=edit",
		Oracle: SettledOracle,
	},
	{
		Name:   "nothing is published where no trust bundle is left",
		Edits:  []Edit{{trustBundlePlan, `if s.Authorities == "" {`, `if s.Authorities == "" || len(s.Bundles) == 0 {`}},
		Script: withoutElection + "\n\t\t\tat 10s  trustbundle do=delete",
		Oracle: SettledOracle,
	},
	{
		Name:   "other trust bundles stay beside the right one",
		Edits:  []Edit{{trustBundlePlan, "case !s.Authoritative:", "case !s.Authoritative || own != nil:"}},
		Script: withoutElection + "\n\t\t\tat 10s  trustbundle old signer=" + servingSigner,
		Oracle: SettledOracle,
	},
}
