package options

import (
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options/selection"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// Component begins the user agents, whatever the executable is called: the API server takes it as the field manager,
// and GitOps tools and audit policies match it (CI-1).
const Component = "kube-controller-manager"

// Config is what the command line amounts to: all defaults applied, everything validated.
type Config struct {
	Manager manager.Options // what the manager is made of
	Client  *rest.Config    // server and credentials only: no user agent, encoding or limits yet

	Selection selection.Selection // what --controllers selects

	Serving        Serving
	Authentication Authentication
	Authorization  Authorization
	Metrics        Metrics
	History        History

	Emulated string                       // version that features are of, such as 1.37 (CLI-29)
	Flags    map[string]string            // all values by name, for people to look at
	Features featuregate.FeatureGate      // knows every gate of Kubernetes 1.34 to 1.38
	Logging  logsapi.LoggingConfiguration // has been applied before the program starts

	// WithoutEffect are the flags, in order, that were set and that nothing in this build obeys.
	WithoutEffect []string
	// Removed are the flags that were set and that the original no longer has, with what they did and what to do.
	Removed map[string]string
}
