package oracle

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Script makes a history by hand. It keeps uids, versions, generations and time as a server does:
//
//	s := oracle.NewScript()
//	set := s.User().Create(replicaSet)
//	pod := s.Manager().Create(podOf(set))
//	pod = s.User().Edit(pod, func(o oracle.Object) { o.(*corev1.Pod).Status.Phase = corev1.PodRunning })
//	s.Wait(time.Minute)
//	s.Manager().Delete(pod)
//	oracle.Check(&s.History, oracle.Options{}, oracle.All()...)
type Script struct {
	History
	Now     time.Time
	version int64
}

// NewScript starts at a round time.
func NewScript() *Script { return &Script{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

// Wait lets time pass.
func (s *Script) Wait(d time.Duration) { s.Now = s.Now.Add(d) }

// Hand is someone who changes objects. Each change takes a millisecond.
type Hand struct {
	script  *Script
	Request Request // what the requests have in common
}

// User is anyone but the manager.
func (s *Script) User() Hand { return Hand{s, Request{User: "someone", UserAgent: "kubectl/v1"}} }

// Manager is the manager under test.
func (s *Script) Manager() Hand {
	return Hand{s, Request{User: "system:kube-controller-manager", UserAgent: "manager/v1"}}
}

// Podgc is the manager, when it deletes by force.
func (s *Script) Podgc() Hand {
	h := s.Manager()
	h.Request.Grace = new(int64)
	return h
}

// As is the manager of another process.
func (h Hand) As(program string) Hand {
	h.Request.UserAgent = program + "/v1"
	return h
}

// In is the same hand, whose requests that change nothing are for a namespace.
func (h Hand) In(namespace string) Hand {
	h.Request.Namespace = namespace
	return h
}

// Account is the manager with the service account of one of its controllers.
func (h Hand) Account(name string) Hand {
	h.Request.User = "system:serviceaccount:kube-system:" + name
	return h
}

// Create adds an object and returns it as it is stored.
func (h Hand) Create(o Object) Object {
	o = o.DeepCopyObject().(Object)
	h.tick()
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("%s-%s-%d", kindOf(o), o.GetName(), h.script.version)))
	}
	if created := o.GetCreationTimestamp(); created.IsZero() {
		o.SetCreationTimestamp(metav1.NewTime(h.script.Now))
	}
	if o.GetGeneration() == 0 {
		o.SetGeneration(1)
	}
	return h.commit("create", Added, o)
}

// Edit changes an object, spec or status, and returns it as it is stored.
func (h Hand) Edit(old Object, edit func(Object)) Object {
	o := old.DeepCopyObject().(Object)
	edit(o)
	h.tick()
	if !reflect.DeepEqual(specOf(old), specOf(o)) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
	return h.commit("update", Modified, o)
}

// Delete removes an object, with the uid as precondition.
func (h Hand) Delete(o Object) {
	h.tick()
	h.Request.UID = o.GetUID()
	h.commit("delete", Deleted, o.DeepCopyObject().(Object))
}

// Release removes the last finalizer of an object that is being deleted, and so the object.
func (h Hand) Release(old Object) {
	o := old.DeepCopyObject().(Object)
	o.SetFinalizers(nil)
	h.tick()
	h.commit("patch", Deleted, o)
}

// Terminate marks an object as being deleted.
func (h Hand) Terminate(old Object) Object {
	o := old.DeepCopyObject().(Object)
	h.tick()
	o.SetDeletionTimestamp(&metav1.Time{Time: h.script.Now})
	h.Request.UID = o.GetUID()
	return h.commit("delete", Modified, o)
}

// Ask adds a request that changes nothing.
func (h Hand) Ask(verb, resource, name string, code int) {
	h.script.Now = h.script.Now.Add(time.Millisecond)
	q := h.Request
	q.Verb, q.Resource, q.Name, q.Code, q.Received, q.Done = verb, resource, name, code, h.script.Now, h.script.Now
	h.script.History.Request(q)
}

func (h Hand) tick() {
	h.script.version++
	h.script.Now = h.script.Now.Add(time.Millisecond)
}

func (h Hand) commit(verb string, t Type, o Object) Object {
	s := h.script
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	s.Append(Revision{Version: s.version, Type: t, Object: o, When: s.Now})
	q := h.Request
	q.Verb, q.Resource, q.Namespace, q.Name = verb, resources[kindOf(o)], o.GetNamespace(), o.GetName()
	q.Code, q.Version, q.ResponseUID, q.Received, q.Done = 200, s.version, o.GetUID(), s.Now, s.Now
	s.History.Request(q)
	return o
}

func specOf(o Object) any {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return o.Spec
	case *appsv1.StatefulSet:
		return o.Spec
	case *appsv1.ReplicaSet:
		return o.Spec
	}
	return nil
}
