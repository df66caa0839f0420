package suite

import (
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func csrApprovingEntry() Entry {
	return Entry{
		Controller: "certificatesigningrequest-approving-controller",
		Operations: map[string]workload.Operation{
			"csr":           request,    // NAME kind= seconds=; do=label, delete
			"csrpermission": permission, // do=revoke, grant
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			name := fmt.Sprintf("%s-%d", app, g.IntN(3))
			g.Add(at, "csr %s kind=%s", name, workload.Pick(g, requestKinds...))
			g.Add(soon, "csr %s do=%s", name, workload.Pick(g, "label", "label", "delete"))
			if g.IntN(3) == 0 {
				g.Add(g.Early(), "csrpermission do=revoke")
				g.Add(soon, "csrpermission do=grant")
			}
		}}},
		Settled: approvalsSettled,
		Scenarios: []Scenario{{Name: "kubelets ask for certificates", Play: func(u *User) {
			for i := range 5 {
				u.makeRequest(fmt.Sprint("join-", i), kubelet)
			}
			for i := range 5 {
				u.waitCertificate(fmt.Sprint("join-", i))
			}
		}}},
		Malformed: map[string]string{
			"certificatesigningrequests/nothing": `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":${META},
				"spec":{"request":"","signerName":"kubernetes.io/kube-apiserver-client-kubelet","usages":[""],"username":"system:node:x","extra":{"":null}}}`,
		},
		Mutants: csrApprovingMutants,
		Budgets: []Budget{{
			Name: "50 kubelets ask for certificates", Floor: floor.Writes{Status: 50, Other: 50}, // the certificate, the approval
			Do: func(u *User) {
				u.Each(50, func(i int) error { return u.createRequest(fmt.Sprint("join-", i), kubelet) })
				for i := range 50 {
					u.waitCertificate(fmt.Sprint("join-", i))
				}
			},
		}},
	}
}

// requestName is that of a request of the user: requests have no namespace.
func (u *User) requestName(name string) string { return u.Namespace + "-" + name }

// createRequest makes a request, which goes with the test, as no namespace takes it along.
func (u *User) createRequest(name, kind string) error {
	requests := u.Client.CertificatesV1().CertificateSigningRequests()
	r := newRequest(u.requestName(name), kind)
	u.mark(r)
	_, err := requests.Create(ctx(), r, metav1.CreateOptions{})
	if err == nil {
		u.Cleanup(func() { _ = requests.Delete(ctx(), u.requestName(name), metav1.DeleteOptions{}) })
	}
	return ignoreExists(err)
}

func (u *User) makeRequest(name, kind string) {
	u.Helper()
	u.Try("make the request "+name, func() error { return u.createRequest(name, kind) })
}

// Approve approves a request that was made for the user.
func (u *User) Approve(name string) {
	u.Helper()
	u.decideRequest(name, "approve", 0)
}

// decideRequest approves or denies a request, as if that was so many seconds ago.
func (u *User) decideRequest(name, do string, ago int) {
	u.Helper()
	u.Try(do+" the request "+name, func() error {
		r, err := u.Client.CertificatesV1().CertificateSigningRequests().Get(ctx(), u.requestName(name), metav1.GetOptions{})
		if err != nil {
			return err
		}
		decideRequest(r, do, ago)
		_, err = u.Client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx(), r.Name, r, metav1.UpdateOptions{})
		return err
	})
}

func (u *User) waitRequest(name, what string, check func(*signingRequest) bool) {
	u.Helper()
	u.Wait("the request "+name+" "+what, Patience, func() error {
		r, err := u.Client.CertificatesV1().CertificateSigningRequests().Get(ctx(), u.requestName(name), metav1.GetOptions{})
		if err == nil && !check(r) {
			err = fmt.Errorf("%+v", r.Status)
		}
		return err
	})
}

func (u *User) waitCertificate(name string) {
	u.Helper()
	u.waitRequest(name, "has a certificate", func(r *signingRequest) bool { return len(r.Status.Certificate) > 0 })
}

func (u *User) waitGivenUp(name string) {
	u.Helper()
	u.waitRequest(name, "is given up", func(r *signingRequest) bool { return requestCondition(r, certificatesv1.CertificateFailed) != nil })
}

func (u *User) waitRequestGone(name string) {
	u.Helper()
	u.Wait("the request "+name+" is gone", Patience, func() error {
		_, err := u.Client.CertificatesV1().CertificateSigningRequests().Get(ctx(), u.requestName(name), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

const csrApproving = "pkg/controllers/csrapproving/"

var csrApprovingMutants = []Mutant{
	{
		Name:   "a request is approved though who asks may not have the certificate",
		Edits:  []Edit{{csrApproving + "observe.go", "if answer.Allowed && !answer.Denied {", "if !answer.Denied {"}},
		Script: withoutElection + "\n\t\t\tat 1s   csrpermission do=revoke\n\t\t\tat 80s  csr a kind=kubelet",
		Oracle: SettledOracle,
	},
	{
		Name:   "a request is approved that is not like that of a kubelet",
		Edits:  []Edit{{csrApproving + "plan.go", "violation := csrutil.KubeletViolation(r.Spec.Usages, parsed); violation != \"\" {", "violation := csrutil.KubeletViolation(r.Spec.Usages, parsed); violation != \"\" && r.Name == \"\" {"}},
		Script: withoutElection + "\n\t\t\tat 10s  csr a kind=strange",
		Oracle: SettledOracle,
	},
	{
		Name: "certificates with which kubelets serve are approved",
		Edits: []Edit{
			{csrApproving + "plan.go", "return r.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName && !csrutil.Decided(r)", "return !csrutil.Decided(r)"},
			{csrApproving + "plan.go", "violation := csrutil.KubeletViolation(r.Spec.Usages, parsed); violation != \"\" {", "violation := csrutil.Violation(r.Spec.SignerName, r.Spec.Usages, parsed); violation != \"\" {"},
		},
		Script: withoutElection + "\n\t\t\tat 10s  csr a kind=serving",
		Oracle: SettledOracle,
	},
	{
		Name:   "who was refused a certificate is not asked about again",
		Edits:  []Edit{{csrApproving + "plan.go", "Requeue: max(s.Next.Sub(now), time.Millisecond),", "Requeue: 0 * s.Next.Sub(now),"}},
		Script: withoutElection + "\n\t\t\tat 5s   csrpermission do=revoke\n\t\t\tat 10s  csr a kind=kubelet\n\t\t\tat 20s  csrpermission do=grant",
		Oracle: SettledOracle,
	},
	{
		Name:   "a request is approved that was denied",
		Edits:  []Edit{{csrApproving + "plan.go", "&& !csrutil.Decided(r)", "&& !csrutil.Has(r, certificatesv1.CertificateApproved)"}},
		Script: withoutElection + "\n\t\t\tat 5s   csrpermission do=revoke\n\t\t\tat 10s  csr a kind=kubelet\n\t\t\tat 15s  csrdecide a do=deny\n\t\t\tat 20s  csrpermission do=grant",
		Oracle: SettledOracle,
	},
}
