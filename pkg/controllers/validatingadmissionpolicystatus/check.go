package validatingadmissionpolicystatus

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// check compiles the expressions of a policy for each type that it is about, and returns what the compiler says, by
// expression (VAP-3, VAP-6). It also names the types for which nothing can be compiled, and says why.
func check(p *admissionv1.ValidatingAdmissionPolicy, types []objectType, params *objectType) (
	warnings []admissionv1.ExpressionWarning, unusable []string,
) {
	expressions := expressionsOf(p)
	said := sayings{left: longestTexts, of: map[int][]string{}}
	var declared *apiservercel.DeclType
	if params != nil {
		declared = params.declaration()
	}
	for _, t := range types {
		c, err := newCompiler(t.declaration(), p.Spec.ParamKind != nil, declared)
		if err != nil {
			unusable = append(unusable, fmt.Sprintf("%s: %s", t.Kind, err))
			continue
		}
		for _, v := range p.Spec.Variables {
			c.composed.CompileAndStoreVariable(variable(v), plugincel.OptionalVariableDeclarations{},
				environment.StoredExpressions)
		}
		for i, e := range expressions {
			if issues := c.compile(e.text).Error; issues != nil {
				said.add(i, t.Kind.String(), issues.Detail)
			}
		}
	}
	for i, e := range expressions {
		if texts := said.of[i]; len(texts) > 0 && len(warnings) < mostWarnings {
			warnings = append(warnings,
				admissionv1.ExpressionWarning{FieldRef: e.path.String(), Warning: strings.Join(texts, "\n")})
		}
	}
	return warnings, unusable
}

// expression is one that is checked.
type expression struct {
	path *field.Path
	text string
}

// expressionsOf returns the expressions of a policy that are checked, in order.
func expressionsOf(p *admissionv1.ValidatingAdmissionPolicy) (all []expression) {
	for i, v := range p.Spec.Validations {
		path := field.NewPath("spec", "validations").Index(i)
		all = append(all, expression{path.Child("expression"), v.Expression})
		if v.MessageExpression != "" {
			all = append(all, expression{path.Child("messageExpression"), v.MessageExpression})
		}
	}
	return all
}

// variable is one of a policy, as the compiler takes it.
type variable admissionv1.Variable

func (v variable) GetName() string          { return v.Name }
func (v variable) GetExpression() string    { return v.Expression }
func (v variable) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType} }

// compiler compiles expressions for objects of one type.
type compiler struct{ composed *plugincel.CompositedCompiler }

// newCompiler returns a compiler with all that expressions of policies may name (VAP-5). Parameters of which the type
// is nil are dynamic.
func newCompiler(object *apiservercel.DeclType, hasParams bool, params *apiservercel.DeclType) (*compiler, error) {
	request, namespace := plugincel.BuildRequestType(), plugincel.BuildNamespaceType()
	options := environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable(plugincel.ObjectVarName, object.CelType()),
			cel.Variable(plugincel.OldObjectVarName, object.CelType()),
			cel.Variable(plugincel.RequestVarName, request.CelType()),
			cel.Variable(plugincel.NamespaceVarName, namespace.CelType()),
			cel.Variable(plugincel.AuthorizerVarName, library.AuthorizerType),
			cel.Variable(plugincel.RequestResourceAuthorizerVarName, library.ResourceCheckType),
		},
		DeclTypes: []*apiservercel.DeclType{object, request, namespace},
	}
	if params == nil {
		params = apiservercel.DynType
	} else {
		options.DeclTypes = append(options.DeclTypes, params)
	}
	if hasParams {
		options.EnvOptions = append(options.EnvOptions, cel.Variable(plugincel.ParamsVarName, params.CelType()))
	}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	environments, err := base.Extend(options)
	if err != nil {
		return nil, err
	}
	composed, err := plugincel.NewCompositedCompilerForTypeChecking(environments)
	if err != nil {
		return nil, err
	}
	c := &compiler{composed}
	composed.Compiler = c
	return c, nil
}

// CompileCELExpression implements plugincel.Compiler. It looks for the type of an expression only.
func (c *compiler) CompileCELExpression(e plugincel.ExpressionAccessor, _ plugincel.OptionalVariableDeclarations,
	_ environment.Type) plugincel.CompilationResult {
	result := c.compile(e.GetExpression())
	if result.OutputType != nil {
		result.OutputType = simple(result.OutputType)
	}
	return result
}

func (c *compiler) compile(text string) plugincel.CompilationResult {
	env, err := c.composed.Env(environment.StoredExpressions)
	if err != nil {
		return failed(apiservercel.ErrorTypeInternal, err.Error())
	}
	ast, issues := env.Compile(text)
	if issues != nil {
		return failed(apiservercel.ErrorTypeInvalid, issues.String())
	}
	return plugincel.CompilationResult{OutputType: ast.OutputType()}
}

func failed(as apiservercel.ErrorType, why string) plugincel.CompilationResult {
	return plugincel.CompilationResult{Error: &apiservercel.Error{Type: as, Detail: why}}
}
