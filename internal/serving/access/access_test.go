package access

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/standalone-kcm/controller-manager/internal/serving/reply"
)

// TestAnswersAreForgotten is about the times of CLI-37.
func TestAnswersAreForgotten(t *testing.T) {
	for _, test := range []struct {
		ttl    time.Duration
		asked  int // about the same thing after 0, 9 and 11 seconds
		reason string
	}{
		{10 * time.Second, 2, "an answer counts for 10 seconds"},
		{0, 3, "nothing is remembered"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset()
			tokensAsked, accessesAsked := 0, 0
			client.PrependReactor("create", "tokenreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
				tokensAsked++
				return true, &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
					Authenticated: true, User: authenticationv1.UserInfo{Username: "a"}}}, nil
			})
			client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				accessesAsked++
				review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
				review.Status.Allowed = review.Spec.NonResourceAttributes.Path == "/yes"
				return true, review, nil
			})
			r := NewReviewer(time.Second, &reply.Problems{})
			tokens, err := NewTokens(client.AuthenticationV1().TokenReviews(), test.ttl, r)
			if err != nil {
				t.Fatal(err)
			}
			a, err := NewAuthorizer(Authorization{Reviews: client.AuthorizationV1().SubjectAccessReviews(), AllowedTTL: test.ttl,
				DeniedTTL: test.ttl}, r)
			if err != nil {
				t.Fatal(err)
			}
			for _, wait := range []time.Duration{0, 9 * time.Second, 2 * time.Second} {
				time.Sleep(wait)
				if _, ok, err := tokens.AuthenticateToken(t.Context(), "t"); !ok || err != nil {
					t.Errorf("%v, %v", ok, err)
				}
				for _, path := range []string{"/yes", "/no"} {
					if ok, _, err := a.Allowed(t.Context(), &user.DefaultInfo{Name: "a"}, "get", path); ok != (path == "/yes") ||
						err != nil {
						t.Errorf("%s: %v, %v", path, ok, err)
					}
				}
			}
			if tokensAsked != test.asked || accessesAsked != 2*test.asked {
				t.Errorf("CLI-37, %v: %s: asked %d and %d times", test.ttl, test.reason, tokensAsked, accessesAsked)
			}
		})
	}
}

// TestPatience is about an API server that does not answer at once.
func TestPatience(t *testing.T) {
	unavailable := apierrors.NewServiceUnavailable("x")
	for _, test := range []struct {
		name  string
		fails []error // what the first tries get
		tries int
		err   error
	}{
		{"an answer", nil, 1, nil},
		{"a failure that passes", []error{unavailable, apierrors.NewInternalError(context.Canceled)}, 3, nil},
		{"one that does not", []error{apierrors.NewForbidden(authorizationv1.Resource("x"), "", nil)}, 1,
			apierrors.NewForbidden(authorizationv1.Resource("x"), "", nil)},
		{"one that goes on", []error{unavailable, unavailable, unavailable, unavailable, unavailable}, 4, unavailable},
		{"no answer", []error{context.DeadlineExceeded}, 1, context.DeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				_, err := ask(t.Context(), NewReviewer(10*time.Second, &reply.Problems{}), "x", func(ctx context.Context) (int, error) {
					tries++
					if tries > len(test.fails) {
						return 1, nil
					}
					if err := test.fails[tries-1]; err != context.DeadlineExceeded {
						return 0, err
					}
					<-ctx.Done()
					return 0, ctx.Err()
				})
				if tries != test.tries || fmt.Sprint(err) != fmt.Sprint(test.err) {
					t.Errorf("%d tries, %v", tries, err)
				}
			})
		})
	}
	t.Run("no time", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := ask(ctx, NewReviewer(time.Second, &reply.Problems{}), "x", func(context.Context) (int, error) { return 1, nil })
		if err == nil {
			t.Error("an answer without a question")
		}
	})
}
