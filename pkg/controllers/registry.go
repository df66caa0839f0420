// Package controllers lists the controllers of the controller manager.
package controllers

import (
	"github.com/standalone-kcm/controller-manager/pkg/controllers/bootstrapsigner"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/clusterroleaggregation"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/cronjob"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/csrapproving"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/csrcleaner"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/csrsigning"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/daemonset"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/deployment"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/disruption"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/endpoint"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/endpointslice"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/endpointslicemirroring"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/garbagecollector"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/horizontalpodautoscaler"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/job"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/legacyserviceaccounttokencleaner"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/namespace"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/podgc"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/pvcprotection"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/pvprotection"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/replicaset"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/replicationcontroller"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/resourcequota"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/rootcacertpublisher"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/serviceaccount"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/serviceaccounttoken"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/statefulset"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/tokencleaner"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/ttl"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/ttlafterfinished"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// Registry returns all controllers, with options of their own. To add one: a folder and a line.
func Registry() []manager.Controller {
	return []manager.Controller{
		bootstrapsigner.Controller(),
		clusterroleaggregation.Controller(),
		cronjob.Controller(),
		csrapproving.Controller(),
		csrcleaner.Controller(),
		csrsigning.Controller(),
		daemonset.Controller(),
		deployment.Controller(),
		disruption.Controller(),
		endpoint.Controller(),
		endpointslice.Controller(),
		endpointslicemirroring.Controller(),
		garbagecollector.Controller(),
		horizontalpodautoscaler.Controller(),
		job.Controller(),
		legacyserviceaccounttokencleaner.Controller(),
		namespace.Controller(),
		podgc.Controller(),
		pvcprotection.Controller(),
		pvprotection.Controller(),
		replicaset.Controller(),
		replicationcontroller.Controller(),
		resourcequota.Controller(),
		rootcacertpublisher.Controller(),
		serviceaccount.Controller(),
		serviceaccounttoken.Controller(),
		statefulset.Controller(),
		tokencleaner.Controller(),
		ttl.Controller(),
		ttlafterfinished.Controller(),
	}
}
