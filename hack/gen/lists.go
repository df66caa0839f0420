package main

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// listed are the files that list the controllers of this build.
var listed = []string{
	"README.md", "deploy/README.md", "deploy/kustomize/overlays/beside-upstream/kustomization.yaml", "docs/operations.md", "docs/parity.md",
}

var (
	// names are the controllers in a sentence, such as "the controllers `endpoint`, `podgc` and `replicaset`". One name alone is no list.
	names = regexp.MustCompile("(?i)(\\bthe controllers\\s)`[a-z-]+`(?:,\\s+`[a-z-]+`)+\\s+and\\s+`[a-z-]+`")
	// switches are the value of --controllers with which the original leaves controllers to a manager beside it, and taken is the value
	// that this manager has. What kubeadm and k3s set by themselves stays.
	switches = regexp.MustCompile(
		`((?:controllers=|value: ")\*,(?:bootstrapsigner,)?(?:tokencleaner,)?(?:-service,-route,-cloud-node-lifecycle,)?)-[a-z-]+(?:,-[a-z-]+)+`)
	taken = regexp.MustCompile(`(--controllers=)[a-z][a-z-]*(?:,[a-z][a-z-]*)+`)
)

// listControllers brings the lists of a page up to date, in the order of the aliases.
func listControllers(page []byte, registry []manager.Controller) []byte {
	var all, beside []string
	for _, c := range registry {
		alias := cmp.Or(c.Alias, c.Name)
		all = append(all, alias)
		if c.Beside {
			beside = append(beside, alias)
		}
	}
	slices.Sort(all)
	slices.Sort(beside)
	last := len(all) - 1
	page = names.ReplaceAll(page, []byte("${1}`"+strings.Join(all[:last], "`, `")+"` and `"+all[last]+"`"))
	page = switches.ReplaceAll(page, []byte("${1}-"+strings.Join(beside, ",-")))
	return taken.ReplaceAll(page, []byte("${1}"+strings.Join(beside, ",")))
}
