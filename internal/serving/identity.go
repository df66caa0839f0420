package serving

import (
	"context"
	"crypto/tls"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/standalone-kcm/controller-manager/internal/serving/certificates"
)

// Authentication says by what clients are known (MH-2). Who is known by nothing is system:anonymous.
type Authentication struct {
	certificates.Clients

	Tokens   authenticationclient.TokenReviewInterface // nil: tokens are not looked at (CLI-35)
	TokenTTL time.Duration                             // how long an answer about one is remembered (CLI-37)
}

// identity is by what the server and its clients know each other at the moment.
type identity struct {
	tls           *tls.Config
	authenticator authenticator.Request
}

// newIdentity is how the server proves who it is and finds out who clients are, by the files as they are now.
func (s *Server) newIdentity() *identity {
	return &identity{tls: s.newTLSConfig(), authenticator: s.newAuthenticator()}
}

// reload keeps the identity fresh until ctx ends.
func (s *Server) reload(ctx context.Context) {
	every := time.NewTicker(s.config.Limits.Reload)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if s.certificates.Reload(ctx) {
				s.current.Store(s.newIdentity())
			}
		}
	}
}

// newAuthenticator puts together by what clients are known at the moment: by a certificate before a token. Who shows
// something that is not good is nobody, not even anonymous.
func (s *Server) newAuthenticator() authenticator.Request {
	known := s.certificates.Authenticators()
	if s.tokenReviews != nil {
		known = append(known, bearertoken.New(s.tokenReviews))
	}
	if len(known) == 0 {
		return anonymous.NewAuthenticator(nil)
	}
	return union.NewFailOnError(group.NewAuthenticatedGroupAdder(union.New(known...)), anonymous.NewAuthenticator(nil))
}
