package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func tokenAnswer(value string, lifetime time.Duration) *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{Kind: "TokenRequest", APIVersion: "authentication.k8s.io/v1"},
		Spec:     authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(lifetime / time.Second))},
		Status: authenticationv1.TokenRequestStatus{
			Token: value, ExpirationTimestamp: metav1.NewTime(time.Now().Add(lifetime)),
		},
	}
}

func keyPEM(t *testing.T, pair tls.Certificate) []byte {
	t.Helper()
	raw, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// tokens is a source whose n-th request is answered by answer(n), n from 1.
type tokens struct {
	*tokenSource
	asked atomic.Int32
}

func newTokens(answer func(ctx context.Context, n int) (time.Duration, error)) *tokens {
	out := &tokens{}
	out.tokenSource = newTokenSource("a", func(ctx context.Context) (string, time.Duration, error) {
		n := int(out.asked.Add(1))
		lifetime, err := answer(ctx, n)
		return fmt.Sprint("token-", n), lifetime, err
	})
	return out
}

func (s *tokens) expect(t *testing.T, what, want string) {
	t.Helper()
	got, err := s.get(t.Context())
	if err != nil {
		t.Errorf("%s: %v", what, err)
	} else if got.value != want {
		t.Errorf("%s: got %s, want %s", what, got.value, want)
	}
}

func TestTokenRenewalCI22(t *testing.T) {
	for name, c := range map[string]struct{ lifetime, renewed time.Duration }{
		"an hour":                       {time.Hour, 48 * time.Minute},
		"below 10 minutes counts as 10": {time.Minute, 8 * time.Minute},
		"no lifetime at all":            {-time.Hour, 8 * time.Minute},
	} {
		t.Run("CI-22: "+name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newTokens(func(context.Context, int) (time.Duration, error) { return c.lifetime, nil })
				if s.asked.Load() != 0 {
					t.Error("not lazy")
				}
				s.expect(t, "first", "token-1")
				time.Sleep(c.renewed - time.Second)
				s.expect(t, "just before 80 %", "token-1")
				time.Sleep(time.Second)
				s.expect(t, "at 80 %", "token-2")
			})
		})
	}
}

func TestTokenTriesCI22(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		s := newTokens(func(_ context.Context, n int) (time.Duration, error) {
			at = append(at, time.Since(begin))
			if n < 4 {
				return 0, errors.New("no")
			}
			return time.Hour, nil
		})
		s.expect(t, "the fourth try", "token-4")
		if got, want := fmt.Sprint(at), "[0s 500ms 1.5s 3.5s]"; got != want {
			t.Errorf("CI-22: tries at %s, want %s", got, want)
		}
	})
}

func TestTokenErrorIsNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTokens(func(context.Context, int) (time.Duration, error) {
			return 0, apierrors.NewNotFound(corev1.Resource("serviceaccounts"), "a")
		})
		_, err := s.get(t.Context())
		if err == nil || apierrors.IsNotFound(err) || s.asked.Load() != 4 {
			t.Errorf("after %d tries: %v", s.asked.Load(), err)
		}
	})
}

func TestTokenRenewalFailsSoftly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTokens(func(_ context.Context, n int) (time.Duration, error) {
			if n > 1 && n < 4 {
				return 0, errors.New("no")
			}
			return time.Hour, nil
		})
		s.expect(t, "first", "token-1")
		time.Sleep(50 * time.Minute)
		begin := time.Now()
		for range 5 {
			s.expect(t, "the old one is still good", "token-1")
		}
		if n := s.asked.Load(); n != 2 || time.Since(begin) != 0 {
			t.Errorf("%d requests, %v waited: a failed renewal should cost one try, and pause", n, time.Since(begin))
		}
		time.Sleep(tokenPause)
		s.expect(t, "second failure", "token-1")
		time.Sleep(tokenPause)
		s.expect(t, "renewed", "token-4")
	})
}

func TestTokenExpired(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTokens(func(_ context.Context, n int) (time.Duration, error) {
			if n > 1 {
				return 0, errors.New("no")
			}
			return time.Hour, nil
		})
		s.expect(t, "first", "token-1")
		time.Sleep(time.Hour)
		if _, err := s.get(t.Context()); err == nil {
			t.Error("an expired token was used")
		}
	})
}

func TestTokenConcurrency(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var now, most atomic.Int32
		s := newTokens(func(ctx context.Context, n int) (time.Duration, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Second)
			return time.Hour, nil
		})
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() { s.expect(t, "all", "token-1") })
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		group.Go(func() {
			begin := time.Now()
			if _, err := s.get(short); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 100*time.Millisecond {
				t.Errorf("the request's context should bound the wait: %v after %v", err, time.Since(begin))
			}
		})
		group.Wait()
		if s.asked.Load() != 1 || most.Load() != 1 {
			t.Errorf("%d requests for tokens, %d at once", s.asked.Load(), most.Load())
		}
		time.Sleep(50 * time.Minute)
		begin := time.Now()
		go s.expect(t, "the one that renews", "token-2")
		synctest.Wait()
		s.expect(t, "the others use the old one meanwhile", "token-1")
		if time.Since(begin) != 0 {
			t.Error("a renewal held up another request")
		}
		time.Sleep(2 * time.Second)
	})
}

func TestTokenFetchEndsWithItsRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTokens(func(ctx context.Context, n int) (time.Duration, error) {
			if n == 1 {
				<-ctx.Done() // hangs
				return 0, ctx.Err()
			}
			return time.Hour, nil
		})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { _, _ = s.get(short) }()
		synctest.Wait()
		begin := time.Now()
		s.expect(t, "the next in turn fetches", "token-2")
		if time.Since(begin) != time.Second {
			t.Errorf("waited %v", time.Since(begin))
		}

		s.drop(&token{value: "token-2"})
		s.asked.Store(0)
		begin = time.Now()
		s.expect(t, "a try that hangs ends by itself", "token-2")
		if got := time.Since(begin); got != tokenTimeout+tokenFirstWait {
			t.Errorf("waited %v", got)
		}
	})
}

func TestTokenDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTokens(func(context.Context, int) (time.Duration, error) { return time.Hour, nil })
		s.expect(t, "first", "token-1")
		s.drop(&token{value: "token-0"})
		s.expect(t, "the refusal of an older one changes nothing", "token-1")
		s.drop(&token{value: "token-1"})
		s.expect(t, "dropped", "token-2")
	})
}

// TestServiceAccountCI22 goes the whole way, from the client of a controller to the server.
func TestServiceAccountCI22(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var issued atomic.Int32
		refused := "Bearer t1"
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch auth := r.Header.Get("Authorization"); {
			case strings.HasSuffix(r.URL.Path, "/token"):
				reply(w, 201, tokenAnswer(fmt.Sprint("t", issued.Add(1)), time.Hour))
			case auth == refused:
				refuse(w, 401, metav1.StatusReasonUnauthorized)
			default:
				reply(w, 200, &corev1.Pod{})
			}
		})
		a.config.BearerToken = "root"
		b := NewBuilder(a.config, Options{Component: component, ServiceAccounts: true, ContentType: "application/json"})
		c := controllerClient(t, b, "replicaset-controller")
		if len(a.log()) != 0 {
			t.Error("CI-22: not lazy")
		}
		get := func() error {
			_, err := c.CoreV1().Pods("x").Get(t.Context(), "x", metav1.GetOptions{})
			return err
		}
		if err := get(); !apierrors.IsUnauthorized(err) {
			t.Errorf("got %v, want 401", err)
		}
		for range 3 {
			if err := get(); err != nil {
				t.Error(err)
			}
		}
		log := a.log()
		var got []string
		for _, r := range log {
			got = append(got, r.Method+" "+r.Path+" "+r.Header.Get("Authorization"))
		}
		const tokenPath = "POST /api/v1/namespaces/kube-system/serviceaccounts/replicaset-controller/token Bearer root"
		const podPath = "GET /api/v1/namespaces/x/pods/x Bearer "
		want := []string{tokenPath, podPath + "t1", tokenPath, podPath + "t2", podPath + "t2", podPath + "t2"}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("requests\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		var asked authenticationv1.TokenRequest
		if err := json.Unmarshal(log[0].Body, &asked); err != nil || asked.Spec.Audiences != nil || *asked.Spec.ExpirationSeconds != 3600 {
			t.Errorf("CI-22: asked for %v, %v", asked.Spec, err)
		}
		if agent := log[0].Header.Get("User-Agent"); !strings.HasSuffix(agent, "/kube-controller-manager") {
			t.Errorf("CI-2: tokens are requested by %q", agent)
		}
	})
}

func TestServiceAccountDeletedMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var exists atomic.Bool
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/token") && exists.Load():
				reply(w, 201, tokenAnswer("t", time.Hour))
			case r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/serviceaccounts"):
				exists.Store(true)
				reply(w, 201, &corev1.ServiceAccount{})
			case strings.Contains(r.URL.Path, "serviceaccounts"):
				refuse(w, 404, metav1.StatusReasonNotFound)
			default:
				reply(w, 200, &corev1.Pod{})
			}
		})
		c := controllerClient(t, NewBuilder(a.config, Options{Component: component, ServiceAccounts: true}), "x")
		if _, err := c.CoreV1().Pods("x").Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}
