package controllers

import (
	"fmt"
	"slices"

	"github.com/standalone-kcm/controller-manager/pkg/controllers/attachdetach"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/bootstrapsigner"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/clusterroleaggregation"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/clustertrustbundlepublisher"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/cronjob"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/csrapproving"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/csrcleaner"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/csrsigning"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/daemonset"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/deployment"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/devicetainteviction"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/disruption"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/endpoint"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/endpointslice"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/endpointslicemirroring"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/ephemeralvolume"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/garbagecollector"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/horizontalpodautoscaler"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/job"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/legacyserviceaccounttokencleaner"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/namespace"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/nodeipam"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/nodelifecycle"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/persistentvolumebinder"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/persistentvolumeexpander"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/podcertificaterequestcleaner"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/podgc"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/podgroupprotection"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/pvcprotection"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/pvprotection"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/replicaset"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/replicationcontroller"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/resourceclaim"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/resourcepoolstatusrequest"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/resourcequota"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/rootcacertpublisher"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/selinuxwarning"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/serviceaccount"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/serviceaccounttoken"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/servicecidr"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/statefulset"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/storageversiongc"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/storageversionmigrator"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/tainteviction"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/tokencleaner"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/ttl"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/ttlafterfinished"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/vacprotection"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/validatingadmissionpolicystatus"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// Registry returns all controllers, with their defaults, which a command line may change. To add one: a folder and a
// line.
func Registry() []manager.Controller {
	return []manager.Controller{
		attachdetach.New(attachdetach.Options{}),
		bootstrapsigner.New(bootstrapsigner.Options{}),
		clusterroleaggregation.New(clusterroleaggregation.Options{}),
		clustertrustbundlepublisher.New(clustertrustbundlepublisher.Options{}),
		cronjob.New(cronjob.Options{}),
		csrapproving.New(csrapproving.Options{}),
		csrcleaner.New(csrcleaner.Options{}),
		csrsigning.New(csrsigning.Options{}),
		daemonset.New(daemonset.Options{}),
		deployment.New(deployment.Options{}),
		devicetainteviction.New(devicetainteviction.Options{}),
		disruption.New(disruption.Options{}),
		endpoint.New(endpoint.Options{}),
		endpointslice.New(endpointslice.Options{}),
		endpointslicemirroring.New(endpointslicemirroring.Options{}),
		ephemeralvolume.New(ephemeralvolume.Options{}),
		garbagecollector.New(garbagecollector.Options{}),
		horizontalpodautoscaler.New(horizontalpodautoscaler.Options{}),
		job.New(job.Options{}),
		legacyserviceaccounttokencleaner.New(legacyserviceaccounttokencleaner.Options{}),
		namespace.New(namespace.Options{}),
		nodeipam.New(nodeipam.Options{}),
		nodelifecycle.New(nodelifecycle.Options{}),
		persistentvolumebinder.New(persistentvolumebinder.Options{}),
		persistentvolumeexpander.New(persistentvolumeexpander.Options{}),
		podcertificaterequestcleaner.New(podcertificaterequestcleaner.Options{}),
		podgc.New(podgc.Options{}),
		podgroupprotection.New(podgroupprotection.Options{}),
		pvcprotection.New(pvcprotection.Options{}),
		pvprotection.New(pvprotection.Options{}),
		replicaset.New(replicaset.Options{}),
		replicationcontroller.New(replicationcontroller.Options{}),
		resourceclaim.New(resourceclaim.Options{}),
		resourcepoolstatusrequest.New(resourcepoolstatusrequest.Options{}),
		resourcequota.New(resourcequota.Options{}),
		rootcacertpublisher.New(rootcacertpublisher.Options{}),
		selinuxwarning.New(selinuxwarning.Options{}),
		serviceaccount.New(serviceaccount.Options{}),
		serviceaccounttoken.New(serviceaccounttoken.Options{}),
		servicecidr.New(servicecidr.Options{}),
		statefulset.New(statefulset.Options{}),
		storageversiongc.New(storageversiongc.Options{}),
		storageversionmigrator.New(storageversionmigrator.Options{}),
		tainteviction.New(tainteviction.Options{}),
		tokencleaner.New(tokencleaner.Options{}),
		ttl.New(ttl.Options{}),
		ttlafterfinished.New(ttlafterfinished.Options{}),
		vacprotection.New(vacprotection.Options{}),
		validatingadmissionpolicystatus.New(validatingadmissionpolicystatus.Options{}),
	}
}

// Named returns some of the controllers, by name or alias, as "deployment". It panics if there is no such controller.
func Named(names ...string) (found []manager.Controller) {
	all := Registry()
	for _, name := range names {
		i := slices.IndexFunc(all, func(c manager.Controller) bool { return name == c.Name || name == c.Alias })
		if i < 0 {
			panic(fmt.Sprintf("there is no controller %q", name))
		}
		found = append(found, all[i])
	}
	return found
}
