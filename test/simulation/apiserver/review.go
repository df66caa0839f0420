package apiserver

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// reviews is the resource by which clients ask who may do what. Its objects are not stored.
const reviews = "subjectaccessreviews"

// Authorize says who may do what, where somebody asks; without it, everybody may do anything. The function is called without a lock, so it
// can look at objects.
func (s *Server) Authorize(allowed func(authorizationv1.SubjectAccessReviewSpec) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = allowed
}

// review answers who may do what.
func (s *Server) review(body []byte) (runtime.Object, error) {
	r := &authorizationv1.SubjectAccessReview{}
	if err := decode(body, r); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	s.mu.Lock()
	allowed := s.allowed
	s.mu.Unlock()
	r.SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"))
	r.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: allowed == nil || allowed(r.Spec)}
	return r, nil
}
