package why

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// What API servers say when admission refuses an object. The names are those of the objects that refuse.
var (
	quotaExceeded = regexp.MustCompile(`exceeded quota: ([^,]+), (requested: .*)`)
	quotaWants    = regexp.MustCompile(`failed quota: ([^:]+): (must specify .*)`)
	podSecurity   = regexp.MustCompile(`violates PodSecurity "([^"]+)": (.*)`)
	webhookDenied = regexp.MustCompile(`admission webhook "([^"]+)" denied the request(?:: |\b)(.*)`)
	webhookFailed = regexp.MustCompile(`failed calling webhook "([^"]+)": (.*)`)
	policyDenied  = regexp.MustCompile(
		`ValidatingAdmissionPolicy '([^']+)' with binding '([^']+)' denied request: (.*)`)
	noAccount      = regexp.MustCompile(`error looking up service account ([^/]+)/([^:]+): (.*)`)
	noRuntimeClass = regexp.MustCompile(`RuntimeClass(?:\.node\.k8s\.io)? "?([^" ]+)"? not found`)
	limitOf        = regexp.MustCompile(`(minimum|maximum) ([a-z.-]+) usage per (\S+) is ([0-9A-Za-z.]+)`)
	noPriority     = regexp.MustCompile(`no PriorityClass with name (\S+) was found`)
	outOfRange     = regexp.MustCompile(
		`((?:minimum|maximum) [a-z.-]+ usage per \S+ is .*|\S+ max limit to request ratio per .*)`)
	invalidPattern = regexp.MustCompile(`(?:Pod|Job\.batch) "[^"]*" is invalid: (.*)`)
)

// refused is a verdict on who has refused to create an object for an owner, by what the API server has said.
func (w *world) refused(ctx context.Context, owner plan.Object, message string) *verdict {
	ns := owner.GetNamespace()
	switch {
	case quotaExceeded.MatchString(message):
		m := quotaExceeded.FindStringSubmatch(message)
		return blame(named[*corev1.ResourceQuota](ns, m[1]), "ExceededQuota", "it is used up: %s", m[2]).
			until("the quota is raised, or others leave room")
	case quotaWants.MatchString(message):
		m := quotaWants.FindStringSubmatch(message)
		return blame(named[*corev1.ResourceQuota](ns, m[1]), "QuotaWantsResources", "pods %s", m[2])
	case podSecurity.MatchString(message):
		m := podSecurity.FindStringSubmatch(message)
		return blame(named[*corev1.Namespace]("", ns), "PodSecurity", "its level %q refuses the pods: %s", m[1], m[2]).
			until("the pod template keeps the rules, or the label of the namespace changes")
	case policyDenied.MatchString(message):
		m := policyDenied.FindStringSubmatch(message)
		return blame(named[*admissionregistrationv1.ValidatingAdmissionPolicy]("", m[1]), "PolicyDenied",
			"it refuses, by its binding %s: %s", m[2], m[3])
	case webhookDenied.MatchString(message):
		m := webhookDenied.FindStringSubmatch(message)
		return w.webhook(ctx, ns, m[1], "WebhookDenied", "refuses: "+m[2])
	case webhookFailed.MatchString(message):
		m := webhookFailed.FindStringSubmatch(message)
		return w.webhook(ctx, ns, m[1], "WebhookFailed", "cannot be called, and must be: "+m[2])
	}
	return w.refusedByOthers(ctx, owner, message)
}

// refusedByOthers is refused for what is no quota, policy or webhook.
func (w *world) refusedByOthers(ctx context.Context, owner plan.Object, message string) *verdict {
	switch {
	case noAccount.MatchString(message):
		m := noAccount.FindStringSubmatch(message)
		return lacking[*corev1.ServiceAccount](m[1], m[2], "pods are to run as it, and it does not exist")
	case noPriority.MatchString(message):
		m := noPriority.FindStringSubmatch(message)
		return lacking[*schedulingv1.PriorityClass]("", m[1], "pods are to have its priority, and it does not exist")
	case noRuntimeClass.MatchString(message):
		m := noRuntimeClass.FindStringSubmatch(message)
		return lacking[*nodev1.RuntimeClass]("", m[1], "pods are to run by it, and it does not exist")
	case outOfRange.MatchString(message):
		return w.limitRange(ctx, owner, outOfRange.FindStringSubmatch(message)[1])
	case invalidPattern.MatchString(message):
		return fails(owner, "InvalidTemplate", "its template is invalid: %s",
			invalidPattern.FindStringSubmatch(message)[1])
	}
	return fails(owner, "FailedCreate", "%s", message)
}

// limitRange is a verdict on the LimitRange that has refused pods. The API server does not name it, but its limit.
func (w *world) limitRange(ctx context.Context, owner plan.Object, says string) *verdict {
	some := list[*corev1.LimitRange](ctx, w, owner.GetNamespace(), nil)
	if m := limitOf.FindStringSubmatch(says); m != nil {
		some = slices.DeleteFunc(slices.Clone(some), func(l *corev1.LimitRange) bool { return !hasLimit(l, m) })
	}
	switch len(some) {
	case 0:
		return fails(owner, "LimitRange", "a LimitRange refuses the pods: %s", says)
	case 1:
		return fails(some[0], "LimitRange", "it refuses the pods: %s", says)
	}
	return fails(some[0], "LimitRange", "it, or another one, refuses the pods: %s", says).inferred()
}

// hasLimit reports whether a LimitRange has a limit as a message names it: which one, of what, per what, and how much.
func hasLimit(l *corev1.LimitRange, named []string) bool {
	return slices.ContainsFunc(l.Spec.Limits, func(i corev1.LimitRangeItem) bool {
		limits := i.Max
		if named[1] == "minimum" {
			limits = i.Min
		}
		q, has := limits[corev1.ResourceName(named[2])]
		return has && string(i.Type) == named[3] && q.String() == named[4]
	})
}

// named names an object of a built-in kind.
func named[T plan.Object](namespace, name string) Ref { return lacking[T](namespace, name, "").object }

// blame is a verdict on an object by what the API server says of it.
func blame(o Ref, reason, format string, args ...any) *verdict {
	return &verdict{object: o, state: Failing, reason: reason, says: fmt.Sprintf(format, args...)}
}

// hook is what is asked of a webhook, of one that validates or one that mutates.
type hook struct {
	of       plan.Object
	client   admissionregistrationv1.WebhookClientConfig
	selector *metav1.LabelSelector // of namespaces
}

// webhook is a verdict on the configuration that has a webhook of that name, for objects in a namespace.
func (w *world) webhook(ctx context.Context, namespace, name, reason, says string) *verdict {
	says = fmt.Sprintf("its webhook %s %s", name, strings.TrimSpace(says))
	var own labels.Set
	if n, is := get[*corev1.Namespace](ctx, w, "", namespace); is == present {
		own = n.Labels
	}
	some := slices.DeleteFunc(w.hooks(ctx, name), func(h hook) bool { return !matches(h.selector, own) })
	switch len(some) {
	case 0:
		return blame(Ref{Kind: "Webhook", Name: name}, reason, "%s", says)
	case 1:
		return fails(some[0].of, reason, "%s", says+w.behind(ctx, some[0].client))
	}
	return fails(some[0].of, reason, "%s (%s has a webhook of that name, too)", says, refOf(some[1].of)).inferred()
}

// hooks returns the webhooks of a name.
func (w *world) hooks(ctx context.Context, name string) (all []hook) {
	for _, c := range list[*admissionregistrationv1.ValidatingWebhookConfiguration](ctx, w, "", nil) {
		for _, h := range c.Webhooks {
			if h.Name == name {
				all = append(all, hook{c, h.ClientConfig, h.NamespaceSelector})
			}
		}
	}
	for _, c := range list[*admissionregistrationv1.MutatingWebhookConfiguration](ctx, w, "", nil) {
		for _, h := range c.Webhooks {
			if h.Name == name {
				all = append(all, hook{c, h.ClientConfig, h.NamespaceSelector})
			}
		}
	}
	return all
}

// behind says what is wrong with the Service behind a webhook, if something is.
func (w *world) behind(ctx context.Context, c admissionregistrationv1.WebhookClientConfig) string {
	if c.Service == nil {
		return ""
	}
	s, is := get[*corev1.Service](ctx, w, c.Service.Namespace, c.Service.Name)
	switch {
	case is == absent:
		return fmt.Sprintf("; Service %s/%s does not exist", c.Service.Namespace, c.Service.Name)
	case is == present:
		if v := w.service(ctx, s); v.state != AsWanted {
			return fmt.Sprintf("; Service %s/%s: %s", c.Service.Namespace, c.Service.Name, v.says)
		}
	}
	return ""
}
