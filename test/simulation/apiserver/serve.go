package apiserver

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// serve carries out a request that is no watch.
func (c *Client) serve(r request, req *http.Request, body []byte) (code int, o runtime.Object, err error) {
	switch {
	case r.Resource == reviews:
		o, err = c.Server.review(body)
		return http.StatusCreated, o, err
	case r.store == nil:
		o, err = c.Server.discover(req)
		return http.StatusOK, o, err
	}
	switch r.Verb {
	case "get":
		o, err = c.get(r)
		return http.StatusOK, o, err
	case "list":
		o, err = c.list(r)
		return http.StatusOK, o, err
	}
	w, err := c.readWrite(r, req, body)
	if err != nil {
		return 0, nil, err
	}
	if c.Refuse != nil {
		if err := c.Refuse(req.Context(), w); err != nil {
			return 0, nil, barred{err}
		}
	}
	if w.Verb == DeleteCollection {
		o, err = c.deleteCollection(r, w)
		return http.StatusOK, o, err
	}
	if err := c.pass(req.Context(), r, &w); err != nil {
		return 0, nil, err
	}
	return answered(r.store, w, c.Server.perform(w))
}

// pass lets a creation wait in a webhook, once the namespace has taken it.
func (c *Client) pass(ctx context.Context, r request, w *Write) error {
	if c.Network == nil || w.Verb != Create {
		return nil
	}
	wait := c.Network.Webhook(r.Request)
	if wait == nil {
		return nil
	}
	s := c.Server
	s.mu.Lock()
	err := s.checkNamespace(r.store, *w, w.Object.DeepCopyObject().(Object))
	s.mu.Unlock()
	if err != nil {
		return err
	}
	w.Admitted = true
	return wait(ctx)
}

// answered is how the server answers a write.
func answered(st *store, w Write, did Result) (code int, o runtime.Object, err error) {
	switch {
	case did.Err != nil:
		return 0, nil, did.Err
	case did.Answer != nil && w.Verb == Create:
		return http.StatusCreated, did.Answer, nil
	case did.Answer != nil:
		return http.StatusOK, did.Answer, nil
	case did.Before == nil:
		return http.StatusCreated, did.After, nil
	case w.Verb == Delete && !st.answered && !st.mustStay(did.After):
		return http.StatusOK, deleted(st, did.After), nil
	}
	return http.StatusOK, did.After, nil
}

// deleted is the answer to a deletion that has left nothing.
func deleted(st *store, o Object) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: o.GetName(), Group: st.Group, Kind: st.Resource, UID: o.GetUID()}}
}

// readWrite reads the write that a request asks for.
func (c *Client) readWrite(r request, req *http.Request, body []byte) (w Write, err error) {
	w = Write{By: c.Name, Agent: r.Agent, Verb: Verb(r.Verb), Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace,
		Name: r.Name}
	query := req.URL.Query()
	dryRun := query["dryRun"]
	w.Manager, w.Force = query.Get("fieldManager"), query.Get("force") == "true"
	switch w.Verb {
	case Create, Update:
		err = w.readObject(r.store, body)
	case Patch:
		w.Patch, w.PatchType = body, types.PatchType(req.Header.Get("Content-Type"))
	case Delete, DeleteCollection:
		if len(body) > 0 {
			err = decode(body, &w.Options)
		} else if len(query) > 0 {
			err = scheme.ParameterCodec.DecodeParameters(query, metav1.Unversioned, &w.Options)
		}
		dryRun = append(dryRun, w.Options.DryRun...)
	}
	if err != nil {
		return w, apierrors.NewBadRequest(err.Error())
	}
	if w.Manager == "" && w.PatchType != types.ApplyPatchType {
		w.Manager, _, _ = strings.Cut(r.Agent, "/")
	}
	w.DryRun = len(dryRun) > 0
	if slices.ContainsFunc(dryRun, func(s string) bool { return s != metav1.DryRunAll }) {
		err = apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("WriteOptions").GroupKind(), "", field.ErrorList{
			field.NotSupported(field.NewPath("dryRun"), dryRun, []string{metav1.DryRunAll})})
	}
	return w, err
}

// readObject reads the object of a creation or update.
func (w *Write) readObject(st *store, body []byte) error {
	if sub := st.subs[w.Subresource]; sub.empty != nil {
		w.Object = sub.empty()
	} else {
		w.Object = st.New()
	}
	if u, custom := w.Object.(*unstructured.Unstructured); custom {
		text, err := yaml.YAMLToJSON(body)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, u)
	}
	return decode(body, w.Object)
}

func decode(body []byte, into runtime.Object) error {
	_, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, into)
	return err
}

// get returns an object, or what a subresource shows of it.
func (c *Client) get(r request) (runtime.Object, error) {
	s := c.Server
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, known := r.store.subs[r.Subresource]
	if r.Subresource != "" {
		if !known {
			return nil, unknownPath(r.Verb, r.Resource+"/"+r.Name+"/"+r.Subresource)
		}
		if !slices.Contains(sub.verbs, r.Verb) {
			return nil, apierrors.NewMethodNotSupported(r.store.groupResource(), r.Verb)
		}
	}
	version, err := c.readAt(r)
	if err != nil {
		return nil, err
	}
	o := r.store.objectAt(keyOf(r.Namespace, r.Name), version)
	if o == nil {
		return nil, apierrors.NewNotFound(r.store.groupResource(), r.Name)
	}
	if sub.show != nil {
		return sub.show(o), nil
	}
	return o, nil
}

// deleteCollection deletes what a list would show, each as if it were deleted alone, and answers with the list.
func (c *Client) deleteCollection(r request, w Write) (runtime.Object, error) {
	if slices.Contains(r.store.without, r.Verb) {
		return nil, apierrors.NewMethodNotSupported(r.store.groupResource(), r.Verb)
	}
	objects, listMeta, err := c.choose(r)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		w.Name, w.Namespace = o.GetName(), o.GetNamespace()
		if did := c.Server.perform(w); did.Err != nil && !apierrors.IsNotFound(did.Err) {
			return nil, did.Err
		}
	}
	return r.store.listOf(objects, listMeta)
}
