package agreement

import "strings"

// row is a difference that docs/parity.md states, and by what the disagreements are known that follow from it. What
// is empty matches anything.
type row struct {
	id         string // a fact in the first column of a row of the page
	controller string
	verb       string
	kind       string
	rule       string
	field      string // how the path begins
}

// rows are in the order in which they are tried.
var rows = []row{
	{id: "DS-61", controller: "daemonset-controller", verb: "delete", kind: "Pod", rule: Otherwise,
		field: "metadata.name"},
	{id: "RCA-2", controller: "root-ca-certificate-publisher-controller", kind: "ConfigMap", rule: Otherwise,
		field: "metadata.annotations.kubernetes.io/description"},
	{id: "RC-123", controller: "resourceclaim-controller", verb: "create", kind: "ResourceClaim", rule: Otherwise,
		field: "metadata.name"},
	{id: "VAP-22", controller: "validatingadmissionpolicy-status-controller", verb: "change",
		field: "status.typeChecking"},
	{id: "PV-54", controller: "persistentvolume-binder-controller", verb: "change", kind: "PersistentVolume",
		field: "status.message"},
	{id: "CSR-48", controller: "certificatesigningrequest-cleaner-controller", verb: "delete", rule: NotDone},
}

// rowOf returns the row that explains a disagreement; empty if none does.
func rowOf(d Disagreement) string {
	for _, r := range rows {
		if r.controller == d.Controller && (r.verb == "" || r.verb == d.verb) && (r.kind == "" || r.kind == d.kind) &&
			(r.rule == "" || r.rule == d.Rule) && strings.HasPrefix(d.Field, r.field) {
			return r.id
		}
	}
	return ""
}
