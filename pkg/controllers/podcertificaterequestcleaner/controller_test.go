package podcertificaterequestcleaner

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// REG-9, CSR-43: the names by which flags, logs, roles and clients know the controller, and what it needs.
func TestREG9Names(t *testing.T) {
	c := New(Options{})
	if c.Name != "podcertificaterequest-cleaner-controller" || c.Alias != "" || c.Account != "podcertificaterequestcleaner" ||
		c.OffByDefault || c.Flags != nil ||
		fmt.Sprint(c.Gates, c.Needs) != "[PodCertificateRequest] [certificates.k8s.io/v1, Resource=podcertificaterequests]" {
		t.Errorf("%+v", c)
	}
}

type request = certificatesv1.PodCertificateRequest

// run runs the controller in virtual time, which begins at epoch, on a server with these requests, while a test works.
func run(t *testing.T, found []*request, test func(s *clienttest.Server, put func(*request))) {
	managertest.InVirtualTime(t, epoch, func(t *testing.T, server *clienttest.Server) {
		entry := New(Options{})
		c := managertest.Context(t, server, entry, managertest.Cache{Example: &request{}})
		put := managertest.Putter[*request](t, server)
		for _, r := range found {
			put(r)
		}
		managertest.Run(t, c, entry, func() { test(server, put) })
	})
}

// left are the names of the requests that there are.
func left(s *clienttest.Server) []string {
	synctest.Wait()
	return s.Names(client.KindFor[*request]())
}

// A request is deleted when its time has come, with one write that names its uid, and no other one. What is old when the manager starts
// goes at once.
func TestOneRequestWhenItIsDue(t *testing.T) { // CSR-43, PCC-1
	found := []*request{newRequest(time.Hour, called("old"), is("Issued")), newRequest(0, called("young"))}
	run(t, found, func(s *clienttest.Server, _ func(*request)) {
		if names := left(s); len(names) != 1 || s.CountWrites("delete") != 1 {
			t.Fatalf("%v: %v", names, s.Log())
		}
		time.Sleep(time.Until(epoch.Add(15*time.Minute - 2*time.Second)))
		if len(left(s)) != 1 {
			t.Error("it goes too early")
		}
		time.Sleep(2 * time.Second)
		names := left(s)
		writes := s.Writes()
		if len(names) != 0 || len(writes) != 2 {
			t.Fatal(s.Log())
		}
		if p := writes[1].DeleteOptions.Preconditions; writes[1].Verb != "delete" || *p.UID != "uid-young" || p.ResourceVersion != nil {
			t.Errorf("%+v", writes[1])
		}
	})
}

// CSR-43: one of the same name that was made meanwhile stays, also if the cache does not show it.
func TestAnotherOneOfTheName(t *testing.T) {
	run(t, []*request{newRequest(0)}, func(s *clienttest.Server, put func(*request)) {
		mapping := client.MappingFor[*request]()
		s.FreezeWatches(client.KindFor[*request]())
		if err := s.Delete(t.Context(), mapping, plan.KeyOf(newRequest(0)), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		put(newRequest(-10*time.Minute, func(r *request) { r.UID = "uid-later" }))
		time.Sleep(time.Until(epoch.Add(20 * time.Minute)))
		if len(left(s)) != 1 {
			t.Error(s.Log())
		}
	})
}

// PCC-1: errors are retried.
func TestErrorsAreRetried(t *testing.T) {
	run(t, nil, func(s *clienttest.Server, put func(*request)) {
		s.BeforeWrite(clienttest.RefuseFirst(5, apierrors.NewInternalError(errors.New("no")), apierrors.NewTooManyRequests("", 1)))
		put(newRequest(time.Hour))
		time.Sleep(5 * time.Minute)
		if len(left(s)) != 0 {
			t.Error(s.Log())
		}
	})
}
