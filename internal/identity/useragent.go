package identity

import (
	"fmt"
	"runtime"
	"strings"

	"k8s.io/component-base/version"
)

// userAgent returns `<component>/<version> (<os>/<arch>) kubernetes/<commit>/<name>` (CI-1). The version is that of
// this build, without a pre-release part, as client-go writes it.
func userAgent(component, name string) string {
	v := version.Get()
	return fmt.Sprintf("%s/%s (%s/%s) kubernetes/%s/%s",
		component, release(v.GitVersion), runtime.GOOS, runtime.GOARCH, commit(v.GitCommit), name)
}

// release cuts off what follows the numbers: "v1.37.2-rc.0+1234" is "v1.37.2".
func release(version string) string {
	version, _, _ = strings.Cut(version, "-")
	version, _, _ = strings.Cut(version, "+")
	if version == "" {
		return "unknown"
	}
	return version
}

// commit shortens to 7 characters. A build without a known commit carries a placeholder ("$Format:%H$").
func commit(sha string) string {
	if sha == "" || strings.HasPrefix(sha, "$") {
		return "unknown"
	}
	return sha[:min(7, len(sha))]
}
