package legacyserviceaccounttokencleaner

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// lists are how the controller reads: it lists what there may be to clean, and nothing else.
type lists struct {
	period time.Duration
	all    client.Reader // may list whatever is cached
}

// observe finds the tokens that nobody has used for long. It stops as soon as there are none left that may be
// cleaned, so that it costs a single read in most clusters.
func (k *lists) observe(ctx context.Context,
	r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}], err error) {
	o.Exists = true
	s := &o.Snapshot
	s.Period = k.period
	if s.Since, err = trackedSince(ctx, r.Reader); err != nil {
		return o, err
	}
	if !tracked(r.Now, s.Since, k.period) {
		return o, nil
	}
	secrets, err := k.secrets(ctx)
	if err != nil {
		return o, err
	}
	secrets = slices.DeleteFunc(secrets, func(secret *corev1.Secret) bool { return !unused(r.Now, secret, k.period) })
	for _, in := range byNamespace(secrets) {
		if err := k.observeNamespace(ctx, s, in); err != nil {
			return o, err
		}
	}
	return o, nil
}

// trackedSince reads since when the API server tracks which tokens are used (LTC-3); empty if it does not say so.
func trackedSince(ctx context.Context, reader client.Reader) (string, error) {
	tracking := &corev1.ConfigMap{}
	err := reader.Get(ctx, client.MappingFor[*corev1.ConfigMap](),
		plan.Key{Namespace: metav1.NamespaceSystem, Name: trackingName}, tracking)
	if err != nil && !client.IsAbsent(err) {
		return "", fmt.Errorf("since when are tokens tracked: %w", err)
	}
	return tracking.Data[sinceKey], nil
}

// secrets lists the metadata of all Secrets in which tokens are kept. What they hold is not read.
func (k *lists) secrets(ctx context.Context) (all []*corev1.Secret, err error) {
	ofType := fields.OneTermEqualSelector("type", string(corev1.SecretTypeServiceAccountToken)).String()
	found := &metav1.PartialObjectMetadataList{}
	if err := k.all.List(ctx, client.MappingFor[*corev1.Secret](), metav1.NamespaceAll,
		metav1.ListOptions{FieldSelector: ofType}, found); err != nil {
		return nil, fmt.Errorf("list Secrets with tokens: %w", err)
	}
	for i := range found.Items {
		all = append(all,
			&corev1.Secret{ObjectMeta: found.Items[i].ObjectMeta, Type: corev1.SecretTypeServiceAccountToken})
	}
	return all, nil
}

// observeNamespace adds the tokens of a namespace that were made automatically, and what its pods use.
func (k *lists) observeNamespace(ctx context.Context, s *snapshot, secrets []*corev1.Secret) error {
	namespace := secrets[0].Namespace
	accounts := &corev1.ServiceAccountList{}
	if err := k.all.List(ctx, client.MappingFor[*corev1.ServiceAccount](), namespace, metav1.ListOptions{},
		accounts); err != nil {
		return fmt.Errorf("list ServiceAccounts: %w", err)
	}
	secrets = slices.DeleteFunc(secrets,
		func(secret *corev1.Secret) bool { return !madeAutomatically(secret, accounts.Items) })
	if len(secrets) == 0 {
		return nil
	}
	pods := &corev1.PodList{}
	if err := k.all.List(ctx, client.MappingFor[*corev1.Pod](), namespace, metav1.ListOptions{}, pods); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	if s.Used == nil {
		s.Used = map[string][]string{}
	}
	for i := range pods.Items {
		s.Used[namespace] = append(s.Used[namespace], secretsOf(&pods.Items[i])...)
	}
	s.Secrets = append(s.Secrets, secrets...)
	return nil
}

// byNamespace splits the Secrets, in the order of their namespaces.
func byNamespace(secrets []*corev1.Secret) (split [][]*corev1.Secret) {
	at := map[string]int{}
	for _, secret := range secrets {
		i, ok := at[secret.Namespace]
		if !ok {
			i = len(split)
			at[secret.Namespace], split = i, append(split, nil)
		}
		split[i] = append(split[i], secret)
	}
	return split
}
