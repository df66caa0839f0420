package simulation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// maker makes up actions. What depends on a server, such as uids, is filled in when the action is done.
type maker struct{ *rand.Rand }

func randomAction(random *rand.Rand, step int) action {
	g := maker{random}
	a := action{resource: compared[g.IntN(len(compared))], name: choose(g, "a", "b", "c")}
	switch n := g.IntN(20); {
	case n < 6 || step < 4:
		g.create(&a)
	case n < 9:
		g.update(&a)
	case n < 14:
		g.patch(&a)
	case n < 17:
		g.delete(&a)
	case n < 19:
		a.verb = "get"
	default:
		a.verb, a.name = "list", choose(g, "", "app=a", "app in (a,b)", "!app")
	}
	return a
}

func choose[T any](g maker, choices ...T) T { return choices[g.IntN(len(choices))] }

// example is a valid object of a resource, decorated at random.
func (g maker) example(resource, name string) object {
	meta := object{"name": name, "labels": object{"app": choose(g, "a", "b")}}
	template := object{
		"metadata": object{"labels": object{"app": name}},
		"spec":     object{"containers": []any{g.container()}},
	}
	switch resource {
	case "pods":
		spec := template["spec"].(object)
		spec["schedulerName"] = "nobody"
		if g.IntN(2) == 0 {
			spec["nodeName"] = "nowhere"
		}
		if g.IntN(4) == 0 {
			spec["terminationGracePeriodSeconds"] = choose(g, 0, 60)
		}
		return object{"metadata": meta, "spec": spec}
	case "replicasets", "deployments":
		spec := object{"selector": object{"matchLabels": object{"app": name}}, "template": template}
		if g.IntN(2) == 0 {
			spec["replicas"] = choose(g, 0, 3, -1)
		}
		if resource == "deployments" && g.IntN(3) == 0 {
			spec["strategy"] = choose(g, object{"type": "Recreate"}, object{"rollingUpdate": object{"maxSurge": 0}},
				object{"rollingUpdate": object{"maxSurge": 0, "maxUnavailable": "0%"}})
		}
		return object{"metadata": meta, "spec": spec, "status": object{"replicas": 7}}
	case "services":
		spec := object{"ports": []any{object{"port": 80}}, "selector": object{"app": name}}
		if g.IntN(4) == 0 {
			spec["clusterIP"] = "None"
		}
		return object{"metadata": meta, "spec": spec}
	case "endpoints":
		addresses := []any{object{"ip": "10.9.0.2"}, object{"ip": "10.9.0.1"}}
		return object{"metadata": meta, "subsets": []any{object{"addresses": addresses, "ports": []any{object{"name": "p", "port": 80}}}}}
	}
	return object{"metadata": meta, "spec": object{"holderIdentity": choose(g, "x", "y"), "leaseDurationSeconds": 15}}
}

// valid is an example that is accepted.
func (g maker) valid(resource, name string) object {
	o := g.example(resource, name)
	if spec, ok := o["spec"].(object); ok && (resource == "replicasets" || resource == "deployments") {
		delete(spec, "replicas")
		delete(spec, "strategy")
	}
	return o
}

func (g maker) container() object {
	c := object{"name": "main", "image": choose(g, "a:1", "a", "a:latest")}
	if g.IntN(3) == 0 {
		c["ports"] = []any{object{"containerPort": 80}}
	}
	return c
}

func (g maker) create(a *action) {
	a.verb = "create"
	o := g.example(a.resource, a.name)
	meta := o["metadata"].(object)
	var owner string
	switch g.IntN(14) {
	case 0:
		meta["generateName"], a.remark = a.name+"-", "with a generated name"
		delete(meta, "name")
	case 1:
		meta["name"], a.remark = "Not_A_Name", "with a bad name"
	case 2:
		meta["resourceVersion"], a.remark = "5", "with a version"
	case 3:
		meta["finalizers"], a.remark = []any{"example.com/hold"}, "with a finalizer"
	case 4:
		owner, a.remark = choose(g, "a", "b"), "with an owner"
	case 5:
		meta["uid"], meta["generation"], a.remark = "own", 9, "with uid and generation"
	case 6:
		if spec, ok := o["spec"].(object); ok && spec["template"] != nil {
			spec["template"].(object)["metadata"], a.remark = object{"labels": object{"app": "other"}}, "with labels beside the selector"
		}
	case 7:
		if spec, ok := o["spec"].(object); ok && spec["template"] != nil {
			a.remark = "without selector"
			delete(spec, "selector")
		}
	case 8:
		meta["labels"], a.remark = object{"app": "-bad-"}, "with a bad label"
	}
	a.body = func(s *side, _ object) any {
		filled := clone(o)
		if owner != "" {
			filled["metadata"].(object)["ownerReferences"] = []any{s.reference(owner, true)}
		}
		return filled
	}
}

// reference is an owner reference to a ReplicaSet, which may not exist.
func (s *side) reference(name string, controller bool) object {
	uid := "none-" + name
	if versions := s.objects["replicasets/"+name]; len(versions) > 0 {
		uid = versions[0]["metadata"].(object)["uid"].(string)
	}
	return object{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": controller,
		"blockOwnerDeletion": controller}
}

func clone(o object) object {
	text, _ := json.Marshal(o)
	var copied object
	_ = json.Unmarshal(text, &copied)
	return copied
}

func hasStatus(resource string) bool {
	return resource == "pods" || resource == "replicasets" || resource == "deployments"
}

// update replaces the object by an edited one, the latest or an earlier one.
func (g maker) update(a *action) {
	a.verb = "update"
	if hasStatus(a.resource) && g.IntN(3) == 0 {
		a.sub = "status"
	}
	edit, stale := g.edit(a), g.IntN(4) == 0
	version, uid := choose(g, "", "keep", "keep"), choose(g, "", "keep", "keep", "keep", "wrong")
	a.remark += fmt.Sprintf(", stale %v, version %q, uid %q", stale, version, uid)
	fallback := g.example(a.resource, a.name)
	a.body = func(s *side, current object) any {
		if current == nil {
			return fallback
		}
		if versions := s.objects[a.resource+"/"+a.name]; stale && len(versions) > 1 {
			current = versions[len(versions)-2]
		}
		o := clone(current)
		meta := o["metadata"].(object)
		delete(meta, "managedFields")
		if version == "" {
			delete(meta, "resourceVersion")
		}
		switch uid {
		case "":
			delete(meta, "uid")
		case "wrong":
			meta["uid"] = "11111111-1111-4111-8111-111111111111"
		}
		edit(s, o)
		return o
	}
}

// edit returns a change.
func (g maker) edit(a *action) func(*side, object) {
	label, count := choose(g, "a", "b", "c"), g.IntN(4)
	set := func(part, field string, value any) func(*side, object) {
		a.remark = part + "." + field
		return func(_ *side, o object) {
			inner, ok := o[part].(object)
			if !ok {
				inner = object{}
				o[part] = inner
			}
			inner[field] = value
		}
	}
	switch g.IntN(11) {
	case 0:
		a.remark = "nothing"
		return func(*side, object) {}
	case 1:
		return set("metadata", "labels", object{"app": label})
	case 2:
		return set("metadata", "annotations", object{"note": label})
	case 3:
		return set("metadata", "finalizers", []any{})
	case 4:
		return set("metadata", "generation", 99)
	case 5:
		a.remark = "owner"
		return func(s *side, o object) {
			o["metadata"].(object)["ownerReferences"] = []any{s.reference("a", count != 0), s.reference("b", count == 0)}
		}
	case 6, 7:
		switch a.resource {
		case "replicasets", "deployments":
			if g.IntN(4) == 0 {
				return set("spec", "selector", object{"matchLabels": object{"app": label}})
			}
			return set("spec", "replicas", count)
		case "leases":
			return set("spec", "holderIdentity", label)
		case "services":
			return set("spec", "selector", object{"app": label})
		}
	case 8, 9:
		switch a.resource {
		case "replicasets", "deployments":
			return set("status", choose(g, "replicas", "readyReplicas", "observedGeneration"), count)
		case "pods":
			return set("status", "phase", choose(g, "Running", "Failed"))
		}
	}
	return set("metadata", "labels", object{"app": label, "more": "x"})
}

func (g maker) patch(a *action) {
	a.verb, a.contentType = "patch",
		choose(g, "application/strategic-merge-patch+json", "application/strategic-merge-patch+json", "application/merge-patch+json")
	if hasStatus(a.resource) && g.IntN(3) == 0 {
		a.sub = "status"
	}
	strategic := strings.Contains(a.contentType, "strategic")
	uid, version, what := choose(g, "", "", "right", "wrong"), choose(g, "", "", "", "right", "wrong"), g.IntN(7)
	label, owner, controller := choose(g, "a", "b"), choose(g, "a", "b"), g.IntN(2) == 0
	a.remark = fmt.Sprintf("%s, uid %q, version %q, change %d %s %s %v", a.contentType, uid, version, what, label, owner, controller)
	a.body = func(s *side, current object) any {
		meta := object{}
		patch := object{"metadata": meta}
		if current != nil {
			of := current["metadata"].(object)
			setRightOrWrong(meta, "uid", uid, of, "11111111-1111-4111-8111-111111111111")
			setRightOrWrong(meta, "resourceVersion", version, of, "3")
		}
		switch what {
		case 1:
			meta["labels"] = object{"app": label}
		case 2:
			meta["labels"] = object{"app": nil}
		case 3:
			meta["ownerReferences"] = []any{s.reference(owner, controller)}
		case 4:
			if strategic {
				meta["ownerReferences"] = []any{object{"$patch": "delete", "uid": s.reference(owner, true)["uid"]}}
			}
		case 5:
			meta["finalizers"] = nil
		case 6:
			if a.resource == "pods" {
				patch["status"] = object{"phase": "Failed",
					"conditions": []any{object{"type": "DisruptionTarget", "status": "True", "reason": "R"}}}
			} else if a.resource == "replicasets" || a.resource == "deployments" {
				patch["spec"], patch["status"] = object{"replicas": 2}, object{"replicas": 2}
			}
		}
		return patch
	}
}

func setRightOrWrong(meta object, field, which string, of object, wrong string) {
	switch which {
	case "right":
		meta[field] = of[field]
	case "wrong":
		meta[field] = wrong
	}
}

func (g maker) delete(a *action) {
	a.verb = "delete"
	uid, version := choose(g, "", "", "right", "wrong"), choose(g, "", "", "", "right", "wrong")
	grace, policy := choose[any](g, nil, nil, 0, 5), choose[any](g, nil, nil, "Background", "Foreground", "Orphan")
	a.remark = fmt.Sprintf("uid %q, version %q, grace %v, policy %v", uid, version, grace, policy)
	a.body = func(_ *side, current object) any {
		options := object{"kind": "DeleteOptions", "apiVersion": "v1"}
		preconditions := object{}
		if current != nil {
			of := current["metadata"].(object)
			setRightOrWrong(preconditions, "uid", uid, of, "11111111-1111-4111-8111-111111111111")
			setRightOrWrong(preconditions, "resourceVersion", version, of, "3")
		}
		if len(preconditions) > 0 {
			options["preconditions"] = preconditions
		}
		if grace != nil {
			options["gracePeriodSeconds"] = grace
		}
		if policy != nil {
			options["propagationPolicy"] = policy
		}
		return options
	}
}
