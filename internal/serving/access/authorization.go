package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	pathauthorizer "k8s.io/apiserver/pkg/authorization/path"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// Authorization says which users may have what (MH-3). Members of system:masters may have everything.
type Authorization struct {
	AlwaysAllow []string // paths for everybody; one that ends in * stands for all that begin so (CLI-38)

	Reviews    authorizationclient.SubjectAccessReviewInterface // nil: all else is forbidden (CLI-35)
	AllowedTTL time.Duration                                    // how long a yes is remembered (CLI-37)
	DeniedTTL  time.Duration                                    // how long a no is remembered
}

// Authorizer decides who may have what.
type Authorizer struct {
	config Authorization
	open   authorizer.Authorizer // of the paths for everybody
	// answers are those of the API server that still count.
	answers  *memory[authorizationv1.SubjectAccessReviewStatus]
	reviewer Reviewer
}

// NewAuthorizer returns an Authorizer that has asked nothing yet.
func NewAuthorizer(c Authorization, r Reviewer) (*Authorizer, error) {
	open, err := pathauthorizer.NewAuthorizer(c.AlwaysAllow)
	if err != nil {
		return nil, fmt.Errorf("always allowed paths: %w", err)
	}
	answers, err := newMemory[authorizationv1.SubjectAccessReviewStatus]()
	return &Authorizer{config: c, open: open, answers: answers, reviewer: r}, err
}

// OpenOf returns those of the paths that everybody may have.
func (a *Authorizer) OpenOf(ctx context.Context, paths []string) (open []string) {
	for _, path := range paths {
		decision, _, err := a.open.Authorize(ctx, authorizer.AttributesRecord{User: &user.DefaultInfo{}, Path: path})
		if err == nil && decision == authorizer.DecisionAllow {
			open = append(open, path)
		}
	}
	return open
}

// Allowed reports whether somebody may do something with a path, and if not, why, as far as the API server has said it.
func (a *Authorizer) Allowed(ctx context.Context, who user.Info, verb, path string) (ok bool, reason string,
	err error) {
	if slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) {
		return true, "", nil
	}
	decision, _, err := a.open.Authorize(ctx, authorizer.AttributesRecord{User: who, Verb: verb, Path: path})
	if err != nil || decision == authorizer.DecisionAllow {
		return err == nil, "", err
	}
	if a.config.Reviews == nil {
		return false, "", nil
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
	}
	for key, values := range who.GetExtra() {
		spec.Extra[key] = values
	}
	return a.review(ctx, spec)
}

var errContradiction = errors.New("the answer to a SubjectAccessReview is both allowed and denied")

// review asks the API server whether something is allowed, or knows it from a while ago.
func (a *Authorizer) review(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (ok bool, reason string,
	err error) {
	question, err := json.Marshal(spec)
	if err != nil {
		return false, "", err
	}
	key := a.answers.key(question)
	answer, known := a.answers.get(key)
	if !known {
		review, err := ask(ctx, a.reviewer, "SubjectAccessReview",
			func(ctx context.Context) (*authorizationv1.SubjectAccessReview, error) {
				return a.config.Reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec},
					metav1.CreateOptions{})
			})
		if err != nil {
			return false, "", err
		}
		answer = review.Status
		ttl := a.config.DeniedTTL
		if answer.Allowed && !answer.Denied {
			ttl = a.config.AllowedTTL
		}
		a.answers.put(key, answer, ttl)
	}
	if answer.Allowed && answer.Denied {
		return false, "", errContradiction
	}
	return answer.Allowed, answer.Reason, nil
}
