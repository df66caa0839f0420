package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/test/oracle"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

// policy has bodies only where oracles read them: in what managers write. %s are the users.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  users: [%s]
  verbs: [create, update, patch, delete]
  resources:
  - {group: "", resources: [pods, pods/status, endpoints, services, configmaps, replicationcontrollers, replicationcontrollers/status]}
  - {group: apps, resources: [deployments, deployments/status, replicasets, replicasets/status]}
  - {group: discovery.k8s.io, resources: [endpointslices]}
  - {group: coordination.k8s.io, resources: [leases]}
- level: None
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*"]
- level: Metadata
`

// Policy is the audit policy under which an API server writes what oracles read. The users are those of the managers, by
// default kube-controller-manager's and its controllers' service accounts.
func Policy(users ...string) string {
	if len(users) == 0 {
		users = []string{"system:kube-controller-manager"}
		for _, c := range controllers.Registry() {
			users = append(users, "system:serviceaccount:kube-system:"+c.Account)
		}
	}
	var quoted []string
	for _, user := range users {
		quoted = append(quoted, strconv.Quote(user))
	}
	return fmt.Sprintf(policy, strings.Join(quoted, ", "))
}

// event is what is read of a line of the audit log.
type event struct {
	AuditID    string `json:"auditID"`
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	User       struct {
		Username string              `json:"username"`
		Extra    map[string][]string `json:"extra"`
	} `json:"user"`
	UserAgent string `json:"userAgent"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestObject  json.RawMessage   `json:"requestObject"`
	ResponseObject json.RawMessage   `json:"responseObject"`
	Received       metav1.MicroTime  `json:"requestReceivedTimestamp"`
	Done           metav1.MicroTime  `json:"stageTimestamp"`
	Annotations    map[string]string `json:"annotations"`
}

const (
	credentialID = "authentication.kubernetes.io/credential-id"
	issuedID     = "authentication.kubernetes.io/issued-credential-id"
)

// Requests reads the requests that arrived at or after a time from an audit log, and from the files into which it has been
// rotated. Watches and lists are left out.
func Requests(file string, since time.Time) ([]oracle.Request, error) {
	extension := filepath.Ext(file)
	files, err := filepath.Glob(strings.TrimSuffix(file, extension) + "-*" + extension)
	if err != nil {
		return nil, err
	}
	slices.Sort(files) // their names have the time
	var all []oracle.Request
	for _, name := range append(files, file) {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		some, err := ReadRequests(f, since)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// ReadRequests reads an audit log. A last line that is not complete yet is left out.
func ReadRequests(from io.Reader, since time.Time) (all []oracle.Request, err error) {
	lines := bufio.NewReaderSize(from, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %.100q: %w", line, err)
		}
		if e.Received.Time.Before(since) || e.Stage != "ResponseComplete" && e.Stage != "Panic" || e.Verb == "list" || e.Verb == "watch" {
			continue
		}
		all = append(all, e.request())
	}
}

func (e *event) request() oracle.Request {
	q := oracle.Request{
		ID: e.AuditID, Received: e.Received.Time, Done: e.Done.Time, User: e.User.Username, UserAgent: e.UserAgent,
		Issued: e.Annotations[issuedID], Verb: e.Verb, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, Code: e.ResponseStatus.Code,
	}
	if ids := e.User.Extra[credentialID]; len(ids) > 0 {
		q.Credential = ids[0]
	}
	var asked struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
		Grace         *int64 `json:"gracePeriodSeconds"`
		Preconditions struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"preconditions"`
	}
	if len(e.RequestObject) > 0 && json.Unmarshal(e.RequestObject, &asked) == nil {
		q.UID, q.PreconditionVersion, q.Grace = asked.Metadata.UID, asked.Metadata.ResourceVersion, asked.Grace
		if e.Verb == "delete" {
			q.UID, q.PreconditionVersion = asked.Preconditions.UID, asked.Preconditions.ResourceVersion
		}
	}
	var answered struct {
		Kind     string `json:"kind"`
		Metadata struct {
			UID             types.UID `json:"uid"`
			Name            string    `json:"name"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
		Details struct {
			UID types.UID `json:"uid"`
		} `json:"details"`
	}
	if len(e.ResponseObject) > 0 && json.Unmarshal(e.ResponseObject, &answered) == nil {
		if answered.Kind == "Status" {
			q.ResponseUID = answered.Details.UID
			return q
		}
		q.ResponseUID = answered.Metadata.UID
		q.Version, _ = strconv.ParseInt(answered.Metadata.ResourceVersion, 10, 64)
		if q.Name == "" {
			q.Name = answered.Metadata.Name // of a create with generateName
		}
	}
	return q
}
