package exam

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SetUp makes a problem, until it is what it shall be.
func (p *Place) SetUp(ctx context.Context, problem *Problem) error {
	for _, object := range problem.Objects {
		if err := p.Create(ctx, object); err != nil {
			return err
		}
	}
	for i, step := range problem.Steps {
		if err := p.play(ctx, step); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	for _, c := range problem.Until {
		if err := p.Await(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (p *Place) play(ctx context.Context, s Step) error {
	switch {
	case s.Await != nil:
		return p.Await(ctx, *s.Await)
	case s.Create != nil:
		return p.Create(ctx, s.Create)
	case s.Patch != nil:
		return p.patch(ctx, s.Patch)
	case s.Delete != "":
		return p.delete(ctx, s.Delete, metav1.DeletePropagationBackground)
	case s.Foreground != "":
		return p.delete(ctx, s.Foreground, metav1.DeletePropagationForeground)
	case s.Kubelet != nil:
		return p.playKubelet(ctx, s.Kubelet)
	case s.Event != nil:
		return p.writeEventAbout(ctx, *s.Event)
	}
	return fmt.Errorf("nothing is to be done in %+v", s)
}

func (p *Place) patch(ctx context.Context, change *Patch) error {
	kind, name, err := split(change.Object)
	if err != nil {
		return err
	}
	resource, _, err := p.named(kind)
	if err != nil {
		return err
	}
	var subresources []string
	if change.Subresource != "" {
		subresources = append(subresources, change.Subresource)
	}
	if err := patch(ctx, resource, name, types.StrategicMergePatchType, change.With, subresources...); err != nil {
		return fmt.Errorf("patch %s: %w", change.Object, err)
	}
	return nil
}

// delete deletes all objects that kind/name stands for, and what depends on them.
func (p *Place) delete(ctx context.Context, object string, propagation metav1.DeletionPropagation) error {
	found, err := p.find(ctx, object)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("there is no %s to be deleted", object)
	}
	for _, u := range found {
		resource, err := p.resourceOf(&u)
		if err != nil {
			return err
		}
		if err := resource.Delete(ctx, u.GetName(), metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
			return fmt.Errorf("delete %s: %w", object, err)
		}
	}
	return nil
}

func (p *Place) writeEventAbout(ctx context.Context, e Event) error {
	found, err := p.find(ctx, e.About)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("there is no %s for an event", e.About)
	}
	for _, u := range found {
		about := corev1.ObjectReference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(),
			UID: u.GetUID()}
		if err := p.writeEvent(ctx, about, e); err != nil {
			return err
		}
	}
	return nil
}

func (p *Place) writeEvent(ctx context.Context, about corev1.ObjectReference, e Event) error {
	now := metav1.NewTime(time.Now())
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: about.Name + ".", Namespace: namespace},
		InvolvedObject: about,
		Type:           orElse(e.Type, corev1.EventTypeWarning),
		Reason:         e.Reason,
		Message:        strings.ReplaceAll(e.Message, "$POD", about.Name),
		Source:         corev1.EventSource{Component: orElse(e.From, "kubelet")},
		FirstTimestamp: now, LastTimestamp: now, Count: 3,
	}
	if _, err := p.client.CoreV1().Events(namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("write the event %s about %s/%s: %w", e.Reason, about.Kind, about.Name, err)
	}
	return nil
}

func orElse(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
