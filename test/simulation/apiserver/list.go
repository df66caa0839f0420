package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Lagging may be implemented by a Network that leads to a server whose caches lag behind. Such a server answers with an older
// state if the request is content with any version, and lets others wait: here they are told at once that their version is
// too large. Watches lag by way of [Channel].
type Lagging interface {
	// Lag is by how much the cache of a resource is behind.
	Lag(resource string) time.Duration
}

// known is the version up to which the caches that the client reaches know a resource.
func (c *Client) known(st *store) uint64 {
	if l, ok := c.Network.(Lagging); ok {
		if lag := l.Lag(st.key); lag > 0 {
			return st.knownAt(time.Now().Add(-lag), c.Server.version)
		}
	}
	return c.Server.version
}

// knownAt is the version that was current at a time, as far as this kind is concerned.
func (st *store) knownAt(t time.Time, current uint64) uint64 {
	for i := len(st.history) - 1; i >= 0 && st.history[i].Time.After(t); i-- {
		current = st.history[i].Version - 1
	}
	return current
}

// readAt is the version at which a get or list without pages reads.
func (c *Client) readAt(r request) (uint64, error) {
	switch asked := r.list.ResourceVersion; asked {
	case "":
		return c.Server.version, nil
	case "0":
		return c.known(r.store), nil
	default:
		version, err := parseVersion(asked)
		known := c.known(r.store)
		if err == nil && version > known {
			err = tooNew(version, known)
		}
		return known, err
	}
}

func parseVersion(text string) (uint64, error) {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest("invalid resource version: " + err.Error())
	}
	return version, nil
}

func tooNew(asked, current uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version"}}
	return err
}

// objectAt returns an object as it was at a version, nil if it was not there.
func (st *store) objectAt(key string, version uint64) Object {
	if len(st.since(version)) == 0 {
		return st.objects[key]
	}
	for _, o := range st.at(version) {
		if keyOf(o.GetNamespace(), o.GetName()) == key {
			return o
		}
	}
	return nil
}

// list returns the objects that a list asks for, or a page of them.
func (c *Client) list(r request) (runtime.Object, error) {
	objects, listMeta, err := c.choose(r)
	if err != nil {
		return nil, err
	}
	return r.store.listOf(objects, listMeta)
}

// choose returns the objects that a list asks for.
func (c *Client) choose(r request) (chosen []Object, listMeta metav1.ListMeta, err error) {
	if err := validateList(r.list); err != nil {
		return nil, listMeta, err
	}
	matches, err := r.store.selection(r.list)
	if err != nil {
		return nil, listMeta, err
	}
	c.Server.mu.Lock()
	defer c.Server.mu.Unlock()
	p, err := c.page(r)
	if err != nil {
		return nil, listMeta, err
	}
	left := int64(0) // in later pages
	listMeta.ResourceVersion = strconv.FormatUint(p.version, 10)
	for _, o := range r.store.at(p.version) {
		switch {
		case keyOf(o.GetNamespace(), o.GetName()) <= p.after || r.Namespace != "" && o.GetNamespace() != r.Namespace || !matches(o):
		case p.limit > 0 && int64(len(chosen)) == p.limit:
			left++
		default:
			chosen = append(chosen, o)
		}
	}
	if left > 0 {
		last := chosen[len(chosen)-1]
		listMeta.Continue = continueAt(p.version, keyOf(last.GetNamespace(), last.GetName()))
		if r.list.LabelSelector == "" && r.list.FieldSelector == "" {
			listMeta.RemainingItemCount = &left
		}
	}
	return chosen, listMeta, nil
}

// page says where a list reads.
type page struct {
	version uint64
	after   string // the key that the page before has ended with
	limit   int64  // 0 for none: lists that are content with any version are not limited
}

func (c *Client) page(r request) (p page, err error) {
	asked := r.list.ResourceVersion
	exact := r.list.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		r.list.Limit > 0 && asked != "" && asked != "0" && r.list.ResourceVersionMatch == ""
	if asked != "0" {
		p.limit = r.list.Limit
	}
	switch {
	case r.list.Continue != "" && asked != "" && asked != "0":
		err = apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	case r.list.Continue != "":
		p.version, p.after, err = readContinue(r.list.Continue)
		if p.version == 0 {
			p.version = c.Server.version
		}
	case exact:
		p.version, err = parseVersion(asked)
	default:
		p.version, err = c.readAt(r)
		return p, err
	}
	switch {
	case err != nil:
	case p.version > c.Server.version:
		err = tooNew(p.version, c.Server.version)
	case p.version < r.store.compacted:
		err = expired(p)
	}
	return p, err
}

// expired says that a version is compacted. The client may go on with the next page all the same, in the newest version.
func expired(p page) error {
	if p.after == "" {
		return apierrors.NewResourceExpired(fmt.Sprintf("The resourceVersion for the provided list is too old: %d", p.version))
	}
	err := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of " +
		"the results.")
	err.ErrStatus.ListMeta.Continue = continueAt(0, p.after)
	return err
}

// continueToken is what clients send back for the next page.
type continueToken struct {
	Version uint64 // 0 for the newest one
	After   string
}

func continueAt(version uint64, after string) string {
	text, _ := json.Marshal(continueToken{version, after})
	return base64.RawURLEncoding.EncodeToString(text)
}

func readContinue(text string) (version uint64, after string, err error) {
	var t continueToken
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(plain, &t)
	}
	if err != nil || !strings.Contains(t.After, "/") {
		return 0, "", apierrors.NewBadRequest("continue key is not valid")
	}
	return t.Version, t.After, nil
}

// validateList checks the options of a list or watch as the real server does.
func validateList(o metav1.ListOptions) error {
	var internal internalversion.ListOptions
	if err := internalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(&o, &internal, nil); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if errs := validation.ValidateListOptions(&internal, true); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", errs)
	}
	return nil
}

// listOf returns objects as a list.
func (k *Kind) listOf(objects []Object, listMeta metav1.ListMeta) (runtime.Object, error) {
	items := make([]runtime.Object, len(objects))
	for i, o := range objects {
		items[i] = o
	}
	list := k.newList()
	if err := meta.SetList(list, items); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if !k.custom() {
		_ = meta.EachListItem(list, func(item runtime.Object) error { // they are copies
			item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			return nil
		})
	}
	list.GetObjectKind().SetGroupVersionKind(k.GroupVersion().WithKind(k.GroupVersionKind.Kind + "List"))
	l := list.(metav1.ListInterface)
	l.SetResourceVersion(listMeta.ResourceVersion)
	l.SetContinue(listMeta.Continue)
	l.SetRemainingItemCount(listMeta.RemainingItemCount)
	return list, nil
}
