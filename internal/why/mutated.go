package why

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// mutated is a verdict on what has given a pod another request than its template has; nil if nothing has.
func (w *world) mutated(ctx context.Context, p *corev1.Pod, name corev1.ResourceName) *verdict {
	template, ok := w.templateOf(ctx, p)
	if !ok {
		return nil
	}
	asked, has := requestOf(&corev1.Pod{Spec: template.Spec}, name), requestOf(p, name)
	if asked.Cmp(has) == 0 {
		return nil
	}
	says := fmt.Sprintf("pods get a request of %s of %s, and their template has %s", has.String(), name, asked.String())
	suspects := w.mutators(ctx, p.Namespace, name)
	switch len(suspects) {
	case 0:
		return nil
	case 1:
		return fails(suspects[0], "Mutated", "because of it %s", says).inferred()
	}
	var names []string
	for _, o := range suspects {
		names = append(names, refOf(o).String())
	}
	return fails(suspects[0], "Mutated", "%s; what may have changed them is: %s", says,
		strings.Join(names, ", ")).inferred()
}

// templateOf returns the template that a pod was made of.
func (w *world) templateOf(ctx context.Context, p *corev1.Pod) (t corev1.PodTemplateSpec, ok bool) {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil {
		return t, false
	}
	owner, _ := w.get(ctx, schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), p.Namespace, ref.Name)
	switch o := owner.(type) {
	case *appsv1.ReplicaSet:
		return o.Spec.Template, true
	case *appsv1.StatefulSet:
		return o.Spec.Template, true
	case *appsv1.DaemonSet:
		return o.Spec.Template, true
	case *batchv1.Job:
		return o.Spec.Template, true
	}
	return t, false
}

// mutators are what may change the requests of pods in a namespace.
func (w *world) mutators(ctx context.Context, namespace string, name corev1.ResourceName) (all []plan.Object) {
	var own labels.Set
	if n, is := get[*corev1.Namespace](ctx, w, "", namespace); is == present {
		own = n.Labels
	}
	bound := map[string]bool{}
	for _, b := range list[*admissionregistrationv1.MutatingAdmissionPolicyBinding](ctx, w, "", nil) {
		if r := b.Spec.MatchResources; r == nil || matches(r.NamespaceSelector, own) {
			bound[b.Spec.PolicyName] = true
		}
	}
	for _, p := range list[*admissionregistrationv1.MutatingAdmissionPolicy](ctx, w, "", nil) {
		c := p.Spec.MatchConstraints
		if c != nil && bound[p.Name] && matches(c.NamespaceSelector, own) && slices.ContainsFunc(c.ResourceRules,
			func(r admissionregistrationv1.NamedRuleWithOperations) bool { return ofPods(r.Rule) }) {
			all = append(all, p)
		}
	}
	for _, c := range list[*admissionregistrationv1.MutatingWebhookConfiguration](ctx, w, "", nil) {
		if slices.ContainsFunc(c.Webhooks, func(h admissionregistrationv1.MutatingWebhook) bool {
			return matches(h.NamespaceSelector, own) && slices.ContainsFunc(h.Rules,
				func(r admissionregistrationv1.RuleWithOperations) bool { return ofPods(r.Rule) })
		}) {
			all = append(all, c)
		}
	}
	for _, l := range list[*corev1.LimitRange](ctx, w, namespace, nil) {
		if slices.ContainsFunc(l.Spec.Limits, func(i corev1.LimitRangeItem) bool {
			_, sets := i.Default[name]
			_, requests := i.DefaultRequest[name]
			return sets || requests
		}) {
			all = append(all, l)
		}
	}
	return all
}

// matches reports whether a selector, which may be nil, selects something with these labels.
func matches(s *metav1.LabelSelector, has labels.Set) bool {
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(has)
}

// ofPods reports whether a rule is about pods.
func ofPods(r admissionregistrationv1.Rule) bool {
	return slices.ContainsFunc(r.Resources, func(name string) bool {
		return name == "pods" || name == "*" ||
			name == "*/*"
	})
}
