package proxy

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/faults"
)

func TestRequestsAreParsed(t *testing.T) {
	for _, row := range []struct{ method, url, want, path string }{
		{"GET", "/api/v1/pods?watch=true", "watch pods only/", "/api/v1/namespaces/only/pods"},
		{"GET", "/apis/apps/v1/replicasets", "list replicasets only/", "/apis/apps/v1/namespaces/only/replicasets"},
		{"GET", "/api/v1/nodes", "list nodes ", ""},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles?watch=true", "watch clusterroles ", ""},
		{"GET", "/apis/storage.k8s.io/v1/volumeattachments?watch=true", "watch volumeattachments ", ""},
		{"GET", "/api/v1/namespaces?watch=true", "watch namespaces ", "/api/v1/namespaces"},
		{"GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests", "list certificatesigningrequests ", ""},
		{"GET", "/api/v1/persistentvolumes", "list persistentvolumes ", ""},
		{"GET", "/apis/storage.k8s.io/v1/storageclasses?watch=true", "watch storageclasses ", ""},
		{"GET", "/apis/storagemigration.k8s.io/v1/storageversionmigrations", "list storageversionmigrations ", ""},
		{"GET", "/apis/networking.k8s.io/v1/servicecidrs?watch=true", "watch servicecidrs ", ""},
		{"GET", "/api/v1/namespaces/shop/pods/web", "get pods shop/web", ""},
		{"GET", "/api/v1/namespaces/shop/pods", "list pods shop/", ""},
		{"PUT", "/apis/apps/v1/namespaces/shop/deployments/web/status", "update deployments/status shop/web", ""},
		{"PATCH", "/api/v1/namespaces/shop/status", "patch namespaces/status shop", ""},
		{"DELETE", "/api/v1/namespaces/shop/pods", "deletecollection pods shop/", ""},
		{"POST", "/api/v1/namespaces/shop/pods", "create pods shop/", ""},
		{"GET", "/healthz", "get  ", ""},
	} {
		r := httptest.NewRequest(row.method, row.url, http.NoBody)
		got := faults.Describe(parseRequest(r, "only").Request)
		if selector := r.URL.Query().Get("fieldSelector"); (selector == "metadata.name=only") != strings.Contains(got, " namespaces ") {
			t.Errorf("%s %s selects %q", row.method, row.url, selector)
		}
		isMarked := slices.ContainsFunc(marked, func(resource string) bool { return strings.Contains(got, " "+resource+" ") })
		if selector := r.URL.Query().Get("labelSelector"); (selector == OfNamespace+"=only") != isMarked {
			t.Errorf("%s %s selects %q", row.method, row.url, selector)
		}
		if selector := r.URL.Query().Get("labelSelector"); (selector == "runs in (all,only)") != strings.Contains(got, " nodes ") {
			t.Errorf("%s %s selects %q", row.method, row.url, selector)
		}
		if row.path == "" {
			row.path, _, _ = strings.Cut(row.url, "?")
		}
		if got != row.want || r.URL.Path != row.path {
			t.Errorf("%s %s is %q with path %s, want %q and %s", row.method, row.url, got, r.URL.Path, row.want, row.path)
		}
	}
}
