package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var seed = maphash.MakeSeed()

// unlessUndone is the client of one change: it omits the change while it waits because it was undone.
type unlessUndone struct {
	client.Client
	*Writing
	m client.Mapping
	s plan.Change
}

// subject is what the change is made to.
func (c *unlessUndone) subject() subject { return subject{identity(c.m, c.s.Old), c.s.Subresource} }

// Patch implements client.Client.
func (c *unlessUndone) Patch(ctx context.Context, m client.Mapping, key plan.Key, p client.Patch,
	o client.WriteOptions) (*metav1.PartialObjectMetadata, error) {
	sum := c.sum(p.Data)
	if !o.Touch && c.waits(sum) {
		return nil, nil
	}
	made, err := c.Client.Patch(ctx, m, key, p, o)
	if err == nil && !o.Touch {
		c.made(sum, made)
	}
	return made, err
}

// Update implements client.Client. To find out what it changes costs too much to do it each time, so the metadata of
// the answer is looked at first: a webhook that undoes an update leaves the object as it was, which is no event,
// unless it changes something else.
func (c *unlessUndone) Update(ctx context.Context, m client.Mapping, after plan.Object,
	o client.WriteOptions) (*metav1.PartialObjectMetadata, error) {
	if !o.Touch && c.undone.knows(c.subject()) {
		if sum, err := c.sumOfUpdate(); err != nil || c.waits(sum) {
			return nil, err
		}
	}
	made, err := c.Client.Update(ctx, m, after, o)
	switch {
	case err != nil || o.Touch:
		return made, err
	case len(c.s.Sign) == 0 && !c.altered(made):
		c.undone.worked(c.subject())
		return made, nil
	}
	sum, err := c.sumOfUpdate()
	if err == nil {
		c.made(sum, made)
	}
	return made, err
}

// altered reports whether the answer shows that something else was made of the change than was asked for, as far as
// metadata show: nothing, or something more. Others may have written at the same time. Caches keep few annotations of
// pods, so these are not compared.
func (c *unlessUndone) altered(made *metav1.PartialObjectMetadata) bool {
	if c.m.GroupVersionKind == pods {
		made = made.DeepCopy()
		made.SetAnnotations(c.s.New.GetAnnotations())
	}
	return made.GetResourceVersion() == c.s.Old.GetResourceVersion() && !removes(c.s) || !sameMetadata(c.s.New, made)
}

var pods = corev1.SchemeGroupVersion.WithKind("Pod")

// sumOfUpdate is the sum of what an update changes.
func (c *unlessUndone) sumOfUpdate() (uint64, error) {
	difference, err := c.m.Difference(c.s.Old, c.s.New, client.WriteOptions{})
	return c.sum(difference.Data), err
}

// sum distinguishes what is asked for: a difference, from whichever version, or what is to be signed, which is never
// the same twice.
func (c *unlessUndone) sum(difference []byte) uint64 {
	if len(c.s.Sign) > 0 {
		return maphash.String(seed, strings.Join(c.s.Sign, " "))
	}
	if version := c.s.Old.GetResourceVersion(); version != "" {
		difference = bytes.Replace(difference, []byte(`"resourceVersion":"`+version+`"`), nil, 1)
	}
	return withoutTimes(difference)
}

// withoutTimes is the sum of an encoded difference, whatever the times in it are: those of conditions would make it
// another one each second.
func withoutTimes(data []byte) uint64 {
	const layout, date = "2006-01-02T15:04:05", len("2006-01-02")
	var h maphash.Hash
	h.SetSeed(seed)
	for at := bytes.IndexByte(data, 'T'); at >= 0; at = bytes.IndexByte(data, 'T') {
		until, rest := at+1, data[at+1:]
		if end := at - date + len(layout); at >= date && end <= len(data) {
			if _, err := time.Parse(layout, string(data[at-date:end])); err == nil {
				until, rest = at-date, bytes.TrimLeft(data[end:], ".0123456789")
			}
		}
		_, _ = h.Write(data[:until])
		data = rest
	}
	_, _ = h.Write(data)
	return h.Sum64()
}

// waits reports whether the change is to be left out.
func (c *unlessUndone) waits(sum uint64) bool {
	_, wait := c.undone.waits(c.subject(), sum, time.Now())
	if wait > 0 {
		c.later(wait)
	}
	return wait > 0
}

// made notes that the change was made, and records an event if it comes to nothing again and again. What was altered
// may be no event for the controller, so the plan is made again soon.
func (c *unlessUndone) made(sum uint64, made *metav1.PartialObjectMetadata) {
	now := time.Now()
	w := c.undone.made(c.subject(), sum, now)
	switch {
	case w.times > 0:
		c.later(w.until.Sub(now))
	case c.altered(made):
		c.later(firstUndone)
	}
	if w.times > 1 {
		c.emit(plan.Event{Type: corev1.EventTypeWarning, Reason: "ChangeUndone", Message: fmt.Sprintf(
			"A change of %s {name} was undone %d times in a row, by an admission webhook or another writer; it is not "+
				"made again for %v", c.m.Kind, w.times,
			w.until.Sub(now))}, c.s.New.GetName(), nil)
	}
}

// later notes that something was left out that is to be written when that time is over.
func (w *Writing) later(wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leftOut = plan.Sooner(w.leftOut, wait)
}

// LeftOut returns after which time the plan is to be made again, because a change is made again then that was undone;
// zero if none was.
func (w *Writing) LeftOut() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leftOut
}

// creations are those of a kind for the owner.
func (w *Writing) creations(m client.Mapping) subject {
	s := subject{what: m.GroupVersionKind.String()}
	if w.owner != nil {
		s.of = w.owner.GetUID()
	}
	return s
}

// mayCreate returns an error while creations for the owner are not made because they were undone.
func (w *Writing) mayCreate(m client.Mapping, s plan.Create) error {
	if s.Selector == nil {
		return nil
	}
	if last, wait := w.undone.waits(w.creations(m), 0, time.Now()); wait > 0 {
		return &Undone{last.until, last.cause}
	}
	return nil
}

// asCreated returns an error if an object has not come back from its creation as its owner looks for it.
func (w *Writing) asCreated(m client.Mapping, s plan.Create, made metav1.Object) error {
	if s.Selector == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	if err != nil {
		return nil // nobody finds anything by it
	}
	if selector.Matches(labels.Set(made.GetLabels())) {
		w.undone.worked(w.creations(m))
		return nil
	}
	cause := fmt.Sprintf(
		"it was created without the labels of the selector %s, which an admission webhook must have removed", selector)
	if !selector.Matches(labels.Set(s.Object.GetLabels())) {
		cause = fmt.Sprintf("its controller has made it without the labels of the selector %s", selector)
	}
	return &Undone{w.undone.failed(w.creations(m), cause, time.Now()).until, cause}
}

// Undone is the error of creations that came back as something else.
type Undone struct {
	Until time.Time // when the next one is made
	cause string
}

func (u *Undone) Error() string { return u.cause }

// UndoneFor returns how long a creation waits that err says was undone; zero for other errors.
func UndoneFor(err error) time.Duration {
	var undone *Undone
	if !errors.As(err, &undone) {
		return 0
	}
	return max(time.Until(undone.Until), time.Millisecond)
}
