package client

import (
	"context"
	"net/url"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// RequestTimeout bounds each request of a [Reader] and a [Client], with its wait for the rate limiter, so that a
// server that hangs cannot hold a worker for ever.
const RequestTimeout = 30 * time.Second

// Reader reads the API server live. It cannot write, so whoever observes with it may do so twice.
type Reader interface {
	// Get reads an object. What comes depends on into: *metav1.PartialObjectMetadata asks for metadata only,
	// *unstructured.Unstructured for any kind, a typed object for its own. A key without namespace stands for an
	// object that has none.
	Get(ctx context.Context, m Mapping, key plan.Key, into plan.Object) error

	// List reads what matches in a namespace, or in all if it is empty. into is a list of what Get takes. A list
	// without a limit is read in pages and returned whole; with a limit, one page is returned.
	List(ctx context.Context, m Mapping, namespace string, o metav1.ListOptions, into runtime.Object) error

	// GetScale reads the scale subresource of an object.
	GetScale(ctx context.Context, m Mapping, key plan.Key) (*autoscalingv1.Scale, error)

	// SubjectAccessReview asks whether somebody may do something. It is sent as a creation, but nothing is stored.
	SubjectAccessReview(ctx context.Context,
		ask authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)

	// GetRaw reads a path that serves no objects of known types, such as that of a metrics API. The answer is in JSON.
	GetRaw(ctx context.Context, path string, query url.Values) ([]byte, error)
}

// Patch is the body of a patch request, in JSON.
type Patch struct {
	Type types.PatchType
	Data []byte
}

// ReadOnly returns a Reader that reads what r reads. It cannot write, even if r can: no type assertion leads back to r.
func ReadOnly(r Reader) Reader { return readOnly{r} }

// readOnly hides all methods but those of a Reader, so that nobody can turn it into a client that writes.
type readOnly struct{ Reader }

// Client reads and writes. Writes are answered with the metadata of what was written; when the answer has none (an
// eviction) the metadata is empty.
type Client interface {
	Reader

	// Create creates an object, or posts it to a subresource of the object that has its name (eviction, binding).
	Create(ctx context.Context, m Mapping, o plan.Object, opts WriteOptions) (*metav1.PartialObjectMetadata, error)

	// Update replaces an object, or a subresource (status, scale, approval, finalize, ...) of the object that has its
	// name. Its resourceVersion, unless empty, is a precondition.
	Update(ctx context.Context, m Mapping, o plan.Object, opts WriteOptions) (*metav1.PartialObjectMetadata, error)

	// Patch patches an object or a subresource. See [Change], which makes the patch.
	Patch(ctx context.Context, m Mapping, key plan.Key, patch Patch, opts WriteOptions) (*metav1.PartialObjectMetadata,
		error)

	// Delete deletes an object.
	Delete(ctx context.Context, m Mapping, key plan.Key, opts metav1.DeleteOptions) error

	// DeleteCollection deletes what matches in a namespace; of a kind that has no namespaces, namespace is empty.
	DeleteCollection(ctx context.Context, m Mapping, namespace string, match metav1.ListOptions,
		opts metav1.DeleteOptions) error
}

// WriteOptions say how an object is written. Their zero value suits most writes.
type WriteOptions struct {
	Method       Method // of [Change] only; empty means MethodPatch
	Subresource  string // empty for the object itself
	FieldManager string // empty leaves it to the API server, which takes it from the user agent
	Force        bool   // of an apply: take over fields that another field manager owns
	CheckVersion bool   // of [Change] only: the resourceVersion that was observed is a precondition of patches, too
	Touch        bool   // of [Change] only: it is sent although nothing differs
}
