package identity

import (
	"net/http"
	"testing"
)

func TestServersThatAskForPatience(t *testing.T) {
	for asked, want := range map[string]string{"": "", "1": "1", "60": "60", "86400": "60", "tomorrow": "tomorrow"} {
		p := &patience{roundTripper(func(*http.Request) (*http.Response, error) {
			answer := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}}
			if asked != "" {
				answer.Header.Set("Retry-After", asked)
			}
			return answer, nil
		})}
		answer, err := p.RoundTrip(&http.Request{})
		if err != nil || answer.Header.Get("Retry-After") != want {
			t.Errorf("%q becomes %q, %v; want %q", asked, answer.Header.Get("Retry-After"), err, want)
		}
	}
}
