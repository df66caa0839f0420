package health

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/metrics/prometheus/slis"
	"k8s.io/klog/v2"
)

// Check is one question about the process.
type Check struct {
	Name string
	// Err returns nil, or what is wrong. It is called often and by many at a time, and must be quick.
	Err func() error
	// Advisory: when it fails, that is shown, logged and counted, and at its own path the answer is 500, but all
	// checks together pass.
	Advisory bool
}

// logEvery is how often a check that continues to fail is logged.
const logEvery = time.Minute

// Handler answers at /<name>, as "healthz", "livez" or "readyz", with 200 and "ok" if all checks pass, and else with
// 500 and the names of those that fail (MH-6, MH-15, MH-16). Why they fail is only in the log (LE-20): a line when a
// check begins to fail, one a minute while it continues to, and one when it passes again, however often it is asked
// for. Under /<name>/<check> it answers for one check alone, but not under /healthz, which has no such paths (MH-6).
// Checks are asked for with each request; without any there is one that always passes, "ping" (MH-17).
//
// The results are counted in kubernetes_healthcheck and kubernetes_healthchecks_total (MH-30) once these are
// registered.
//
// The checks may be of any type with the fields of a [Check], such as that of package manager.
func Handler[C ~struct {
	Name     string
	Err      func() error
	Advisory bool
}](name string, checks func() []C) http.Handler {
	h := &handler{name: name, states: map[string]state{}, checks: func() (all []Check) {
		for _, c := range checks() {
			all = append(all, Check(c))
		}
		return all
	}}
	return http.HandlerFunc(h.serve)
}

// handler answers for one list of checks, and logs when one of them begins or ceases to fail.
type handler struct {
	name   string
	checks func() []Check

	mu     sync.Mutex
	states map[string]state // of checks that fail
}

// state is what is remembered of a check that fails.
type state struct{ logged time.Time }

// serve runs the checks that are asked for. Without any, one answers that the process is there.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) {
	checks := h.checks()
	if len(checks) == 0 {
		checks = []Check{{Name: "ping", Err: func() error { return nil }}}
	}
	if checks = h.wanted(checks, r.URL.Path); checks == nil {
		http.NotFound(w, r)
		return
	}
	query := r.URL.Query()
	report, failed := h.run(r.Context(), checks, query["exclude"])
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case failed:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(report, "%s check failed\n", h.name)
	case !query.Has("verbose"):
		report.Reset()
		report.WriteString("ok")
	default:
		fmt.Fprintf(report, "%s check passed\n", h.name)
	}
	_, _ = w.Write(report.Bytes()) // whoever asked may have gone
}

// wanted returns the checks that a path is about, nil if there is no such path.
func (h *handler) wanted(all []Check, path string) []Check {
	one, ok := strings.CutPrefix(path, "/"+h.name+"/")
	if path == "/"+h.name {
		return all
	}
	i := slices.IndexFunc(all, func(c Check) bool { return c.Name == one })
	if !ok || i < 0 || h.name == "healthz" {
		return nil
	}
	all[i].Advisory = false // whoever asks for one check wants to know
	return all[i : i+1]
}

// run asks the checks, and returns a line for each.
func (h *handler) run(ctx context.Context, checks []Check, excluded []string) (report *bytes.Buffer, failed bool) {
	report = &bytes.Buffer{}
	for _, c := range checks {
		if slices.Contains(excluded, c.Name) {
			fmt.Fprintf(report, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		err := c.Err()
		h.note(ctx, c.Name, err)
		if err != nil {
			failed = failed || !c.Advisory
			fmt.Fprintf(report, "[-]%s failed: reason withheld\n", c.Name)
			continue
		}
		fmt.Fprintf(report, "[+]%s ok\n", c.Name)
	}
	return report, failed
}

// note counts a result, and logs it if it is news.
func (h *handler) note(ctx context.Context, name string, err error) {
	status := slis.Success
	if err != nil {
		status = slis.Error
	}
	_ = slis.ObserveHealthcheck(ctx, name, h.name, status) // always nil

	h.mu.Lock()
	before, failing := h.states[name]
	now := time.Now()
	news := err == nil && failing || err != nil && now.Sub(before.logged) >= logEvery
	switch {
	case err == nil:
		delete(h.states, name)
	case news:
		h.states[name] = state{logged: now}
	}
	h.mu.Unlock()
	logger := klog.FromContext(ctx)
	switch {
	case news && err != nil:
		logger.Info("Health check fails", "path", "/"+h.name, "check", name, "reason", err.Error())
	case news:
		logger.Info("Health check passes again", "path", "/"+h.name, "check", name)
	}
}
