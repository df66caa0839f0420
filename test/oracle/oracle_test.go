package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// history is a history by hand, and what an oracle must say about it: a part of the message, or nothing if it is empty.
type history struct {
	name    string
	write   func(s *scene)
	want    string
	options Options
}

func run(t *testing.T, o Oracle, histories []history) {
	t.Helper()
	broken, kept := 0, 0
	for _, c := range histories {
		t.Run(c.name, func(t *testing.T) {
			s := newScene()
			c.write(s)
			found := judged(t, o, &s.History, c.options)
			switch {
			case c.want == "" && len(found) > 0:
				t.Errorf("%s sees a violation in a legal history: %v", o.ID, found[0])
			case c.want != "" && len(found) == 0:
				t.Errorf("%s sees no violation", o.ID)
			case c.want != "" && !strings.Contains(found[0].Message, c.want):
				t.Errorf("%s: %v, expected %q", o.ID, found[0], c.want)
			case c.want != "" && len(found) > 1:
				t.Errorf("%s sees more than one violation: %v", o.ID, found)
			}
		})
		if c.want == "" {
			kept++
		} else {
			broken++
		}
	}
	if broken == 0 || kept == 0 {
		t.Errorf("%s has %d histories that violate it and %d that do not", o.ID, broken, kept)
	}
}

func TestS1(t *testing.T) {
	run(t, S1(), []history{
		{name: "one more than replicas", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			s.pods(set, 3)
		}, want: "replicas 2 now has 3"},
		{name: "as many as replicas, a failed and a terminating one aside", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			pods := s.pods(set, 2)
			s.User().Edit(pods[0], fail)
			s.User().Terminate(pods[1])
			s.pods(set, 2)
		}},
		{name: "scaled down in the middle, and not observed yet", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 3))
			s.pods(set, 2)
			s.User().Edit(set, size(1))
			s.pods(set, 1)
		}},
		{name: "scaled down and observed", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 3))
			s.pods(set, 2)
			set = s.User().Edit(set, size(1))
			set = s.Manager().Edit(set, observe)
			s.pods(set, 1)
		}, want: "replicas 1 now has 3"},
		{name: "a label that comes back just now", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			pod := s.pods(set, 1)[0]
			pod = s.User().Edit(pod, func(o Object) { o.SetLabels(nil) })
			s.User().Edit(pod, func(o Object) { o.SetLabels(map[string]string{"app": "web", hashLabel: "a"}) })
			s.pods(set, 1)
		}},
		{name: "a label that came back long ago", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			pod := s.pods(set, 1)[0]
			pod = s.User().Edit(pod, func(o Object) { o.SetLabels(nil) })
			s.User().Edit(pod, func(o Object) { o.SetLabels(map[string]string{"app": "web", hashLabel: "a"}) })
			s.Wait(time.Minute)
			s.pods(set, 1)
		}, want: "now has 2"},
		{name: "a label that came back before an outage", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			pod := s.pods(set, 1)[0]
			pod = s.User().Edit(pod, func(o Object) { o.SetLabels(nil) })
			s.User().Edit(pod, func(o Object) { o.SetLabels(map[string]string{"app": "web", hashLabel: "a"}) })
			s.Wait(time.Minute)
			s.pods(set, 1)
		}, options: Options{Outages: []Interval{{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 55, 0, time.UTC)}}}},
		{name: "adopted pods may be too many", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.pods(set, 1)
			orphan := s.aPod(set)
			orphan.OwnerReferences = nil
			s.Manager().Edit(s.User().Create(orphan), func(o Object) { ownedBy(o, ReplicaSet, set) })
		}},
		{name: "a user's pods are not the manager's", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.pods(set, 1)
			s.User().Create(s.aPod(set))
		}},
	})
}

func TestS2(t *testing.T) {
	run(t, S2(), []history{
		{name: "one that is needed", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			s.Manager().Terminate(s.pods(set, 2)[0])
		}, want: "has 2 active pods of 2"},
		{name: "twice from one sight", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 3))
			pods := s.pods(set, 3)
			set = s.User().Edit(set, size(2))
			s.Manager().Terminate(pods[0])
			s.Manager().Edit(set, observe)
			s.Manager().Terminate(pods[1])
		}, want: "has 2 active pods of 2"},
		{name: "scaled down and up again, and not observed", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			pods := s.pods(set, 2)
			set = s.User().Edit(set, size(1))
			s.User().Edit(set, size(2))
			s.Manager().Terminate(pods[0])
		}},
		{name: "another failed a moment ago", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			pods := s.pods(set, 1)
			orphan := s.aPod(set)
			orphan.OwnerReferences = nil
			s.Manager().Edit(s.User().Create(orphan), func(o Object) { ownedBy(o, ReplicaSet, set) })
			s.User().Edit(pods[0], fail)
			s.Manager().Terminate(s.Revisions[3].Object)
		}},
		{name: "another failed long ago", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			pods := s.pods(set, 2)
			s.User().Edit(pods[0], fail)
			s.Wait(time.Minute)
			s.Manager().Terminate(pods[1])
		}, want: "has 1 active pods of 2"},
		{name: "a user's deletion", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			s.User().Terminate(s.pods(set, 2)[0])
		}},
		{name: "a finished pod", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			s.Podgc().Delete(s.User().Edit(s.pods(set, 2)[0], fail))
		}},
	})
}

func TestS3(t *testing.T) {
	run(t, S3(), []history{
		{name: "no precondition", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 0))
			s.Manager().Terminate(s.pods(set, 1)[0])
			s.Requests[len(s.Requests)-1].UID = ""
		}, want: "neither uid nor resourceVersion"},
		{name: "nobody's pod", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 0))
			p := s.aPod(set)
			p.OwnerReferences = nil
			s.Manager().Terminate(s.User().Create(p))
		}, want: "no controller owns it"},
		{name: "a pod of a StatefulSet", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 0))
			p := s.aPod(set)
			p.OwnerReferences[0].Kind = "StatefulSet"
			s.Manager().Terminate(s.User().Create(p))
		}, want: "no ReplicaSet that ever was"},
		{name: "as it should be, and podgc's of anybody's pod", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 0))
			s.Manager().Terminate(s.pods(set, 1)[0])
			p := s.aPod(set)
			p.OwnerReferences = nil
			s.Podgc().Delete(s.User().Create(p))
		}},
	})
}

func TestS4(t *testing.T) {
	start := NewScript().Now
	blind := Options{Outages: []Interval{{start, start.Add(time.Minute)}}}
	orphan := func(s *scene, set Object) Object {
		p := s.aPod(set)
		p.OwnerReferences = nil
		return s.User().Create(p)
	}
	run(t, S4(), []history{
		{name: "adopted by one that never was", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			p := orphan(s, set)
			s.Manager().Edit(p, func(o Object) {
				ownedBy(o, ReplicaSet, set)
				o.GetOwnerReferences()[0].UID = "stale"
			})
		}, want: "never existed"},
		{name: "adopted by one that is being deleted for long", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			p := orphan(s, set)
			s.User().Terminate(set)
			s.Wait(time.Minute)
			s.Manager().Edit(p, func(o Object) { ownedBy(o, ReplicaSet, set) })
		}, want: "being deleted since"},
		{name: "created for one that is gone for long", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.User().Delete(set)
			s.Wait(time.Minute)
			s.pods(set, 1)
		}, want: "is gone since version 2"},
		{name: "an owner of another namespace", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			p := s.aPod(set)
			p.Namespace = "elsewhere"
			s.Manager().Create(p)
		}, want: "in truth shop/web-a"},
		{name: "two controllers", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			p := s.aPod(set)
			p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences[0])
			s.Manager().Create(p)
		}, want: "2 controllers"},
		{name: "adopted by one that is gone for long, which a live look would have shown", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			orphan := s.User().Create(quarantined(s, set))
			s.User().Delete(set)
			s.Wait(50 * time.Second)
			adopt(s, orphan, set)
		}, options: blind, want: "is gone since"},
		{name: "created for one that is gone for long, which the cache did not show", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.User().Delete(set)
			s.Wait(50 * time.Second)
			s.pods(set, 1)
		}, options: blind},
		{name: "adopted, created, and adopted when the owner has just been deleted", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			set := s.User().Create(aSet(nil, "a", 1))
			set = s.Manager().Edit(set, func(o Object) { ownedBy(o, Deployment, d) })
			s.pods(set, 1)
			p := orphan(s, set)
			s.User().Terminate(set)
			s.Manager().Edit(p, func(o Object) { ownedBy(o, ReplicaSet, set) })
		}},
	})
}

func TestS5(t *testing.T) {
	run(t, S5(), []history{
		{name: "a second set beside a full one", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			s.Manager().Create(aSet(d, "a", 3))
			s.User().Edit(d, image("b"))
			s.Manager().Create(aSet(d, "b", 2))
		}, want: "5 in all, more than 4"},
		{name: "within surge", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			s.Manager().Create(aSet(d, "a", 3))
			s.User().Edit(d, image("b"))
			s.Manager().Create(aSet(d, "b", 1))
		}},
		{name: "scaled down, not observed", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			s.Manager().Create(aSet(d, "a", 2))
			d = s.Manager().Edit(d, observe)
			s.User().Edit(d, size(1))
			s.Manager().Edit(s.Revisions[1].Object, size(3))
		}},
		{name: "scaled down and observed", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			s.Manager().Create(aSet(d, "a", 2))
			d = s.User().Edit(d, size(1))
			s.Manager().Edit(d, observe)
			s.Manager().Edit(s.Revisions[1].Object, size(3))
		}, want: "3 in all, more than 2"},
		{name: "lowering may leave too much", write: func(s *scene) {
			d := s.User().Create(aDeployment(9))
			s.Manager().Create(aSet(d, "a", 9))
			d = s.User().Edit(d, size(1))
			s.Manager().Edit(d, observe)
			s.Manager().Edit(s.Revisions[1].Object, size(5))
		}},
		{name: "a user scales a set in between", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			a := s.Manager().Create(aSet(d, "a", 3))
			s.User().Edit(d, image("b"))
			s.User().Edit(a, size(7))
			s.Manager().Create(aSet(d, "b", 1))
		}},
		{name: "pods that terminate count if asked for", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			set := s.Manager().Create(aSet(d, "a", 1))
			for _, p := range s.pods(set, 1) {
				s.User().Terminate(p)
			}
			for _, p := range s.pods(set, 1) {
				s.User().Terminate(p)
			}
			s.pods(set, 1)
		}, options: Options{Surge: SurgeAll}, want: "now has 3 pods, more than 2"},
		{name: "pods that terminate don't count", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			set := s.Manager().Create(aSet(d, "a", 1))
			for range 3 {
				s.User().Terminate(s.pods(set, 1)[0])
			}
		}, options: Options{Surge: SurgeActive}},
	})
}

func TestS6(t *testing.T) {
	// rolling is a rollout with three old pods that are up and a new one.
	rolling := func(s *scene, newUp bool) (d, a, b Object, pods []Object) {
		d = s.User().Create(aDeployment(3))
		a = s.Manager().Create(aSet(d, "a", 3))
		pods = s.up(a, 3)
		a = s.Manager().Edit(a, observe)
		s.Wait(time.Minute)
		d = s.User().Edit(d, image("b"))
		b = s.Manager().Create(aSet(d, "b", 1))
		if newUp {
			s.up(b, 1)
		} else {
			s.pods(b, 1)
		}
		d = s.Manager().Edit(d, observe)
		return d, a, b, pods
	}
	run(t, S6(), []history{
		{name: "an old pod goes before the new one is up", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			s.Manager().Edit(a, size(2))
			s.Manager().Terminate(pods[0])
		}, want: "2 pods of web are available, fewer than 3"},
		{name: "the status lies", write: func(s *scene) {
			d, a, _, pods := rolling(s, false)
			s.Manager().Edit(d, status(4, 4, 4))
			s.Manager().Edit(a, size(2))
			s.Manager().Terminate(pods[0])
		}, want: "fewer than 3"},
		{name: "the new one is up", write: func(s *scene) {
			_, a, _, pods := rolling(s, true)
			s.Manager().Edit(a, size(2))
			s.Manager().Terminate(pods[0])
		}},
		{name: "another pod has just failed", write: func(s *scene) {
			_, a, _, pods := rolling(s, true)
			s.Manager().Edit(a, size(2))
			s.User().Edit(pods[1], unready)
			s.Manager().Terminate(pods[0])
		}},
		{name: "another pod had failed long before the size was decided", write: func(s *scene) {
			_, a, _, pods := rolling(s, true)
			s.User().Edit(pods[1], unready)
			s.Wait(time.Minute)
			a = s.Manager().Edit(a, size(2))
			s.Manager().Edit(a, observe)
			s.Manager().Terminate(pods[0])
		}, want: "2 pods of web are available"},
		{name: "one that has just become ready, as nobody could know", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			late := s.User().Edit(pods[0], unready)
			s.Wait(time.Minute)
			s.Manager().Edit(a, size(2))
			late = s.User().Edit(late, s.run)
			s.Wait(time.Second)
			s.Manager().Terminate(late)
		}},
		{name: "one that had become ready long before", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			late := s.User().Edit(pods[0], unready)
			s.Wait(time.Minute)
			s.Manager().Edit(a, size(2))
			late = s.User().Edit(late, s.run)
			s.Wait(time.Minute)
			s.Manager().Terminate(late)
		}, want: "2 pods of web are available"},
		{name: "one that is not available", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			dead := s.User().Edit(pods[0], unready)
			s.Wait(time.Minute)
			s.Manager().Edit(a, size(2))
			s.Manager().Terminate(dead)
		}},
		{name: "as many as were put back since the size was decided", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			dead := s.User().Edit(pods[0], unready)
			s.Wait(time.Minute)
			a = s.Manager().Edit(a, size(2))
			s.Manager().Terminate(dead)
			s.Wait(time.Minute)
			adopt(s, s.User().Edit(s.User().Create(quarantined(s, a)), released), a)
			s.Manager().Terminate(pods[1])
		}},
		{name: "one was put back long before the size was decided", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			adopt(s, s.User().Edit(s.User().Create(quarantined(s, a)), released), a)
			s.Wait(time.Minute)
			a = s.Manager().Edit(a, size(2))
			s.Manager().Edit(a, observe)
			s.Manager().Terminate(pods[0])
		}, want: "2 pods of web are available, fewer than 3"},
		{name: "minReadySeconds have not passed", write: func(s *scene) {
			d := aDeployment(1)
			d.Spec.MinReadySeconds = 30
			web := s.User().Create(d)
			a := aSet(web, "a", 1)
			a.Spec.MinReadySeconds = 30
			old := s.Manager().Create(a)
			pod := s.up(old, 1)[0]
			old = s.Manager().Edit(old, observe)
			s.Wait(time.Minute)
			web = s.User().Edit(web, image("b"))
			b := aSet(web, "b", 1)
			b.Spec.MinReadySeconds = 30
			s.up(s.Manager().Create(b), 1)
			s.Wait(20 * time.Second)
			s.Manager().Edit(old, size(0))
			s.Manager().Terminate(pod)
		}, want: "0 pods of web are available, fewer than 1"},
		{name: "scaled down", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			a := s.Manager().Create(aSet(d, "a", 3))
			pods := s.up(a, 3)
			s.User().Edit(d, size(1))
			s.Manager().Edit(a, size(1))
			s.Manager().Terminate(pods[0])
			s.Manager().Terminate(pods[1])
		}},
		{name: "a user scales the set", write: func(s *scene) {
			d := s.User().Create(aDeployment(3))
			a := s.Manager().Create(aSet(d, "a", 3))
			pods := s.up(a, 3)
			a = s.User().Edit(a, size(1))
			s.Manager().Edit(a, observe)
			s.Manager().Terminate(pods[0])
		}},
		{name: "shared out by proportional scaling (DEP-37)", write: func(s *scene) {
			_, a, _, pods := rolling(s, false)
			a = s.Manager().Edit(a, annotate(desiredAnnotation, "9"))
			s.Manager().Edit(a, size(2))
			s.Manager().Terminate(pods[0])
		}},
	})
}

func TestS7(t *testing.T) {
	run(t, S7(), []history{
		{name: "twins", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.Manager().Create(aSet(d, "a", 1))
			twin := aSet(d, "a", 1)
			twin.Name = "web-a2"
			twin.Spec.Template.Labels[hashLabel] = "a2"
			s.Manager().Create(twin)
		}, want: "has the same template"},
		{name: "a user's twin, of a moment ago", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			twin := aSet(d, "a", 1)
			twin.Name = "web-a2"
			s.User().Create(twin)
			s.Manager().Create(aSet(d, "a", 1))
		}},
		{name: "another template, and one whose twin is being deleted", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			a := s.Manager().Create(aSet(d, "a", 1))
			s.User().Edit(d, image("b"))
			s.Manager().Create(aSet(d, "b", 1))
			s.User().Terminate(a)
			again := aSet(d, "a", 1)
			again.Name = "web-a2"
			s.Manager().Create(again)
		}},
		{name: "a collision with nothing", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.Manager().Create(aSet(d, "a", 1))
			s.Manager().Edit(d, collides(1))
		}, want: "no ReplicaSet stands in the way"},
		{name: "two collisions at once", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.User().Create(aSet(nil, "a", 1))
			s.Manager().Edit(d, collides(2))
		}, want: "from 0 to 2"},
		{name: "a collision with a stranger", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.User().Create(aSet(nil, "a", 1))
			s.Manager().Edit(d, collides(1))
		}},
		{name: "a collision with its own set, which a webhook has altered", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.Manager().Create(aSet(d, "altered", 1))
			s.Manager().Edit(d, collides(1))
		}},
	})
}

func collides(n int32) func(Object) {
	return func(o Object) { o.(*appsv1.Deployment).Status.CollisionCount = &n }
}

// quarantined is a pod with the template of a ReplicaSet, which a user has taken away from it.
func quarantined(s *scene, set Object) *corev1.Pod {
	p := s.aPod(set)
	p.OwnerReferences = nil
	p.Labels["app"] = "quarantine"
	return p
}

// released gives a pod the label back by which it is selected.
func released(o Object) {
	changed := maps.Clone(o.GetLabels())
	changed["app"] = "web"
	o.SetLabels(changed)
}

func adopt(s *scene, orphan, set Object) {
	s.Manager().Edit(orphan, func(o Object) { ownedBy(o, ReplicaSet, set) })
}

func adoptSet(s *scene, orphan, d Object) Object {
	return s.Manager().Edit(orphan, func(o Object) { ownedBy(o, "Deployment", d) })
}

func TestS8(t *testing.T) {
	// replaced is a Recreate Deployment with a new template and a terminating old pod.
	replaced := func(s *scene) (d, a, old Object) {
		d = s.User().Create(recreate(aDeployment(1)))
		a = s.Manager().Create(aSet(d, "a", 1))
		pod := s.up(a, 1)[0]
		d = s.User().Edit(d, image("b"))
		a = s.Manager().Edit(a, size(0))
		d = s.Manager().Edit(d, observe)
		return d, a, s.Manager().Terminate(pod)
	}
	run(t, S8(), []history{
		{name: "the new set before the old pod is gone", write: func(s *scene) {
			d, _, _ := replaced(s)
			s.Manager().Create(aSet(d, "b", 1))
		}, want: "raised to 1 while pods of web-a are left: 1"},
		{name: "the new set when it is gone", write: func(s *scene) {
			d, _, old := replaced(s)
			s.User().Delete(old)
			s.up(s.Manager().Create(aSet(d, "b", 1)), 1)
		}},
		{name: "the new set when it has failed", write: func(s *scene) {
			d, _, old := replaced(s)
			s.User().Edit(old, fail)
			s.Manager().Create(aSet(d, "b", 1))
		}},
		{name: "a late pod of the old set", write: func(s *scene) {
			d, a, old := replaced(s)
			s.User().Delete(old)
			s.Manager().Create(aSet(d, "b", 1))
			s.Wait(time.Minute)
			s.pods(a, 1)
			s.pods(s.Revisions[len(s.Revisions)-2].Object, 1)
		}, want: "created while pods of web-a are left"},
		{name: "an old pod is adopted between the decision and the new pods", write: func(s *scene) {
			d, a, old := replaced(s)
			s.User().Delete(old)
			orphan := s.User().Create(quarantined(s, a))
			b := s.Manager().Create(aSet(d, "b", 2))
			orphan = s.User().Edit(orphan, released)
			adopt(s, orphan, a)
			s.pods(b, 1)
			s.Wait(time.Minute) // a quota
			s.pods(b, 1)
		}},
		{name: "an old pod is adopted just before the decision", write: func(s *scene) {
			d, a, old := replaced(s)
			s.User().Delete(old)
			orphan := s.User().Edit(s.User().Create(quarantined(s, a)), released)
			s.Wait(time.Minute) // without a manager
			adopt(s, orphan, a)
			s.pods(s.Manager().Create(aSet(d, "b", 1)), 1)
		}},
		{name: "an old set is adopted between the decision and the new pods", write: func(s *scene) {
			d := s.User().Create(recreate(aDeployment(1)))
			orphan := s.Manager().Create(aSet(nil, "a", 2))
			s.up(orphan, 1)
			b := s.Manager().Create(aSet(d, "b", 1))
			orphan = adoptSet(s, orphan, d)
			s.pods(orphan, 1)
			s.pods(b, 1)
		}},
		{name: "an old set was adopted long before the decision", write: func(s *scene) {
			d := s.User().Create(recreate(aDeployment(1)))
			orphan := s.Manager().Create(aSet(nil, "a", 1))
			s.up(orphan, 1)
			adoptSet(s, orphan, d)
			s.Wait(time.Minute)
			s.Manager().Create(aSet(d, "b", 1))
		}, want: "raised to 1 while pods of web-a are left: 1"},
		{name: "an old pod was adopted long before the decision", write: func(s *scene) {
			d, a, old := replaced(s)
			s.User().Delete(old)
			orphan := s.User().Edit(s.User().Create(quarantined(s, a)), released)
			adopt(s, orphan, a)
			s.Wait(time.Minute)
			s.Manager().Create(aSet(d, "b", 1))
		}, want: "raised to 1 while pods of web-a are left: 1"},
		{name: "an adopted pod does not excuse another one", write: func(s *scene) {
			d, a, _ := replaced(s)
			orphan := s.User().Edit(s.User().Create(quarantined(s, a)), released)
			adopt(s, orphan, a)
			s.Manager().Create(aSet(d, "b", 1))
		}, want: "raised to 1 while pods of web-a are left: 2"},
		{name: "the strategy has just changed", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.up(s.Manager().Create(aSet(d, "a", 1)), 1)
			d = s.User().Edit(d, image("b"))
			s.User().Edit(d, func(o Object) { recreate(o.(*appsv1.Deployment)) })
			s.up(s.Manager().Create(aSet(d, "b", 1)), 1)
		}},
		{name: "one that had begun before the strategy changed is scaled (DEP-35)", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			a := s.Manager().Create(aSet(d, "a", 1))
			old := s.up(a, 1)[0]
			d = s.User().Edit(d, image("b"))
			b := s.Manager().Create(aSet(d, "b", 1))
			d = s.User().Edit(d, func(o Object) { recreate(o.(*appsv1.Deployment)) })
			s.Manager().Edit(a, size(0))
			d = s.Manager().Edit(d, observe)
			s.Manager().Terminate(old)
			d = s.User().Edit(d, size(3))
			b = s.Manager().Edit(b, size(3))
			s.Manager().Edit(d, observe)
			s.Manager().Edit(b, observe)
			s.pods(b, 3)
		}},
		{name: "paused, and a set without size gets one beside old pods (DEP-35)", write: func(s *scene) {
			d, _, _ := replaced(s)
			b := s.User().Create(aSet(d, "b", 0))
			s.Wait(time.Minute)
			d = s.User().Edit(d, func(o Object) { o.(*appsv1.Deployment).Spec.Paused = true })
			s.Manager().Edit(d, observe)
			s.Manager().Edit(b, size(1))
		}, want: "raised to 1 while pods of web-a are left"},
		{name: "back to the template whose pods are still there", write: func(s *scene) {
			d, a, _ := replaced(s)
			s.User().Edit(d, image("a"))
			s.Manager().Edit(a, size(1))
			s.pods(a, 1)
		}},
	})
}

func TestS9(t *testing.T) {
	// past is a Deployment that keeps one old set, and has as many as asked for; they are empty.
	past := func(s *scene, n int) (d Object, old []Object) {
		d = s.User().Create(aDeployment(0))
		for i := range n {
			set := s.Manager().Create(aSet(d, fmt.Sprintf("old%d", i), 0))
			old = append(old, s.Manager().Edit(set, status(0, 0, 0)))
		}
		set := s.Manager().Create(aSet(d, "a", 0))
		s.Manager().Edit(set, status(0, 0, 0))
		return s.Manager().Edit(d, status(0, 0, 0)), old
	}
	run(t, S9(), []history{
		{name: "a set's revision goes down", write: func(s *scene) {
			_, old := past(s, 1)
			set := s.Manager().Edit(old[0], annotate(revisionAnnotation, "7"))
			s.Manager().Edit(set, annotate(revisionAnnotation, "3"))
		}, want: `from 7 to "3"`},
		{name: "a Deployment's revision goes down", write: func(s *scene) {
			d, _ := past(s, 1)
			d = s.Manager().Edit(d, annotate(revisionAnnotation, "7"))
			s.Manager().Edit(d, annotate(revisionAnnotation, "3"))
		}, want: `from 7 to "3"`},
		{name: "a Deployment's revision goes down when the newest set was deleted, a set's when a user does it", write: func(s *scene) {
			d, old := past(s, 1)
			d = s.Manager().Edit(d, annotate(revisionAnnotation, "7"))
			s.User().Edit(old[0], annotate(revisionAnnotation, "0"))
			s.User().Delete(s.Revisions[3].Object)
			s.Manager().Edit(d, annotate(revisionAnnotation, "3"))
		}},
		{name: "history is cleaned up to the limit", write: func(s *scene) {
			_, old := past(s, 2)
			s.Manager().Delete(old[0])
		}},
		{name: "and no further", write: func(s *scene) {
			_, old := past(s, 2)
			s.Manager().Delete(old[0])
			s.Manager().Delete(old[1])
		}, want: "has 1 old ones, and keeps 1"},
		{name: "one that was too many for a template which a user has taken back a moment ago", write: func(s *scene) {
			d, old := past(s, 1)
			d = s.User().Edit(d, image("z"))
			s.User().Edit(d, image("a"))
			s.Manager().Delete(old[0])
		}},
		{name: "one that has pods", write: func(s *scene) {
			d, _ := past(s, 2)
			s.Manager().Delete(s.Manager().Create(aSet(d, "c", 1)))
		}, want: "while its size is 1"},
		{name: "the present one", write: func(s *scene) {
			past(s, 2)
			s.Manager().Delete(s.Revisions[6].Object)
		}, want: "it is the present one"},
		{name: "nobody's", write: func(s *scene) {
			s.Manager().Delete(s.User().Create(aSet(nil, "a", 0)))
		}, want: "no Deployment that exists owns it"},
		{name: "the end has too many", write: func(s *scene) { past(s, 2) }, options: Options{Settled: true}, want: "2 old ReplicaSets, and keeps 1"},
		{name: "the end has as many as it may", write: func(s *scene) { past(s, 1) }, options: Options{Settled: true}},
		{name: "a user's deletion", write: func(s *scene) {
			_, old := past(s, 1)
			s.User().Delete(old[0])
		}},
	})
}

func TestS10(t *testing.T) {
	run(t, S10(), []history{
		{name: "observedGeneration goes down", write: func(s *scene) {
			set := s.User().Edit(s.User().Create(aSet(nil, "a", 1)), size(2))
			set = s.Manager().Edit(set, observe)
			s.Manager().Edit(set, func(o Object) { o.(*appsv1.ReplicaSet).Status.ObservedGeneration = 1 })
		}, want: "went from 2 to 1"},
		{name: "ahead of the generation", write: func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.Manager().Edit(d, func(o Object) { o.(*appsv1.Deployment).Status.ObservedGeneration = 2 })
		}, want: "observedGeneration 2 of generation 1"},
		{name: "more available than ready", write: func(s *scene) {
			s.Manager().Edit(s.User().Create(aSet(nil, "a", 1)), status(3, 1, 2))
		}, want: "1 are ready, 2 available"},
		{name: "more ready than replicas", write: func(s *scene) {
			s.Manager().Edit(s.User().Create(aDeployment(1)), status(1, 2, 1))
		}, want: "of 1 replicas 2 are ready"},
		{name: "as it should be, and nonsense by a user", write: func(s *scene) {
			set := s.Manager().Edit(s.User().Create(aSet(nil, "a", 3)), status(3, 2, 1))
			s.User().Edit(set, status(1, 2, 3))
		}},
	})
}

func TestS11(t *testing.T) {
	// serving is a Service with a pod that is up and in Endpoints.
	serving := func(s *scene) (service, pod, endpoints Object) {
		service = s.User().Create(aService())
		pod = s.up(s.User().Create(aSet(nil, "a", 1)), 1)[0]
		endpoints = s.Manager().Create(someEndpoints(pod))
		return service, pod, endpoints
	}
	crowd := func(s *scene, n int) (pods []Object) {
		s.User().Create(aService())
		pods = s.up(s.User().Create(aSet(nil, "a", int32(n))), n)
		for i := range pods {
			p := pods[i].(*corev1.Pod)
			p.Status.PodIP = fmt.Sprintf("10.%d.%d.1", i/250, i%250)
			p.Status.PodIPs[0].IP = p.Status.PodIP
		}
		return pods
	}
	run(t, S11(), []history{
		{name: "an address of nobody", write: func(s *scene) {
			_, pod, _ := serving(s)
			stranger := pod.DeepCopyObject().(Object)
			stranger.SetUID("stranger")
			s.Manager().Edit(s.Revisions[len(s.Revisions)-1].Object, func(o Object) { *o.(*corev1.Endpoints) = *withMeta(o, someEndpoints(stranger)) })
		}, want: "no such pod was ready and selected"},
		{name: "another address than the pod's", write: func(s *scene) {
			_, pod, endpoints := serving(s)
			moved := pod.DeepCopyObject().(*corev1.Pod)
			moved.Status.PodIP = "10.9.9.9"
			s.Manager().Edit(endpoints, func(o Object) { *o.(*corev1.Endpoints) = *withMeta(o, someEndpoints(moved)) })
		}, want: "the ready address 10.9.9.9"},
		{name: "outdated for too long", write: func(s *scene) {
			_, pod, _ := serving(s)
			s.User().Edit(pod, unready)
			s.Wait(time.Minute)
			s.User().Create(aNode())
		}, want: "for more than 10s"},
		{name: "outdated at the end, for too long", write: func(s *scene) {
			_, pod, _ := serving(s)
			s.User().Edit(pod, unready)
		}, options: Options{End: NewScript().Now.Add(time.Minute)}, want: "for more than 10s"},
		{name: "outdated for a moment at the end", write: func(s *scene) {
			_, pod, _ := serving(s)
			s.User().Edit(pod, unready)
		}, options: Options{End: NewScript().Now.Add(5 * time.Second)}},
		{name: "outdated for a moment", write: func(s *scene) {
			_, pod, endpoints := serving(s)
			s.User().Edit(pod, unready)
			s.Wait(5 * time.Second)
			s.Manager().Edit(endpoints, func(o Object) { o.(*corev1.Endpoints).Subsets = nil })
			s.Wait(time.Minute)
			s.User().Create(aNode())
		}},
		{name: "outdated during an outage", write: func(s *scene) {
			_, pod, endpoints := serving(s)
			s.User().Edit(pod, unready)
			s.Wait(35 * time.Second)
			s.Manager().Edit(endpoints, func(o Object) { o.(*corev1.Endpoints).Subsets = nil })
			s.Wait(time.Minute)
			s.User().Create(aNode())
		}, options: Options{Outages: []Interval{{time.Date(2026, 1, 1, 0, 0, 2, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)}}}},
		{name: "no longer selected", write: func(s *scene) {
			service, _, _ := serving(s)
			s.User().Edit(service, func(o Object) { o.(*corev1.Service).Spec.Selector = map[string]string{"app": "other"} })
			s.Wait(time.Minute)
			s.User().Create(aNode())
		}, want: "without a ready pod that is selected"},
		{name: "a Service that has no selector any more (EP-9)", write: func(s *scene) {
			service, _, _ := serving(s)
			s.User().Edit(service, func(o Object) { o.(*corev1.Service).Spec.Selector = nil })
			s.Wait(time.Minute)
			s.User().Create(aNode())
		}},
		{name: "ready again", write: func(s *scene) {
			_, pod, _ := serving(s)
			up := pod.DeepCopyObject().(*corev1.Pod)
			s.User().Edit(s.User().Edit(pod, unready), func(o Object) { o.(*corev1.Pod).Status = up.Status })
			s.Wait(time.Minute)
			s.User().Create(aNode())
		}},
		{name: "more than 1000", write: func(s *scene) { s.Manager().Create(someEndpoints(crowd(s, 1001)...)) }, want: "1001 addresses"},
		{name: "1000 of more, not annotated", write: func(s *scene) {
			pods := crowd(s, 1001)
			s.Wait(time.Minute)
			s.Manager().Create(someEndpoints(pods[:1000]...))
		}, want: "not said to be truncated"},
		{name: "1000 of more, annotated", write: func(s *scene) {
			pods := crowd(s, 1001)
			s.Wait(time.Minute)
			e := someEndpoints(pods[:1000]...)
			annotate(overCapacity, "truncated")(e)
			s.Manager().Create(e)
		}},
		{name: "annotated for nothing", write: func(s *scene) {
			_, _, endpoints := serving(s)
			s.Manager().Edit(endpoints, annotate(overCapacity, "truncated"))
		}, want: "with at most 1 candidates"},
	})
}

// withMeta gives Endpoints the identity of others.
func withMeta(o Object, e *corev1.Endpoints) *corev1.Endpoints {
	e.ObjectMeta = *o.(*corev1.Endpoints).ObjectMeta.DeepCopy()
	return e
}

// outOfOrder is a node out of service, with a pod that is to end there and was made Failed last.
func outOfOrder(s *scene) Object {
	n := aNode()
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
	node := s.User().Create(n)
	pod := s.User().Terminate(s.up(s.User().Create(aSet(nil, "a", 1)), 1)[0])
	s.Manager().Edit(pod, fail)
	return node
}

func repair(o Object) {
	o.(*corev1.Node).Status.Conditions[0].Status = corev1.ConditionTrue
	o.(*corev1.Node).Spec.Taints = nil
}

func TestS12(t *testing.T) {
	// lost is a pod of a node that is gone, looked for after a time.
	lost := func(s *scene, wait time.Duration, code int) Object {
		node := s.User().Create(aNode())
		pod := s.up(s.User().Create(aSet(nil, "a", 1)), 1)[0]
		s.User().Delete(node)
		s.Wait(wait)
		s.Manager().Ask("get", "nodes", "n1", code)
		return pod
	}
	collect := func(s *scene, pod Object, disrupt bool) {
		pod = s.Manager().Edit(pod, fail)
		if disrupt {
			s.Revisions[len(s.Revisions)-1].Object.(*corev1.Pod).Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"}}
		}
		s.Podgc().Delete(pod)
	}
	run(t, S12(), []history{
		{name: "no rule", write: func(s *scene) {
			s.User().Create(aNode())
			s.Podgc().Delete(s.User().Edit(s.up(s.User().Create(aSet(nil, "a", 1)), 1)[0], fail))
		}, want: "no rule of podgc names it"},
		{name: "an orphan", write: func(s *scene) { collect(s, lost(s, time.Minute, 404), true) }},
		{name: "an orphan too early", write: func(s *scene) { collect(s, lost(s, 20*time.Second, 404), true) }, want: "after its node was gone"},
		{name: "an orphan early enough for the options", write: func(s *scene) { collect(s, lost(s, 20*time.Second, 404), true) },
			options: Options{OrphanQuarantine: 10 * time.Second}},
		{name: "a node that the live read found", write: func(s *scene) { collect(s, lost(s, time.Minute, 200), true) }, want: "without a live read"},
		{name: "no condition", write: func(s *scene) { collect(s, lost(s, time.Minute, 404), false) }, want: "no condition DisruptionTarget"},
		{name: "not made Failed first", write: func(s *scene) { s.Podgc().Delete(lost(s, time.Minute, 404)) }, want: `in phase "Running"`},
		{name: "a node that is back", write: func(s *scene) {
			pod := lost(s, time.Minute, 404)
			s.User().Create(aNode())
			s.Wait(time.Minute)
			collect(s, pod, true)
		}, want: "no rule of podgc"},
		{name: "a node that came back while the deletion was on its way", write: func(s *scene) {
			pod := lost(s, time.Minute, 404)
			s.User().Create(aNode())
			collect(s, pod, true)
		}},
		{name: "a node that came back too early", write: func(s *scene) {
			pod := lost(s, 20*time.Second, 404)
			s.User().Create(aNode())
			collect(s, pod, true)
		}, want: "after its node was gone"},
		{name: "a node that came into service while the deletion was on its way", write: func(s *scene) {
			s.User().Edit(outOfOrder(s), repair)
			s.Podgc().Delete(s.Revisions[len(s.Revisions)-2].Object)
		}},
		{name: "a node that came into service long before", write: func(s *scene) {
			s.User().Edit(outOfOrder(s), repair)
			s.Wait(time.Minute)
			s.Podgc().Delete(s.Revisions[len(s.Revisions)-2].Object)
		}, want: "no rule of podgc"},
		{name: "terminating without a node, and on one out of service", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 2))
			pod := s.User().Terminate(s.pods(set, 1)[0])
			s.Podgc().Delete(s.Manager().Edit(pod, fail))
			node := aNode()
			node.Status.Conditions[0].Status = corev1.ConditionUnknown
			node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
			s.User().Create(node)
			pod = s.User().Terminate(s.up(set, 1)[0])
			s.Podgc().Delete(s.Manager().Edit(pod, fail))
		}},
		{name: "more terminated pods than allowed, down to the threshold", write: func(s *scene) {
			for _, p := range s.pods(s.User().Create(aSet(nil, "a", 3)), 3) {
				s.User().Edit(p, fail)
			}
			s.Podgc().Delete(s.Revisions[4].Object)
		}, options: Options{TerminatedPodThreshold: 2}},
		{name: "more terminated pods than allowed, and one too far", write: func(s *scene) {
			for _, p := range s.pods(s.User().Create(aSet(nil, "a", 3)), 3) {
				s.User().Edit(p, fail)
			}
			s.Podgc().Delete(s.Revisions[4].Object)
			s.Podgc().Delete(s.Revisions[5].Object)
		}, options: Options{TerminatedPodThreshold: 2}, want: "2 terminated pods"},
	})
}

func TestS13(t *testing.T) {
	run(t, S13(), []history{
		{name: "a write by the former holder", write: func(s *scene) {
			a, b := s.Manager().As("a"), s.Manager().As("b")
			lease := a.Create(aLease("one"))
			set := s.User().Create(aSet(nil, "a", 3))
			a.Create(s.aPod(set))
			b.Edit(lease, holds("two"))
			b.Create(s.aPod(set))
			a.Create(s.aPod(set))
		}, want: `written by "a", while the lease is held by "b"`},
		{name: "a write after the release", write: func(s *scene) {
			a := s.Manager().As("a")
			a.Edit(a.Create(aLease("one")), holds(""))
			a.Create(s.aPod(s.User().Create(aSet(nil, "a", 3))))
		}, want: `held by ""`},
		{name: "a write without ever having held it", write: func(s *scene) {
			s.Manager().As("a").Create(s.aPod(s.User().Create(aSet(nil, "a", 3))))
			s.Manager().As("b").Create(aLease("two"))
		}, want: `written by "a"`},
		{name: "each in its time, renewals between", write: func(s *scene) {
			a, b := s.Manager().As("a"), s.Manager().As("b")
			lease := a.Create(aLease("one"))
			set := s.User().Create(aSet(nil, "a", 3))
			lease = a.Edit(lease, holds("one"))
			a.Create(s.aPod(set))
			lease = a.Edit(lease, holds(""))
			b.Edit(lease, holds("two"))
			b.Create(s.aPod(set))
		}},
		{name: "no election", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 3))
			s.Manager().As("a").Create(s.aPod(set))
			s.Manager().As("b").Create(s.aPod(set))
		}},
	})
}

// settledScene is a Deployment of one pod, with a Service, all at rest.
func settledScene(s *scene) (d, set, pod Object) {
	d = s.User().Create(aDeployment(1))
	s.User().Create(aService())
	set = s.Manager().Create(aSet(d, "a", 1))
	pod = s.up(set, 1)[0]
	set = s.Manager().Edit(set, status(1, 1, 1))
	s.Manager().Create(someEndpoints(pod))
	d = s.Manager().Edit(d, all(status(1, 1, 1), annotate(revisionAnnotation, "1"), says("True", "True", "NewReplicaSetAvailable", s.Now)))
	return d, set, pod
}

func TestS14(t *testing.T) {
	run(t, S14(), []history{
		{name: "writes at rest", write: func(s *scene) {
			d, _, _ := settledScene(s)
			s.Wait(2 * time.Minute)
			s.Manager().Edit(d, annotate("x", "y"))
		}, want: "written though it was settled"},
		{name: "pods at rest", write: func(s *scene) {
			_, set, _ := settledScene(s)
			s.Wait(2 * time.Minute)
			s.Manager().Create(s.aPod(set))
		}, want: "written though it was settled"},
		{name: "an update without a change", write: func(s *scene) {
			_, set, _ := settledScene(s)
			s.Requests = append(s.Requests, Request{User: "system:kube-controller-manager", Verb: "update", Resource: "replicasets", Subresource: "status",
				Name: set.GetName(), Code: 200, Version: 6, Received: s.Now.Add(time.Second)})
		}, want: "changed nothing"},
		{name: "an update that is repeated, as the first one was not answered", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.Manager().Edit(set, observe)
			s.Requests = append(s.Requests, s.Requests[len(s.Requests)-1])
		}, options: Options{Outages: []Interval{{NewScript().Now, NewScript().Now.Add(time.Minute)}}}},
		{name: "an update that is repeated", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.Manager().Edit(set, observe)
			s.Requests = append(s.Requests, s.Requests[len(s.Requests)-1])
		}, want: "changed nothing"},
		{name: "an update of what another has written", write: func(s *scene) {
			s.User().Create(aSet(nil, "a", 1))
			s.Requests = []Request{{User: "system:kube-controller-manager", Verb: "patch", Resource: "replicasets", Name: "web-a", Code: 200, Version: 1}}
		}, want: "changed nothing"},
		{name: "soon after a change, long after one that is not settled, and the lease", write: func(s *scene) {
			lease := s.Manager().Create(aLease("x"))
			d, set, _ := settledScene(s)
			s.Wait(30 * time.Second)
			d = s.Manager().Edit(d, annotate("x", "y"))
			s.User().Edit(d, size(2))
			s.Wait(5 * time.Minute)
			s.Manager().Edit(set, size(2))
			s.Manager().Edit(lease, holds("x"))
		}},
	})
}

func TestL1(t *testing.T) {
	settled := Options{Settled: true}
	run(t, L1(), []history{
		{name: "at rest", write: func(s *scene) { settledScene(s) }, options: settled},
		{name: "not said to be settled", write: func(s *scene) { s.User().Create(aSet(nil, "a", 1)) }},
		{name: "a pod is missing", write: func(s *scene) {
			s.Manager().Edit(s.User().Create(aSet(nil, "a", 1)), observe)
		}, options: settled, want: "0 active pods of 1"},
		{name: "a pod is missing, and the set says why", write: func(s *scene) {
			s.Manager().Edit(s.User().Create(aSet(nil, "a", 1)), all(observe, func(o Object) {
				o.(*appsv1.ReplicaSet).Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue}}
			}))
		}, options: settled},
		{name: "the set's status lies", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 1))
			s.up(set, 1)
			s.User().Edit(set, status(1, 1, 0))
		}, options: settled, want: "status has"},
		{name: "the Deployment's status lies", write: func(s *scene) {
			d, _, _ := settledScene(s)
			s.User().Edit(d, status(2, 2, 2))
		}, options: settled, want: "and its ReplicaSets"},
		{name: "generation not observed", write: func(s *scene) {
			d, _, _ := settledScene(s)
			s.User().Edit(d, image("b"))
		}, options: settled, want: "generation 1 of 2 observed"},
		{name: "a rollout that could go on", write: func(s *scene) {
			d, _, _ := settledScene(s)
			d = s.User().Edit(d, image("b"))
			b := s.Manager().Create(aSet(d, "b", 1))
			pod := s.up(b, 1)[0]
			s.Manager().Edit(b, status(1, 1, 1))
			s.Manager().Edit(d, all(status(2, 2, 2), func(o Object) { o.(*appsv1.Deployment).Status.UpdatedReplicas = 1 }))
			s.Manager().Edit(s.Revisions[6].Object, func(o Object) {
				*o.(*corev1.Endpoints) = *withMeta(o, someEndpoints(s.Revisions[4].Object, pod))
			})
		}, options: settled, want: "could be lowered"},
		{name: "a rollout that is stuck", write: func(s *scene) {
			d, _, _ := settledScene(s)
			d = s.User().Edit(d, image("b"))
			b := s.Manager().Create(aSet(d, "b", 1))
			s.pods(b, 1)
			s.Manager().Edit(b, status(1, 0, 0))
			s.Manager().Edit(d, all(status(2, 1, 1), func(o Object) {
				o.(*appsv1.Deployment).Status.UpdatedReplicas, o.(*appsv1.Deployment).Status.UnavailableReplicas = 1, 1
			}))
		}, options: settled},
		{name: "paused, with shares of what was asked for before", write: func(s *scene) {
			d, set, pod := settledScene(s)
			s.Manager().Edit(set, annotate(desiredAnnotation, "1"))
			b := aSet(d, "b", 1)
			annotate(desiredAnnotation, "2")(b)
			rs := s.Manager().Create(b)
			second := s.up(rs, 1)[0]
			s.Manager().Edit(rs, status(1, 1, 1))
			d = s.User().Edit(d, func(o Object) { o.(*appsv1.Deployment).Spec.Paused = true })
			s.Manager().Edit(d, all(status(2, 2, 2), func(o Object) { o.(*appsv1.Deployment).Status.UpdatedReplicas = 1 }))
			s.Manager().Edit(s.Revisions[6].Object, func(o Object) { *o.(*corev1.Endpoints) = *withMeta(o, someEndpoints(pod, second)) })
		}, options: settled, want: "web-b has a share of another number"},
		{name: "paused under Recreate, with two active sets (DEP-39)", write: func(s *scene) {
			d, _, pod := settledScene(s)
			rs := s.Manager().Create(aSet(d, "b", 1))
			second := s.up(rs, 1)[0]
			s.Manager().Edit(rs, status(1, 1, 1))
			d = s.User().Edit(d, func(o Object) { recreate(o.(*appsv1.Deployment)).Spec.Paused = true })
			s.Manager().Edit(d, all(status(2, 2, 2), func(o Object) { o.(*appsv1.Deployment).Status.UpdatedReplicas = 1 }))
			s.Manager().Edit(s.Revisions[6].Object, func(o Object) { *o.(*corev1.Endpoints) = *withMeta(o, someEndpoints(pod, second)) })
		}, options: settled},
		{name: "a missing ReplicaSet", write: func(s *scene) {
			s.Manager().Edit(s.User().Create(aDeployment(0)), all(observe, says("True", "True", "x", s.Now)))
		}, options: settled, want: "no ReplicaSet has the present template"},
		{name: "Endpoints that lack a pod", write: func(s *scene) {
			_, set, _ := settledScene(s)
			_ = set
			s.User().Edit(s.Revisions[6].Object, func(o Object) { o.(*corev1.Endpoints).Subsets = nil })
		}, options: settled, want: "1 differences: expected"},
		{name: "Endpoints without a Service", write: func(s *scene) { s.User().Create(someEndpoints()) }, options: settled, want: "left over"},
		{name: "a Service without Endpoints", write: func(s *scene) { s.User().Create(aService()) }, options: settled, want: "no Endpoints"},
		{name: "an orphan", write: func(s *scene) {
			set := s.Manager().Edit(s.User().Create(aSet(nil, "a", 0)), observe)
			p := s.aPod(set)
			p.OwnerReferences = nil
			s.User().Create(p)
		}, options: settled, want: "an orphan that web-a selects"},
	})
}

func TestL3(t *testing.T) {
	settled := Options{Settled: true}
	stuck := func(reason string, st corev1.ConditionStatus, wait time.Duration) func(*scene) {
		return func(s *scene) {
			d := s.User().Create(aDeployment(1))
			s.pods(s.Manager().Create(aSet(d, "a", 1)), 1)
			s.Manager().Edit(d, all(status(1, 0, 0), says("False", st, reason, s.Now)))
			s.Wait(wait)
			s.User().Create(aNode())
		}
	}
	run(t, L3(), []history{
		{name: "complete", write: func(s *scene) { settledScene(s) }, options: settled},
		{name: "complete, and says something else", write: func(s *scene) {
			d, _, _ := settledScene(s)
			s.Manager().Edit(d, says("True", "True", "ReplicaSetUpdated", s.Now))
		}, options: settled, want: "complete, and does not say so"},
		{name: "timed out", write: stuck("ProgressDeadlineExceeded", "False", time.Hour), options: settled},
		{name: "within the deadline", write: stuck("ReplicaSetUpdated", "True", time.Minute), options: settled},
		{name: "beyond the deadline", write: stuck("ReplicaSetUpdated", "True", time.Hour), options: settled, want: "its deadline has passed"},
		{name: "done, and has lost pods since (DEP-75)", write: stuck("NewReplicaSetAvailable", "True", time.Hour), options: settled},
		{name: "says that the rollout is done, in the middle of one", write: func(s *scene) {
			d, _, _ := settledScene(s)
			d = s.User().Edit(d, image("b"))
			s.pods(s.Manager().Create(aSet(d, "b", 1)), 1)
			s.Manager().Edit(d, observe)
		}, options: settled, want: "it says that the rollout is done"},
		{name: "paused", write: func(s *scene) {
			d, _, _ := settledScene(s)
			s.User().Edit(d, func(o Object) { o.(*appsv1.Deployment).Spec.Paused = true })
		}, options: settled},
		{name: "ReplicaFailure that no set has", write: func(s *scene) {
			d, _, _ := settledScene(s)
			s.Manager().Edit(d, func(o Object) {
				o.(*appsv1.Deployment).Status.Conditions = append(o.(*appsv1.Deployment).Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: "True"})
			})
		}, options: settled, want: "no ReplicaSet does"},
	})
}

func TestL2Diff(t *testing.T) {
	end := func(edit func(*scene, Object)) []Object {
		s := newScene()
		s.version = int64(len(t.Name())) // other uids
		d, _, _ := settledScene(s)
		if edit != nil {
			edit(s, d)
		}
		return Final(&s.History)
	}
	other := newScene()
	other.n, other.version = 40, 1000 // other names, addresses, uids
	other.Wait(time.Hour)
	settledScene(other)
	if diff := Diff(end(nil), Final(&other.History), nil); len(diff) > 0 {
		t.Errorf("equal but for chance, and the difference is\n%s", strings.Join(diff, "\n"))
	}
	more := end(func(s *scene, d Object) { s.User().Create(s.aPod(s.Revisions[2].Object)) })
	if diff := Diff(end(nil), more, nil); len(diff) != 1 || !strings.HasPrefix(diff[0], "+ Pod shop/web-*-*") {
		t.Errorf("a pod more: %q", diff)
	}
	reasons := end(func(s *scene, d Object) {
		s.Manager().Edit(d, says("True", "False", "ProgressDeadlineExceeded", s.Now))
	})
	if diff := Diff(end(nil), reasons, nil); len(diff) != 2 {
		t.Errorf("other conditions: %q", diff)
	}
	renamed := end(nil)
	for _, o := range renamed {
		o.SetNamespace("elsewhere")
	}
	if diff := Diff(end(nil), renamed, nil); len(diff) == 0 {
		t.Error("other namespaces are no difference")
	}
	if diff := Diff(end(nil), renamed, func(string) string { return "*" }); len(diff) > 0 {
		t.Errorf("other namespaces, masked: %q", diff)
	}
}

func TestL4AndL5(t *testing.T) {
	s := newScene()
	a, b := s.Manager().As("a"), s.Manager().As("b")
	lease := a.Create(aLease("one"))
	set := s.User().Create(aSet(nil, "a", 3))
	died := s.Now
	s.Wait(5 * time.Second)
	lease = s.User().Edit(lease, holds("one"))
	if _, ok := Takeover(&s.History, Options{}, died); ok {
		t.Error("a takeover by the same holder (L5)")
	}
	s.Wait(7 * time.Second)
	b.Edit(lease, holds("two"))
	if took, ok := Takeover(&s.History, Options{}, died); !ok || took < 12*time.Second || took > 13*time.Second {
		t.Errorf("the takeover took %v, %v (L5)", took, ok)
	}
	over := s.Now
	s.Wait(3 * time.Second)
	b.Create(s.aPod(set))
	s.User().Create(aNode())
	if took := Recovery(&s.History, Options{}, over); took < 3*time.Second || took > 4*time.Second {
		t.Errorf("recovery took %v (L4)", took)
	}
	if took := Recovery(&s.History, Options{}, s.Now); took != 0 {
		t.Errorf("recovery took %v though nothing was written (L4)", took)
	}
}
