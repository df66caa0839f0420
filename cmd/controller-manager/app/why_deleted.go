package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/explainhttp"
	"github.com/standalone-kcm/controller-manager/internal/history"
	"github.com/standalone-kcm/controller-manager/internal/why"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// controlPlane labels the machines of the control plane. No kubelet may give the label to its own node.
const controlPlane = "node-role.kubernetes.io/control-plane"

// deleted tells what became of objects that may be gone, from what all managers and observers remember.
func (a *whyAsker) deleted(ctx context.Context, resource string, key plan.Key) (summarized, error) {
	kind, err := kindNamed(a.clients.Mapper(), resource)
	if err != nil {
		return nil, err
	}
	m, err := a.clients.Mapper().Mapping(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", resource, err)
	}
	if !m.Namespaced {
		key.Namespace = ""
	}
	about := history.Ref{Group: kind.Group, Kind: kind.Kind, Namespace: key.Namespace, Name: key.Name}
	if err := a.mayGet(ctx, m, about); err != nil {
		return nil, err
	}
	entries, source, err := a.remembered(ctx, about)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", about, err)
	}
	story, ok := history.Tell(about, entries)
	if !ok {
		return nil, fmt.Errorf("%s: no history tells of it; %s", about, source)
	}
	story.APIVersion, story.Kind, story.Source = why.Schema, "Story", source
	return story, nil
}

// mayGet returns an error if the caller may not get an object of the kind and name. The object may be gone, but who may
// not see it is not told of it.
func (a *whyAsker) mayGet(ctx context.Context, m client.Mapping, about history.Ref) error {
	reader, err := a.clients.Kubernetes()
	if err != nil {
		return err
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Group: m.GroupVersionResource().Group,
			Resource: m.GroupVersionResource().Resource, Namespace: about.Namespace, Name: about.Name}}}
	answer, err := reader.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("%s: ask what you may read: %w", about, err)
	case !answer.Status.Allowed:
		return fmt.Errorf("%s: you may not get %s there, so its history is not for you", about, m.GroupResource())
	}
	return nil
}

// remembered asks all managers and observers about objects, and says who was asked.
func (a *whyAsker) remembered(ctx context.Context, about history.Ref) (all []history.Entry, source string, err error) {
	pods, err := a.keepers(ctx)
	switch {
	case len(pods) == 0 && err != nil:
		return nil, "", fmt.Errorf("look for managers and observers in %s: %w", managersNamespace, err)
	case len(pods) == 0:
		return nil, "", fmt.Errorf("no manager of ours and no observer is found in %s", managersNamespace)
	}
	credentials := throughTunnel(a.config, a.sendToken)
	if credentials == nil {
		return nil, "", errors.New("no manager was asked, see --send-token")
	}
	var said []string
	kept := false
	for _, pod := range pods {
		var found explainhttp.Known
		what := "was asked"
		ask := func(ctx context.Context, asking *http.Client, at string) error {
			known, err := askAbout(ctx, asking, at+"/debug/history", about.Kind,
				plan.Key{Namespace: about.Namespace, Name: about.Name}, &found)
			if kept = kept || known; err == nil && !known {
				what = "keeps no history, see --history-dir"
			}
			return err
		}
		err := a.through(ctx, pod, credentials, decidedWithin, ask)
		if err != nil {
			what = "did not answer: " + err.Error()
		}
		all = append(all, found.Entries...)
		said = append(said, fmt.Sprintf("pod %s/%s %s", pod.Namespace, pod.Name, what))
	}
	if source = strings.Join(said, "; "); !kept {
		return nil, "", fmt.Errorf("nobody has told of its history: %s", source)
	}
	// Groups may have kinds of one name.
	all = slices.DeleteFunc(all, func(e history.Entry) bool {
		return strings.EqualFold(e.Object.Kind, about.Kind) && e.Object.Group != about.Group
	})
	return all, source, nil
}

// keepers are the pods that may keep a history: managers, whether they lead or not, and observers.
func (a *whyAsker) keepers(ctx context.Context) (pods []corev1.Pod, err error) {
	all, err := a.ranked(ctx)
	for _, r := range all {
		if r.rank < mirrored || r.rank == mirrored && a.ofControlPlane(ctx, r.Spec.NodeName) {
			pods = append(pods, r.Pod)
		}
	}
	return pods, err
}

// ofControlPlane reports whether a machine is known to be one of the control plane.
func (a *whyAsker) ofControlPlane(ctx context.Context, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, decidedWithin)
	defer cancel()
	reader, err := a.clients.Kubernetes()
	if err != nil {
		return false
	}
	found, err := reader.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return false
	}
	_, is := found.Labels[controlPlane]
	return is
}
