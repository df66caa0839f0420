package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// running is a driver that answers at a socket, and its control at a URL.
type running struct {
	*testing.T
	csi.ControllerClient
	identity csi.IdentityClient
	control  string
}

// start starts a driver with the volumes of a file.
func start(t *testing.T, file string) *running {
	t.Helper()
	store, err := openStore(file)
	if err != nil {
		t.Fatal(err)
	}
	stage := &stage{store: store}
	server := newServer(&driver{name: "test", store: store}, stage)
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	web := httptest.NewServer(control(store, stage))
	t.Cleanup(web.Close)
	return &running{t, csi.NewControllerClient(connection), csi.NewIdentityClient(connection), web.URL}
}

func (r *running) ask(method, path, body string, into any) (code int) {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), method, r.control+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		r.Fatalf("%s %s: %v: %s", method, path, err, data)
	}
	return response.StatusCode
}

func (r *running) volumes() (all []Volume) {
	r.Helper()
	r.ask("GET", "/volumes", "", &all)
	return all
}

// fails adds faults.
func (r *running) fails(faults ...string) {
	r.Helper()
	for _, f := range faults {
		if code := r.ask("POST", "/faults", f, nil); code != http.StatusOK {
			r.Fatalf("%s: answer %d", f, code)
		}
	}
}

func (r *running) want(what string, err error, code codes.Code) {
	r.Helper()
	if status.Code(err) != code {
		r.Errorf("%s: %v, want %s", what, err, code)
	}
}

var single = []*csi.VolumeCapability{
	{AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER}}}
var many = []*csi.VolumeCapability{
	{AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER}}}

// request asks for a volume for a claim of the namespace "a".
func request(name string, bytes int64) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: single, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
		Parameters:        map[string]string{claimName: "data", claimNamespace: "a", "kind": "fast"},
		MutableParameters: map[string]string{"level": "silver"},
	}
}

func (r *running) create(name string) (id string) {
	r.Helper()
	made, err := r.CreateVolume(r.Context(), request(name, gibibyte))
	if err != nil {
		r.Fatal(err)
	}
	return made.Volume.VolumeId
}

func (r *running) publish(id, node string, c []*csi.VolumeCapability) error {
	_, err := r.ControllerPublishVolume(r.Context(),
		&csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: c[0]})
	return err
}

func (r *running) unpublish(id, node string) error {
	_, err := r.ControllerUnpublishVolume(r.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: node})
	return err
}

func (r *running) remove(id string) error {
	_, err := r.DeleteVolume(r.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}

func TestSaysWhatItCanDo(t *testing.T) {
	r := start(t, "")
	info, err := r.identity.GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
	if err != nil || info.Name != "test" {
		t.Errorf("its name is %q (%v)", info.GetName(), err)
	}
	if ready, err := r.identity.Probe(t.Context(), &csi.ProbeRequest{}); err != nil || !ready.Ready.GetValue() {
		t.Errorf("it is not ready (%v)", err)
	}
	plugin, err := r.identity.GetPluginCapabilities(t.Context(), &csi.GetPluginCapabilitiesRequest{})
	if err != nil || len(plugin.Capabilities) != 2 {
		t.Errorf("the plugin can do %v (%v)", plugin, err)
	}
	can, err := r.ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{})
	if err != nil || len(can.Capabilities) != 5 {
		t.Errorf("the controller can do %v (%v)", can, err)
	}
	var calls []Call
	if r.ask("GET", "/calls", "", &calls); len(calls) > 0 {
		t.Errorf("calls about no volume are recorded: %+v", calls)
	}
}

func TestVolumesAreMadeOnce(t *testing.T) {
	r := start(t, "")
	id := r.create("pvc-1")
	if again := r.create("pvc-1"); again != id || id == "pvc-1" {
		t.Errorf("the same name has the IDs %s and %s", id, again)
	}
	_, err := r.CreateVolume(t.Context(), request("pvc-1", 2*gibibyte))
	r.want("the same name with another size", err, codes.AlreadyExists)
	_, err = r.CreateVolume(t.Context(),
		&csi.CreateVolumeRequest{Name: "pvc-1", VolumeCapabilities: single, CapacityRange: &csi.CapacityRange{LimitBytes: 1}})
	r.want("the same name with a limit", err, codes.AlreadyExists)
	want := Volume{ID: id, Name: "pvc-1", Bytes: gibibyte, Namespace: "a", Claim: "data"}
	if all := r.volumes(); len(all) != 1 || all[0].ID != want.ID || all[0].Bytes != want.Bytes || all[0].Namespace != "a" ||
		all[0].Claim != "data" ||
		len(all[0].Parameters) != 1 || all[0].Parameters["kind"] != "fast" || all[0].Attributes["level"] != "silver" {
		t.Errorf("it has %+v", all)
	}
}

func TestRequestsWithoutSenseAreRefused(t *testing.T) {
	r := start(t, "")
	id := r.create("pvc-1")
	for name, edit := range map[string]func(*csi.CreateVolumeRequest){
		"without a name":         func(r *csi.CreateVolumeRequest) { r.Name = "" },
		"without a capability":   func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities = nil },
		"from a source":          func(r *csi.CreateVolumeRequest) { r.VolumeContentSource = &csi.VolumeContentSource{} },
		"larger than its limit":  func(r *csi.CreateVolumeRequest) { r.CapacityRange.LimitBytes = 1 },
		"larger than everything": func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = most + 1 },
	} {
		create := request("pvc-2", gibibyte)
		edit(create)
		code := codes.InvalidArgument
		if strings.HasPrefix(name, "larger") {
			code = codes.OutOfRange
		}
		_, err := r.CreateVolume(t.Context(), create)
		r.want("a volume "+name, err, code)
	}
	r.want("to delete nothing", r.remove(""), codes.InvalidArgument)
	r.want("to detach nothing", r.unpublish("", "node-0"), codes.InvalidArgument)
	r.want("to attach nothing", r.publish("", "node-0", single), codes.InvalidArgument)
	r.want("to attach to nothing", r.publish(id, "", single), codes.InvalidArgument)
	r.want("to attach what is not there", r.publish("vol-x", "node-0", single), codes.NotFound)
	_, err := r.ControllerExpandVolume(t.Context(),
		&csi.ControllerExpandVolumeRequest{VolumeId: "vol-x", CapacityRange: &csi.CapacityRange{RequiredBytes: 1}})
	r.want("to grow what is not there", err, codes.NotFound)
	_, err = r.ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{VolumeId: "vol-x"})
	r.want("to modify what is not there", err, codes.NotFound)
	_, err = r.ValidateVolumeCapabilities(t.Context(),
		&csi.ValidateVolumeCapabilitiesRequest{VolumeId: "vol-x", VolumeCapabilities: single})
	r.want("to judge what is not there", err, codes.NotFound)
	_, err = r.ValidateVolumeCapabilities(t.Context(), &csi.ValidateVolumeCapabilitiesRequest{VolumeId: id})
	r.want("to judge nothing", err, codes.InvalidArgument)
	judged, err := r.ValidateVolumeCapabilities(t.Context(), &csi.ValidateVolumeCapabilitiesRequest{VolumeId: id, VolumeCapabilities: many})
	if err != nil || len(judged.GetConfirmed().GetVolumeCapabilities()) != 1 {
		t.Errorf("it confirms %v (%v)", judged, err)
	}
	if len(r.volumes()) != 1 {
		t.Errorf("it has %+v", r.volumes())
	}
}

func TestVolumesAreAttachedWhereTheyMayBe(t *testing.T) {
	r := start(t, "")
	id := r.create("pvc-1")
	for range 2 {
		r.want("attach", r.publish(id, "node-0", single), codes.OK)
	}
	r.want("attach to a second node", r.publish(id, "node-1", single), codes.FailedPrecondition)
	r.want("delete what is attached", r.remove(id), codes.FailedPrecondition)
	r.want("detach from another node", r.unpublish(id, "node-1"), codes.OK)
	if nodes := r.volumes()[0].Nodes; !slices.Equal(nodes, []string{"node-0"}) {
		t.Errorf("it is attached to %v", nodes)
	}
	for range 2 {
		r.want("detach", r.unpublish(id, "node-0"), codes.OK)
	}
	for _, node := range []string{"node-2", "node-1"} {
		r.want("share", r.publish(id, node, many), codes.OK)
	}
	if nodes := r.volumes()[0].Nodes; !slices.Equal(nodes, []string{"node-1", "node-2"}) {
		t.Errorf("it is attached to %v", nodes)
	}
	r.want("detach from all", r.unpublish(id, ""), codes.OK)
	for range 2 {
		r.want("delete", r.remove(id), codes.OK)
	}
	r.want("detach what is not there", r.unpublish(id, "node-0"), codes.OK)
	if len(r.volumes()) > 0 {
		t.Errorf("left are %+v", r.volumes())
	}
}

func TestVolumesGrowAndChange(t *testing.T) {
	r := start(t, "")
	id := r.create("pvc-1")
	quick := request("pvc-2", gibibyte)
	quick.Parameters[growsAlone] = "true"
	other, err := r.CreateVolume(t.Context(), quick)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id          string
		bytes, want int64
		node        bool
	}{{id, 3 * gibibyte, 3 * gibibyte, true}, {id, 2 * gibibyte, 3 * gibibyte, true},
		{other.Volume.VolumeId, 2 * gibibyte, 2 * gibibyte, false}} {
		got, err := r.ControllerExpandVolume(t.Context(),
			&csi.ControllerExpandVolumeRequest{VolumeId: c.id, CapacityRange: &csi.CapacityRange{RequiredBytes: c.bytes}})
		if err != nil || got.CapacityBytes != c.want || got.NodeExpansionRequired != c.node {
			t.Errorf("%+v: %v (%v)", c, got, err)
		}
	}
	if _, err := r.ControllerModifyVolume(t.Context(),
		&csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: map[string]string{"level": "gold"}}); err != nil {
		t.Error(err)
	}
	if v := r.volumes()[0]; v.Bytes != 3*gibibyte || v.Attributes["level"] != "gold" {
		t.Errorf("it has %+v", v)
	}
}

func TestADriverThatIsStartedAgainHasItsVolumes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "volumes.json")
	first := start(t, file)
	id := first.create("pvc-1")
	first.want("attach", first.publish(id, "node-0", single), codes.OK)
	second := start(t, file)
	if all := second.volumes(); len(all) != 1 || all[0].ID != id || !slices.Equal(all[0].Nodes, []string{"node-0"}) {
		t.Errorf("it has %+v", all)
	}
	if err := writeFile(file, "no JSON"); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(file); err == nil {
		t.Error("a broken file is no error")
	}
}

func TestFailsOnCommand(t *testing.T) {
	r := start(t, "")
	r.fails(
		`{"method":"CreateVolume","namespace":"b","code":"INTERNAL"}`,
		`{"method":"CreateVolume","namespace":"a","volume":"pvc-1","code":"RESOURCE_EXHAUSTED","message":"the pool is full","times":2}`,
		`{"method":"CreateVolume","code":"DEADLINE_EXCEEDED","late":true,"times":1}`,
	)
	for range 2 {
		_, err := r.CreateVolume(t.Context(), request("pvc-1", gibibyte))
		if status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != "the pool is full" || len(r.volumes()) > 0 {
			t.Errorf("error %v, volumes %+v", err, r.volumes())
		}
	}
	_, err := r.CreateVolume(t.Context(), request("pvc-1", gibibyte))
	if r.want("the answer is lost", err, codes.DeadlineExceeded); len(r.volumes()) != 1 {
		t.Errorf("the work was not done: %+v", r.volumes())
	}
	id := r.create("pvc-1")
	var left []Fault
	if r.ask("GET", "/faults", "", &left); len(left) != 1 || left[0].Namespace != "b" {
		t.Errorf("left are %+v", left)
	}

	r.fails(`{"namespace":"a","node":"node-0","code":"UNAVAILABLE"}`, `{"volume":"`+id+`","method":"DeleteVolume","code":"INTERNAL"}`)
	r.want("attach to another node", r.publish(id, "node-1", many), codes.OK)
	r.want("attach", r.publish(id, "node-0", many), codes.Unavailable)
	r.want("detach", r.unpublish(id, "node-1"), codes.OK)
	r.want("delete", r.remove(id), codes.Internal)
	r.ask("DELETE", "/faults?namespace=a", "", nil)
	r.want("attach when it has recovered", r.publish(id, "node-0", many), codes.OK)
	r.want("detach when it has recovered", r.unpublish(id, "node-0"), codes.OK)
	r.ask("DELETE", "/faults", "", nil)
	r.want("delete when it has recovered", r.remove(id), codes.OK)

	var calls []Call
	r.ask("GET", "/calls?namespace=a", "", &calls)
	var got []string
	for _, c := range calls {
		got = append(got, strings.TrimSpace(strings.Join([]string{c.Method, c.Volume, c.Node, c.Code}, " ")))
		if c.Time.IsZero() || (c.Code == "OK") != (c.Message == "") {
			t.Errorf("%+v", c)
		}
	}
	want := []string{
		"CreateVolume pvc-1  ResourceExhausted", "CreateVolume pvc-1  ResourceExhausted", "CreateVolume pvc-1  DeadlineExceeded",
		"CreateVolume pvc-1  OK",
		"ControllerPublishVolume pvc-1 node-1 OK", "ControllerPublishVolume pvc-1 node-0 Unavailable",
		"ControllerUnpublishVolume pvc-1 node-1 OK",
		"DeleteVolume pvc-1  Internal", "ControllerPublishVolume pvc-1 node-0 OK", "ControllerUnpublishVolume pvc-1 node-0 OK",
		"DeleteVolume pvc-1  OK",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the calls were\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r.ask("GET", "/calls?namespace=c", "", &calls); len(calls) > 0 {
		t.Errorf("another namespace had %+v", calls)
	}
}

func TestDelaysCalls(t *testing.T) {
	r := start(t, "")
	r.fails(`{"method":"CreateVolume","delay":"100ms","times":1}`, `{"method":"DeleteVolume","delay":"1h"}`)
	began := time.Now()
	id := r.create("pvc-1")
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := r.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
	r.want("who does not wait so long", err, codes.DeadlineExceeded)
	if len(r.volumes()) != 1 {
		t.Error("the volume was deleted all the same")
	}
}

func TestFaultsWithoutSenseAreRefused(t *testing.T) {
	r := start(t, "")
	for _, f := range []string{
		`{}`, `{"code":"OK"}`, `{"code":"BROKEN"}`, `{"delay":"soon"}`, `{"delay":"-1s"}`, `{"delay":"1s","late":true}`,
		`{"code":"INTERNAL","method":"NodeStageVolume"}`, `{"code":"INTERNAL","times":-1}`, `{"code":"INTERNAL","mehtod":"CreateVolume"}`,
		`no JSON`,
	} {
		if code := r.ask("POST", "/faults", f, nil); code != http.StatusBadRequest {
			t.Errorf("%s: answer %d", f, code)
		}
	}
	var left []Fault
	if r.ask("GET", "/faults", "", &left); len(left) > 0 {
		t.Errorf("there are %+v", left)
	}
}
