package csrcleaner

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/internal/testing/csrtest"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// since has a condition that was updated so long before epoch.
func since(kind certificatesv1.RequestConditionType, ago time.Duration) func(*csrutil.Request) {
	return csrtest.Condition(kind, epoch.Add(-ago))
}

// issued has a certificate that is valid for so long from epoch.
func issued(rest time.Duration) func(*csrutil.Request) {
	return func(r *csrutil.Request) {
		r.Status.Certificate = csrtest.NewAuthority("any", epoch.Add(-24*time.Hour), epoch.Add(rest)).PEM()
	}
}

func created(ago time.Duration) func(*csrutil.Request) {
	return func(r *csrutil.Request) { r.CreationTimestamp = metav1.NewTime(epoch.Add(-ago)) }
}

func garbled(r *csrutil.Request) {
	r.Status.Certificate = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	const approved, denied, failed = certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed
	type edits []func(*csrutil.Request)
	timeless := csrtest.Condition(approved, time.Time{})
	for _, c := range []struct {
		name    string
		edits   edits
		deletes bool
		next    time.Duration
	}{
		{"CSR-36 signed an hour ago", edits{since(approved, time.Hour), issued(time.Hour)}, true, 0},
		{"CSR-36 signed less than an hour ago", edits{since(approved, 59*time.Minute), issued(time.Hour)}, false, time.Minute},
		{"CSR-37 denied an hour ago", edits{since(denied, time.Hour)}, true, 0},
		{"CSR-37 denied just now", edits{since(denied, 0)}, false, time.Hour},
		{"CSR-38 given up an hour ago", edits{since(approved, 2*time.Hour), since(failed, time.Hour)}, true, 0},
		{"CSR-38 given up half an hour ago", edits{since(approved, 2*time.Hour), since(failed, 30*time.Minute)}, false, 30 * time.Minute},
		{"CSR-39 nobody has decided for a day", edits{created(24 * time.Hour)}, true, 0},
		{"CSR-39 nobody has decided yet", edits{created(23 * time.Hour)}, false, time.Hour},
		{"CSR-40 no signer has signed for a day", edits{since(approved, 24*time.Hour)}, true, 0},
		{"CSR-40 no signer has signed yet", edits{since(approved, 2*time.Hour), created(48 * time.Hour)}, false, 22 * time.Hour},
		{"CSR-41 the certificate has expired", edits{since(approved, time.Minute), issued(-time.Second)}, true, 0},
		{"CSR-41 it expires before the hour is over", edits{since(approved, 0), issued(time.Minute)}, false, time.Minute},
		{"CSR-41 it has expired, and nobody has approved it", edits{since(denied, 0), issued(-time.Second)}, false, time.Hour},
		{"CSR-41 CSR-42 it has expired, whenever it was approved", edits{timeless, issued(-time.Second)}, true, 0},
		{"CSR-42 nobody says when it was approved", edits{timeless, created(100 * time.Hour)}, false, 0},
		{"CSR-42 nor when the certificate expires", edits{timeless, garbled}, false, 0},
		{"CSR-42 nobody says when it was made", nil, false, 0},
		{"a certificate that expires in ten years", edits{timeless, issued(10 * 365 * 24 * time.Hour)}, false, longestWait},
		{"another condition alone", edits{since("Pending", 48*time.Hour), created(48 * time.Hour)}, false, 0},
		{"it is being deleted",
			edits{since(denied, time.Hour), func(r *csrutil.Request) { r.DeletionTimestamp = &metav1.Time{Time: epoch} }}, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := csrtest.Kubelet(c.edits...)
			p := planDeletion(epoch, snapshot{Request: r})
			if p.Why == "" || p.Requeue != c.next || p.Empty() == c.deletes {
				t.Fatalf("%+v", p)
			}
			if c.deletes {
				if d := p.Steps[0].(plan.Delete); len(d.Objects) != 1 || d.Objects[0] != plan.Object(r) || !d.CheckVersion {
					t.Errorf("%+v", d)
				}
			}
		})
	}
	if p := planDeletion(epoch, snapshot{}); !p.Empty() {
		t.Error(p.Why)
	}
}

// draw is any request.
func draw(t *rapid.T) *csrutil.Request {
	r := csrtest.Kubelet(created(time.Duration(rapid.IntRange(0, 50).Draw(t, "age")) * time.Hour))
	if rapid.Bool().Draw(t, "anything") {
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(r)
	}
	for range rapid.IntRange(0, 3).Draw(t, "conditions") {
		kind := rapid.SampledFrom([]string{"Approved", "Denied", "Failed", "x"}).Draw(t, "type")
		since(certificatesv1.RequestConditionType(kind), time.Duration(rapid.IntRange(-10, 3000).Draw(t, "ago"))*time.Minute)(r)
	}
	if rapid.Bool().Draw(t, "garbled") {
		garbled(r)
	}
	return r
}

// Whatever the request is: planning does not panic or change it.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := draw(t)
		before := r.DeepCopy()
		p := planDeletion(epoch, snapshot{Request: r})
		if diff := cmp.Diff(before, r); diff != "" || p.Requeue < 0 {
			t.Errorf("requeue %v, changed: %s", p.Requeue, diff)
		}
	})
}

// CSR-36..40: nothing is deleted within an hour of all its times, and the time of the next look is the one at which it is deleted.
func TestDeletedWhenDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := draw(t)
		p := planDeletion(epoch, snapshot{Request: r})
		recent := epoch.Sub(r.CreationTimestamp.Time) < time.Hour
		for _, c := range r.Status.Conditions {
			recent = recent && epoch.Sub(c.LastUpdateTime.Time) < time.Hour
		}
		if recent && !p.Empty() {
			t.Errorf("%s: %+v", p.Why, r)
		}
		if p.Requeue > 0 && p.Requeue < longestWait {
			if early := planDeletion(epoch.Add(p.Requeue-1), snapshot{Request: r}); !early.Empty() {
				t.Error("deleted early:", early.Why)
			}
			if due := planDeletion(epoch.Add(p.Requeue), snapshot{Request: r}); due.Empty() {
				t.Error("not deleted when it is due:", due.Why)
			}
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshot{Request: draw(t)}
		if a, b := planDeletion(epoch, s), planDeletion(epoch, plantest.Restored(t, s)); a.Why != b.Why {
			t.Errorf("%s, and after it was stored: %s", a.Why, b.Why)
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		r := draw(t)
		whole := planDeletion(epoch, snapshot{Request: r})
		o, err := kept.Project(r.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if p := planDeletion(epoch, snapshot{Request: o.(*csrutil.Request)}); p.Why != whole.Why {
			t.Errorf("%s, and with what is cached: %s", whole.Why, p.Why)
		}
	})
}

// run runs the controller in virtual time, which begins at epoch, while a test works. It returns the log.
func run(t *testing.T, test func(s *clienttest.Server, put func(*csrutil.Request))) (log string) {
	return managertest.InVirtualTime(t, epoch, func(t *testing.T, server *clienttest.Server) {
		entry := New(Options{})
		c := managertest.Context(t, server, entry, managertest.Cache{Example: &csrutil.Request{}})
		managertest.Run(t, c, entry, func() { test(server, managertest.Putter[*csrutil.Request](t, server)) })
	})
}

// A request is deleted when its time has come, and not when a period of the controller ends, with one request that names its uid and its
// version. A line of the log says why.
func TestOneRequestAndOneLine(t *testing.T) { // CSR-35, CSR-42, CSR-47, CSR-48, CSR-49
	log := run(t, func(s *clienttest.Server, put func(*csrutil.Request)) {
		put(csrtest.Kubelet(csrtest.Condition("Denied", time.Now())))
		time.Sleep(time.Hour - 2*time.Second)
		synctest.Wait()
		if n := len(s.Writes()); n != 0 {
			t.Errorf("%d writes too early", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		writes := s.Writes()
		if len(writes) != 1 || writes[0].Verb != "delete" {
			t.Fatal(s.Log())
		}
		if p := writes[0].DeleteOptions.Preconditions; *p.UID != "uid-join" || p.ResourceVersion == nil {
			t.Errorf("%+v", p)
		}
	})
	for _, part := range []string{`"Deleted a request for a certificate"`, `"csr"="join"`, `"reason"="it was denied"`} {
		if strings.Count(log, part) != 1 {
			t.Errorf("the log lacks %s: %s", part, log)
		}
	}
}

// A request that is approved in the last moment, of which the cache does not know yet, is not deleted.
func TestStaleCache(t *testing.T) { // CSR-49
	run(t, func(s *clienttest.Server, put func(*csrutil.Request)) {
		r := csrtest.Kubelet(created(23 * time.Hour))
		put(r)
		s.FreezeWatches(client.KindFor[*certificatesv1.CertificateSigningRequest]())
		put(csrtest.Kubelet(created(23*time.Hour), csrtest.Condition("Approved", time.Now())))
		time.Sleep(2 * time.Hour)
		s.ResumeWatches(client.KindFor[*certificatesv1.CertificateSigningRequest]())
		time.Sleep(time.Hour)
		if len(s.Names(client.KindFor[*certificatesv1.CertificateSigningRequest]())) != 1 || s.CountWrites("refused delete") != 1 {
			t.Error(s.Log())
		}
	})
}

// BenchmarkPlan plans for a request that was signed.
func BenchmarkPlan(b *testing.B) {
	s := snapshot{Request: csrtest.Kubelet(since("Approved", 0), issued(time.Hour))}
	for b.Loop() {
		if p := planDeletion(epoch, s); p.Requeue == 0 {
			b.Fatal(p.Why)
		}
	}
}
