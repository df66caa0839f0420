package simulation

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/standalone-kcm/controller-manager/test/faults"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// writeKind is a kind of writes: the account of a controller, and what it does to which resource.
type writeKind struct {
	Agent, Verb, Resource, Subresource string
}

func (k writeKind) String() string {
	return k.Agent + ": " + strings.TrimSuffix(k.Verb+" "+k.Resource+"/"+k.Subresource, "/")
}

func kindOfWrite(w apiserver.Write) writeKind {
	return writeKind{path.Base(w.Agent), string(w.Verb), w.Resource, w.Subresource}
}

// refusedFor is how long writes are refused, from the first one on.
const refusedFor = 10 * time.Minute

// refusalText is in each refusal, so that it can be found where it is told.
const refusalText = "refused for the sake of a test"

// refusals are the ways in which a server refuses a write.
var refusals = []struct {
	Name   string
	Told   bool // an event, a condition or a status has to say so
	Answer func(w apiserver.Write, resource schema.GroupResource) error
}{
	{"403", true, func(w apiserver.Write, r schema.GroupResource) error {
		return apierrors.NewForbidden(r, nameIn(w), errors.New(refusalText))
	}},
	{"404", true, func(w apiserver.Write, r schema.GroupResource) error {
		return denied(apierrors.NewNotFound(r, nameIn(w)))
	}},
	{"409", true, func(w apiserver.Write, r schema.GroupResource) error {
		if w.Verb == apiserver.Create {
			return denied(apierrors.NewAlreadyExists(r, nameIn(w)))
		}
		return denied(apierrors.NewConflict(r, nameIn(w), errors.New("it was changed")))
	}},
	{"422", true, func(w apiserver.Write, r schema.GroupResource) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: r.Resource}, nameIn(w),
			field.ErrorList{field.Forbidden(field.NewPath("metadata"), refusalText)})
	}},
	{"429", true, func(apiserver.Write, schema.GroupResource) error { return apierrors.NewTooManyRequests(refusalText, 1) }},
	{"500", true, func(apiserver.Write, schema.GroupResource) error {
		return apierrors.NewInternalError(errors.New(refusalText))
	}},
	{"webhook", true, func(apiserver.Write, schema.GroupResource) error {
		return denied(&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 400}})
	}},
	{"no answer", false, func(apiserver.Write, schema.GroupResource) error { return errSilence }},
}

// denied is the answer of the API server if an admission webhook answers with the code, the reason and the details of an error. The
// server answers by itself with 404 and 409 only if that is so of the object, and then an event tells.
func denied(as *apierrors.StatusError) error {
	as.ErrStatus.Message = `admission webhook "policy.example.com" denied the request: ` + refusalText
	return as
}

// nameIn is the name of the object of a write, or how it begins if the server makes it up.
func nameIn(w apiserver.Write) string {
	switch {
	case w.Name != "" || w.Object == nil:
		return w.Name
	case w.Object.GetName() != "":
		return w.Object.GetName()
	}
	return w.Object.GetGenerateName() + "*"
}

// refusing is a server that refuses one kind of writes for a while, of one tenant. It also tells which kinds of writes there are.
type refusing struct {
	Kind   writeKind // zero: nothing is refused
	Of     string    // in the names or the namespaces of what is refused; empty for all
	Answer func(w apiserver.Write, resource schema.GroupResource) error
	Takes  time.Duration // as long as an answer

	mu    sync.Mutex
	seen  map[writeKind]int // how many writes of each kind there were, and with Of
	of    map[writeKind]int // of these, how many were of that tenant
	began time.Time
	tries map[string][]time.Time   // of what was refused, by what it is about
	after map[string]time.Duration // how long after the end it was tried again, likewise
}

// meets returns the error of a write that is refused.
func (r *refusing) meets(ctx context.Context, l *link, w apiserver.Write) error {
	if w.Resource == "events" || w.Resource == "leases" {
		return nil
	}
	if err := r.judge(w); err == nil {
		return nil
	} else if l.Outages.Refused(faults.Object{Resource: w.Resource, Namespace: w.Namespace, Name: w.Name}); !errors.Is(err, errSilence) {
		return err
	}
	<-ctx.Done()
	l.Outages.Refused(faults.Object{Resource: w.Resource, Namespace: w.Namespace, Name: w.Name})
	l.gaveUp()
	return ctx.Err()
}

func (r *refusing) judge(w apiserver.Write) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen, r.of, r.tries, r.after = map[writeKind]int{}, map[writeKind]int{}, map[string][]time.Time{}, map[string]time.Duration{}
	}
	kind, about, now := kindOfWrite(w), aboutWhat(w), time.Now()
	r.seen[kind]++
	meant := strings.Contains(w.Namespace+" "+nameIn(w), r.Of)
	if meant {
		r.of[kind]++
	}
	if r.Answer == nil || kind != r.Kind || !meant {
		return nil
	}
	if r.began.IsZero() {
		r.began = now
	}
	if over := now.Sub(r.began.Add(refusedFor)); over >= 0 {
		if _, again := r.after[about]; !again && r.tries[about] != nil {
			r.after[about] = over
		}
		return nil
	}
	r.tries[about] = append(r.tries[about], now)
	group := ""
	if w.Object != nil {
		group = w.Object.GetObjectKind().GroupVersionKind().Group
	}
	return r.Answer(w, schema.GroupResource{Group: group, Resource: w.Resource})
}

// until is when the refusals end, as far as that is known.
func (r *refusing) until() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		return time.Time{}
	}
	return r.began.Add(refusedFor)
}

// patience is until when who waits for something that is refused has reason to.
func (r *refusing) patience() time.Time { return r.until().Add(r.Takes) }

// aboutWhat is what a write is about: the object, or the owner of one that is to be created, as its name is made up.
func aboutWhat(w apiserver.Write) string {
	if w.Verb == apiserver.Create && w.Object != nil {
		if owner := metav1.GetControllerOfNoCopy(w.Object); owner != nil {
			return fmt.Sprint(w.Namespace, "/", owner.Kind, ":", owner.Name)
		}
	}
	return w.Namespace + "/" + nameIn(w)
}

// The promise: who is refused waits for twice as long each time, from 5 ms to a minute.
const (
	mostAtFirst = 60 // tries in the first minute, in which others work, and what they do leads to a try, too: 15 without them
	mostLater   = 5  // in each later one; controllers that work by the clock have periods of 15 or 20 s
)

// excess says which writes were tried more often than that, after the first minute than most.
func (r *refusing) excess(most int) (broken []string) {
	for about, tries := range r.tries {
		var count [refusedFor/time.Minute + 1]int
		for _, at := range tries {
			count[min(at.Sub(tries[0])/time.Minute, refusedFor/time.Minute)]++
		}
		if count[0] > mostAtFirst || slices.Max(count[1:]) > most {
			broken = append(broken,
				fmt.Sprintf("%s was tried %v times in a minute, at most %d in the first one, and %d later", about, count, mostAtFirst,
					most))
		}
	}
	return broken
}

// lasting is for how long a write is refused before something has to tell of it.
const lasting = time.Minute

// lasts reports whether something was tried for so long that something has to tell of it.
func (r *refusing) lasts() bool {
	for _, tries := range r.tries {
		if tries[len(tries)-1].Sub(tries[0]) > lasting {
			return true
		}
	}
	return false
}

// lateAgain says what was tried again too late after the end.
func (r *refusing) lateAgain(within time.Duration) (broken []string) {
	for about, after := range r.after {
		if after > within+r.Takes {
			broken = append(broken,
				fmt.Sprintf("%s was tried again %v after the end of the refusals, not within %v", about, after, within+r.Takes))
		}
	}
	return broken
}
