package podcertificaterequestcleaner

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are empty: nothing can be set of the controller.
type Options struct{}

// New returns the cleaner.
func New(o Options) manager.Controller {
	return manager.Controller{
		Name:    "podcertificaterequest-cleaner-controller",
		Account: "podcertificaterequestcleaner",
		Rights:  Rights,
		Init:    o.init,
		Gates:   []string{"PodCertificateRequest"},
		Needs:   []schema.GroupVersionResource{certificatesv1.SchemeGroupVersion.WithResource(resource)},
	}
}

// init asks for the cache of requests, without what they ask for, and says how the controller works.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	requests, err := informers.Objects[*certificatesv1.PodCertificateRequest](c.Informers, informers.MetadataOnly)
	if err != nil {
		return nil, err
	}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:             "podcertificaterequest_cleaner",
		Workers:          1,
		Explained:        []string{requests.Kind().Kind},
		Watches:          []reconcile.Watch{requests.Watch(informers.Itself, informers.WithResync)},
		Observe:          (&caches{requests}).observe,
		Plan:             reconcile.PlanOnly(planDeletion),
		SkipVerification: true, // the age of what has a uid does not change
	}), nil
}
