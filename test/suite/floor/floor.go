// Package floor says how few writes do a piece of work. The write budgets of the suite and the benchmark take their floors
// from here.
package floor

// Writes is the logical floor of a piece of work, the number of writes that no manager can do without: each pod created and
// deleted once, each ReplicaSet created once and scaled in the fewest steps that maxSurge and maxUnavailable allow, and one
// final status for each object that has one and whose status changes. What users write is not counted, nor are events and
// leases.
type Writes struct {
	Status int // of status alone
	Other  int
}

// Total is the number of all writes.
func (w Writes) Total() int { return w.Status + w.Other }

// CreateDeployments is for n new Deployments of so many replicas.
func CreateDeployments(n, replicas int) Writes {
	return Writes{Status: n * 2, Other: n * (1 + replicas)}
}

// ScaleDeployment is for one Deployment that gets more pods, or fewer.
func ScaleDeployment(pods int) Writes { return Writes{Status: 2, Other: 1 + pods} }

// UpdateDeployments is for n Deployments of so many replicas that get another template.
func UpdateDeployments(n, replicas, maxSurge, maxUnavailable int) Writes {
	return Writes{Status: n * 3, Other: n * (1 + rollingSteps(replicas, maxSurge, maxUnavailable) + 2*replicas)}
}

// DefaultRoom is the default strategy's room for a rolling update: a quarter of the replicas, rounded up for what is too
// many and down for what is missing.
func DefaultRoom(replicas int) (maxSurge, maxUnavailable int) {
	return (replicas + 3) / 4, replicas / 4
}

// rollingSteps is how often ReplicaSets must be scaled in a rolling update that does at once what can be done at once. To
// begin with, the new set is created as large as maxSurge allows, which is not counted as a step, and the old one shrinks by
// what may be missing. Then new and old take turns, each in as large a step as the limits allow, once all pods are as the
// step before wanted them. So 500 replicas of which 125 may be too many and 125 missing take five steps: 500->375, 125->250,
// 375->125, 250->500, 125->0.
func rollingSteps(replicas, maxSurge, maxUnavailable int) (steps int) {
	if maxSurge <= 0 && maxUnavailable <= 0 {
		return 0 // the API server doesn't accept it
	}
	from, to := replicas, min(replicas, maxSurge)
	for ready := 0; from > 0 || to < replicas; ready = to {
		if down := min(from, from+ready-(replicas-maxUnavailable)); down > 0 {
			from -= down
			steps++
		}
		if up := min(replicas-to, replicas+maxSurge-from-to); up > 0 {
			to += up
			steps++
		}
	}
	return steps
}
