// Package controllers lists the controllers of the controller manager.
package controllers

import (
	"github.com/standalone-kcm/controller-manager/pkg/controllers/deployment"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/endpoint"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/podgc"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/replicaset"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// Registry is the list of all controllers. To add one: a folder and a line.
var Registry = []manager.Controller{
	{Name: "deployment-controller", Alias: "deployment", Account: "deployment-controller", Init: deployment.Init, Rights: deployment.Rights},
	{Name: "endpoints-controller", Alias: "endpoint", Account: "endpoint-controller", Init: endpoint.Init, Off: endpoint.InitCleanup, Rights: endpoint.Rights},
	{Name: "pod-garbage-collector-controller", Alias: "podgc", Account: "pod-garbage-collector", Init: podgc.Init, Rights: podgc.Rights},
	{Name: "replicaset-controller", Alias: "replicaset", Account: "replicaset-controller", Init: replicaset.Init, Rights: replicaset.Rights},
}
