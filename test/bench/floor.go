package main

// The logical floor of a piece of work is the number of writes that no manager can do without: each pod created and
// deleted once, each ReplicaSet created once and scaled in the fewest steps that maxSurge and maxUnavailable allow, and one
// final status for each object that has one and whose status changes. What users write is not counted, nor are events and
// leases.

type floor struct {
	status int // of status alone
	other  int
}

func (f floor) total() int { return f.status + f.other }

// floorCreate is for n new Deployments of so many replicas.
func floorCreate(n, replicas int) floor {
	return floor{status: n * 2, other: n * (1 + replicas)}
}

// floorScale is for one Deployment that gets more pods, or fewer.
func floorScale(pods int) floor { return floor{status: 2, other: 1 + pods} }

// floorUpdate is for n Deployments of so many replicas that get another template.
func floorUpdate(n, replicas, maxSurge, maxUnavailable int) floor {
	return floor{status: n * 3, other: n * (1 + rollingSteps(replicas, maxSurge, maxUnavailable) + 2*replicas)}
}

// defaultRoom is the default strategy's room for a rolling update: a quarter of the replicas, rounded up for what is too
// many and down for what is missing.
func defaultRoom(replicas int) (maxSurge, maxUnavailable int) {
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
