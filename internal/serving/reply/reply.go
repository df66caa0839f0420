package reply

import (
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// codeOf is the code of a reason for which a request is refused.
func codeOf(reason metav1.StatusReason) int32 {
	switch reason {
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonNotAcceptable:
		return http.StatusNotAcceptable
	case metav1.StatusReasonTooManyRequests:
		return http.StatusTooManyRequests
	}
	return http.StatusInternalServerError
}

// Refuse answers with a Status, as the API server does, which kubectl understands.
func Refuse(w http.ResponseWriter, reason metav1.StatusReason, message string) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: message, Reason: reason, Code: codeOf(reason),
	}
	if reason == metav1.StatusReasonForbidden {
		status.Details = &metav1.StatusDetails{}
	}
	JSON(w, "application/json", int(status.Code), status)
}

// JSON answers with a value as people can read it.
func JSON(w http.ResponseWriter, contentType string, code int, value any) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // who has gone does not need it
}
