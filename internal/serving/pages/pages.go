package pages

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/pprof"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/standalone-kcm/controller-manager/internal/serving/reply"
)

// Profiles returns the handlers of the profiles that Go keeps (MH-12). The command line is not among them.
func Profiles() map[string]http.Handler {
	return map[string]http.Handler{
		"/debug/pprof":         http.RedirectHandler("/debug/pprof/", http.StatusFound),
		"/debug/pprof/":        http.HandlerFunc(pprof.Index),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
}

// Verbosity returns the handler of /debug/flags/v (MH-13). Set changes the verbosity of the log, and says what it did.
func Verbosity(set func(value string) (string, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, text := http.StatusNotAcceptable, "unsupported http method"
		if r.Method == http.MethodPut {
			code, text = setVerbosity(set, r.Body)
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(code)
		_, _ = fmt.Fprintln(w, text)
	})
}

// setVerbosity sets the verbosity to what a body says, and returns how to answer.
func setVerbosity(set func(string) (string, error), body io.Reader) (code int, text string) {
	value, err := io.ReadAll(body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, err.Error()
	case err != nil:
		return http.StatusBadRequest, "error reading the request: " + err.Error()
	}
	if text, err = set(strings.TrimSpace(string(value))); err != nil {
		return http.StatusBadRequest, err.Error()
	}
	return http.StatusOK, text
}

// Configz returns the handler of /configz: a configuration under its name (MH-10).
func Configz(name string, config any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reply.JSON(w, "application/json", http.StatusOK, map[string]any{name: config})
	})
}

// notForMachines is how a page for people begins.
const notForMachines = "\n%s %s\nWarning: This endpoint is not meant to be machine parseable, has no formatting " +
	"compatibility " +
	"guarantees and is for debugging purposes only.\n"

// page is an object of group config.k8s.io that people can read as text.
type page struct {
	kind, component string
	text            func(w io.Writer)
	object          func() map[string]any // without kind, apiVersion and metadata
}

// Flagz returns the handler of /flagz: the values of all flags by name (MH-11).
func Flagz(component string, flags map[string]string) http.Handler {
	return page{
		kind: "Flagz", component: component,
		text: func(w io.Writer) {
			for _, name := range slices.Sorted(maps.Keys(flags)) {
				_, _ = fmt.Fprintf(w, "%s: %s\n", name, flags[name])
			}
		},
		object: func() map[string]any { return map[string]any{"flags": flags} },
	}
}

// Status is what /statusz says of a process.
type Status struct {
	Start            time.Time
	BinaryVersion    string // such as 1.37.2
	EmulationVersion string // such as 1.37; may be empty
	Paths            []string
}

// Statusz returns the handler of /statusz (MH-11).
func Statusz(component string, s Status) http.Handler {
	paths := slices.Sorted(slices.Values(s.Paths))
	return page{
		kind: "Statusz", component: component,
		text: func(w io.Writer) {
			up := time.Since(s.Start).Truncate(time.Second)
			_, _ = fmt.Fprintf(w, "\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\n",
				s.Start.UTC().Format(time.UnixDate), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60,
				runtime.Version(), s.BinaryVersion)
			if s.EmulationVersion != "" {
				_, _ = fmt.Fprintf(w, "Emulation version: %s\n", s.EmulationVersion)
			}
			_, _ = fmt.Fprintf(w, "Paths: %s\n", strings.Join(paths, " "))
		},
		object: func() map[string]any {
			o := map[string]any{
				"startTime": metav1.NewTime(s.Start), "uptimeSeconds": int64(time.Since(s.Start).Seconds()),
				"goVersion": runtime.Version(), "binaryVersion": s.BinaryVersion, "paths": paths,
			}
			if s.EmulationVersion != "" {
				o["emulationVersion"] = s.EmulationVersion
			}
			return o
		},
	}
}

// ServeHTTP answers in text unless the client asks for the object, by kind, group and version, in JSON or YAML.
func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format, version, ok := p.negotiate(r.Header.Values("Accept"))
	switch {
	case !ok:
		reply.Refuse(w, metav1.StatusReasonNotAcceptable,
			"only the following media types are accepted: application/json, application/yaml, text/plain")
	case format == "text/plain":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintf(w, notForMachines, p.component, strings.ToLower(p.kind))
		p.text(w)
	default:
		p.serveObject(w, format, version)
	}
}

// serveObject answers with the page as an object, in the format and version that the client has chosen.
func (p page) serveObject(w http.ResponseWriter, format, version string) {
	object := p.object()
	object["kind"], object["apiVersion"] = p.kind, "config.k8s.io/"+version
	object["metadata"] = map[string]string{"name": p.component}
	if version == "v1alpha1" {
		w.Header().Set("Warning",
			fmt.Sprintf(`299 - "This version of the %s endpoint is deprecated. Please use a newer version."`,
				strings.ToLower(p.kind)))
	}
	contentType := fmt.Sprintf("%s;g=config.k8s.io;v=%s;as=%s", format, version, p.kind)
	if format == "application/json" {
		reply.JSON(w, contentType, http.StatusOK, object)
		return
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(text)
}

// negotiate returns the first format of those that the client accepts, best first, that there is.
func (p page) negotiate(accept []string) (format, version string, ok bool) {
	header := strings.TrimSpace(strings.Join(accept, ","))
	if header == "" {
		return "text/plain", "", true
	}
	for _, wanted := range goautoneg.ParseAccept(header) {
		switch format = wanted.Type + "/" + wanted.SubType; format {
		case "text/plain", "text/*", "*/*":
			return "text/plain", "", true
		case "application/json", "application/yaml":
			version = wanted.Params["v"]
			if wanted.Params["as"] == p.kind && wanted.Params["g"] == "config.k8s.io" &&
				(version == "v1beta1" || version == "v1alpha1") {
				return format, version, true
			}
		}
	}
	return "", "", false
}
