package website

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the controller of Websites.
func New() manager.Controller {
	return manager.Controller{
		Name: "website-controller", Account: "website-controller", Rights: rights, Init: initialize,
		Needs: []schema.GroupVersionResource{GroupVersion.WithResource("websites")},
	}
}

// rights are what the controller asks of the API server.
func rights() rbac.Rights {
	return rbac.Rights{
		Caches: []rbac.Resource{{Group: "example.com", Name: "websites"}, {Group: "apps", Name: "deployments"}},
		Own: []rbac.Rule{
			{Group: "apps", Resource: "deployments", Verbs: []string{"get", "create", "patch"}, For: "the Deployments of Websites"},
			{Group: "example.com", Resource: "websites/status", Verbs: []string{"patch"}, For: "status"},
		},
	}
}

// snapshot is what one reconcile of a Website has observed.
type snapshot struct {
	Site       *Website
	Deployment *appsv1.Deployment // nil if there is none
}

func initialize(c manager.Context) (manager.Runner, error) {
	sites, err1 := informers.Objects[*Website](c.Informers)
	deployments, err2 := informers.Objects[*appsv1.Deployment](c.Informers)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	owners := informers.Owners[*Website]{Kind: "Website", Get: sites.Get}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "website",
		Workers:   2,
		Explained: []string{"Website"},
		Watches: []reconcile.Watch{
			sites.Watch(informers.Itself, informers.WithResync),
			deployments.Watch(owners.Enqueues),
		},
		Observe: func(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}], err error) {
			site := sites.Get(r.Key.Namespace, r.Key.Name)
			o.Exists = site != nil
			o.Snapshot = snapshot{site, deployments.Get(r.Key.Namespace, r.Key.Name)}
			return o, nil
		},
		Owner:  func(s snapshot) plan.Object { return s.Site },
		Plan:   reconcile.PlanOnly(planDeployment),
		Report: reconcile.ReportOnly[snapshot, struct{}](reportStatus),
	}), nil
}

// planDeployment decides what is written. It is pure.
func planDeployment(_ time.Time, s snapshot) plan.Plan {
	if s.Deployment == nil {
		return plan.Plan{Why: "there is no Deployment", Steps: []plan.Step{plan.Create{Object: wanted(s.Site)}}}
	}
	changed := s.Deployment.DeepCopy()
	changed.Spec.Replicas = &s.Site.Spec.Replicas
	changed.Spec.Template.Spec.Containers[0].Image = s.Site.Spec.Image
	return plan.Plan{Why: "the Deployment is as the Website", Steps: []plan.Step{plan.Change{Old: s.Deployment, New: changed}}}
}

// reportStatus decides which status is written.
func reportStatus(_ time.Time, s snapshot, _ plan.Outcome) plan.Plan {
	if s.Deployment == nil {
		return plan.Plan{}
	}
	changed := s.Site.DeepCopy()
	changed.Status.Ready = s.Deployment.Status.ReadyReplicas
	why := fmt.Sprintf("%d of %d are ready", changed.Status.Ready, s.Site.Spec.Replicas)
	return plan.Plan{Why: why, Steps: []plan.Step{plan.Change{Old: s.Site, New: changed, Subresource: plan.Status}}}
}

// wanted is the Deployment of a Website.
func wanted(w *Website) *appsv1.Deployment {
	labels := map[string]string{"website": w.Name}
	owner := *metav1.NewControllerRef(w, GroupVersion.WithKind("Website"))
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name, OwnerReferences: []metav1.OwnerReference{owner}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &w.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: w.Spec.Image}}},
			},
		},
	}
}
