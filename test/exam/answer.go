package exam

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// version is that of the documents with answers.
const version = "why.controller-manager/v1"

// answerTime is how long an answer may take on a machine that sets up other problems meanwhile.
const answerTime = 30 * time.Second

// Answer is what the exam reads of an answer.
type Answer struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Object     Object  `json:"object"`
	Summary    string  `json:"summary"`
	Cause      *Reason `json:"cause"`
}

// Object is one that an answer names.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (o Object) String() string { return o.Kind + "/" + o.Name }

// Reason is the cause that an answer gives.
type Reason struct {
	Object  Object `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Certain bool   `json:"certain"`
}

// Asker asks a program.
type Asker struct {
	Program, Kubeconfig string
}

// Ask asks why the object of a problem is not as wanted.
func (a Asker) Ask(ctx context.Context, object, namespace string) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	command := exec.CommandContext(ctx, a.Program, "why", object, "-n", namespace, "--kubeconfig", a.Kubeconfig, "-o", "json")
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if err != nil && stdout.Len() == 0 { // with an answer, the exit code may tell that something is wrong
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(command.Args[1:], " "), err, strings.TrimSpace(stderr.String()))
	}
	answer := &Answer{}
	if err := json.Unmarshal(stdout.Bytes(), answer); err != nil {
		return nil, fmt.Errorf("the answer is not one JSON document: %w: %s", err, &stdout)
	}
	return answer, nil
}

// passing is what differs between two answers only because time passes.
var passing = regexp.MustCompile(`\b\d+(?:\.\d+)?(?:ms|s|m|h|d)(?:\d+(?:ms|s|m|h))*\b|\b\d+ (?:times|seconds?|minutes?|hours?|are)\b|` +
	`\b\d+ of \d+\b`)

// same reports whether two answers say the same.
func (a *Answer) same(b *Answer) bool {
	still := func(text string) string { return passing.ReplaceAllString(text, "T") }
	if still(a.Summary) != still(b.Summary) || (a.Cause == nil) != (b.Cause == nil) {
		return false
	}
	return a.Cause == nil || a.Cause.Object == b.Cause.Object && a.Cause.Reason == b.Cause.Reason && a.Cause.Certain == b.Cause.Certain
}
