package countproxy

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/standalone-kcm/controller-manager/test/cluster/apirequest"
)

// Request is a kind of request: all that are equal are counted together.
type Request struct {
	Verb        string // as in [apirequest.Request], like all but Code
	Group       string
	Resource    string
	Subresource string
	Code        int // HTTP status
}

// IsWrite tells whether the request is one that changes, or would have changed, what is stored.
func (r Request) IsWrite() bool { return r.api().IsWrite() }

func (r Request) isNoise() bool { return r.api().IsNoise() }

// api is the request without its outcome.
func (r Request) api() apirequest.Request {
	return apirequest.Request{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource}
}

// streams tells whether the response may go on for long.
func (r Request) streams() bool {
	switch r.Subresource {
	case "log", "exec", "attach", "portforward", "proxy":
		return true
	}
	return false
}

func parseRequest(r *http.Request) Request {
	parsed := apirequest.Parse(r)
	return Request{Verb: parsed.Verb, Group: parsed.Group, Resource: parsed.Resource, Subresource: parsed.Subresource}
}

// protobufPrefix begins every object in Kubernetes' protobuf format.
var protobufPrefix = []byte("k8s\x00")

// metadataOf reads the metadata of the object in a body, JSON or protobuf. They are empty if there is none.
func metadataOf(header http.Header, body []byte) (none metav1.ObjectMeta) {
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return none
	}
	// Every object has its metadata in the same place, so this type does for all of them.
	var object metav1.PartialObjectMetadata
	switch mediaType {
	case runtime.ContentTypeJSON:
		if json.Unmarshal(body, &object) != nil || object.Kind == "Status" {
			return none
		}
	case runtime.ContentTypeProtobuf:
		var envelope runtime.Unknown
		raw, ok := bytes.CutPrefix(body, protobufPrefix)
		if !ok || envelope.Unmarshal(raw) != nil || envelope.Kind == "Status" || object.Unmarshal(envelope.Raw) != nil {
			return none
		}
	default:
		return none
	}
	return object.ObjectMeta
}

// versionOf returns the version that the metadata say, zero if there is none.
func versionOf(m metav1.ObjectMeta) uint64 {
	version, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}
