package identity

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	logsapi "k8s.io/component-base/logs/api/v1"
	jsonlog "k8s.io/component-base/logs/json"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// What is asked and answered: tokens and Secrets that the log must not have, and names that it may.
const (
	asked, answered, open = "asked-with-this-very-secret-value", "answered-with-this-very-secret-value",
		"a-name-that-is-no-secret-to-anybody"
)

type safeBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

var dumped = regexp.MustCompile(`[0-9a-f]{8}  ((?:[0-9a-f]{2} {1,2}){1,16})`)

// shows reports whether the log has the text: as it is, in base64, or in a dump of bytes.
func shows(log, text string) bool {
	var bytes []byte
	for _, line := range dumped.FindAllStringSubmatch(log, -1) {
		some, err := hex.DecodeString(strings.ReplaceAll(line[1], " ", ""))
		if err != nil {
			return true // so that it is noticed
		}
		bytes = append(bytes, some...)
	}
	log += string(bytes)
	return strings.Contains(log, text) || strings.Contains(log, base64.StdEncoding.EncodeToString([]byte(text)))
}

// secretive is an API server that answers each question with something secret, in the encoding that was asked for.
func secretive(w http.ResponseWriter, r *http.Request) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: open}
	secret := corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"token": []byte(answered)}}
	var answer runtime.Object = &corev1.Pod{ObjectMeta: meta}
	group := corev1.SchemeGroupVersion
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/token"):
		group = authenticationv1.SchemeGroupVersion
		answer = &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: answered}}
	case strings.HasSuffix(path, "/tokenreviews"):
		group = authenticationv1.SchemeGroupVersion
		answer = &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: asked},
			Status: authenticationv1.TokenReviewStatus{Error: answered}}
	case strings.HasSuffix(path, "/secrets") && r.Method == http.MethodGet:
		answer = &corev1.SecretList{Items: []corev1.Secret{secret}}
	case strings.HasSuffix(path, "/secrets/refused"):
		group = schema.GroupVersion{Version: "v1"}
		w.WriteHeader(http.StatusUnprocessableEntity)
		answer = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Message: answered}
	case strings.Contains(path, "/secrets"):
		answer = &secret
	}
	media := strings.Split(r.Header.Get("Accept"), ",")[0]
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	w.Header().Set("Content-Type", media)
	_ = scheme.Codecs.EncoderForVersion(info.Serializer, group).Encode(answer, w)
}

// askAll sends all kinds of requests whose bodies, or those of whose answers, are secret, and one whose bodies are not.
func askAll(ctx context.Context, t *testing.T, b *Builder) {
	t.Helper()
	c := clientset(t, b.Config(Root))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}, StringData: map[string]string{"token": asked},
		Data: map[string][]byte{"t": []byte(asked)}}
	secrets := c.CoreV1().Secrets("ns")
	_, created := secrets.Create(ctx, secret, metav1.CreateOptions{})
	_, updated := secrets.Update(ctx, secret, metav1.UpdateOptions{})
	_, patched := secrets.Patch(ctx, "x", types.MergePatchType, []byte(`{"stringData":{"token":"`+asked+`"}}`), metav1.PatchOptions{})
	_, got := secrets.Get(ctx, "x", metav1.GetOptions{})
	_, refused := secrets.Get(ctx, "refused", metav1.GetOptions{})
	_, listed := c.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	deleted := secrets.Delete(ctx, "x", metav1.DeleteOptions{})
	_, reviewed := c.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: asked}}, metav1.CreateOptions{})
	_, own := controllerClient(t, b, "pod-garbage-collector").CoreV1().Pods("ns").Create(ctx, // fetches a token before
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: open, GenerateName: "of-the-request-" + open}}, metav1.CreateOptions{})
	if err := errors.Join(created, updated, patched, got, listed, deleted, reviewed, own); err != nil || refused == nil {
		t.Fatal(err, refused)
	}
}

func TestBodiesInTheLog(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(secretive))
	defer server.Close()
	server.Config.SetKeepAlivesEnabled(false)
	formats := map[string]func(io.Writer, int) klog.Logger{
		"text": func(w io.Writer, v int) klog.Logger {
			return textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(w), textlogger.Verbosity(v)))
		},
		"json": func(w io.Writer, v int) klog.Logger {
			logger, _ := jsonlog.NewJSONLogger(logsapi.VerbosityLevel(v), jsonlog.AddNopSync(w), nil, nil)
			return logger
		},
	}
	for format, logTo := range formats {
		for _, encoding := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
			for _, verbosity := range []int{7, 8, 9, 10} {
				t.Run(fmt.Sprint(format, " ", encoding, " ", verbosity), func(t *testing.T) {
					var out safeBuffer
					ctx := klog.NewContext(t.Context(),
						WithoutBodies(WithoutBodies(logTo(&out, verbosity))).WithName("n").WithValues("k", "v"))
					askAll(ctx, t,
						NewBuilder(&rest.Config{Host: server.URL},
							Options{Component: component, ContentType: encoding, ServiceAccounts: true}))
					log := out.String()
					if format == "json" { // the dumps have their line breaks back
						log = lines(t, log)
					}
					if shows(log, asked) || shows(log, answered) {
						t.Errorf("a secret is in the log:\n%s", log)
					}
					// What is no secret is there, so the log was looked at in the right way.
					if got := shows(log, "of-the-request-"+open) && strings.Contains(log, "Body of an answer"); got != (verbosity >= 8) {
						t.Errorf("bodies of pods are in the log: %v\n%s", got, log)
					}
					if n := strings.Count(log, masked); verbosity >= 8 && n < 15 {
						t.Errorf("only %d bodies are masked", n)
					}
				})
			}
		}
	}
}

// lines returns the values of a log in JSON as they are, in lines.
func lines(t *testing.T, log string) string {
	t.Helper()
	var all strings.Builder
	for line := range strings.Lines(log) {
		record := map[string]any{}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if caller, _ := record["caller"].(string); !strings.Contains(caller, ".go:") ||
			strings.HasPrefix(caller, "identity/bodies.go") != strings.HasPrefix(fmt.Sprint(record["msg"]), "Body of ") {
			t.Errorf("the line that has logged it: %s", line)
		}
		for key, value := range record {
			fmt.Fprintf(&all, "%s %v\n", key, value)
		}
	}
	return all.String()
}

// TestBodiesArriveWhole: what is logged was read before, and is there to be read again, with the error at its end.
func TestBodiesArriveWhole(t *testing.T) {
	broken := errors.New("connection reset")
	logger := WithoutBodies(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(io.Discard), textlogger.Verbosity(8))))
	for _, want := range []error{nil, broken} {
		for _, path := range []string{"/api/v1/pods", "/api/v1/secrets", "/api/v1/pods?watch=true"} {
			body := strings.Repeat("x", 5000)
			next := roundTripper(func(*http.Request) (*http.Response, error) {
				rest := io.Reader(strings.NewReader(""))
				if want != nil {
					rest = failing{want}
				}
				return &http.Response{Body: io.NopCloser(io.MultiReader(strings.NewReader(body), rest))}, nil
			})
			r, err := http.NewRequestWithContext(klog.NewContext(t.Context(), logger), http.MethodGet, "http://api"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := (&bodyLog{next}).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(answer.Body)
			if string(data) != body || !errors.Is(err, want) {
				t.Errorf("%s: %d bytes, %v", path, len(data), err)
			}
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestSecretPaths(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v1/secrets": true, "/api/v1/namespaces/ns/secrets/x": true, "/api/v1/watch/secrets": true,
		"/base/of/a/proxy/api/v1/namespaces/ns/secrets":                 true,
		"/api/v1/namespaces/kube-system/serviceaccounts/x/token":        true,
		"/apis/authentication.k8s.io/v1/tokenreviews":                   true,
		"/apis/authentication.k8s.io/v1beta1/tokenreviews":              true,
		"/api/v1/namespaces/kube-system/serviceaccounts/x":              false,
		"/api/v1/namespaces/ns/pods/token":                              false,
		"/apis/authorization.k8s.io/v1/subjectaccessreviews":            false,
		"/api/v1/namespaces/ns/configmaps/secrets-are-elsewhere/status": false,
	} {
		if got := secret(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
