package persistentvolumebinder

import (
	"strconv"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Options are what can be set of the controller.
type Options struct {
	// Static switches dynamic provisioning off: no driver is asked for a volume.
	Static bool

	flags flags
}

// flags are those of kube-controller-manager.
type flags struct {
	sync                                    time.Duration // without effect: nothing is done by the clock
	hostPath                                bool          // this and the following are of what is not built in
	templateNFS, templateHostPath           string
	minimumNFS, incrementNFS                int32
	minimumHostPath, incrementTimesHostPath int32
}

// absent is the end of the help of flags of parts that are not built in.
const absent = " Without effect: this build has no recyclers and no provisioner of host paths."

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	f := &o.flags
	fs.Var(not{&o.Static}, "enable-dynamic-provisioning",
		"Ask drivers for the volumes of claims whose class has a provisioner.")
	fs.Lookup("enable-dynamic-provisioning").NoOptDefVal = "true"
	fs.DurationVar(&f.sync, "pvclaimbinder-sync-period", 15*time.Second,
		"Without effect: claims and volumes are looked at when something changes that concerns them, and not by the "+
			"clock.")
	fs.BoolVar(&f.hostPath, "enable-hostpath-provisioner", false, "Directories of this host as volumes."+absent)
	fs.StringVar(&f.templateNFS, "pv-recycler-pod-template-filepath-nfs", "", "A pod that empties volumes."+absent)
	fs.StringVar(&f.templateHostPath, "pv-recycler-pod-template-filepath-hostpath", "",
		"A pod that empties volumes."+absent)
	fs.Int32Var(&f.minimumNFS, "pv-recycler-minimum-timeout-nfs", 300, "Seconds that such a pod has at least."+absent)
	fs.Int32Var(&f.incrementNFS, "pv-recycler-increment-timeout-nfs", 30,
		"Seconds that such a pod has for each Gi."+absent)
	fs.Int32Var(&f.minimumHostPath, "pv-recycler-minimum-timeout-hostpath", 60,
		"Seconds that such a pod has at least."+absent)
	fs.Int32Var(&f.incrementTimesHostPath, "pv-recycler-timeout-increment-hostpath", 30,
		"Seconds that such a pod has for each Gi."+absent)
}

// not is the value of a flag that says the opposite of an option.
type not struct{ option *bool }

func (n not) String() string { return strconv.FormatBool(n.option == nil || !*n.option) }
func (n not) Type() string   { return "bool" }
func (n not) Set(text string) error {
	is, err := strconv.ParseBool(text)
	*n.option = !is
	return err
}

// Validate implements manager.Flags.
func (o *Options) Validate() []error { return nil }

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	type recycler struct {
		MinimumTimeoutNFS, IncrementTimeoutNFS              int32
		MinimumTimeoutHostPath, IncrementTimeoutHostPath    int32
		PodTemplateFilePathNFS, PodTemplateFilePathHostPath string
	}
	type volumes struct {
		EnableDynamicProvisioning, EnableHostPathProvisioning bool
		PersistentVolumeRecyclerConfiguration                 recycler
	}
	f := o.flags
	return "PersistentVolumeBinderController", struct {
		PVClaimBinderSyncPeriod metav1.Duration
		VolumeConfiguration     volumes
	}{metav1.Duration{Duration: f.sync}, volumes{!o.Static, f.hostPath, recycler{
		f.minimumNFS, f.incrementNFS, f.minimumHostPath, f.incrementTimesHostPath, f.templateNFS, f.templateHostPath,
	}}}
}
