// Package controllers lists the controllers of the controller manager.
package controllers

import (
	"github.com/standalone-kcm/controller-manager/pkg/controllers/cronjob"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/daemonset"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/deployment"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/disruption"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/endpoint"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/endpointslice"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/endpointslicemirroring"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/garbagecollector"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/job"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/legacyserviceaccounttokencleaner"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/namespace"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/podgc"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/replicaset"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/replicationcontroller"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/rootcacertpublisher"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/serviceaccount"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/serviceaccounttoken"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/statefulset"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/ttlafterfinished"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// Registry returns all controllers, with options of their own. To add one: a folder and a line.
func Registry() []manager.Controller {
	return []manager.Controller{
		cronjob.Controller(),
		daemonset.Controller(),
		deployment.Controller(),
		disruption.Controller(),
		endpoint.Controller(),
		endpointslice.Controller(),
		endpointslicemirroring.Controller(),
		garbagecollector.Controller(),
		job.Controller(),
		legacyserviceaccounttokencleaner.Controller(),
		namespace.Controller(),
		podgc.Controller(),
		replicaset.Controller(),
		replicationcontroller.Controller(),
		rootcacertpublisher.Controller(),
		serviceaccount.Controller(),
		serviceaccounttoken.Controller(),
		statefulset.Controller(),
		ttlafterfinished.Controller(),
	}
}
