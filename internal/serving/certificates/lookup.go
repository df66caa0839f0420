package certificates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LookupName is the ConfigMap in which a cluster keeps how clients are known, and LookupNamespace is where.
const (
	LookupName      = "extension-apiserver-authentication"
	LookupNamespace = "kube-system"
)

// lookupEvery is between looks at the ConfigMap.
const lookupEvery = 30 * time.Second

// lookupSource returns a source of what the cluster keeps about clients. What has been found once stays when it is
// gone.
func (s *Set) lookupSource(c Clients, timeout, every time.Duration) *source {
	from := &source{name: "ConfigMap " + LookupNamespace + "/" + LookupName, every: every,
		tolerated: c.TolerateLookupFailure}
	from.load = func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		found, err := c.Cluster.Get(ctx, LookupName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil // such a cluster does not know clients by certificates
		}
		if err != nil {
			from.tolerated = c.TolerateLookupFailure || away(err)
			return false, fmt.Errorf("look up authentication in ConfigMap %s/%s: %w", LookupNamespace, LookupName, err)
		}
		var clientCA *authorities
		var proxy *frontProxy
		if c.ClientCAFile == "" {
			clientCA, err = authoritiesIn(found, "client-ca-file")
		}
		if c.FrontProxy.CAFile == "" && err == nil {
			proxy, err = frontProxyIn(found)
		}
		if err != nil {
			return false, err
		}
		changed := false
		if clientCA != nil && !s.clientCA.isStill(clientCA.pem) {
			s.clientCA, changed = clientCA, true
		}
		if proxy != nil && !s.proxy.equal(proxy) {
			s.proxy, changed = proxy, true
		}
		return changed, nil
	}
	return from
}

// away reports whether nobody has answered, or only that there is no answer at the moment: an API server that is away
// at the start is waited for, which nobody could see if the server did not start without it.
func away(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// equal reports whether nothing has changed for clients that come through a front proxy.
func (p *frontProxy) equal(other *frontProxy) bool {
	if p == nil || !p.ca.isStill(other.ca.pem) {
		return false
	}
	a, errA := json.Marshal(p.FrontProxy)
	b, errB := json.Marshal(other.FrontProxy)
	return errA == nil && errB == nil && string(a) == string(b)
}

// authoritiesIn returns those that the ConfigMap has under a key, nil if there are none.
func authoritiesIn(from *corev1.ConfigMap, key string) (*authorities, error) {
	text := from.Data[key]
	if text == "" {
		return nil, nil
	}
	return parseAuthorities("ConfigMap "+from.Namespace+"/"+from.Name, []byte(text))
}

// frontProxyIn returns what the ConfigMap says of front proxies, nil if it has no authorities of their certificates.
// A list that is none is an error in any case.
func frontProxyIn(from *corev1.ConfigMap) (*frontProxy, error) {
	proxy := &frontProxy{}
	for key, list := range map[string]*[]string{
		"requestheader-allowed-names":        &proxy.Names,
		"requestheader-username-headers":     &proxy.UserHeaders,
		"requestheader-uid-headers":          &proxy.UIDHeaders,
		"requestheader-group-headers":        &proxy.GroupHeaders,
		"requestheader-extra-headers-prefix": &proxy.ExtraPrefixes,
	} {
		if text := from.Data[key]; text != "" {
			if err := json.Unmarshal([]byte(text), list); err != nil {
				return nil, fmt.Errorf("%s in ConfigMap %s/%s: %w", key, from.Namespace, from.Name, err)
			}
		}
	}
	var err error
	if proxy.ca, err = authoritiesIn(from, "requestheader-client-ca-file"); proxy.ca == nil {
		return nil, err
	}
	return proxy, nil
}
