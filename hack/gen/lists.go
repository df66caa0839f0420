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

// stay are the controllers that are left in the original: it has the key that certificates are signed with, and the file with the
// authorities that pods need.
var stay = []string{"certificatesigningrequest-signing-controller", "root-ca-certificate-publisher-controller"}

var (
	// names are the controllers in a sentence, such as "the controllers `endpoint`, `podgc` and `replicaset`". One name alone is no list.
	names = regexp.MustCompile("(?i)(\\bthe controllers\\s)`[a-z-]+`(?:,\\s+`[a-z-]+`)+\\s+and\\s+`[a-z-]+`")
	// switches are the value of --controllers with which the original leaves the controllers to this manager. Those that are off by default
	// are off in both, unless somebody asks one of the two for them.
	switches = regexp.MustCompile(`(--controllers=\*,(?:bootstrapsigner,tokencleaner,)?)-[a-z-]+(?:,-[a-z-]+)+`)
)

// listControllers brings the lists of a page up to date, in the order of the aliases.
func listControllers(page []byte, registry []manager.Controller) []byte {
	var aliases, on []string
	for _, c := range registry {
		aliases = append(aliases, cmp.Or(c.Alias, c.Name))
		if !c.OffByDefault && !slices.Contains(stay, c.Name) {
			on = append(on, cmp.Or(c.Alias, c.Name))
		}
	}
	slices.Sort(aliases)
	slices.Sort(on)
	last := len(aliases) - 1
	sentence := "${1}`" + strings.Join(aliases[:last], "`, `") + "` and `" + aliases[last] + "`"
	return switches.ReplaceAll(names.ReplaceAll(page, []byte(sentence)), []byte("${1}-"+strings.Join(on, ",-")))
}
