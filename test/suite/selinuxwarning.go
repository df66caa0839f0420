package suite

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// staleFor is for how long a manager may not have seen what has become of a pod.
const staleFor = 2 * time.Minute

func selinuxWarningEntry() Entry {
	return Entry{
		Controller: "selinux-warning-controller",
		Operations: map[string]Operation{
			// NAME on=a level=s0: a pod that nobody schedules, with a volume of that name, and a label if level is said; own= is that of
			// its container; recursive=true; do=delete, end
			"sharing": sharingPod,
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			for i := range 2 + g.IntN(2) {
				pod, more := fmt.Sprintf("%s-%d", app, i), ""
				if level := workload.Pick(g, "", "s0", "s0", "s1"); level != "" {
					more += " level=" + level
				}
				if g.IntN(4) == 0 {
					more += " own=s1"
				}
				if g.IntN(4) == 0 {
					more += " recursive=true"
				}
				begin := at + g.Early()
				if i > 0 && g.IntN(3) == 0 {
					begin = soon + staleFor + time.Minute // long after the first one
				}
				g.Add(begin, "sharing %s on=%s%s", pod, workload.Pick(g, "a", "a", "b"), more)
				if g.IntN(3) == 0 {
					g.Add(soon+g.Early(), "sharing %s do=%s", pod, workload.Pick(g, "delete", "end"))
				}
			}
		}}},
		Settled: conflictsSettled,
		Scenarios: []Scenario{{Name: "pods that cannot share a volume come, and one ends", Play: func(u *User) {
			u.Create(newSharingPod(u, "one", "a", "s0", "", false))
			u.Create(newSharingPod(u, "two", "a", "s1", "", false))
			for _, pod := range []string{"one", "two"} {
				u.Wait(pod+" is told", Patience, func() error {
					found, err := list[*corev1.Event](u)
					if err == nil {
						err = unless(toldTo(found, pod) > 0, "there is no event")
					}
					return err
				})
			}
			u.Try("a pod ends", func() error { return endPod(u, "one") })
		}}},
		Malformed: map[string]string{
			"pods/odd-labels": `{"apiVersion":"v1","kind":"Pod","metadata":${META},"spec":{"schedulerName":"nobody","securityContext":{
				"seLinuxOptions":{"level":":::::"},"seLinuxChangePolicy":"/"},"volumes":[{"name":"","fc":{}},{"name":"","fc":{"targetWWNs":["",":"],"lun":-1}},
				{"name":"x","awsElasticBlockStore":{"volumeID":"^"}},{"name":"y","iscsi":{"targetPortal":"","iqn":"","lun":0}}],
				"containers":[{"name":"","volumeMounts":[{"name":"x"},{"name":""},{"name":"none"}],"securityContext":{"seLinuxOptions":{}}}],
				"ephemeralContainers":[{"name":"","volumeMounts":[{"name":"x"}],"securityContext":{"seLinuxOptions":{"user":"::"}}}]}}`,
		},
		Mutants: selinuxMutants,
		Budgets: []Budget{{
			Name: "20 pods that cannot share a volume", // nothing but events, which are not counted
			Do: func(u *User) {
				u.Each(20, func(i int) error {
					return create(u, newSharingPod(u, fmt.Sprint("pod-", i), "a", fmt.Sprint("s", i), "", false))
				})
			},
			Floor: floor.Writes{},
		}},
	}
}

// newSharingPod is a pod that nobody schedules, and that mounts a volume which others of the namespace may have, too.
func newSharingPod(u *User, name, volume, level, own string, recursive bool) *corev1.Pod {
	p := newPod(name, name, "web:1")
	p.Spec.SchedulerName = "nobody"
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{FC: &corev1.FCVolumeSource{WWIDs: []string{u.Namespace + "-" + volume}}}}}
	c := &p.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	p.Spec.SecurityContext = &corev1.PodSecurityContext{}
	if level != "" {
		p.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: level}
	}
	if own != "" {
		c.SecurityContext = &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: own}}
	}
	if recursive {
		policy := corev1.SELinuxChangePolicyRecursive
		p.Spec.SecurityContext.SELinuxChangePolicy = &policy
	}
	return p
}

func sharingPod(u *User, l script.Line) error {
	name := l.Arg(0)
	switch do, _ := l.Get("do"); do {
	case "delete":
		return remove[*corev1.Pod](u, name)
	case "end":
		return endPod(u, name)
	}
	volume, _ := l.Get("on")
	level, _ := l.Get("level")
	own, _ := l.Get("own")
	return create(u, newSharingPod(u, name, volume, level, own, says(l, "recursive")))
}

// endPod has a pod end well.
func endPod(u *User, name string) error {
	return edit(u, name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, "status")
}

// labelPolicy returns the label of a pod of [newSharingPod] and how it gets on the volume (ST-61, ST-62).
func labelPolicy(p *corev1.Pod) (label, policy string) {
	options := p.Spec.SecurityContext.SELinuxOptions
	if own := p.Spec.Containers[0].SecurityContext; own != nil {
		options = own.SELinuxOptions
	}
	if options == nil {
		return "", string(corev1.SELinuxChangePolicyRecursive)
	}
	policy = string(corev1.SELinuxChangePolicyMountOption)
	if asked := p.Spec.SecurityContext.SELinuxChangePolicy; asked != nil {
		policy = string(*asked)
	}
	return ":::" + options.Level, policy
}

// shares reports whether a pod is one of [newSharingPod].
func shares(p *corev1.Pod) bool {
	return len(p.Spec.Volumes) == 1 && p.Spec.Volumes[0].FC != nil && p.Spec.SecurityContext != nil
}

// conflictsWith returns what a pod is to be told because of another one.
func conflictsWith(p, other *corev1.Pod) (messages []string) {
	if p.UID == other.UID || p.Namespace != other.Namespace || p.Spec.Volumes[0].FC.WWIDs[0] != other.Spec.Volumes[0].FC.WWIDs[0] {
		return nil
	}
	label, policy := labelPolicy(p)
	otherLabel, otherPolicy := labelPolicy(other)
	for property, values := range map[string][2]string{
		"SELinuxLabel": {label, otherLabel}, "SELinuxChangePolicy": {policy, otherPolicy},
	} {
		if values[0] != values[1] { // ST-63: of labels there are only levels
			messages = append(messages, fmt.Sprintf("%s %q conflicts with pod %s that uses the same volume as this pod with %[1]s %[4]q",
				property, values[0], other.Name, values[1]))
		}
	}
	return messages
}

// toldTo returns how many events about conflicts are about a pod.
func toldTo(all []*corev1.Event, pod string) (n int) {
	for _, e := range all {
		if e.InvolvedObject.Name == pod && strings.HasPrefix(e.Reason, "SELinux") {
			n++
		}
	}
	return n
}

// conflictsSettled says which pods were not told of a conflict that lasts, and which were told of one that there was not.
func conflictsSettled(s *View) (wrong []string) {
	told := map[types.UID]string{}
	lives := livesOf(s)
	for _, e := range all[*corev1.Event](s) {
		if e.Source.Component != "selinux_warning" {
			continue
		}
		told[e.InvolvedObject.UID] += e.Message + "\n"
		if strings.Contains(e.Message, " conflicts with ") && lives != nil && !lives.had(e) { // ST-64
			wrong = append(wrong, fmt.Sprintf("the pod %s was told: %s", e.InvolvedObject.Name, e.Message))
		}
	}
	pods := all[*corev1.Pod](s)
	for _, p := range pods {
		for _, other := range pods {
			if !shares(p) || !shares(other) || ended(p) || ended(other) {
				continue
			}
			s.Looked++
			for _, message := range conflictsWith(p, other) {
				if !s.EventsLost() && !strings.Contains(told[p.UID], message) {
					wrong = append(wrong, fmt.Sprintf("the pod %s was not told: %s", p.Name, message))
				}
			}
		}
	}
	return wrong
}

// lives are the pods that there ever were, and when each was there and had not ended.
type lives map[types.UID]*life

type life struct {
	pod        *corev1.Pod
	began, end time.Time // zero: it lasts
}

// longOver reports whether a pod was gone, or had ended, so long before a time that every manager knew.
func (l *life) longOver(at time.Time) bool { return !l.end.IsZero() && at.After(l.end.Add(staleFor)) }

// livesOf returns nil if nobody has recorded what became of pods.
func livesOf(s *View) lives {
	var all lives
	for _, c := range s.Changes("pods") {
		p := c.Object.(*corev1.Pod)
		if all == nil {
			all = lives{}
		}
		if all[p.UID] == nil {
			all[p.UID] = &life{pod: p, began: c.Time}
		}
		if one := all[p.UID]; one.end.IsZero() && (c.Deleted || ended(p)) {
			one.end = c.Time
		}
	}
	return all
}

// had reports whether a pod had the conflict that an event tells of, with a pod that was there at the same time, or was thought to be.
func (all lives) had(e *corev1.Event) bool {
	p := all[e.InvolvedObject.UID]
	if p == nil || !shares(p.pod) {
		return false
	}
	together := func(other *life) bool {
		return !p.longOver(other.began) && !other.longOver(p.began)
	}
	for _, other := range all {
		if !shares(other.pod) || !together(other) {
			continue
		}
		for _, message := range conflictsWith(p.pod, other.pod) {
			if strings.Contains(e.Message, message) {
				return true
			}
		}
	}
	return false
}

const (
	selinuxFolder = "pkg/controllers/selinuxwarning/"
	twoLabels     = withoutElection + `
			at 5s   sharing one on=a level=s0
			at 10s  sharing two on=a level=s1`
)

var selinuxMutants = []Mutant{
	{
		Name:   "levels are not compared",
		Edits:  []Edit{{selinuxFolder + "plan.go", "if level(x) != level(y) {", "if level(x) == level(y) {"}},
		Script: twoLabels,
		Oracle: SettledOracle,
	},
	{
		Name:   "only one of two pods is told",
		Edits:  []Edit{{selinuxFolder + "plan.go", "if !was[c] {\n\t\t\trecord", "if !was[c] && c.Pod.UID < c.Other.UID {\n\t\t\trecord"}},
		Script: twoLabels,
		Oracle: SettledOracle,
	},
	{
		Name:  "policies are not compared",
		Edits: []Edit{{selinuxFolder + "plan.go", "\t\treturn a != b\n", "\t\treturn a != b && property != propertyPolicy\n"}},
		Script: withoutElection + `
			at 5s   sharing one on=a level=s0
			at 10s  sharing two on=a level=s0 recursive=true`,
		Oracle: SettledOracle,
	},
	{
		Name:  "a pod without a label counts as one with a mount option",
		Edits: []Edit{{selinuxFolder + "plan.go", "case u.Label == \"\":", "case u.Label == \" \":"}},
		Script: withoutElection + `
			at 5s   sharing one on=a level=s0
			at 10s  sharing two on=a`,
		Oracle: SettledOracle,
	},
	{
		Name:  "the label of a container does not count",
		Edits: []Edit{{selinuxFolder + "volumes.go", "with = &label{options: own.SELinuxOptions}", "with = &label{options: ofPod.options}"}},
		Script: withoutElection + `
			at 5s   sharing one on=a level=s0 own=s1
			at 10s  sharing two on=a level=s0`,
		Oracle: SettledOracle,
	},
	{
		Name:  "a pod that has ended is still in conflict",
		Edits: []Edit{{selinuxFolder + "observe.go", "mounts && !podutil.Finished(pods[key])", "mounts && pods[key] != nil"}},
		Script: withoutElection + `
			at 5s    sharing one on=a level=s0
			at 10s   sharing one do=end
			at 300s  sharing two on=a level=s1`,
		Oracle: SettledOracle,
	},
}
