package proxy

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/cluster/apirequest"
)

// Request is what the rules of a script match on. Besides the verbs of requests there is "event", for an event that a watch
// delivers. The name of an event is that of its object, and so is the name of a creation, if it is not generated.
type Request struct {
	apirequest.Request
	Agent string // the client's user agent
}

// String is the request in one line, as the log has it.
func (r Request) String() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return r.Verb + " " + r.path() + " " + name
}

// path is the resource with its subresource, if it has one.
func (r Request) path() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}

// IsWrite tells whether the request changes what controllers work on. Events, leases, the managers' own accounts, reviews and tokens don't
// count: their number depends on time.
func (r Request) IsWrite() bool {
	account := r.Resource == "serviceaccounts" && r.Namespace == metav1.NamespaceSystem
	return r.Request.IsWrite() && !r.IsNoise() && !account
}

// clusterScoped are the resources that belong to no namespace: a manager with the garbage collector asks for all that there are.
var clusterScoped = strings.Fields(`
	apiservices certificatesigningrequests clusterrolebindings clusterroles clustertrustbundles componentstatuses csidrivers csinodes
	customresourcedefinitions deviceclasses flowschemas ingressclasses ipaddresses mutatingadmissionpolicies
	mutatingadmissionpolicybindings mutatingwebhookconfigurations namespaces nodes persistentvolumes priorityclasses
	prioritylevelconfigurations resourceslices runtimeclasses selfsubjectaccessreviews selfsubjectreviews selfsubjectrulesreviews
	servicecidrs storageclasses storageversionmigrations subjectaccessreviews tokenreviews validatingadmissionpolicies
	validatingadmissionpolicybindings validatingwebhookconfigurations volumeattachments volumeattributesclasses
`)

// parseRequest reads a request. If only is not empty, a list or watch of all namespaces becomes one of that namespace, in
// r's URL too. Of Namespaces themselves it is the only one, and of other objects of the whole cluster those that are made for it are.
func parseRequest(r *http.Request, only string) Request {
	request := Request{apirequest.Parse(r), r.UserAgent()}
	all := request.Namespace == "" && request.Name == "" && (request.Verb == "list" || request.Verb == "watch")
	if only != "" && all && !slices.Contains(clusterScoped, request.Resource) {
		request.Namespace = only
		scope := strings.TrimSuffix(strings.TrimRight(r.URL.Path, "/"), request.Resource)
		r.URL.Path, r.URL.RawPath = scope+"namespaces/"+only+"/"+request.Resource, ""
	}
	selector := map[string][2]string{
		"namespaces":                 {"fieldSelector", "metadata.name=" + only},
		"certificatesigningrequests": {"labelSelector", OfNamespace + "=" + only},
		"persistentvolumes":          {"labelSelector", OfNamespace + "=" + only},
		"clusterroles":               {"labelSelector", OfNamespace + "=" + only},
	}[request.Resource]
	if only != "" && all && selector[0] != "" {
		query := r.URL.Query()
		query.Set(selector[0], selector[1])
		r.URL.RawQuery = query.Encode()
	}
	return request
}

// OfNamespace is the label of objects of the whole cluster that names the namespace that they are made for.
const OfNamespace = "of-namespace"
