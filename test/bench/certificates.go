package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/internal/testing/csrtest"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// certificates measures many kubelets that ask for their client certificates at once.
func certificates(ctx context.Context, b *bench) error {
	n := 500
	if b.quick {
		n = 50
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			flags := append(raisedLimits(), "--controllers=csrapproving,csrsigning,csrcleaner")
			return b.withManager(ctx, p, t, flags, func(s *session) error {
				return s.inNamespace(ctx, func(ns *namespace) error { return b.askForCertificates(ctx, t, s, ns, n) })
			})
		})
	})
}

// askForCertificates makes the requests, each of which is approved and signed.
func (b *bench) askForCertificates(ctx context.Context, t turn, s *session, ns *namespace, n int) error {
	began := time.Now()
	var made, signed time.Duration
	m, err := s.measure(ctx, ns, func(ctx context.Context) error {
		err := forEach(ctx, userWorkers, n, func(ctx context.Context, worker, i int) error {
			r := csrtest.Kubelet(func(r *csrutil.Request) { r.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprint(ns.name, "-", i)} })
			_, err := ns.client(worker).CertificatesV1().CertificateSigningRequests().Create(ctx, r, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		last := time.Now()
		made = last.Sub(began)
		err = ns.waitSigned(ctx, s, n)
		signed = time.Since(last)
		return err
	})
	if err != nil {
		return err
	}
	b.keep(t, sample{
		Scenario: fmt.Sprintf("%d kubelets ask for certificates", n), Began: began, Flags: s.flags, Writes: m.writes.rows,
		Figures: append(m.costs(floor.Writes{Status: n, Other: n}),
			figure{Name: "requests made each second", Value: float64(n) / made.Seconds(), Unit: "/s"},
			seconds("from the last request until all have certificates", signed)),
	})
	return nil
}

// waitSigned waits until so many requests have certificates.
func (ns *namespace) waitSigned(ctx context.Context, s *session, n int) error {
	return until(ctx, fmt.Sprintf("%d certificates are issued", n), 50*time.Millisecond, func() (bool, error) {
		list, err := ns.client(0).CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err := errors.Join(err, s.manager.running()); err != nil {
			return false, err
		}
		signed := 0
		for i := range list.Items {
			if len(list.Items[i].Status.Certificate) > 0 {
				signed++
			}
		}
		return signed >= n, nil
	})
}
