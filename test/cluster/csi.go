package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a control plane with the CSI driver has.
const (
	CSIDriver    = "csi.localcluster.standalone-kcm.io" // the driver's name
	CSIClass     = "csi"                                // the default StorageClass
	CSIClassWait = "csi-wait"                           // one whose claims wait for a pod
)

// StartWithCSI returns the package's control plane with the CSI driver of test/csidriver and its sidecars, starting it if need be. It
// is another one than that of [Start], because claims there are bound by tests or not at all: here a claim without a class gets the
// default one, and the scheduler waits for volumes. The package's options hold for it, too. It skips the test unless STORAGE is set in
// the environment, as "make storage" does: the sidecars have to be built before, and other tests do not need them.
func StartWithCSI(t testing.TB) *Cluster {
	t.Helper()
	if os.Getenv("STORAGE") == "" {
		t.Skip(`needs a CSI driver and its sidecars: "make storage" has them`)
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.csi == nil && shared.csiErr == nil {
		shared.csi, shared.csiErr = start("-csi", "--with-csi", untainted)
		if shared.csiErr == nil {
			for _, option := range shared.all {
				option(t, shared.csi)
			}
		}
	}
	if shared.csiErr != nil {
		t.Fatalf("no control plane: %v", shared.csiErr)
	}
	return shared.csi
}

// CSIVolume is one that the driver has, as test/csidriver tells it.
type CSIVolume struct {
	ID, Name, Namespace, Claim string
	Bytes                      int64
	Parameters, Attributes     map[string]string
	Nodes                      []string // where it is attached
}

// CSICall is one that the driver has had.
type CSICall struct {
	Time                                           time.Time
	Method, Namespace, Volume, Node, Code, Message string
}

// CSIFault is what shall go wrong with calls about volumes of a namespace. What it does not name does not matter.
type CSIFault struct {
	Namespace string `json:"namespace"`
	Method    string `json:"method,omitempty"`
	Volume    string `json:"volume,omitempty"`
	Node      string `json:"node,omitempty"`
	Code      string `json:"code,omitempty"` // of the error, such as RESOURCE_EXHAUSTED; without one the call is only delayed
	Message   string `json:"message,omitempty"`
	Delay     string `json:"delay,omitempty"` // before the call, such as 2s
	Late      bool   `json:"late,omitempty"`  // the call does its work, and only its answer is the error
	Times     int    `json:"times,omitempty"` // how many calls it meets; 0 for all, until the driver recovers
}

// CSIVolumes returns the driver's volumes for claims of a namespace.
func (c *Cluster) CSIVolumes(t testing.TB, namespace string) (all []CSIVolume) {
	t.Helper()
	c.askCSI(t, "GET", "/volumes?namespace="+url.QueryEscape(namespace), nil, &all)
	return all
}

// CSICalls returns the calls about volumes for claims of a namespace, oldest first.
func (c *Cluster) CSICalls(t testing.TB, namespace string) (all []CSICall) {
	t.Helper()
	c.askCSI(t, "GET", "/calls?namespace="+url.QueryEscape(namespace), nil, &all)
	return all
}

// CSIFails makes calls go wrong.
func (c *Cluster) CSIFails(t testing.TB, f CSIFault) {
	t.Helper()
	body, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	c.askCSI(t, "POST", "/faults", body, nil)
}

// CSIRecovers ends all faults of a namespace.
func (c *Cluster) CSIRecovers(t testing.TB, namespace string) {
	t.Helper()
	c.askCSI(t, "DELETE", "/faults?namespace="+url.QueryEscape(namespace), nil, nil)
}

// StopCSI kills the driver and its sidecars. The test's end starts them again if the test did not.
func (c *Cluster) StopCSI(t testing.TB) {
	t.Helper()
	t.Cleanup(func() { c.StartCSI(cleanup{t}) })
	c.stopComponent(t, "csidriver")
}

// StartCSI starts the driver and its sidecars, unless they run. The driver has the volumes that it had.
func (c *Cluster) StartCSI(t testing.TB) {
	t.Helper()
	if out, err := c.localcluster("start-component", "--name", c.Name, "csidriver").CombinedOutput(); err != nil {
		t.Fatalf("start the CSI driver: %v\n%s", err, out)
	}
}

// askCSI asks or tells the driver something.
func (c *Cluster) askCSI(t testing.TB, method, path string, body []byte, answer any) {
	t.Helper()
	server, err := os.ReadFile(filepath.Join(c.Dir, "localcluster", "csi", "control"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // the test's own context may be over
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, string(server)+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(data)))
	}
	if err == nil && answer != nil {
		err = json.Unmarshal(data, answer)
	}
	if err != nil {
		t.Fatalf("%s %s of the CSI driver: %v", method, path, err)
	}
}
