package identity

import (
	"net/http"
	"strconv"
	"time"
)

// mostPatience bounds what a server may ask for by Retry-After. Client-go sleeps for as long, and an aggregated API
// server may ask for a day.
const mostPatience = time.Minute

// patience bounds the waits that servers ask for.
type patience struct{ next http.RoundTripper }

// WrappedRoundTripper lets client-go find the transport inside.
func (p *patience) WrappedRoundTripper() http.RoundTripper { return p.next }

// RoundTrip implements http.RoundTripper.
func (p *patience) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := p.next.RoundTrip(r)
	if err != nil || answer.Header.Get("Retry-After") == "" {
		return answer, err
	}
	most := int(mostPatience / time.Second)
	if seconds, wrong := strconv.Atoi(answer.Header.Get("Retry-After")); wrong == nil && seconds > most {
		answer.Header.Set("Retry-After", strconv.Itoa(most))
	}
	return answer, nil
}
