package access

import (
	"context"
	"errors"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// tokens asks the API server whose a token is.
type tokens struct {
	client   authenticationclient.TokenReviewInterface
	ttl      time.Duration
	answers  *memory[authenticationv1.UserInfo]
	reviewer Reviewer
}

// NewTokens returns an authenticator that has the API server review tokens, and caches its answers (CLI-37).
func NewTokens(client authenticationclient.TokenReviewInterface, ttl time.Duration, r Reviewer) (authenticator.Token,
	error) {
	answers, err := newMemory[authenticationv1.UserInfo]()
	return &tokens{client: client, ttl: ttl, answers: answers, reviewer: r}, err
}

// AuthenticateToken implements authenticator.Token. Only users are remembered: that a token is not good may have been
// too early, or an error of the API server.
func (t *tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	key := t.answers.key([]byte(token))
	who, ok := t.answers.get(key)
	if !ok {
		review, err := ask(ctx, t.reviewer, "TokenReview",
			func(ctx context.Context) (*authenticationv1.TokenReview, error) {
				return t.client.Create(ctx,
					&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}},
					metav1.CreateOptions{})
			})
		switch {
		case err != nil:
			return nil, false, err
		case !review.Status.Authenticated && review.Status.Error != "":
			return nil, false, errors.New(review.Status.Error)
		case !review.Status.Authenticated:
			return nil, false, nil
		}
		who = review.Status.User
		t.answers.put(key, who, t.ttl)
	}
	extra := map[string][]string{}
	for key, values := range who.Extra {
		extra[key] = values
	}
	return &authenticator.Response{
		User: &user.DefaultInfo{Name: who.Username, UID: who.UID, Groups: who.Groups, Extra: extra},
	}, true, nil
}
