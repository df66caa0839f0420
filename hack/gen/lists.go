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

// signer is the controller that has no use for the key of an authority that it does not have.
const signer = "certificatesigningrequest-signing-controller"

var (
	// names are the controllers in a sentence, such as "the controllers `endpoint`, `podgc` and `replicaset`". One name alone is no list.
	names = regexp.MustCompile("(?i)(\\bthe controllers\\s)`[a-z-]+`(?:,\\s+`[a-z-]+`)+\\s+and\\s+`[a-z-]+`")
	// switches are the value of --controllers with which the original leaves the controllers to this manager. Those that are off by default
	// are off in both, unless somebody asks one of the two for them. The one that signs certificates stays in the original, because the key
	// that it signs with is there.
	switches = regexp.MustCompile(`(--controllers=\*,(?:bootstrapsigner,tokencleaner,)?)-[a-z-]+(?:,-[a-z-]+)+`)
)

// listControllers brings the lists of a page up to date, in the order of the aliases.
func listControllers(page []byte, registry []manager.Controller) []byte {
	var aliases, on []string
	for _, c := range registry {
		aliases = append(aliases, cmp.Or(c.Alias, c.Name))
		if !c.OffByDefault && c.Name != signer {
			on = append(on, cmp.Or(c.Alias, c.Name))
		}
	}
	slices.Sort(aliases)
	slices.Sort(on)
	last := len(aliases) - 1
	sentence := "${1}`" + strings.Join(aliases[:last], "`, `") + "` and `" + aliases[last] + "`"
	return switches.ReplaceAll(names.ReplaceAll(page, []byte(sentence)), []byte("${1}-"+strings.Join(on, ",-")))
}
