package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// templateMatches reports which ReplicaSets have the template of a Deployment, and how one with it would be called. To
// compare and to hash templates is most of what a reconcile of a Deployment costs, and while pods come and go they stay
// what they are. The zero templateMatches compares anew each time.
type templateMatches struct {
	// Known is by the uid of the ReplicaSet.
	Known map[types.UID]templateMatch
	// Name and Hash are those of a ReplicaSet for the present template.
	Name, Hash string

	// What it was computed for.
	UID        types.UID
	Generation int64 // changes with every template
	Collisions int32
}

// templateMatch is the result of one comparison.
type templateMatch struct {
	Generation int64 // of the ReplicaSet
	Matches    bool
}

// renewed compares what has changed since m was computed.
func (m templateMatches) renewed(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) templateMatches {
	now := templateMatches{UID: d.UID, Generation: d.Generation, Collisions: collisionsOf(d),
		Known: make(map[types.UID]templateMatch, len(sets))}
	now.Name, now.Hash = m.newName(d)
	if m.UID != d.UID || m.Generation != d.Generation {
		m.Known = nil
	}
	for _, rs := range sets {
		now.Known[rs.UID] = templateMatch{rs.Generation, m.matches(rs, &d.Spec.Template)}
	}
	return now
}

// matches reports whether the ReplicaSet has the template, which is that of the Deployment.
func (m templateMatches) matches(rs *appsv1.ReplicaSet, template *corev1.PodTemplateSpec) bool {
	if known, ok := m.Known[rs.UID]; ok && known.Generation == rs.Generation {
		return known.Matches
	}
	return sameTemplate(&rs.Spec.Template, template)
}

// newName is the name and hash of a ReplicaSet for the Deployment's present template.
func (m templateMatches) newName(d *appsv1.Deployment) (name, hash string) {
	if m.Name != "" && m.UID == d.UID && m.Generation == d.Generation && m.Collisions == collisionsOf(d) {
		return m.Name, m.Hash
	}
	return newName(d)
}

// collisionsOf returns the count of collisions in the status; -1 for none, which is another name than that of
// zero.
func collisionsOf(d *appsv1.Deployment) int32 {
	if d.Status.CollisionCount == nil {
		return -1
	}
	return *d.Status.CollisionCount
}
