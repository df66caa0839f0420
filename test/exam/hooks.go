package exam

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hooks are webhooks that do not do what they should.
type Hooks struct {
	unknown, slow, deny *httptest.Server
}

// StartHooks starts them.
func StartHooks() *Hooks {
	never := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only after the whole request its end is noticed
		<-r.Context().Done()
	}
	return &Hooks{httptest.NewTLSServer(http.NotFoundHandler()), httptest.NewTLSServer(http.HandlerFunc(never)),
		httptest.NewTLSServer(http.HandlerFunc(deny))}
}

// deny answers that an object is not admitted.
func deny(w http.ResponseWriter, r *http.Request) {
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "it is no review", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Result: &metav1.Status{Message: "the image has no signature"},
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// Values are what stands for the hooks in problems.
func (h *Hooks) Values() map[string]string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.slow.Certificate().Raw})
	return map[string]string{"HOOK": h.unknown.URL, "SLOW": h.slow.URL, "DENY": h.deny.URL, "CA": base64.StdEncoding.EncodeToString(ca)}
}

// Close ends them.
func (h *Hooks) Close() {
	h.slow.CloseClientConnections()
	h.slow.Close()
	h.deny.Close()
	h.unknown.Close()
}
