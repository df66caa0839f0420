package validatingadmissionpolicystatus

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

type (
	policy = admissionv1.ValidatingAdmissionPolicy
	edit   = func(*policy)
)

// newPolicy is one that was not checked yet, "p" by name. It is about Deployments and says nothing.
func newPolicy(edits ...edit) *policy {
	p := &policy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-p", ResourceVersion: "3", Generation: 1}}
	p.Spec.MatchConstraints = &admissionv1.MatchResources{}
	about("apps/v1/deployments")(p)
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func named(name string) edit {
	return func(p *policy) { p.Name, p.UID = name, types.UID("uid-"+name) }
}

// about has a policy be about resources such as apps/v1/deployments, each in a rule of its own.
func about(resources ...string) edit {
	return func(p *policy) {
		p.Spec.MatchConstraints.ResourceRules = nil
		for _, resource := range resources {
			part := strings.Split(resource, "/")
			rules(admissionv1.Rule{APIGroups: part[:1], APIVersions: part[1:2], Resources: part[2:]})(p)
		}
	}
}

// rules adds rules to a policy.
func rules(all ...admissionv1.Rule) edit {
	return func(p *policy) {
		for _, rule := range all {
			p.Spec.MatchConstraints.ResourceRules = append(p.Spec.MatchConstraints.ResourceRules,
				admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{Rule: rule}})
		}
	}
}

func says(expressions ...string) edit {
	return func(p *policy) {
		for _, e := range expressions {
			p.Spec.Validations = append(p.Spec.Validations, admissionv1.Validation{Expression: e})
		}
	}
}

// explains has a policy say why it refuses something.
func explains(message string) edit {
	return func(p *policy) {
		p.Spec.Validations = append(p.Spec.Validations, admissionv1.Validation{Expression: "true", MessageExpression: message})
	}
}

func let(name, expression string) edit {
	return func(p *policy) {
		p.Spec.Variables = append(p.Spec.Variables, admissionv1.Variable{Name: name, Expression: expression})
	}
}

func params(apiVersion, kind string) edit {
	return func(p *policy) { p.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: apiVersion, Kind: kind} }
}

// wasChecked has these warnings.
func wasChecked(warnings ...admissionv1.ExpressionWarning) edit {
	return func(p *policy) {
		p.Status = admissionv1.ValidatingAdmissionPolicyStatus{ObservedGeneration: p.Generation,
			TypeChecking: &admissionv1.TypeChecking{ExpressionWarnings: warnings}}
	}
}

// hasChanged since it was checked.
func hasChanged(p *policy) { p.Generation++ }

// documents are those of a server: their paths, and what they say in the words of OpenAPI.
var documents = map[string]string{
	"api/v1": `{"paths": {
			"/api/v1/configmaps": {"get": {"x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "ConfigMap"}}},
			"/api/v1/pods": {"get": {"x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "Pod"}}}},
		"components": {"schemas": {
			"core.ConfigMap": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "ConfigMap"}],
				"properties": {"metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}], "default": {}},
					"data": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
					"binaryData": {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}}}},
			"core.Pod": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
				"properties": {"metadata": {"$ref": "#/components/schemas/Meta"}, "spec": {"type": "object", "properties": {
					"namespace": {"type": "string"}, "nodeName": {"type": "string"}, "priority": {"type": "integer", "format": "int32"}}}}},
			"Meta": ` + meta + `}}}`,
	"apis/apps/v1": `{"paths": {
			"/apis/apps/v1/deployments": {"get": {"x-kubernetes-group-version-kind": {"group": "apps", "version": "v1", "kind": "Deployment"}}},
			"/apis/apps/v1/controllerrevisions": {"post": {"x-kubernetes-group-version-kind":
				{"group": "apps", "version": "v1", "kind": "ControllerRevision"}}},
			"/apis/apps/v1/namespaces/{namespace}/reviews": {"post": {"x-kubernetes-group-version-kind":
				{"group": "apps", "version": "v1", "kind": "Review"}}}},
		"components": {"schemas": {
			"apps.Deployment": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Deployment"}],
				"properties": {"metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}], "default": {}},
					"spec": {"allOf": [{"$ref": "#/components/schemas/apps.Spec"}], "default": {}}}},
			"apps.Spec": {"type": "object", "required": ["replicas"], "properties": {
				"replicas": {"type": "integer", "format": "int32"}, "paused": {"type": "boolean"}, "weight": {"type": "number"},
				"surge": {"$ref": "#/components/schemas/IntOrString"},
				"timeout": {"type": "string", "format": "duration"},
				"containers": {"type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/apps.Container"}], "default": {}}}}},
			"apps.Container": {"type": "object", "properties": {"name": {"type": "string"},
				"limits": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Quantity"}},
				"more": {"$ref": "#/components/schemas/apps.Container"}}},
			"apps.ControllerRevision": {"type": "object", "properties": {"data": {"$ref": "#/components/schemas/Raw"}},
				"x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "ControllerRevision"}]},
			"apps.Review": {"type": "object", "properties": {"spec": {"type": "string"}},
				"x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Review"}]},
			"apps.Unused": {"type": "object", "properties": {"of": {"$ref": "#/components/schemas/apps.Deployment"}}},
			"IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
			"Quantity": {"description": "a number with a unit", "oneOf": [{"type": "string"}, {"type": "number"}]},
			"Raw": {"type": "object"}, "Meta": ` + meta + `}}}`,
	"apis/example.com/v1": widgetsWith(`"size": {"type": "integer"}, "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		"template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
		"free": {"type": "object", "additionalProperties": true}, "none": {"type": "object"}, "odd": {"x-kubernetes-int-or-string": true},
		"bare": {"type": "array"}, "self-made": {"type": "string"}`),
}

const meta = `{"type": "object", "properties": {"name": {"type": "string"}, "labels": {"type": "object", "additionalProperties": {"type": "string"}},
	"creationTimestamp": {"type": "string", "format": "date-time"}}}`

// widgetsWith is the document of a custom resource with these fields.
func widgetsWith(properties string) string {
	return fmt.Sprintf(`{"paths": {"/apis/example.com/v1/namespaces/{namespace}/widgets":
			{"parameters": [{"name": "namespace"}], "get": {"x-kubernetes-group-version-kind":
				{"group": "example.com", "version": "v1", "kind": "Widget"}}}},
		"components": {"schemas": {"com.example.v1.Widget": {"type": "object", "properties": {%s},
			"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}]}}}}`, properties)
}

// publish has a server serve documents.
func publish(s *clienttest.Server, documents map[string]string) {
	paths := map[string]any{}
	for path, document := range documents {
		paths[path] = map[string]string{"serverRelativeURL": fmt.Sprintf("/openapi/v3/%s?hash=%X", path, len(document))}
		s.ServeRaw("/openapi/v3/"+path, []byte(document))
	}
	index, err := json.Marshal(map[string]any{"paths": paths})
	if err != nil {
		panic(err)
	}
	s.ServeRaw("/openapi/v3", index)
}

// newCaches returns caches with these policies.
func newCaches(t interface{ Fatal(...any) }, all ...*policy) *caches {
	policies, err := informers.IndexedObjects(informers.NewFactory(fake.NewClientset(), 0), "custom groups", customGroups)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if err := policies.Informer().GetIndexer().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	return &caches{policies: policies, published: newTerm()}
}

// look returns what is observed of a policy, where a server publishes the documents.
func look(t interface{ Fatal(...any) }, p *policy) snapshot {
	s := clienttest.NewServer()
	publish(s, documents)
	o, err := newCaches(t, p).observe(context.Background(), request{Key: plan.KeyOf(p), Reader: s})
	if err != nil {
		t.Fatal(err)
	}
	return o.Snapshot
}

// kinds returns the kinds of types.
func kinds(all []objectType) (found []string) {
	for _, t := range all {
		found = append(found, t.Kind.String())
	}
	return found
}

func kind(group, version, name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: name}
}

// warningsOf returns what the compiler says of a policy: the fields and the first lines.
func warningsOf(t *testing.T, p *policy) (all []string) {
	t.Helper()
	d, _ := planCheck(metav1.Now().Time, look(t, p))
	for _, w := range d.Warnings {
		first, _, _ := strings.Cut(w.Warning, "\n")
		all = append(all, w.FieldRef+": "+first)
	}
	return all
}
