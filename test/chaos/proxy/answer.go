package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// reasons are those that the API server gives with a code.
var reasons = map[int]metav1.StatusReason{
	http.StatusUnauthorized:        metav1.StatusReasonUnauthorized,
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusNotFound:            metav1.StatusReasonNotFound,
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusGone:                metav1.StatusReasonExpired,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
}

func status(code, retryAfter int) metav1.Status {
	s := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     int32(code),
		Reason:   reasons[code],
		Message:  fmt.Sprintf("injected fault: %d %s", code, http.StatusText(code)),
	}
	if retryAfter > 0 {
		s.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(retryAfter)}
	}
	return s
}

// answer is the API server's answer with a code, without asking it.
func answer(w http.ResponseWriter, code, retryAfter int) {
	body, err := json.Marshal(status(code, retryAfter))
	if err != nil {
		code = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(code)
	_, _ = w.Write(body) // an error means that the client is gone
}

// protobufPrefix begins every object in Kubernetes' protobuf format.
var protobufPrefix = []byte("k8s\x00")

// metaOf reads the metadata of the object in a body, JSON or protobuf. It is empty if there is none.
func metaOf(contentType string, body []byte) metav1.ObjectMeta {
	// Every object has its metadata in the same place, so this type does for all of them.
	var object metav1.PartialObjectMetadata
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return object.ObjectMeta
	}
	if mediaType == runtime.ContentTypeProtobuf {
		var envelope runtime.Unknown
		raw, ok := bytes.CutPrefix(body, protobufPrefix)
		if !ok || envelope.Unmarshal(raw) != nil || envelope.Kind == "Status" || object.Unmarshal(envelope.Raw) != nil {
			return metav1.ObjectMeta{}
		}
		return object.ObjectMeta
	}
	if json.Unmarshal(body, &object) != nil || object.Kind == "Status" {
		return metav1.ObjectMeta{}
	}
	return object.ObjectMeta
}

// encodeStatus is a status as a watch event in the given format carries it.
func encodeStatus(protobuf bool, s metav1.Status) ([]byte, error) {
	if !protobuf {
		return json.Marshal(s)
	}
	raw, err := s.Marshal()
	if err != nil {
		return nil, err
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Status"}, Raw: raw}
	data, err := envelope.Marshal()
	return append(bytes.Clone(protobufPrefix), data...), err
}
