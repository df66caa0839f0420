package persistentvolumebinder

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestFlags(t *testing.T) { // PV-1 to PV-5
	for _, row := range []struct {
		args   string
		static bool
		want   string // a part of /configz
	}{
		{"", false, `"PVClaimBinderSyncPeriod":"15s"`},
		{"", false, `"EnableDynamicProvisioning":true`},
		{"--enable-dynamic-provisioning=false", true, `"EnableDynamicProvisioning":false`},
		{"--enable-dynamic-provisioning", false, `"EnableDynamicProvisioning":true`},
		{"--pvclaimbinder-sync-period=1m", false, `"PVClaimBinderSyncPeriod":"1m0s"`},
		{"--pv-recycler-pod-template-filepath-nfs=/missing --pv-recycler-minimum-timeout-nfs=7", false, `"MinimumTimeoutNFS":7`},
	} {
		o := &Options{}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(fs)
		if err := fs.Parse(strings.Fields(row.args)); err != nil || len(o.Validate()) > 0 {
			t.Fatal(err, o.Validate())
		}
		section, fields := o.Configz()
		text, err := json.Marshal(fields)
		if err != nil || section != "PersistentVolumeBinderController" || o.Static != row.static ||
			!strings.Contains(string(text), row.want) {
			t.Errorf("%s: %t, %s %s", row.args, o.Static, section, text)
		}
	}
	o := &Options{Static: true}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(fs)
	if fs.Lookup("enable-dynamic-provisioning").DefValue != "false" {
		t.Error("the default is not the present value")
	}
	if err := fs.Parse([]string{"--enable-dynamic-provisioning=perhaps"}); err == nil {
		t.Error("any value is accepted")
	}
}
