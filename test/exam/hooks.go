package exam

import (
	"encoding/base64"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
)

// Hooks are webhooks that do not do what they should.
type Hooks struct {
	unknown, slow *httptest.Server
}

// StartHooks starts them.
func StartHooks() *Hooks {
	never := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only after the whole request its end is noticed
		<-r.Context().Done()
	}
	return &Hooks{httptest.NewTLSServer(http.NotFoundHandler()), httptest.NewTLSServer(http.HandlerFunc(never))}
}

// Values are what stands for the hooks in problems.
func (h *Hooks) Values() map[string]string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.slow.Certificate().Raw})
	return map[string]string{"HOOK": h.unknown.URL, "SLOW": h.slow.URL, "CA": base64.StdEncoding.EncodeToString(ca)}
}

// Close ends them.
func (h *Hooks) Close() {
	h.slow.CloseClientConnections()
	h.slow.Close()
	h.unknown.Close()
}
