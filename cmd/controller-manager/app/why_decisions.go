package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/standalone-kcm/controller-manager/internal/why"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
)

const (
	// managersNamespace is where managers are looked for. Who may create pods there may do everything, so a token that
	// is sent to such a pod is in good hands. In any other namespace it might be a tenant's.
	managersNamespace = metav1.NamespaceSystem
	// managersPort is where a manager serves, unless a port of its pod is called https.
	managersPort = 10257
	// decidedWithin bounds how long a manager is asked.
	decidedWithin = 3 * time.Second
	// mostDecisions bounds about how many objects of a chain it is asked.
	mostDecisions = 5
)

// managersLabels select the pods that may be managers: those of our manifests, and static pods as of kubeadm.
var managersLabels = []string{
	"app.kubernetes.io/name in (controller-manager, controller-manager-observer)", "component=kube-controller-manager",
}

// decide adds to an answer what controllers have decided, if there is a manager that the caller may ask.
func (a *whyAsker) decide(ctx context.Context, answer *why.Answer) {
	ctx, cancel := context.WithTimeout(ctx, decidedWithin)
	defer cancel()
	if a.config.Impersonate.UserName != "" { // managers know nothing of that, and would answer who impersonates
		return
	}
	for _, pod := range a.managers(ctx) {
		decisions, err := a.decisionsOf(ctx, pod, answer.Chain)
		if err != nil {
			answer.Source += fmt.Sprintf("; pod %s/%s did not answer: %v", pod.Namespace, pod.Name, err)
			continue
		}
		answer.Decisions = decisions
		answer.Source = strings.Replace(answer.Source, noneAsked,
			fmt.Sprintf("pod %s/%s was asked what controllers have decided",
				pod.Namespace, pod.Name), 1)
		return
	}
}

// managers are the pods that may know decisions: the one that leads, and then the others. Reading them may be
// forbidden; then there are none.
func (a *whyAsker) managers(ctx context.Context) (pods []corev1.Pod) {
	reader, err := a.clients.Kubernetes()
	if err != nil {
		return nil
	}
	for _, selector := range managersLabels {
		found, err := reader.CoreV1().Pods(managersNamespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil {
			pods = append(pods, found.Items...)
		}
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
	if len(pods) == 0 {
		return nil
	}
	leaders := leadersOf(ctx, reader)
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return rank(a, leaders) - rank(b, leaders) })
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool { return rank(p, leaders) == standby })
}

// Pods are asked in this order.
const (
	leading = iota
	observing
	standby // it has decided nothing
)

// rank is the place of a pod among those that are asked.
func rank(pod corev1.Pod, leaders []string) int {
	switch {
	case slices.Contains(leaders, pod.Name) || pod.Spec.HostNetwork && slices.Contains(leaders, pod.Spec.NodeName):
		return leading
	case pod.Labels["app.kubernetes.io/name"] == observer:
		return observing
	}
	return standby
}

// leadersOf are the names of the machines, or pods, that hold the lease of a manager.
func leadersOf(ctx context.Context, reader kubernetes.Interface) (names []string) {
	for _, name := range []string{"kube-controller-manager", "standalone-controller-manager"} {
		lease, err := reader.CoordinationV1().Leases(managersNamespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && lease.Spec.HolderIdentity != nil {
			host, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
			names = append(names, host)
		}
	}
	return names
}

// decisionsOf asks a manager about the objects of a chain, with the credentials of the caller.
func (a *whyAsker) decisionsOf(ctx context.Context, pod corev1.Pod, chain []why.Link) (all []why.Decision, err error) {
	port, end, err := a.forward(ctx, pod)
	if err != nil {
		return nil, err
	}
	defer end()
	transport, err := rest.TransportFor(throughTunnel(a.config))
	if err != nil {
		return nil, err
	}
	asking := &http.Client{Transport: transport}
	for _, link := range chain[:min(len(chain), mostDecisions)] {
		d, ok, err := askDecision(ctx, asking, fmt.Sprintf("https://127.0.0.1:%d/debug/explain", port), link.Object)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, d)
		}
	}
	return all, nil
}

// throughTunnel returns the credentials of a configuration without what is about its server. The API server has the
// other end of the tunnel, so a certificate that a manager has made for itself is as good as another.
func throughTunnel(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.Host, c.APIPath, c.ServerName, c.Insecure, c.CAFile, c.CAData = "", "", "", true, "", nil
	c.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	return c
}

// askDecision asks what was decided about an object. A manager that does not know of any is no error.
func askDecision(
	ctx context.Context, asking *http.Client, at string, about why.Ref,
) (d why.Decision, ok bool, err error) {
	path := []string{at, url.PathEscape(strings.ToLower(about.Kind)), url.PathEscape(about.Name)}
	if about.Namespace != "" {
		path = slices.Insert(path, 2, url.PathEscape(about.Namespace))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.Join(path, "/"), nil)
	if err != nil {
		return d, false, err
	}
	answer, err := asking.Do(request)
	if sent := (*url.Error)(nil); errors.As(err, &sent) {
		err = sent.Err // the address is that of the tunnel, which says nothing to people
	}
	if err != nil {
		return d, false, err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound: // nothing was decided, or it is another program
		return d, false, nil
	default:
		return d, false, errors.New(answer.Status)
	}
	var found struct {
		Controller string `json:"controller"`
		explain.Record
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&found); err != nil {
		return d, false, fmt.Errorf("read the answer: %w", err)
	}
	return why.Decision{
		Object: about, Controller: found.Controller, Time: metav1.NewTime(found.Time), Why: found.Why,
		Steps: found.Steps, Inferred: found.Inferred, Error: found.Error, Failures: found.Retries,
		Held: found.Held, NextSeconds: time.Duration(found.Next).Seconds(),
	}, found.Why != "" || found.Error != "", nil
}

// forward makes a tunnel to the port of a manager through the API server, until end is called.
func (a *whyAsker) forward(ctx context.Context, pod corev1.Pod) (port uint16, end func(), err error) {
	dialer, err := a.dialer(pod)
	if err != nil {
		return 0, nil, err
	}
	ctx, end = context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	tunnel, err := portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, []string{"127.0.0.1"},
		[]string{fmt.Sprintf("0:%d", portOf(pod))}, ready, io.Discard, io.Discard)
	if err != nil {
		end()
		return 0, nil, err
	}
	go func() { ended <- tunnel.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		end()
		return 0, nil, err
	case <-ctx.Done(): // the API server does not answer
		end()
		return 0, nil, ctx.Err()
	}
	ports, err := tunnel.GetPorts()
	if err != nil {
		end()
		return 0, nil, err
	}
	return ports[0].Local, end, nil
}

// portOf is the port on which the manager in a pod serves.
func portOf(pod corev1.Pod) int32 {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == "https" {
				return p.ContainerPort
			}
		}
	}
	return managersPort
}

// dialer reaches a pod as kubectl does: by a WebSocket, or by SPDY where the API server, or what is before it, takes no
// other.
func (a *whyAsker) dialer(pod corev1.Pod) (httpstream.Dialer, error) {
	reader, err := a.clients.Kubernetes()
	if err != nil {
		return nil, err
	}
	at := reader.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).
		SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(a.config)
	if err != nil {
		return nil, err
	}
	plain := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	socket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(at, a.config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(socket, plain, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
