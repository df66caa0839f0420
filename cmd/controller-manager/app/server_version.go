package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// askVersion returns the version of an API server, and what its clock says.
func askVersion(ctx context.Context, config *rest.Config) (git string, date time.Time, err error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", date, err
	}
	base, _, err := rest.DefaultServerURL(config.Host, "", schema.GroupVersion{},
		config.CAFile != "" || len(config.CAData) > 0)
	if err != nil {
		return "", date, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return "", date, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", date, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", date, fmt.Errorf("GET /version: %s", answer.Status)
	}
	var info apiversion.Info
	if err := json.NewDecoder(answer.Body).Decode(&info); err != nil {
		return "", date, fmt.Errorf("GET /version: %w", err)
	}
	date, _ = http.ParseTime(answer.Header.Get("Date")) // zero without one
	return info.GitVersion, date, nil
}

// oldestTested is by how many minor releases an API server may be older: "make releases" runs the tests on them.
const oldestTested = 2

// unsupported says what is wrong with the versions; it is empty if nothing is. By the policy of Kubernetes a controller
// manager is at most one minor release older than the API server. It must not be newer, because it may need what the
// API server does not have; this one does without in the releases that are tested.
func unsupported(server, own string) string {
	a, err1 := version.ParseGeneric(server)
	b, err2 := version.ParseGeneric(own)
	if err1 != nil || err2 != nil || a.Major() != b.Major() {
		return fmt.Sprintf("%s and %s cannot be compared", server, own)
	}
	switch older := int(a.Minor()) - int(b.Minor()); {
	case older < -oldestTested:
		return fmt.Sprintf("the manager is of %s, %d minor releases newer than the API server, which is of %s: "+
			"%d were tested", own, -older, server, oldestTested)
	case older > 1:
		return fmt.Sprintf("the manager is of %s, %d minor releases older than the API server, which is of %s: "+
			"one is supported", own, older, server)
	}
	return ""
}

// askVersionEvery is how often an API server is asked for its version that does not answer.
const askVersionEvery = 10 * time.Second

// logServerVersion logs once whether the versions of the manager and the API server go together.
func logServerVersion(ctx context.Context, config *rest.Config) {
	logger := klog.FromContext(ctx)
	_ = wait.PollUntilContextCancel(ctx, askVersionEvery, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		server, _, err := askVersion(ctx, config)
		if err != nil { // that it does not answer is logged by what waits for it
			return false, nil
		}
		own := kubernetesVersion().GitVersion
		if wrong := unsupported(server, own); wrong != "" {
			logger.Info("Warning: the versions of the manager and the API server do not go together", "reason", wrong)
		} else {
			logger.Info("The versions of the manager and the API server go together", "server", server, "manager", own)
		}
		return true, nil
	})
}

// printServerVersion prints the version of the API server, and returns an error if it does not go with this build.
func printServerVersion(ctx context.Context, w io.Writer, config *rest.Config) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	server, _, err := askVersion(ctx, config)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", config.Host, err)
	}
	if wrong := unsupported(server, kubernetesVersion().GitVersion); wrong != "" {
		return fmt.Errorf("--check-server: %s", wrong)
	}
	_, err = fmt.Fprintf(w, "The API server %s is of %s, with which this build works.\n", config.Host, server)
	return err
}
