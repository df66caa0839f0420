package options

import (
	"errors"
	"fmt"
	"math"
	"mime"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// APIServer says which API server to use and how.
type APIServer struct {
	Kubeconfig  string  // a file; empty: the service account of the pod (CLI-10)
	Master      string  // the address, in place of the one in the file (CLI-11)
	ContentType string  // of bodies (CLI-21)
	QPS         float32 // of each client (CLI-19)
	Burst       int32   // of each client (CLI-20)

	flags *pflag.FlagSet
}

// newAPIServer returns the defaults. The limit of requests counts only if one of its flags is given, see
// apply.
func newAPIServer() APIServer {
	return APIServer{ContentType: "application/vnd.kubernetes.protobuf", QPS: 20, Burst: 30}
}

func (o *APIServer) addFlags(fs *pflag.FlagSet) {
	o.flags = fs
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "File that says how to reach the API server, and as whom. "+
		"Without it and --master, the configuration that a pod has is used.")
	fs.StringVar(&o.Master, "master", o.Master, "URL of the API server, instead of the one in the kubeconfig.")
	fs.StringVar(&o.ContentType, "kube-api-content-type", o.ContentType,
		"Encoding of requests, and of the answers asked for.")
	fs.Float32Var(&o.QPS, "kube-api-qps", o.QPS,
		"Requests a second that each client makes at most; zero and less mean no "+
			"limit. The default counts only with --kube-api-burst: when neither is given, clients are not limited, "+
			"and the server says when to wait.")
	fs.Int32Var(&o.Burst, "kube-api-burst", o.Burst,
		"Requests that each client makes at once at most, before --kube-api-qps "+
			"applies. The default counts only with that.")
}

func (o *APIServer) validate() []error {
	if qps := float64(o.QPS); math.IsNaN(qps) || math.IsInf(qps, 0) {
		return []error{fmt.Errorf("--kube-api-qps must be a number, not %v", o.QPS)}
	}
	// With anything else each request would be refused, while the manager waits for an API server that works.
	media, _, err := mime.ParseMediaType(o.ContentType)
	known := []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON, runtime.ContentTypeCBOR}
	if o.ContentType != "" && (err != nil || !slices.Contains(known, media)) {
		return []error{fmt.Errorf("--kube-api-content-type must be one of %s, not %q", strings.Join(known, ", "),
			o.ContentType)}
	}
	return nil
}

// apply limits the clients only if somebody has asked for that.
func (o *APIServer) apply(c *Config) {
	c.Manager.ContentType = o.ContentType
	c.Manager.QPS, c.Manager.Burst = -1, 0 // as clients know it: no limit
	if o.flags.Changed("kube-api-qps") || o.flags.Changed("kube-api-burst") {
		c.Manager.QPS, c.Manager.Burst = o.QPS, int(o.Burst)
	}
}

// ClientConfig loads the kubeconfig. Without one, and without --master, it is as in a pod (CLI-11, CLI-81).
func (o *APIServer) ClientConfig() (*rest.Config, error) {
	var inPod error
	if o.Kubeconfig == "" && o.Master == "" {
		c, err := rest.InClusterConfig()
		if err == nil {
			return c, nil
		}
		inPod = err
	}
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig},
		&clientcmd.ConfigOverrides{ClusterInfo: api.Cluster{Server: o.Master}},
	).ClientConfig()
	if err != nil {
		if inPod != nil && !errors.Is(inPod, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("%w; in the pod: %w", err, inPod) // it is a pod, but something is missing
		}
		if clientcmd.IsEmptyConfig(err) && o.Kubeconfig == "" {
			return nil, fmt.Errorf("name a kubeconfig with --kubeconfig, or run in a pod: %w", err)
		}
		if clientcmd.IsEmptyConfig(err) {
			return nil, fmt.Errorf("--kubeconfig: %s names no cluster in its current context", o.Kubeconfig)
		}
		if o.Kubeconfig != "" {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		return nil, err
	}
	if _, _, err := rest.DefaultServerUrlFor(c); err != nil {
		return nil, fmt.Errorf("address of the API server %q: %w", c.Host, err)
	}
	return c, nil
}
