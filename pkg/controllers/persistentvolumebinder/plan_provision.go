package persistentvolumebinder

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// inTree begins the names of the plugins that are, or were, parts of Kubernetes.
const inTree = "kubernetes.io/"

// noProvisioner is the provisioner of classes whose volumes people make.
const noProvisioner = inTree + "no-provisioner"

// driverOf returns the driver that makes the volumes of a class, empty if none does (PV-41, PV-42).
func driverOf(class *storagev1.StorageClass) string {
	switch {
	case class == nil:
		return ""
	case strings.HasPrefix(class.Provisioner, inTree):
		return volumes.CSIDriverOf(class.Provisioner)
	}
	return class.Provisioner
}

// adopt gives the default class to a claim that names none, and asks its driver in the same write if nothing else can
// come of it (PV-16).
func adopt(s claimSnapshot) (d claimDecision, p plan.Plan) {
	after := normalized(s.Claim)
	after.Spec.StorageClassName = &s.Default.Name
	why := fmt.Sprintf("it gets the default class %s", s.Default.Name)
	driver := driverOf(s.Default)
	if driver == "" || s.Static || delayed(s.Default) || bestMatch(s.Claim, s.Default.Name, s.FreeOfDefault) != nil {
		d, p = waitAs(s, after, why, event{})
	} else {
		after, e := asked(after, driver)
		d, p = waitAs(s, after, why+", whose driver is asked for a volume", e)
		d.Ask, d.Waits = driver, driver
	}
	d.Default = true
	return d, p
}

// provision asks the driver of the claim's class for a volume, or says why there will be none (PV-40, PV-41, PV-43).
func provision(s claimSnapshot) (d claimDecision, p plan.Plan) {
	name, _ := classOf(s.Claim)
	driver := driverOf(s.Class)
	switch {
	case s.Static:
		return wait(s,
			"no volume fits it, and drivers are not asked, because of --enable-dynamic-provisioning=false"+
				nearMisses(s), event{})
	case s.Class == nil:
		return failed(s, "", fmt.Sprintf("storageclass.storage.k8s.io %q not found", name),
			"no volume fits it, and there is no class "+name)
	case s.Class.Provisioner == noProvisioner:
		return wait(s, fmt.Sprintf("no volume of the class %s fits it, and people make these", name)+nearMisses(s),
			event{corev1.EventTypeNormal, "FailedBinding",
				"no persistent volumes available for this claim, and the storage class " + strconv.Quote(name) +
					" does not make any"})
	case driver == "":
		return failed(s, s.Class.Provisioner, unmade(s.Class.Provisioner),
			fmt.Sprintf("no volume fits it, and nothing makes volumes of the class %s", name))
	}
	after := normalized(s.Claim)
	asking := after.Annotations[provisioner] != driver || after.Annotations[betaProvisioner] != driver
	after, e := asked(after, driver)
	d, p = waitAs(s, after, waitsFor(s, driver), e)
	if d.Waits = driver; asking {
		d.Ask = driver
	}
	return d, p
}

// unmade says why a plugin makes no volumes.
func unmade(plugin string) string {
	switch plugin {
	case inTree + "nfs":
		return "no provisionable volume plugin matched"
	case inTree + "host-path":
		return "this controller manager makes no volumes of host paths: use a driver, or make the volume yourself"
	}
	return "no volume plugin matched name: " + plugin
}

// failed says that there will be no volume.
func failed(s claimSnapshot, plugin, message, why string) (d claimDecision, p plan.Plan) {
	d, p = wait(s, why+nearMisses(s), event{corev1.EventTypeWarning, "ProvisioningFailed", message})
	d.Failed = plugin
	return d, p
}

// asked returns the claim with the request that a driver waits for, and its event (PV-9, PV-43).
func asked(c *corev1.PersistentVolumeClaim, driver string) (*corev1.PersistentVolumeClaim, event) {
	annotate(c, provisioner, driver)
	annotate(c, betaProvisioner, driver)
	c.Annotations = migrated(c.Annotations, driver)
	return c, event{corev1.EventTypeNormal, "ExternalProvisioning",
		fmt.Sprintf("Waiting for a volume to be created either by the external provisioner '%s' or manually by the "+
			"system administrator. "+
			"If volume creation is delayed, please verify that the provisioner is running and correctly registered.",
			driver)}
}

// waitsFor says what is known of the driver that is asked.
func waitsFor(s claimSnapshot, driver string) string {
	why := fmt.Sprintf("it waits for a volume from the driver %s", driver)
	switch {
	case s.Driver.Nodes > 0:
		return why
	case s.Driver.Known:
		return why + ", which runs on no node"
	}
	return why + ", which is not running: it is registered on no node, and there is no CSIDriver of that name"
}
