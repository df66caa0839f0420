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
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// managersNamespace is where managers are looked for. In any other namespace, a pod with their labels might be a
	// tenant's.
	managersNamespace = metav1.NamespaceSystem
	// managersPort is where a manager serves, unless a port of its pod is called https.
	managersPort = 10257
	// decidedWithin bounds how long one manager is asked.
	decidedWithin = 2 * time.Second
	// mostDecisions bounds about how many objects of a chain managers are asked.
	mostDecisions = 5
)

// managersLabels select the pods that may be managers: those of our manifests, and static pods as of kubeadm.
var managersLabels = []string{
	"app.kubernetes.io/name in (controller-manager, controller-manager-observer)", "component=kube-controller-manager",
}

// decided returns the answer with what controllers have decided, if it is about one object.
func (a *whyAsker) decided(ctx context.Context, answer summarized) summarized {
	one, ok := answer.(why.Answer)
	if !ok {
		return answer
	}
	a.decide(ctx, &one)
	return one
}

// decide adds to an answer what controllers have decided, if there is a manager that the caller may ask. The manager
// that leads is asked first, and then observers about what it does not know.
func (a *whyAsker) decide(ctx context.Context, answer *why.Answer) {
	chain := slices.DeleteFunc(slices.Clone(answer.Chain), func(l why.Link) bool { return !l.Object.BuiltIn() })
	chain = chain[:min(len(chain), mostDecisions)]
	pods := a.managers(ctx)
	if len(pods) == 0 || len(chain) == 0 {
		return
	}
	credentials := throughTunnel(a.config, a.sendToken)
	if credentials == nil {
		answer.Source += ", see --send-token"
		return
	}
	var source []string
	for _, pod := range pods {
		name := pod.Namespace + "/" + pod.Name
		found, err := a.decisionsOf(ctx, pod, credentials, chain)
		if err != nil {
			source = append(source, fmt.Sprintf("pod %s did not answer: %v", name, err))
		}
		if len(found) > 0 {
			source = append(source, fmt.Sprintf("pod %s was asked what controllers have decided", name))
		}
		answer.Decisions = append(answer.Decisions, found...)
		chain = slices.DeleteFunc(chain, func(l why.Link) bool {
			return slices.ContainsFunc(found, func(d why.Decision) bool { return d.Object == l.Object })
		})
	}
	if len(source) > 0 {
		answer.Source = strings.TrimSuffix(answer.Source, noneAsked) + strings.Join(source, "; ")
	}
}

// managers are the pods that may know decisions: those that lead, and then observers.
func (a *whyAsker) managers(ctx context.Context) (pods []corev1.Pod) {
	all, _ := a.ranked(ctx) // who may not read them gets an answer without decisions
	for _, r := range all {
		if r.rank == leading || r.rank == observing {
			pods = append(pods, r.Pod)
		}
	}
	return pods
}

// ranked is a pod that may be a manager.
type ranked struct {
	corev1.Pod
	rank int
}

// ranked are the pods that may be managers, by rank. Some may be missing if there is an error: reading them may be
// forbidden.
func (a *whyAsker) ranked(ctx context.Context) (all []ranked, err error) {
	ctx, cancel := context.WithTimeout(ctx, decidedWithin)
	defer cancel()
	reader, err := a.clients.Kubernetes()
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for _, selector := range managersLabels {
		found, failed := reader.CoreV1().Pods(managersNamespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if failed != nil {
			err = failed
			continue
		}
		for _, p := range found.Items {
			known := slices.ContainsFunc(pods, func(other corev1.Pod) bool { return other.UID == p.UID })
			if !known && p.Status.Phase == corev1.PodRunning {
				pods = append(pods, p)
			}
		}
	}
	if len(pods) == 0 {
		return nil, err
	}
	leaders := leadersOf(ctx, reader)
	for _, p := range pods {
		all = append(all, ranked{p, rank(p, leaders)})
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return a.rank - b.rank })
	return all, err
}

// Pods are asked in this order.
const (
	leading = iota
	observing
	standing // a standby, which has decided nothing since it began, and may remember
	mirrored // a static pod that is one if its machine is of the control plane
	stranger // what only has such labels
)

// rank is the place of a pod among those that are asked. Kubelets may create mirror pods with any labels, but only on
// their own node and without a service account. So a mirror pod leads only where the machine that it runs on does, and
// pods of Deployments are known by their account.
func rank(pod corev1.Pod, leaders []string) int {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case mirror && pod.Spec.HostNetwork && slices.Contains(leaders, pod.Spec.NodeName):
		return leading
	case mirror && pod.Spec.HostNetwork:
		return mirrored
	case mirror:
		return stranger
	case slices.Contains(leaders, pod.Name) && pod.Spec.ServiceAccountName == "controller-manager":
		return leading
	case pod.Spec.ServiceAccountName == "controller-manager":
		return standing
	case pod.Spec.ServiceAccountName == observer:
		return observing
	}
	return stranger
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

// decisionsOf asks a manager about the objects of a chain. What was found before an error is returned with it.
func (a *whyAsker) decisionsOf(
	ctx context.Context, pod corev1.Pod, credentials *rest.Config, chain []why.Link,
) (all []why.Decision, err error) {
	ask := func(ctx context.Context, asking *http.Client, at string) error {
		for _, link := range chain {
			d, ok, err := askDecision(ctx, asking, at+"/debug/explain", link.Object)
			if err != nil {
				return err
			}
			if ok {
				all = append(all, d)
			}
		}
		return nil
	}
	err = a.through(ctx, pod, credentials, decidedWithin, ask)
	return all, err
}

// through asks a manager, within a time, by a tunnel to it, at whose end is an address such as https://127.0.0.1:4711.
func (a *whyAsker) through(ctx context.Context, pod corev1.Pod, credentials *rest.Config, within time.Duration,
	ask func(ctx context.Context, asking *http.Client, at string) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	port, end, err := a.forward(ctx, pod)
	if err != nil {
		return err
	}
	defer end()
	transport, err := rest.TransportFor(credentials)
	if err != nil {
		return err
	}
	return ask(ctx, &http.Client{Transport: transport}, fmt.Sprintf("https://127.0.0.1:%d", port))
}

// throughTunnel returns the credentials of a configuration for the server at the other end of a tunnel; nil if there
// are none for it. A client certificate proves who the caller is and gives nothing away. A token does: whoever gets it
// can use it, which is the manager and the node that it runs on. A manager knows nothing of impersonation, and would
// answer who impersonates. The manager's own certificate is one that it has made for itself.
func throughTunnel(config *rest.Config, sendToken bool) *rest.Config {
	certificate := len(config.CertData) > 0 || config.CertFile != ""
	if config.Impersonate.UserName != "" || !certificate && !sendToken {
		return nil
	}
	c := rest.AnonymousClientConfig(config)
	if sendToken {
		c = rest.CopyConfig(config)
	} else {
		c.CertData, c.CertFile, c.KeyData, c.KeyFile = config.CertData, config.CertFile, config.KeyData, config.KeyFile
	}
	c.Host, c.APIPath, c.ServerName, c.Insecure, c.CAFile, c.CAData = "", "", "", true, "", nil
	c.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	return c
}

// askDecision asks what was decided about an object. A manager that does not know of any is no error.
func askDecision(
	ctx context.Context, asking *http.Client, at string, about why.Ref,
) (d why.Decision, ok bool, err error) {
	var found struct {
		Controller string `json:"controller"`
		explain.Record
	}
	key := plan.Key{Namespace: about.Namespace, Name: about.Name}
	if ok, err = askAbout(ctx, asking, at, about.Kind, key, &found); !ok {
		return d, false, err
	}
	return why.Decision{
		Object: about, Controller: found.Controller, Time: metav1.NewTime(found.Time), Why: found.Why,
		Steps: found.Steps, Inferred: found.Inferred, Error: found.Error, Failures: found.Retries,
		Held: found.Held, NextSeconds: time.Duration(found.Next).Seconds(),
	}, found.Why != "" || found.Error != "", nil
}

// getThrough asks for a page at the end of a tunnel. Its errors do not name the address there, which says nothing to
// people.
func getThrough(ctx context.Context, asking *http.Client, page string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return nil, err
	}
	answer, err := asking.Do(request)
	if sent := (*url.Error)(nil); errors.As(err, &sent) {
		err = sent.Err
	}
	return answer, err
}

// mostAnswered bounds the bytes of an answer that are read.
const mostAnswered = 4 << 20

// askAbout asks for what is below a path about an object. It returns false without an error if the manager knows of
// none, or is another program.
func askAbout(
	ctx context.Context, asking *http.Client, at, kind string, key plan.Key, into any,
) (known bool, err error) {
	path := []string{at, url.PathEscape(strings.ToLower(kind)), url.PathEscape(key.Name)}
	if key.Namespace != "" {
		path = slices.Insert(path, 2, url.PathEscape(key.Namespace))
	}
	answer, err := getThrough(ctx, asking, strings.Join(path, "/"))
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return false, nil
	default:
		return false, errors.New(answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, mostAnswered)).Decode(into); err != nil {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	return true, nil
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
