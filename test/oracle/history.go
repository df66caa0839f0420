package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Object is an API object. Those of other kinds than the ones below are ignored.
type Object interface {
	metav1.Object
	runtime.Object
}

// The kinds that oracles read.
const (
	Pod                   = "Pod"
	ReplicaSet            = "ReplicaSet"
	ReplicationController = "ReplicationController"
	Deployment            = "Deployment"
	DaemonSet             = "DaemonSet"
	StatefulSet           = "StatefulSet"
	PersistentVolumeClaim = "PersistentVolumeClaim"
	Service               = "Service"
	Endpoints             = "Endpoints"
	EndpointSlice         = "EndpointSlice"
	Node                  = "Node"
	Namespace             = "Namespace"
	ConfigMap             = "ConfigMap"
	PodDisruptionBudget   = "PodDisruptionBudget"
	ResourceQuota         = "ResourceQuota"
	Lease                 = "Lease"
	Job                   = "Job"
	ControllerRevision    = "ControllerRevision"
)

// Type says what a revision did to its object.
type Type string

// The types of revisions, as a watch names them.
const (
	Added    Type = "ADDED"
	Modified Type = "MODIFIED"
	Deleted  Type = "DELETED" // Object is the last state
)

// Revision is one state of one object.
type Revision struct {
	Version int64 // the server's resourceVersion
	Type    Type
	Object  Object
	When    time.Time // zero if unknown: then all the lag in the world is allowed for
	// Injected revisions are certainly not the manager's: users and faults, and what existed before the recording.
	Injected bool
}

// Kind is the kind of the revision's object, empty for one that no oracle reads.
func (r *Revision) Kind() string { return kindOf(r.Object) }

// Key is namespace and name of the revision's object.
func (r *Revision) Key() string { return keyOf(r.Object) }

// Request is a request that the API server has answered.
type Request struct {
	ID             string    `json:",omitempty"`
	Received, Done time.Time // zero if unknown
	User           string    `json:",omitempty"`
	UserAgent      string    `json:",omitempty"`
	// Credential tells tokens and certificates of one user apart. Issued is that of the token which this request made.
	Credential, Issued string `json:",omitempty"`

	Verb        string // create, update, patch, delete, get, list, watch, deletecollection
	Resource    string // plural, such as pods
	Subresource string `json:",omitempty"`
	Namespace   string `json:",omitempty"`
	Name        string `json:",omitempty"` // may be empty for a create

	// What the body asked for.
	UID                 types.UID `json:",omitempty"` // the uid that the object must have
	PreconditionVersion string    `json:",omitempty"` // the resourceVersion that a deleted object must have
	Grace               *int64    `json:",omitempty"` // gracePeriodSeconds of a delete

	Code        int       // of the response; 0 if there was none
	Version     int64     `json:",omitempty"` // resourceVersion of the object in the response
	ResponseUID types.UID `json:",omitempty"` // uid in the response: of the object, or of the details of a Status
}

// Succeeded reports whether the server did what was asked.
func (r *Request) Succeeded() bool { return r.Code >= 200 && r.Code < 300 }

func (r *Request) write() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete":
		return true
	}
	return false
}

// History is what happened in a cluster. The zero value is empty and ready for use.
type History struct {
	Revisions []Revision
	Requests  []Request
}

// Append adds a revision.
func (h *History) Append(r Revision) { h.Revisions = append(h.Revisions, r) }

// Request adds a request.
func (h *History) Request(r Request) { h.Requests = append(h.Requests, r) }

func kindOf(o Object) string {
	switch o := o.(type) {
	case *corev1.Pod:
		return known(o != nil, Pod)
	case *appsv1.ReplicaSet:
		return known(o != nil, ReplicaSet)
	case *corev1.ReplicationController:
		return known(o != nil, ReplicationController)
	case *appsv1.Deployment:
		return known(o != nil, Deployment)
	case *appsv1.DaemonSet:
		return known(o != nil, DaemonSet)
	case *appsv1.StatefulSet:
		return known(o != nil, StatefulSet)
	case *corev1.PersistentVolumeClaim:
		return known(o != nil, PersistentVolumeClaim)
	case *corev1.Service:
		return known(o != nil, Service)
	case *corev1.Endpoints:
		return known(o != nil, Endpoints)
	case *discoveryv1.EndpointSlice:
		return known(o != nil, EndpointSlice)
	case *corev1.Node:
		return known(o != nil, Node)
	case *corev1.Namespace:
		return known(o != nil, Namespace)
	case *corev1.ConfigMap:
		return known(o != nil, ConfigMap)
	case *policyv1.PodDisruptionBudget:
		return known(o != nil, PodDisruptionBudget)
	case *corev1.ResourceQuota:
		return known(o != nil, ResourceQuota)
	case *coordinationv1.Lease:
		return known(o != nil, Lease)
	case *batchv1.Job:
		return known(o != nil, Job)
	case *appsv1.ControllerRevision:
		return known(o != nil, ControllerRevision)
	}
	return ""
}

func known(set bool, kind string) string {
	if set {
		return kind
	}
	return ""
}

// newObject makes an empty object of a kind; nil for one that no oracle reads.
func newObject(kind string) Object {
	switch kind {
	case Pod:
		return &corev1.Pod{}
	case ReplicaSet:
		return &appsv1.ReplicaSet{}
	case ReplicationController:
		return &corev1.ReplicationController{}
	case Deployment:
		return &appsv1.Deployment{}
	case DaemonSet:
		return &appsv1.DaemonSet{}
	case StatefulSet:
		return &appsv1.StatefulSet{}
	case PersistentVolumeClaim:
		return &corev1.PersistentVolumeClaim{}
	case Service:
		return &corev1.Service{}
	case Endpoints:
		return &corev1.Endpoints{}
	case EndpointSlice:
		return &discoveryv1.EndpointSlice{}
	case Node:
		return &corev1.Node{}
	case Namespace:
		return &corev1.Namespace{}
	case ConfigMap:
		return &corev1.ConfigMap{}
	case PodDisruptionBudget:
		return &policyv1.PodDisruptionBudget{}
	case ResourceQuota:
		return &corev1.ResourceQuota{}
	case Lease:
		return &coordinationv1.Lease{}
	case Job:
		return &batchv1.Job{}
	case ControllerRevision:
		return &appsv1.ControllerRevision{}
	}
	return nil
}

func keyOf(o Object) string { return o.GetNamespace() + "/" + o.GetName() }

// line is a line of a saved history: a revision or a request.
type line struct {
	Version  int64           `json:",omitempty"`
	Type     Type            `json:",omitempty"`
	Kind     string          `json:",omitempty"`
	When     *time.Time      `json:",omitempty"`
	Injected bool            `json:",omitempty"`
	Object   json.RawMessage `json:",omitempty"`
	Request  *Request        `json:",omitempty"`
}

// Save writes the history as JSON lines, compressed if the file's name ends with .gz.
func (h *History) Save(file string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if !strings.HasSuffix(file, ".gz") {
		return h.Write(f)
	}
	z := gzip.NewWriter(f)
	return errors.Join(h.Write(z), z.Close())
}

// Write writes the history as JSON lines.
func (h *History) Write(to io.Writer) error {
	w := bufio.NewWriter(to)
	e := json.NewEncoder(w)
	for i := range h.Revisions {
		r := &h.Revisions[i]
		if r.Kind() == "" {
			continue
		}
		object, err := json.Marshal(r.Object)
		if err != nil {
			return fmt.Errorf("revision %d: %w", r.Version, err)
		}
		l := line{Version: r.Version, Type: r.Type, Kind: r.Kind(), Injected: r.Injected, Object: object}
		if !r.When.IsZero() {
			l.When = &r.When
		}
		if err := e.Encode(l); err != nil {
			return err
		}
	}
	for i := range h.Requests {
		if err := e.Encode(line{Request: &h.Requests[i]}); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Load reads what Save has written.
func Load(file string) (*History, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !strings.HasSuffix(file, ".gz") {
		return Read(f)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return Read(z)
}

// Read reads what Write has written.
func Read(from io.Reader) (*History, error) {
	h := &History{}
	d := json.NewDecoder(bufio.NewReader(from))
	for {
		var l line
		err := d.Decode(&l)
		if errors.Is(err, io.EOF) {
			return h, nil
		}
		if err == nil {
			err = h.add(l)
		}
		if err != nil {
			return nil, fmt.Errorf("history, after %d revisions: %w", len(h.Revisions), err)
		}
	}
}

func (h *History) add(l line) error {
	if l.Request != nil {
		h.Request(*l.Request)
		return nil
	}
	object := newObject(l.Kind)
	if object == nil {
		return fmt.Errorf("unknown kind %q", l.Kind)
	}
	if err := json.Unmarshal(l.Object, object); err != nil {
		return err
	}
	r := Revision{Version: l.Version, Type: l.Type, Object: object, Injected: l.Injected}
	if l.When != nil {
		r.When = *l.When
	}
	h.Append(r)
	return nil
}
