package exam

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/jsonpath"
)

// patience is how long a condition may take to become true. Several problems are set up at the same time.
const patience = 90 * time.Second

// Await waits until a condition is true.
func (p *Place) Await(ctx context.Context, c Condition) error {
	return await(ctx, c.String(), func(ctx context.Context) error { return p.holds(ctx, c) })
}

// await waits until check returns nil.
func await(ctx context.Context, what string, check func(context.Context) error) error {
	last := errors.New("it was not looked at")
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if err := check(ctx); err == nil || ctx.Err() == nil {
			last = err
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait until %s: %w: %w", what, err, last)
	}
	return nil
}

func (c Condition) String() string {
	switch {
	case c.Try != nil:
		return fmt.Sprintf("the creation of an object is answered with %q", c.Equals+c.Contains)
	case c.Event != "":
		return fmt.Sprintf("%s has the event %s (%q)", c.About, c.Event, c.Contains)
	case c.Gone:
		return c.Object + " is gone"
	}
	return fmt.Sprintf("%s of %s is %q", c.Path, c.Object, c.Equals+c.Contains)
}

// accepts reports whether a text is what the condition wants.
func (c Condition) accepts(text string) bool {
	if c.Contains != "" {
		return strings.Contains(text, c.Contains)
	}
	return text == c.Equals
}

// holds returns nil if the condition is true, or else what is instead.
func (p *Place) holds(ctx context.Context, c Condition) error {
	switch {
	case c.Try != nil:
		return p.answers(ctx, c)
	case c.Event != "":
		return p.hasEvent(ctx, c)
	}
	found, err := p.find(ctx, c.Object)
	if err != nil {
		return err
	}
	if c.Gone {
		if len(found) > 0 {
			return fmt.Errorf("%d of them are there", len(found))
		}
		return nil
	}
	return c.anyOf(found)
}

// anyOf looks for one object whose value is right.
func (c Condition) anyOf(objects []unstructured.Unstructured) error {
	query := jsonpath.New("condition").AllowMissingKeys(true)
	if err := query.Parse(c.Path); err != nil {
		return fmt.Errorf("parse %q: %w", c.Path, err)
	}
	var seen []string
	for _, u := range objects {
		var text bytes.Buffer
		if err := query.Execute(&text, u.Object); err != nil {
			return fmt.Errorf("evaluate %q: %w", c.Path, err)
		}
		if c.accepts(text.String()) {
			return nil
		}
		seen = append(seen, text.String())
	}
	return fmt.Errorf("%d objects have %q", len(objects), seen)
}

// answers tries to create an object, without creating it. What refuses or changes objects takes effect some time after its creation.
func (p *Place) answers(ctx context.Context, c Condition) error {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(c.Try)}
	resource, err := p.resourceOf(u)
	if err != nil {
		return err
	}
	made, err := resource.Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil && c.Path != "":
		return c.anyOf([]unstructured.Unstructured{*made})
	case err == nil:
		return errors.New("it would be created")
	case c.Path != "" || !c.accepts(err.Error()):
		return fmt.Errorf("the answer is %w", err)
	}
	return nil
}

func (p *Place) hasEvent(ctx context.Context, c Condition) error {
	kind, name, err := split(c.About)
	if err != nil {
		return err
	}
	_, found, err := p.named(kind)
	if err != nil {
		return err
	}
	list, err := p.client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + c.Event})
	if err != nil {
		return fmt.Errorf("list events: %w", err)
	}
	for _, e := range list.Items {
		if about := e.InvolvedObject; about.Kind == found.Kind && p.has(about) && matches(name, about.Name) &&
			strings.Contains(e.Message, c.Contains) {
			return nil
		}
	}
	return fmt.Errorf("%d events have the reason, and none is about it", len(list.Items))
}

// has reports whether an object that an event is about can be one of the problem.
func (p *Place) has(about corev1.ObjectReference) bool {
	return about.Namespace == "" || about.Namespace == p.NS
}
