package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// whyTool is what assistants read of the tool.
const whyTool = "Says why a Kubernetes object is not as it was asked to be, which other object is the cause, " +
	"and what ends the wait. It follows fixed rules and changes nothing. A cause that is not certain was inferred."

// whyArguments are what an assistant asks with. The tags say how.
type whyArguments struct {
	Object    string `json:"object,omitempty" jsonschema:"KIND/NAME, as deployment/web; empty: all in the namespace"`
	Namespace string `json:"namespace,omitempty" jsonschema:"of the object; empty: that of the kubeconfig"`
	Deleting  bool   `json:"deleting,omitempty" jsonschema:"say what is or will be deleted instead"`
}

// serve answers the questions of an assistant by the Model Context Protocol, until the input or ctx ends.
func (a *whyAsker) serve(ctx context.Context, over mcp.Transport) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "controller-manager-why",
		Version: kubernetesVersion().GitVersion}, nil)
	tool := &mcp.Tool{Name: "why", Description: whyTool, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}
	mcp.AddTool(server, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in whyArguments,
	) (*mcp.CallToolResult, any, error) {
		answer, err := a.answer(ctx, in)
		if err != nil {
			return nil, nil, err // which the assistant gets to read
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return nil, nil, fmt.Errorf("encode the answer: %w", err)
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil, nil
	})
	err := server.Run(ctx, over)
	if ctx.Err() != nil {
		return nil // a signal to end is not a failure
	}
	return err
}

// answer answers one question of an assistant.
func (a *whyAsker) answer(ctx context.Context, in whyArguments) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	switch {
	case in.Deleting && in.Object != "":
		return nil, errors.New("deleting is about all objects: name none")
	case in.Deleting:
		return a.deletions(ctx, in.Namespace)
	case in.Object == "":
		return a.overview(ctx, cmp.Or(in.Namespace, a.namespace))
	}
	resource, name, err := parseObject([]string{in.Object})
	if err != nil {
		return nil, err
	}
	answer, err := a.about(ctx, resource, plan.Key{Namespace: cmp.Or(in.Namespace, a.namespace), Name: name})
	return a.decided(ctx, answer), err
}
