// Package validatingadmissionpolicystatus is the validatingadmissionpolicy-status-controller: it checks the expressions
// of ValidatingAdmissionPolicies against the types of the resources that they are about, and writes into the status
// what cannot be right.
//
// A program passes what validatingadmissionpolicystatus.New(validatingadmissionpolicystatus.Options{}) returns to
// manager.New. For users, docs/validatingadmissionpolicystatus.md says what the controller does.
//
// A key is a ValidatingAdmissionPolicy. Observe reads from the OpenAPI documents of the API server which fields the
// objects have that the policy is about. They are part of the snapshot. Plan compiles each expression for each type,
// which is pure, and what the compiler says is the decision. Report writes it into the status. The term keeps what was
// read of the documents for a minute, as tools change many policies at once. It also knows of which groups a
// CustomResourceDefinition has changed a moment ago: their policies are checked again.
package validatingadmissionpolicystatus
