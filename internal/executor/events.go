package executor

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/truncate"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// emit records an event on the owner.
func (w *Writing) emit(e plan.Event, name string, err error) {
	if w.owner != nil {
		w.record(w.owner, e, name, err)
	}
}

// record records an event. Recording never blocks and never fails a reconcile (CI-45).
func (w *Writing) record(about plan.Object, e plan.Event, name string, err error) {
	if e.Reason == "" || w.Events == nil {
		return
	}
	message := strings.ReplaceAll(e.Message, "{name}", name)
	if err != nil {
		message = strings.ReplaceAll(message, "{error}", err.Error())
	}
	w.Events.Event(about, e.Type, e.Reason, truncate.Text(message, longestMessage))
}

// longestMessage is how many bytes of a message are recorded. Messages name what tenants have, and repeat what their
// webhooks answer.
const longestMessage = 1024

// emitFailure records the event of a step about a write that has failed. Of a write that the server puts off it says
// nothing: see RecordFailure.
func (w *Writing) emitFailure(e plan.Event, name string, err error) {
	if Silent(err) || PutOff(err) || e.Reason == "" || w.owner == nil {
		return
	}
	w.mu.Lock()
	w.failureReported = true
	w.mu.Unlock()
	w.emit(e, name, err)
}

// failureReasons are those of events that report failures.
var failureReasons = map[plan.Verb]string{plan.Created: "FailedCreate", plan.Changed: "FailedUpdate",
	plan.Deleted: "FailedDelete"}

// RecordFailure records an event about the first of these writes that has failed, unless the event of a step has
// reported one: a refusal that lasts is no secret, whatever the controller is. It is on the owner, or else on the
// object that could not be written.
func (w *Writing) RecordFailure(outcomes ...plan.Outcome) {
	w.mu.Lock()
	reported := w.failureReported
	w.mu.Unlock()
	if reported {
		return
	}
	for _, did := range outcomes {
		for _, r := range did.Results {
			if r.Err != nil && !Silent(r.Err) {
				w.recordEvent(r)
				return
			}
		}
	}
}

// tellOf records an event about a write that has failed. Of a collection it is about the namespace.
func (w *Writing) recordEvent(r plan.Result) {
	about := w.owner
	if about == nil {
		about = r.Object
	}
	what := nameOf(r.Object)
	if about.GetName() == "" && about.GetGenerateName() == "" { // all objects of a kind in a namespace
		about, what = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.Object.GetNamespace()}}, "all"
	}
	if m, err := w.Mapper.MappingFor(w.ctx, r.Object); err == nil {
		what = m.Kind + " " + what
	}
	if r.Subresource != "" {
		what = "the " + r.Subresource + " of " + what
	}
	message := fmt.Sprintf("Cannot %s %s, tries again: {error}",
		strings.ReplaceAll(string(r.Verb), string(plan.Changed), "update"), what)
	w.record(about, plan.Event{Type: corev1.EventTypeWarning, Reason: failureReasons[r.Verb], Message: message}, "",
		r.Err)
}
