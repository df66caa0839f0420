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
	"reflect"
	"strings"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object is an API object. Those of other kinds than the ones below are ignored.
type Object interface {
	metav1.Object
	runtime.Object
}

// The names of the kinds that oracles read.
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
	PersistentVolume      = "PersistentVolume"
	VolumeAttributesClass = "VolumeAttributesClass"
	VolumeAttachment      = "VolumeAttachment"
	StorageClass          = "StorageClass"
	ServiceCIDR           = "ServiceCIDR"
	IPAddress             = "IPAddress"
	ResourceClaim         = "ResourceClaim"
	PodCertificateRequest = "PodCertificateRequest"
	ClusterTrustBundle    = "ClusterTrustBundle"
	StorageVersion        = "StorageVersion"
	ResourceClaimTemplate = "ResourceClaimTemplate"
	ResourceSlice         = "ResourceSlice"
	DeviceTaintRule       = "DeviceTaintRule"
	PodGroup              = "PodGroup"
	Workload              = "Workload"
)

// examples are objects of the kinds that oracles read. All else about the kinds follows from their Go types.
var examples = []Object{
	&corev1.Pod{}, &corev1.ReplicationController{}, &corev1.PersistentVolumeClaim{}, &corev1.Service{}, &corev1.Endpoints{}, &corev1.Node{},
	&corev1.Namespace{}, &corev1.ConfigMap{}, &corev1.ResourceQuota{}, &appsv1.ReplicaSet{}, &appsv1.Deployment{}, &appsv1.DaemonSet{},
	&appsv1.StatefulSet{}, &appsv1.ControllerRevision{}, &batchv1.Job{}, &discoveryv1.EndpointSlice{}, &policyv1.PodDisruptionBudget{},
	&coordinationv1.Lease{},
	&corev1.PersistentVolume{}, &storagev1.StorageClass{}, &storagev1.VolumeAttachment{}, &storagev1.VolumeAttributesClass{},
	&networkingv1.ServiceCIDR{}, &networkingv1.IPAddress{},
	&resourcev1.ResourceClaim{}, &certificatesv1.PodCertificateRequest{}, &certificatesv1.ClusterTrustBundle{},
	&apiserverinternalv1alpha1.StorageVersion{}, &resourcev1.ResourceClaimTemplate{}, &resourcev1.ResourceSlice{},
	&resourcev1.DeviceTaintRule{}, &schedulingv1beta1.PodGroup{}, &schedulingv1beta1.Workload{},
}

// kindsByType are the kinds by their Go types, which are called alike.
var kindsByType = func() map[reflect.Type]string {
	byType := map[reflect.Type]string{}
	for _, o := range examples {
		t := reflect.TypeOf(o)
		byType[t] = t.Elem().Name()
	}
	return byType
}()

// Examples returns an empty object of each kind that oracles read.
func Examples() (objects []Object) {
	for _, o := range examples {
		objects = append(objects, newObject(kindOf(o)))
	}
	return objects
}

// resources are the plural names of the kinds.
var resources = func() map[string]string {
	plurals := map[string]string{}
	for _, o := range examples {
		kind := reflect.TypeOf(o).Elem().Name()
		resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
		plurals[kind] = resource.Resource
	}
	return plurals
}()

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

// kindOf is the kind of an object, empty for one that no oracle reads.
func kindOf(o Object) string {
	if o == nil || reflect.ValueOf(o).IsNil() {
		return ""
	}
	return kindsByType[reflect.TypeOf(o)]
}

// newObject makes an empty object of a kind; nil for one that no oracle reads.
func newObject(kind string) Object {
	for t, k := range kindsByType {
		if k == kind {
			return reflect.New(t.Elem()).Interface().(Object)
		}
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
