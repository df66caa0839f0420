package main

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// listed are the files that list the controllers that a manager beside the original takes over.
var listed = []string{
	"docs/tutorial.md", "deploy/README.md", "deploy/kustomize/overlays/beside-upstream/kustomization.yaml", "docs/operations.md", "docs/parity.md",
}

var (
	// switches are the value of --controllers with which the original leaves controllers to a manager beside it, and taken is the value
	// that this manager has. What kubeadm and k3s set by themselves stays.
	switches = regexp.MustCompile(
		`((?:controllers=|value: ")\*,(?:bootstrapsigner,)?(?:tokencleaner,)?(?:-service,-route,-cloud-node-lifecycle,)?)-[a-z-]+(?:,-[a-z-]+)+`)
	taken = regexp.MustCompile(`(--controllers=)[a-z][a-z-]*(?:,[a-z][a-z-]*)+`)
)

// listControllers brings the lists of a page up to date, in the order of the aliases.
func listControllers(page []byte, registry []manager.Controller) []byte {
	beside := besideAliases(registry)
	page = switches.ReplaceAll(page, []byte("${1}-"+strings.Join(beside, ",-")))
	return taken.ReplaceAll(page, []byte("${1}"+strings.Join(beside, ",")))
}

// besideAliases are the controllers that a manager beside the original takes over.
func besideAliases(registry []manager.Controller) (names []string) {
	for _, c := range registry {
		if c.Beside {
			names = append(names, cmp.Or(c.Alias, c.Name))
		}
	}
	slices.Sort(names)
	return names
}
