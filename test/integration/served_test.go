package integration

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// servedControllers are the controllers of the registry whose APIs the server has. On servers of older releases some have not: they do not
// run there.
func servedControllers(t testing.TB, c *cluster.Cluster) []manager.Controller {
	t.Helper()
	return slices.DeleteFunc(controllers.Registry(), func(entry manager.Controller) bool {
		return slices.ContainsFunc(entry.Needs, func(r schema.GroupVersionResource) bool { return !serves(t, c, r) })
	})
}

// servedEntries are the entries of the suite of controllers that are served.
func servedEntries(t testing.TB, c *cluster.Cluster) []suite.Entry {
	t.Helper()
	run := servedControllers(t, c)
	return slices.DeleteFunc(slices.Clone(suite.Entries()), func(e suite.Entry) bool {
		return !slices.ContainsFunc(run, func(entry manager.Controller) bool { return entry.Name == e.Controller })
	})
}

// serves reports whether the server has the resource.
func serves(t testing.TB, c *cluster.Cluster, r schema.GroupVersionResource) bool {
	t.Helper()
	list, err := c.Client.Discovery().ServerResourcesForGroupVersion(r.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list.APIResources, func(has metav1.APIResource) bool { return has.Name == r.Resource })
}
