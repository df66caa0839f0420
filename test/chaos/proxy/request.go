package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/standalone-kcm/controller-manager/test/cluster/apirequest"
)

// Request is what a client asks for. The name of a creation is that of its object, if it is not generated.
type Request struct {
	apirequest.Request
	Agent string // the client's user agent
}

// clusterScoped are the resources that belong to no namespace: a manager with the garbage collector asks for all that there are.
var clusterScoped = strings.Fields(`
	apiservices certificatesigningrequests clusterrolebindings clusterroles clustertrustbundles componentstatuses csidrivers csinodes
	customresourcedefinitions deviceclasses devicetaintrules flowschemas ingressclasses ipaddresses mutatingadmissionpolicies
	mutatingadmissionpolicybindings mutatingwebhookconfigurations namespaces nodes persistentvolumes priorityclasses
	prioritylevelconfigurations resourcepoolstatusrequests resourceslices runtimeclasses selfsubjectaccessreviews selfsubjectreviews selfsubjectrulesreviews
	servicecidrs storageclasses storageversionmigrations storageversions subjectaccessreviews tokenreviews validatingadmissionpolicies
	validatingadmissionpolicybindings validatingwebhookconfigurations volumeattachments volumeattributesclasses
`)

// marked are those of which a manager is shown what has the label OfNamespace: what it does to others is of no run, or of another one.
// A VolumeAttachment has the label from when the external-attacher has put it on.
var marked = strings.Fields(`
	certificatesigningrequests clusterroles customresourcedefinitions devicetaintrules persistentvolumes resourcepoolstatusrequests
	resourceslices servicecidrs storageclasses storageversionmigrations
	storageversions validatingadmissionpolicies volumeattachments volumeattributesclasses
`)

// IsClusterScoped reports whether the proxy knows that a resource belongs to no namespace. Lists of others become lists of one
// namespace, which a server does not have of these.
func IsClusterScoped(resource string) bool { return slices.Contains(clusterScoped, resource) }

// ShowsOnlyItsOwn reports whether a manager is shown of a resource without namespaces only what was made for its run.
func ShowsOnlyItsOwn(resource string) bool {
	return resource == "namespaces" || resource == "nodes" || slices.Contains(marked, resource)
}

// parseRequest reads a request. If only is not empty, a list or watch of all namespaces becomes one of that namespace, in
// r's URL too. Of Namespaces themselves it is the only one, and of other objects of the whole cluster those that are made for it are.
func parseRequest(r *http.Request, only string) Request {
	request := Request{apirequest.Parse(r), r.UserAgent()}
	all := request.Namespace == "" && request.Name == "" && (request.Verb == "list" || request.Verb == "watch")
	// Leases of all nodes and API servers, as they are nobody's.
	if of, one := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.namespace="); all && one {
		all, request.Namespace = false, of
	}
	if only != "" && all && !IsClusterScoped(request.Resource) {
		request.Namespace = only
		scope := strings.TrimSuffix(strings.TrimRight(r.URL.Path, "/"), request.Resource)
		r.URL.Path, r.URL.RawPath = scope+"namespaces/"+only+"/"+request.Resource, ""
	}
	var selector [2]string
	switch {
	case request.Resource == "namespaces":
		selector = [2]string{"fieldSelector", "metadata.name=" + only}
	case request.Resource == "nodes":
		selector = [2]string{"labelSelector", fmt.Sprintf("%s in (%s,%s)", Runs, ForAll, only)}
	case slices.Contains(marked, request.Resource):
		selector = [2]string{"labelSelector", OfNamespace + "=" + only}
	}
	if only != "" && all && selector[0] != "" {
		query := r.URL.Query()
		query.Set(selector[0], selector[1])
		r.URL.RawQuery = query.Encode()
	}
	return request
}

// Runs is the label of nodes that names the namespace whose pods they run, or ForAll.
const (
	Runs   = "runs"
	ForAll = "all"
)

// OfNamespace is the label of objects of the whole cluster that names the namespace that they are made for.
const OfNamespace = "of-namespace"
