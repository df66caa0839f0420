package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Store puts an object, in JSON, where the API server keeps it, past the server. The key is that of etcd without /registry/.
func (c *Cluster) Store(key string, object []byte) error {
	_, err := c.askEtcd("put", map[string][]byte{"key": registry(key), "value": object})
	return err
}

// Unstore takes an object away from there.
func (c *Cluster) Unstore(key string) error {
	_, err := c.askEtcd("deleterange", map[string][]byte{"key": registry(key)})
	return err
}

// Stored reports whether an object is there.
func (c *Cluster) Stored(key string) (bool, error) {
	found, err := c.askEtcd("range", map[string][]byte{"key": registry(key)})
	return found > 0, err
}

func registry(key string) []byte { return []byte(path.Join("/registry", key)) }

// askEtcd reads or changes what the API server keeps, and returns how many keys were found.
func (c *Cluster) askEtcd(verb string, request map[string][]byte) (found int, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return 0, err
	}
	resp, err := http.Post(c.Etcd+"/v3/kv/"+verb, "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s %s: %s", verb, body, resp.Status)
	}
	var answer struct {
		Count int `json:"count,string"`
	}
	return answer.Count, json.NewDecoder(resp.Body).Decode(&answer)
}

// Backdate has the API server believe that it has created an object so long ago. Nobody else may change the object meanwhile.
func (c *Cluster) Backdate(resource schema.GroupVersionResource, namespace, name string, ago time.Duration) error {
	client, err := dynamic.NewForConfig(c.RESTConfig)
	if err != nil {
		return err
	}
	o, err := client.Resource(resource).Namespace(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	o.SetResourceVersion("")
	o.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-ago)))
	text, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	return c.Store(path.Join(resource.Resource, namespace, name), text)
}

// Backup ends the API server and its storage, copies what is stored, and starts both again.
func (c *Cluster) Backup(t testing.TB) (backup string) {
	t.Helper()
	backup = filepath.Join(t.TempDir(), "backup")
	c.offline(t, func() error { return os.CopyFS(backup, os.DirFS(c.storage())) })
	return backup
}

// Restore puts what is stored back to a backup. Managers go on to run, and so do the scheduler and kwok, which do not notice it.
func (c *Cluster) Restore(t testing.TB, backup string) {
	t.Helper()
	c.offline(t, func() error {
		if err := os.RemoveAll(c.storage()); err != nil {
			return err
		}
		return os.CopyFS(c.storage(), os.DirFS(backup))
	})
}

// storage is the folder of etcd.
func (c *Cluster) storage() string { return filepath.Join(c.Dir, "etcd") }

// offline does something while neither the API server nor etcd runs.
func (c *Cluster) offline(t testing.TB, do func() error) {
	t.Helper()
	c.StopAPIServer(t)
	c.stopComponent(t, "etcd")
	if err := do(); err != nil {
		t.Fatal(err)
	}
	c.StartAPIServer(t)
}
