package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	accountNamespace = metav1.NamespaceSystem // of the controllers' service accounts (CI-20)
	tokenLifetime    = time.Hour              // asked for (CI-22)
)

// EnsureServiceAccounts sees to it that the service accounts of the controllers exist (CI-21, CLI-58). It does nothing
// when the controllers use the root identity.
func (b *Builder) EnsureServiceAccounts(ctx context.Context, accounts ...string) error {
	if !b.options.ServiceAccounts {
		return nil
	}
	root, err := kubernetes.NewForConfig(b.Guarded(Root))
	if err != nil {
		return err
	}
	for _, account := range accounts {
		if err := ensureAccount(ctx, root, account); err != nil {
			return err
		}
	}
	return nil
}

// ensureAccount looks the service account up and creates it if there is none.
func ensureAccount(ctx context.Context, root kubernetes.Interface, account string) error {
	client := root.CoreV1().ServiceAccounts(accountNamespace)
	_, err := client.Get(ctx, account, metav1.GetOptions{})
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("service account %s/%s: %w", accountNamespace, account, err)
	}
	ensureNamespace(ctx, root)
	wanted := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: accountNamespace, Name: account}}
	if _, err := client.Create(ctx, wanted, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("service account %s/%s: %w", accountNamespace, account, err)
	}
	return nil
}

// ensureNamespace creates the namespace of the service accounts if it is missing. It reports nothing: the right to do
// so is commonly not given (RB-12), and where the namespace was needed, creating the account fails and says so.
func ensureNamespace(ctx context.Context, root kubernetes.Interface) {
	client := root.CoreV1().Namespaces()
	if _, err := client.Get(ctx, accountNamespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return
	}
	wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: accountNamespace}}
	_, _ = client.Create(ctx, wanted, metav1.CreateOptions{})
}

// requestToken asks for a token of the service account, once (CI-22).
func (b *Builder) requestToken(ctx context.Context, root kubernetes.Interface, account string) (string, time.Duration,
	error) {
	answer, err := root.CoreV1().ServiceAccounts(accountNamespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: ptr.To(int64(tokenLifetime / time.Second)),
		}}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		// Deleted while we run: with a new one the next try succeeds, where the original would need a restart.
		if err := b.EnsureServiceAccounts(ctx, account); err != nil {
			return "", 0, err
		}
	}
	if err != nil {
		return "", 0, err
	}
	if answer.Status.Token == "" {
		return "", 0, errors.New("the server answered without a token")
	}
	// The server says it twice, as a span and as a time. The span may be missing; the time is by the server's clock,
	// and ours may differ. The shorter of the two is safe either way.
	lifetime := time.Until(answer.Status.ExpirationTimestamp.Time)
	if s := answer.Spec.ExpirationSeconds; s != nil && *s > 0 {
		lifetime = min(lifetime, time.Duration(*s)*time.Second)
	}
	return answer.Status.Token, lifetime, nil
}
