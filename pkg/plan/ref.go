package plan

import "k8s.io/apimachinery/pkg/runtime/schema"

// Ref names what a plan asks to have read live, see [Plan.Proof]: one object, or all of a kind.
type Ref struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
	All             bool   // all objects of the kind, in the namespace if there is one; there is no name then
	Fields          string // with All, a field selector: only those
	Metadata        bool   // metadata is enough
	Resource        string // of the kind, where several resources have it; empty for the one that discovery names
	// Shared: a read will do that began up to a second ago, for whichever key of the controller. It is for what is read
	// for many keys at once, such as the node of many pods. Without it, the read begins after the plan has asked, so it
	// shows all that the caches have shown.
	Shared bool
}

// String returns the reference as people read it, such as "Pod shop/web" or "Pods in shop with spec.nodeName!=".
func (r Ref) String() string {
	text := r.Kind.Kind
	switch {
	case r.All && r.Namespace == "":
		text = "all " + text + "s"
	case r.All:
		text += "s in " + r.Namespace
	case r.Namespace == "":
		text += " " + r.Name
	default:
		text += " " + r.Namespace + "/" + r.Name
	}
	if r.Fields != "" {
		text += " with " + r.Fields
	}
	return text
}
