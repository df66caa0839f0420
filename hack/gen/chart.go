package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// chartFiles is the folder with what the templates of the chart include as it is: the same data as in the other manifests, because a chart
// reads no file outside of its folder.
const chartFiles = "deploy/chart/files/"

// chart returns the files of the chart that follow from others.
func chart(registry []manager.Controller) (all []file) {
	for _, set := range roleSets {
		all = append(all, file{chartFiles + "roles-" + set.name + ".yaml", func([]byte) ([]byte, error) {
			return render(roles(rightsOf(registry, set)))
		}})
	}
	all = append(all, file{chartFiles + "roles-observer.yaml", func([]byte) ([]byte, error) {
		return render(rolesOfObserver(registry))
	}})
	for mode, lease := range map[string]string{"standalone": original, "beside": beside} {
		all = append(all, file{chartFiles + "lease-" + mode + ".yaml", func([]byte) ([]byte, error) {
			return render([]role{{Name: account + ":leader-election", Namespace: rbac.Home, Account: account, Rules: rbac.Lease(lease)}})
		}})
	}
	for to, from := range map[string]string{
		"alerts-standalone.yaml": "alerts.yaml", "alerts-beside.yaml": "alerts-beside-upstream.yaml", "dashboard.json": "dashboard.json",
	} {
		all = append(all, file{chartFiles + to, func([]byte) ([]byte, error) { return os.ReadFile("deploy/monitoring/" + from) }})
	}
	all = append(all, file{chartFiles + "handover-lease.yaml", func([]byte) ([]byte, error) { return handoverLease() }})
	all = append(all, file{chartFiles + "controllers-beside.txt", func([]byte) ([]byte, error) {
		return append([]byte(strings.Join(besideAliases(registry), ",")), '\n'), nil
	}})
	slices.SortFunc(all, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	return all
}

// handoverLease returns the Lease that nobody can get, as a hook of Helm: it is made at the first installation, and then left to the
// managers.
func handoverLease() ([]byte, error) {
	text, err := os.ReadFile("deploy/kustomize/overlays/beside-upstream/handover-lease.yaml")
	const name = "  name: " + beside + "\n"
	if err == nil && !strings.Contains(string(text), name) {
		err = fmt.Errorf("the Lease for the hand-over is not called %s", beside)
	}
	_, object, _ := strings.Cut(string(text), "apiVersion:")
	return []byte("apiVersion:" + strings.Replace(object, name, name+"  annotations: {helm.sh/hook: pre-install}\n", 1)), err
}
