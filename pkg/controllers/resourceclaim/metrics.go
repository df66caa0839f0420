package resourceclaim

import (
	"context"
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/gauge"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// subsystem is how the names of the metrics begin (RC-162).
const subsystem = "dynamic_resource_allocation"

// collectors are the metrics of this controller.
type collectors struct {
	created *metrics.CounterVec
	claims  *gauge.Gauge // counted when they are scraped
}

// newCollectors makes the metrics. They count nothing until they are registered.
func newCollectors(k *caches) collectors {
	return collectors{
		created: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "resourceclaim_creates_total", StabilityLevel: metrics.ALPHA,
			Help: "ResourceClaims of templates that it was tried to create.",
		}, []string{"status", "admin_access", "owner_api_group", "owner_api_kind"}),
		claims: gauge.OnCollect(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "resource_claims", StabilityLevel: metrics.ALPHA, Help: "ResourceClaims.",
		}, []string{"allocated", "admin_access", "source"}, func(v *metrics.GaugeVec) {
			for c := range k.claims.All() {
				v.WithLabelValues(strconv.FormatBool(c.Status.Allocation != nil), adminAccess(c), sourceOf(c)).Inc()
			}
		}),
	}
}

// all lists the metrics for a registry.
func (c collectors) all() []metrics.Registerable { return []metrics.Registerable{c.created, c.claims} }

// applied counts the creations of a reconcile.
func (c collectors) applied(_ context.Context, s snapshot, _ decision, did, _ plan.Outcome) {
	kind := s.user().kind
	for _, r := range did.Results {
		claim, ok := r.Object.(*resourcev1.ResourceClaim)
		if !ok || r.Verb != plan.Created {
			continue
		}
		status := "success"
		if r.Err != nil {
			status = "failure"
		}
		c.created.WithLabelValues(status, adminAccess(claim), kind.Group, kind.Kind).Inc()
	}
}

// adminAccess says as a label whether a claim asks for access that does not reserve devices.
func adminAccess(c *resourcev1.ResourceClaim) string {
	for _, r := range c.Spec.Devices.Requests {
		if r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess {
			return "true"
		}
	}
	return "false"
}

// sourceOf says as a label who has made a claim; empty if that is neither this controller nor the scheduler.
func sourceOf(c *resourcev1.ResourceClaim) string {
	switch {
	case c.Annotations[resourcev1.PodResourceClaimAnnotation] != "":
		return "resource_claim_template"
	case c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true":
		return "extended_resource"
	}
	return ""
}
