package csrsigning

import (
	"fmt"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// sign issues the certificate that a request asks for (CSR-17).
func (s *signing) sign(now time.Time, c plan.Change) (plan.Change, error) {
	request, ok := c.New.(*csrutil.Request)
	if !ok {
		return c, fmt.Errorf("signer %s: nothing is signed for a %T", s.name, c.New)
	}
	ordered, violation := read(request)
	if violation != "" {
		return c, fmt.Errorf("signer %s: %s", s.name, violation)
	}
	signed, err := s.authority.issuerNow().sign(now, ordered, s.duration)
	if err != nil {
		return c, fmt.Errorf("signer %s: %w", s.name, err)
	}
	after := request.DeepCopy()
	after.Status.Certificate = signed
	c.New = after
	return c, nil
}
