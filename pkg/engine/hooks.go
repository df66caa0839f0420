package engine

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Hooks are told what the engine does for one controller, for metrics. Each may be nil; none may block. No argument takes
// more values in a larger cluster.
type Hooks struct {
	Pass  func(result Result, took time.Duration) // one look at a key
	Retry func()                                  // a failed look will be repeated
	Write func(w Write)                           // one request that writes has ended
	Stale func(resource schema.GroupResource)     // a look was put off: the cache lacks own writes (RS-9)
}

// Result is what became of one look at a key.
type Result string

// The results of a look.
const (
	Wrote     Result = "wrote"     // something was written, or tried without an error that stopped the plan
	Unchanged Result = "unchanged" // nothing was to be written: the plan was empty
	Waiting   Result = "waiting"   // the cache lacks own writes, or the right to write was gone
	Failed    Result = "error"
	Panicked  Result = "panic"
)

// Results lists all results.
func Results() []Result { return []Result{Wrote, Unchanged, Waiting, Failed, Panicked} }

// Write is one request that has ended.
type Write struct {
	Verb     string // create, update, patch or delete
	Resource string
	Code     string // of HTTP, as "200"; "<error>" if the server did not answer
}

func (h Hooks) pass(rec *Record, err error, panicked bool, took time.Duration) {
	if h.Pass != nil {
		h.Pass(resultOf(rec, err, panicked), took)
	}
}

func (h Hooks) retry() {
	if h.Retry != nil {
		h.Retry()
	}
}

func (h Hooks) write(verb string, k Kind, err error) {
	if h.Write != nil {
		h.Write(Write{Verb: verb, Resource: k.Resource, Code: codeOf(verb, err)})
	}
}

func (h Hooks) stale(resource schema.GroupResource) {
	if h.Stale != nil {
		h.Stale(resource)
	}
}

func resultOf(rec *Record, err error, panicked bool) Result {
	switch {
	case panicked:
		return Panicked
	case rec.Waiting != "" || silent(err):
		return Waiting
	case err != nil:
		return Failed
	case rec.Wrote > 0:
		return Wrote
	}
	return Unchanged
}

// codeOf is the code of HTTP that the server answered with. The client keeps it for errors only.
func codeOf(verb string, err error) string {
	if err == nil {
		if verb == "create" {
			return strconv.Itoa(http.StatusCreated)
		}
		return strconv.Itoa(http.StatusOK)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code > 0 {
		return strconv.Itoa(int(status.Status().Code))
	}
	return "<error>"
}
