package app

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

// Each controller that --controllers knows has a row, and what is off says why.
func TestControllersAreListed(t *testing.T) {
	p := Program{Name: "controller-manager", Registry: controllers.Registry()}
	code, out, errs := execute(t, t.Context(), p, "controllers", "-o", "json", "--controllers=*,-ttl",
		"--feature-gates=GenericWorkload=true")
	var rows []controllerRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != 0 {
		t.Fatalf("%d, %v, %s", code, err, errs)
	}
	of := func(name string) controllerRow {
		i := slices.IndexFunc(rows, func(r controllerRow) bool { return r.Name == name })
		if i < 0 {
			t.Fatalf("no row for %s", name)
		}
		return rows[i]
	}
	for _, c := range p.Registry {
		if r := of(c.Name); r.On == (r.Why != "") || r.Alias != c.Alias {
			t.Errorf("%+v", r)
		}
	}
	for name, why := range map[string]string{
		"ttl-controller": "--controllers leaves it off", "podgroup-protection-controller": "", "deployment-controller": "",
		"selinux-warning-controller": "off by default", "service-lb-controller": "cloud-controller-manager",
		"resourcepoolstatusrequest-controller": "DRAResourcePoolStatus is off",
		"serviceaccount-token-controller":      "--service-account-private-key-file has no value",
	} {
		if r := of(name); !strings.Contains(r.Why, why) || r.On != (why == "") {
			t.Errorf("%+v", r)
		}
	}
	if flags := of("deployment-controller").Flags; !slices.Contains(flags, "--concurrent-deployment-syncs") {
		t.Errorf("flags of Deployments: %v", flags)
	}
}
