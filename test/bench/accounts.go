package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// accountFlags switch on the controllers that make a namespace usable, beside those of all sessions.
func accountFlags() []string {
	return append(raisedLimits(), "--controllers=serviceaccount,root-ca-cert-publisher")
}

// accounts measures how soon new namespaces can be used, and what Secrets and ConfigMaps cost that no controller reads.
func accounts(ctx context.Context, b *bench) error {
	namespaces, objects := 2000, 20_000
	if b.quick {
		namespaces, objects = 100, 1000
	}
	return b.inTurnTimes(ctx, 1, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, accountFlags(), func(s *session) error {
				return errors.Join(b.makeNamespaces(ctx, t, s, namespaces), b.fillWithObjects(ctx, t, s, objects))
			})
		})
	})
}

// makeNamespaces creates namespaces in a row, and asks when the last one can be used: when it has its ServiceAccount and the authorities.
func (b *bench) makeNamespaces(ctx context.Context, t turn, s *session, n int) error {
	began, last := time.Now(), ""
	for range n {
		var err error
		if last, err = s.plane.bareNamespace(ctx); err != nil {
			return err
		}
	}
	created := time.Now()
	client := s.plane.client.CoreV1()
	err := until(ctx, "the last namespace can be used", 2*time.Millisecond, func() (bool, error) {
		_, err1 := client.ServiceAccounts(last).Get(ctx, "default", metav1.GetOptions{})
		_, err2 := client.ConfigMaps(last).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err1 == nil && err2 == nil, errors.Join(client404IsFine(err1), client404IsFine(err2), s.manager.running())
	})
	if err != nil {
		return err
	}
	usable := time.Since(created)
	b.keep(t, sample{Scenario: fmt.Sprintf("%d namespaces in a row", n), Began: began, Flags: s.flags, Figures: []figure{
		{Name: "namespaces created each second", Value: float64(n) / created.Sub(began).Seconds(), Unit: "/s"},
		seconds("from the creation of the last one until it can be used", usable),
	}})
	return s.quiet(ctx)
}

// fillWithObjects creates Secrets and ConfigMaps of 10 KB, and asks how much memory the manager takes for them.
func (b *bench) fillWithObjects(ctx context.Context, t turn, s *session, n int) error {
	began := time.Now()
	before, err := s.restingMemory(ctx)
	if err != nil {
		return err
	}
	if err := s.plane.makeLarge(ctx, n); err != nil {
		return err
	}
	after, err := s.restingMemory(ctx)
	if err != nil {
		return err
	}
	b.keep(t, sample{Scenario: fmt.Sprintf("%d Secrets and ConfigMaps of 10 KB", n), Began: began, Flags: s.flags, Figures: []figure{
		megabytes("memory without them", before), megabytes("memory with them", after), megabytes("the difference", after-before),
	}})
	return nil
}

// makeLarge creates Secrets and ConfigMaps of 10 KB in a namespace of their own.
func (p *plane) makeLarge(ctx context.Context, n int) error {
	ns, err := p.newNamespace(ctx)
	if err != nil {
		return err
	}
	clients, err := p.clients(kubeletConnections)
	if err != nil {
		return err
	}
	return forEach(ctx, len(clients), n, func(ctx context.Context, worker, i int) error {
		return createLarge(ctx, clients[worker], ns, i)
	})
}

// createLarge creates a Secret or a ConfigMap that no controller reads.
func createLarge(ctx context.Context, client kubernetes.Interface, namespace string, i int) error {
	about, text := metav1.ObjectMeta{Name: fmt.Sprint("large-", i)}, strings.Repeat("x", 10<<10)
	var err error
	if i%2 == 0 {
		_, err = client.CoreV1().Secrets(namespace).Create(ctx,
			&corev1.Secret{ObjectMeta: about, Data: map[string][]byte{"text": []byte(text)}}, metav1.CreateOptions{})
	} else {
		_, err = client.CoreV1().ConfigMaps(namespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: about, Data: map[string]string{"text": text}}, metav1.CreateOptions{})
	}
	return err
}

// restingMemory is the memory of the manager when it has come to rest.
func (s *session) restingMemory(ctx context.Context) (int64, error) {
	if err := s.quiet(ctx); err != nil {
		return 0, err
	}
	if _, _, err := s.manager.atRest(ctx, 3*time.Second); err != nil {
		return 0, err
	}
	now, _, err := s.manager.memory()
	return now, err
}
