package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	gibibyte = 1 << 30
	// most is the size of the largest volume.
	most = 1 << 20 * gibibyte
)

// What the provisioner says of a claim if it is started with --extra-create-metadata.
const (
	claimName      = "csi.storage.k8s.io/pvc/name"
	claimNamespace = "csi.storage.k8s.io/pvc/namespace"
)

// growsAlone is the parameter of a StorageClass whose volumes grow without a node if it is "true". Others have a file system that
// only a node can grow.
const growsAlone = "growsWithoutNode"

// driver has the Identity and the Controller service.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	name  string
	store *store
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "test"}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}},
		{Type: &csi.PluginCapability_VolumeExpansion_{
			VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}}},
	}}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (d *driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse,
	error) {
	var all []*csi.ControllerServiceCapability
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		all = append(all,
			&csi.ControllerServiceCapability{
				Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}})
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: all}, nil
}

func (d *driver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	switch {
	case r.GetName() == "":
		return nil, status.Error(codes.InvalidArgument, "the volume has no name")
	case len(r.GetVolumeCapabilities()) == 0:
		return nil, status.Error(codes.InvalidArgument, "no capabilities are asked for")
	case r.GetVolumeContentSource() != nil:
		return nil, status.Error(codes.InvalidArgument, "volumes are made empty, and not from a source")
	}
	bytes, err := sizeFor(r.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	id := volumeID(r.GetName())
	var made Volume
	err = d.store.edit(id, func(v *Volume) (*Volume, error) {
		if v != nil {
			if limit := r.GetCapacityRange().GetLimitBytes(); v.Bytes < r.GetCapacityRange().GetRequiredBytes() ||
				limit > 0 && v.Bytes > limit {
				return nil, status.Errorf(codes.AlreadyExists, "%s exists already, with %d bytes", v.Name, v.Bytes)
			}
			made = *v
			return v, nil
		}
		made = Volume{
			ID: id, Name: r.GetName(), Bytes: bytes,
			Namespace: r.GetParameters()[claimNamespace], Claim: r.GetParameters()[claimName],
			Parameters: ownParameters(r.GetParameters()), Attributes: maps.Clone(r.GetMutableParameters()),
		}
		return &made, nil
	})
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: id, CapacityBytes: made.Bytes,
		VolumeContext: map[string]string{"name": made.Name}}}, nil
}

// ownParameters are those that the StorageClass has, without what the provisioner adds to them.
func ownParameters(all map[string]string) map[string]string {
	own := maps.Clone(all)
	maps.DeleteFunc(own, func(key, _ string) bool { return strings.HasPrefix(key, "csi.storage.k8s.io/") })
	return own
}

// sizeFor is the size of a volume that is asked for: no more than needed.
func sizeFor(r *csi.CapacityRange) (int64, error) {
	bytes := r.GetRequiredBytes()
	if bytes == 0 {
		bytes = gibibyte
		if limit := r.GetLimitBytes(); limit > 0 {
			bytes = min(bytes, limit)
		}
	}
	if limit := r.GetLimitBytes(); bytes > most || limit > 0 && bytes > limit {
		return 0, status.Errorf(codes.OutOfRange, "no volume of %d bytes can be made", bytes)
	}
	return bytes, nil
}

func (d *driver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume is named")
	}
	return &csi.DeleteVolumeResponse{}, d.store.edit(r.GetVolumeId(), func(v *Volume) (*Volume, error) {
		if v != nil && len(v.Nodes) > 0 {
			return nil, status.Errorf(codes.FailedPrecondition, "%s is attached to %s", v.Name, strings.Join(v.Nodes, ", "))
		}
		return nil, nil
	})
}

func (d *driver) ControllerPublishVolume(_ context.Context, r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse,
	error) {
	node := r.GetNodeId()
	if node == "" || r.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument, "no node or no capability is named")
	}
	err := d.editExisting(r.GetVolumeId(), func(v *Volume) error {
		if slices.Contains(v.Nodes, node) {
			return nil
		}
		if oneNode(r.GetVolumeCapability()) && len(v.Nodes) > 0 {
			return status.Errorf(codes.FailedPrecondition, "%s is attached to %s", v.Name, strings.Join(v.Nodes, ", "))
		}
		v.Nodes = append(v.Nodes, node)
		slices.Sort(v.Nodes)
		return nil
	})
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"device": "/dev/" + r.GetVolumeId()}}, err
}

// oneNode tells whether a volume may be attached to one node only.
func oneNode(c *csi.VolumeCapability) bool {
	switch c.GetAccessMode().GetMode() {
	case csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return false
	}
	return true
}

func (d *driver) ControllerUnpublishVolume(_ context.Context,
	r *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume is named")
	}
	return &csi.ControllerUnpublishVolumeResponse{}, d.store.edit(r.GetVolumeId(), func(v *Volume) (*Volume, error) {
		if v == nil {
			return nil, nil // what does not exist is not attached
		}
		v.Nodes = slices.DeleteFunc(v.Nodes, func(n string) bool { return r.GetNodeId() == "" || n == r.GetNodeId() })
		return v, nil
	})
}

func (d *driver) ControllerExpandVolume(_ context.Context, r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse,
	error) {
	bytes, err := sizeFor(r.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	answer := &csi.ControllerExpandVolumeResponse{}
	err = d.editExisting(r.GetVolumeId(), func(v *Volume) error {
		v.Bytes = max(v.Bytes, bytes)
		answer.CapacityBytes, answer.NodeExpansionRequired = v.Bytes, v.Parameters[growsAlone] != "true"
		return nil
	})
	return answer, err
}

func (d *driver) ControllerModifyVolume(_ context.Context, r *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse,
	error) {
	return &csi.ControllerModifyVolumeResponse{}, d.editExisting(r.GetVolumeId(), func(v *Volume) error {
		if v.Attributes == nil {
			v.Attributes = map[string]string{}
		}
		maps.Copy(v.Attributes, r.GetMutableParameters())
		return nil
	})
}

func (d *driver) ValidateVolumeCapabilities(_ context.Context,
	r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no capabilities are asked for")
	}
	if _, ok := d.store.get(r.GetVolumeId()); !ok {
		return nil, noVolume(r.GetVolumeId())
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: r.GetVolumeCapabilities()},
	}, nil
}

// editExisting changes a volume that has to exist.
func (d *driver) editExisting(id string, change func(*Volume) error) error {
	if id == "" {
		return status.Error(codes.InvalidArgument, "no volume is named")
	}
	return d.store.edit(id, func(v *Volume) (*Volume, error) {
		if v == nil {
			return nil, noVolume(id)
		}
		return v, change(v)
	})
}

func noVolume(id string) error { return status.Errorf(codes.NotFound, "there is no volume %q", id) }
