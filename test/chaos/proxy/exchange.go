package proxy

import (
	"encoding/json"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// Exchange is a request and what became of it.
type Exchange struct {
	Request
	Sent, Done time.Time

	// What the body asked for.
	UID                 types.UID // that the object must have
	PreconditionVersion string    // the resourceVersion that a deleted object must have
	Grace               *int64    // gracePeriodSeconds of a deletion

	// What the API server answered.
	Code        int       // 0 if it did not
	Version     string    // the object's resourceVersion
	AnsweredUID types.UID // of the object, or of what a Status is about
}

func (e *Exchange) readRequest(header http.Header, body []byte) {
	contentType := header.Get("Content-Type")
	switch {
	case e.Verb != "delete":
		if contentType != runtime.ContentTypeProtobuf {
			contentType = runtime.ContentTypeJSON // patches are JSON, whatever they are called
		}
		e.UID = metaOf(contentType, body).UID
	case len(body) > 0:
		var options metav1.DeleteOptions
		if contentType == runtime.ContentTypeJSON {
			if json.Unmarshal(body, &options) != nil {
				return
			}
		} else if runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), body, &options) != nil {
			return
		}
		e.Grace = options.GracePeriodSeconds
		if p := options.Preconditions; p != nil {
			if p.UID != nil {
				e.UID = *p.UID
			}
			if p.ResourceVersion != nil {
				e.PreconditionVersion = *p.ResourceVersion
			}
		}
	}
}

func (e *Exchange) readAnswer(resp *http.Response, body []byte) {
	e.Code = resp.StatusCode
	meta := metaOf(resp.Header.Get("Content-Type"), body)
	e.Version, e.AnsweredUID = meta.ResourceVersion, meta.UID
	if e.Name == "" {
		e.Name = meta.Name
	}
	var status metav1.Status
	if meta.UID == "" && runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), body, &status) == nil && status.Details != nil {
		e.AnsweredUID = status.Details.UID
	}
}
