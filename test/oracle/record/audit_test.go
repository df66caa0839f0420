package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lines of an audit log, as the API server writes them; shortened.
const log = `{"kind":"Event","level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/api/v1/pods?watch=true","verb":"watch","user":{"username":"u"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-01T00:00:01.000000Z","stageTimestamp":"2026-01-01T00:00:02.000000Z"}
{"kind":"Event","level":"RequestResponse","auditID":"2","stage":"ResponseComplete","verb":"delete","user":{"username":"u","extra":{"authentication.kubernetes.io/credential-id":["JTI=7"]}},"userAgent":"m/1","objectRef":{"resource":"pods","namespace":"n","name":"p"},"responseStatus":{"code":200},"requestObject":{"kind":"DeleteOptions","gracePeriodSeconds":0,"preconditions":{"uid":"x","resourceVersion":"5"}},"responseObject":{"kind":"Pod","metadata":{"name":"p","uid":"x","resourceVersion":"6"}},"requestReceivedTimestamp":"2026-01-01T00:00:03.000000Z","stageTimestamp":"2026-01-01T00:00:03.500000Z"}
{"kind":"Event","level":"RequestResponse","auditID":"3","stage":"ResponseComplete","verb":"delete","user":{"username":"u"},"objectRef":{"resource":"replicasets","namespace":"n","name":"r"},"responseStatus":{"code":200},"responseObject":{"kind":"Status","metadata":{},"details":{"name":"r","uid":"y"}},"requestReceivedTimestamp":"2026-01-01T00:00:04.000000Z","stageTimestamp":"2026-01-01T00:00:04.000000Z"}
{"kind":"Event","level":"RequestResponse","auditID":"4","stage":"ResponseComplete","verb":"create","user":{"username":"u"},"objectRef":{"resource":"pods","namespace":"n"},"responseStatus":{"code":201},"requestObject":{"metadata":{"generateName":"r-"}},"responseObject":{"kind":"Pod","metadata":{"name":"r-1","uid":"z","resourceVersion":"9"}},"requestReceivedTimestamp":"2026-01-01T00:00:05.000000Z","stageTimestamp":"2026-01-01T00:00:05.000000Z"}
{"kind":"Event","level":"RequestResponse","auditID":"5","stage":"ResponseStarted","verb":"create"}
{"kind":"Event","level":"Metadata","auditID":"6","stage":"ResponseComplete","verb":"create","user":{"username":"u","extra":{"authentication.kubernetes.io/credential-id":["X509SHA256=1"]}},"objectRef":{"resource":"serviceaccounts","subresource":"token"},"responseStatus":{"code":201},"annotations":{"authentication.kubernetes.io/issued-credential-id":"JTI=7"},"requestReceivedTimestamp":"2026-01-01T00:00:06.000000Z","stageTimestamp":"2026-01-01T00:00:06.000000Z"}
{"kind":"Event","auditID":"7","stage":"ResponseComp`

func TestRequests(t *testing.T) {
	dir := t.TempDir()
	half := strings.Index(log, `{"kind":"Event","level":"RequestResponse","auditID":"3"`)
	for name, text := range map[string]string{"audit-2026-01-01T00-00-03.500.log": log[:half], "audit.log": log[half:]} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Requests(filepath.Join(dir, "audit.log"), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 4 {
		t.Fatalf("%d requests: %+v", len(all), all)
	}
	if q := all[0]; q.ID != "2" || q.UID != "x" || q.PreconditionVersion != "5" || q.Grace == nil || *q.Grace != 0 || q.Version != 6 || q.ResponseUID != "x" || q.Credential != "JTI=7" || q.Done.Sub(q.Received) != 500*time.Millisecond {
		t.Errorf("a forced deletion: %+v", q)
	}
	if q := all[1]; q.ResponseUID != "y" || q.Version != 0 || q.UID != "" || q.Resource != "replicasets" {
		t.Errorf("a deletion answered with a Status: %+v", q)
	}
	if q := all[2]; q.Name != "r-1" || q.Version != 9 || q.Code != 201 {
		t.Errorf("a create with a generated name: %+v", q)
	}
	if q := all[3]; q.Issued != "JTI=7" || q.Credential != "X509SHA256=1" || q.Subresource != "token" {
		t.Errorf("a token: %+v", q)
	}
	since, err := Requests(filepath.Join(dir, "audit.log"), all[2].Received)
	if err != nil || len(since) != 2 {
		t.Errorf("since the third: %d, %v", len(since), err)
	}
	if _, err := ReadRequests(strings.NewReader("nonsense\n"), time.Time{}); err == nil {
		t.Error("nonsense is read")
	}
}

func TestPolicy(t *testing.T) {
	if p := Policy("a", "b"); !strings.Contains(p, `users: ["a", "b"]`) {
		t.Error(p)
	}
	if p := Policy(); !strings.Contains(p, "serviceaccount:kube-system:pod-garbage-collector") || strings.Contains(p, "%") {
		t.Error(p)
	}
}
