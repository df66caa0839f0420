package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/internal/identity"
)

// TestNoTokensInTheLog has clients of all ways ask about a token, with contexts that have a logger and with others: in no format,
// and at no verbosity, are the token and what the server says of it in the log.
func TestNoTokensInTheLog(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"error":"answered-secret"}}`)
	}))
	defer server.Close()
	for _, how := range []string{
		"--logging-format=text", "--logging-format=json", "--logging-format=text --feature-gates=ContextualLogging=false",
		"--logging-format=json --feature-gates=ContextualLogging=false", "--vmodule=request=10,bodies=10",
		"--log-text-split-stream --feature-gates=LoggingAlphaOptions=true",
		"--log-json-split-stream --logging-format=json --feature-gates=LoggingAlphaOptions=true",
	} {
		t.Run(how, func(t *testing.T) {
			p := newStarted()
			p.Start = func(ctx context.Context, c options.Config) error {
				b := identity.NewBuilder(c.Client, identity.Options{Component: c.Manager.Component, ContentType: "application/json"})
				for _, config := range []string{identity.Root, identity.Informers, "authentication"} {
					client, err := kubernetes.NewForConfig(b.Config(config))
					if err != nil {
						return err
					}
					for _, ctx := range []context.Context{ctx, context.Background()} {
						review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "asked-secret"}}
						_, err := client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
						if err != nil {
							return err
						}
					}
				}
				// A client of somebody else's shows no body at all.
				other, err := kubernetes.NewForConfig(c.Client)
				if err != nil {
					return err
				}
				_, err = other.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
					Spec: authenticationv1.TokenReviewSpec{Token: "asked-secret"}}, metav1.CreateOptions{})
				return err
			}
			code, stdout, stderr := execute(t, t.Context(), p.Program, append(strings.Fields(how), "-v=10", "--master="+server.URL)...)
			log := stdout + stderr
			if code != 0 || strings.Contains(log, "-secret") {
				t.Errorf("%d\n%s", code, log)
			}
			if n := strings.Count(log, `<masked>`); n < 12 { // a request and an answer each
				t.Errorf("%d masked bodies:\n%s", n, log)
			}
		})
	}
}

// TestBufferedLog checks that what is held back goes out whole, in order, and at the latest at the end (CLI-46).
func TestBufferedLog(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		for _, size := range []string{"1", "1Ki", "64Mi"} {
			p := newStarted()
			p.Start = func(ctx context.Context, _ options.Config) error {
				for i := range 100 {
					klog.FromContext(ctx).Info("Line", "number", i)
				}
				return errors.New("the end")
			}
			code, stdout, stderr := execute(t, t.Context(), p.Program, server, "--logging-format="+format, "--log-"+format+"-split-stream",
				"--log-"+format+"-info-buffer-size="+size, "--feature-gates=LoggingAlphaOptions=true")
			lines := regexp.MustCompile(`(?m)^.*"Line".*number\W+(\d+)\W*$`).FindAllStringSubmatch(stdout, -1)
			if code != 1 || len(lines) != 100 || !strings.Contains(stderr, "the end") || strings.Contains(stdout, "the end") {
				t.Errorf("%s %s: %d, %d lines\n%s%s", format, size, code, len(lines), stdout, stderr)
				continue
			}
			for i, line := range lines {
				if line[1] != fmt.Sprint(i) {
					t.Errorf("%s %s: line %d is %s", format, size, i, line[0])
				}
			}
		}
		code, _, stderr := execute(t, t.Context(), newStarted().Program, server, "--log-"+format+"-info-buffer-size=1Ki",
			"--logging-format="+format)
		if code != 1 || !strings.Contains(stderr, "Feature LoggingAlphaOptions is disabled") {
			t.Errorf("%d %s", code, stderr)
		}
	}
}
