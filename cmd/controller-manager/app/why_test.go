package app

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/standalone-kcm/controller-manager/internal/why"
)

// kubeconfigOf returns a kubeconfig for an API server that is not there.
func kubeconfigOf(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"a","clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}}],
		"contexts":[{"name":"a","context":{"cluster":"a","namespace":"shop"}}]}`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// What is wrong is said in one line, which names the argument.
func TestQuestionsThatAreNone(t *testing.T) {
	there := "--kubeconfig=" + kubeconfigOf(t)
	for _, row := range []struct {
		args string
		says string
	}{
		{"why deployment", `"deployment" is no KIND/NAME`},
		{"why a/b/c", `"a/b/c" is no KIND/NAME`},
		{"why deployment web more", "at most 2"},
		{"why deployment/web -o xml", "--output must be text, json or yaml"},
		{"why --deleting deployment/web", "--deleting is about all objects"},
		{"why --deleted", "--deleted is about one object"},
		{"why --deleted --deleting", "--deleted is about one object"},
		{"why --deleted pod/a --deleting", "--deleting is about all objects"},
		{"why --deleted pod/a --watch", "--deleted answers once"},
		{"why --deleted pod/a --mcp", "--deleted answers once"},
		{"why --deleted pod/a " + there, "127.0.0.1:1"},
		{"why --mcp deployment/web", "--mcp takes its questions from standard input"},
		{"why deployment/web --kubeconfig=/nowhere", "/nowhere"},
		{"why deployment/web " + there, "127.0.0.1:1"},
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), Program{Name: "controller-manager"}, strings.Fields(row.args), &out, &errs)
		if code != 1 || !strings.Contains(errs.String(), row.says) || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: %d, %q, %q", row.args, code, out.String(), errs.String())
		}
	}
}

// An assistant finds one tool, and reads what is wrong with its question.
func TestAnAssistantAsks(t *testing.T) {
	o := whyOptions{kubeconfig: kubeconfigOf(t), timeout: time.Second}
	a, err := o.asker()
	if err != nil {
		t.Fatal(err)
	}
	if a.namespace != "shop" {
		t.Errorf("namespace %q", a.namespace)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ours, theirs := mcp.NewInMemoryTransports()
	served := make(chan error)
	go func() { served <- a.serve(ctx, ours) }()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := session.ListTools(ctx, nil)
	if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "why" || !tools.Tools[0].Annotations.ReadOnlyHint {
		t.Fatalf("%+v, %v", tools, err)
	}
	for object, says := range map[string]string{"deployment": "is no KIND/NAME", "deployment/web": "127.0.0.1:1"} {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "why", Arguments: map[string]any{"object": object}})
		if err != nil || !result.IsError {
			t.Fatalf("%s: %+v, %v", object, result, err)
		}
		if text, ok := result.Content[0].(*mcp.TextContent); !ok || !strings.Contains(text.Text, says) {
			t.Errorf("%s: %+v", object, result.Content[0])
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// With --watch, an answer is written when it changes.
func TestAnswersThatChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		o := whyOptions{watch: true, timeout: time.Minute}
		asked, written := 0, []string{}
		var errs bytes.Buffer
		err := o.repeat(ctx, func(context.Context) (summarized, error) {
			asked++
			switch asked {
			case 3, 4:
				return nil, errors.New("away")
			case 5:
				cancel()
			}
			return why.Answer{Summary: []string{"for 3s", "for 5s", "", "", "b"}[asked-1]}, nil
		}, func(a summarized) error {
			written = append(written, a.Line())
			return nil
		}, &errs)
		if got := strings.Join(written, ", "); err != nil || got != "for 3s, b" || errs.String() != "No answer for now: away\n" {
			t.Errorf("%q, %v, %q", got, err, errs.String())
		}
	})
}
