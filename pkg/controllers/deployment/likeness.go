package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// likeness tells which ReplicaSets have the template of a Deployment, and how one with it would be called. To compare and
// to hash templates is most of what a look at a Deployment costs, and while pods come and go they stay what they are. The
// zero likeness compares anew each time.
type likeness struct {
	Alike      map[types.UID]likeTemplate
	Name, Hash string

	// What it was found for.
	UID        types.UID
	Generation int64 // changes with every template
	Collisions int32
}

type likeTemplate struct {
	Generation int64 // of the ReplicaSet
	Same       bool
}

// renewed compares what has changed since l was found.
func (l likeness) renewed(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) likeness {
	now := likeness{UID: d.UID, Generation: d.Generation, Collisions: collisionsOf(d), Alike: make(map[types.UID]likeTemplate, len(sets))}
	now.Name, now.Hash = l.newName(d)
	if l.UID != d.UID || l.Generation != d.Generation {
		l.Alike = nil
	}
	for _, rs := range sets {
		now.Alike[rs.UID] = likeTemplate{rs.Generation, l.same(rs, &d.Spec.Template)}
	}
	return now
}

// same reports whether the ReplicaSet has the template, which is that of the Deployment.
func (l likeness) same(rs *appsv1.ReplicaSet, template *corev1.PodTemplateSpec) bool {
	if known, ok := l.Alike[rs.UID]; ok && known.Generation == rs.Generation {
		return known.Same
	}
	return sameTemplate(&rs.Spec.Template, template)
}

// newName is the name and hash of a ReplicaSet for the Deployment's present template.
func (l likeness) newName(d *appsv1.Deployment) (name, hash string) {
	if l.Name != "" && l.UID == d.UID && l.Generation == d.Generation && l.Collisions == collisionsOf(d) {
		return l.Name, l.Hash
	}
	return newName(d)
}

func collisionsOf(d *appsv1.Deployment) int32 {
	if d.Status.CollisionCount == nil {
		return -1
	}
	return *d.Status.CollisionCount
}
