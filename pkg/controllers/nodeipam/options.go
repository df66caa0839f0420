package nodeipam

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	utilnet "k8s.io/utils/net"
)

// Options are what can be set of the controller.
type Options struct {
	Allocate      bool   // false: the controller is off
	AllocatorType string // RangeAllocator, which is the only one (IPAM-13)
	ClusterCIDR   string // one range, or one of each family, separated by a comma
	ServiceRange  string // the same: what is never given to nodes
	MaskSize      int32  // of the ranges of nodes, with one family; zero for 24, or 64 with IPv6
	MaskSizeIPv4  int32  // zero for 24
	MaskSizeIPv6  int32  // zero for 64
}

const rangeAllocator = "RangeAllocator"

// AddFlags implements manager.Flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Allocate, "allocate-node-cidrs", o.Allocate,
		"Give each node a range of addresses for its pods, out of --cluster-cidr.")
	fs.StringVar(&o.AllocatorType, "cidr-allocator-type", o.AllocatorType,
		"How ranges are given to nodes. Only RangeAllocator is built in.")
	fs.StringVar(&o.ClusterCIDR, "cluster-cidr", o.ClusterCIDR,
		"The range of addresses of pods, or one of IPv4 and one of IPv6, separated by a comma. Nodes get their ranges "+
			"in this order. It needs --allocate-node-cidrs.")
	fs.StringVar(&o.ServiceRange, "service-cluster-ip-range", o.ServiceRange,
		"The range of addresses of Services, or one of each family, separated by a comma. What it has in common with "+
			"--cluster-cidr is given to no node. It needs --allocate-node-cidrs.")
	fs.Int32Var(&o.MaskSize, "node-cidr-mask-size", o.MaskSize,
		"The length of the prefix of each node's range, in a cluster of one family. Zero stands for 24, and for 64 "+
			"with IPv6.")
	fs.Int32Var(&o.MaskSizeIPv4, "node-cidr-mask-size-ipv4", o.MaskSizeIPv4,
		"The length of the prefix of each node's range of IPv4. Zero stands for 24.")
	fs.Int32Var(&o.MaskSizeIPv6, "node-cidr-mask-size-ipv6", o.MaskSizeIPv6,
		"The length of the prefix of each node's range of IPv6. Zero stands for 64.")
}

// Validate implements manager.Flags.
func (o *Options) Validate() (errs []error) {
	if o.AllocatorType != "" && o.AllocatorType != rangeAllocator {
		errs = append(errs,
			fmt.Errorf("built-in cloud providers are disabled. The ipam %s is not available", o.AllocatorType))
	}
	if len(strings.Split(o.ServiceRange, ",")) > 2 {
		errs = append(errs, errors.New("--service-cluster-ip-range can not contain more than two entries"))
	}
	return errs
}

// pools are the ranges that nodes get theirs from. What is wrong with them ends the process when the controllers are
// built (IPAM-15..24).
func (o *Options) pools() (all []pool, err error) {
	if o.AllocatorType == "" {
		return nil, errors.New("invalid CIDR allocator type: ")
	}
	for i, text := range strings.Split(strings.TrimSpace(o.ClusterCIDR), ",") {
		r, err := parse(text)
		if err != nil {
			err = fmt.Errorf("invalid CIDR[%d]: %v (%w)", i, "<nil>", err)
			if o.ClusterCIDR == "" {
				return nil, fmt.Errorf("--allocate-node-cidrs needs --cluster-cidr: %w", err)
			}
			return nil, fmt.Errorf("--cluster-cidr: %w", err)
		}
		all = append(all, pool{Range: r})
	}
	if err := o.checkFamilies(all); err != nil {
		return nil, err
	}
	for i := range all {
		if err := o.setBits(&all[i], len(all)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// checkFamilies checks that there is one range, or one of each family, and that the sizes of nodes' ranges go with
// them.
func (o *Options) checkFamilies(all []pool) error {
	switch is4 := all[0].Range.Addr().Is4(); {
	case len(all) > 2:
		return fmt.Errorf("length of clusterCIDRs is:%d more than max allowed of 2", len(all))
	case len(all) == 2 && is4 == all[1].Range.Addr().Is4():
		return errors.New(
			"len of ClusterCIDRs==2 and they are not configured as dual stack (at least one from each IPFamily")
	case len(all) == 2 && o.MaskSize != 0:
		return errors.New("usage of --node-cidr-mask-size is not allowed with dual-stack clusters")
	case o.MaskSize != 0 && (o.MaskSizeIPv4 != 0 || o.MaskSizeIPv6 != 0):
		return errors.New(
			"usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if " +
				"--node-cidr-mask-size is set. Use only dual-stack flags, or only --node-cidr-mask-size")
	case len(all) == 1 && !is4 && o.MaskSizeIPv4 != 0:
		return errors.New("usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster")
	case len(all) == 1 && is4 && o.MaskSizeIPv6 != 0:
		return errors.New("usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster")
	}
	return nil
}

// setBits sets the size of the blocks of a pool.
func (o *Options) setBits(p *pool, pools int) error {
	size, flag := o.MaskSizeIPv4, "--node-cidr-mask-size-ipv4"
	if p.Bits = 24; !p.Range.Addr().Is4() {
		size, flag, p.Bits = o.MaskSizeIPv6, "--node-cidr-mask-size-ipv6", 64
	}
	if pools == 1 && o.MaskSize != 0 {
		size, flag = o.MaskSize, "--node-cidr-mask-size"
	}
	if size != 0 {
		p.Bits = int(size)
	}
	switch {
	case p.Bits < 0 || p.Bits > p.Range.Addr().BitLen():
		return fmt.Errorf("%s=%d: it must be between 1 and %d", flag, size, p.Range.Addr().BitLen())
	case p.Bits < p.Range.Bits():
		//lint:ignore ST1005 the text is that of IPAM-22
		return errors.New(
			"Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to " +
				"--node-cidr-mask-size configured for CIDR family")
	case p.Bits-p.Range.Bits() > mostIndexBits:
		return fmt.Errorf("%s: %v has more than 2^%d ranges of nodes", flag, p.Range, mostIndexBits)
	}
	return nil
}

// services are the ranges that nodes do not get. One that cannot be parsed is logged and ignored (IPAM-25).
func (o *Options) services() (all []netip.Prefix, err error) {
	for _, text := range strings.Split(o.ServiceRange, ",") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		r, err := parse(text)
		if err != nil {
			klog.Background().Info("Ignoring a range of --service-cluster-ip-range", "range", text, "err", err.Error())
			continue
		}
		all = append(all, r)
	}
	if len(all) == 2 && all[0].Addr().Is4() == all[1].Addr().Is4() {
		return nil, errors.New("serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)")
	}
	return all, nil
}

// parse reads a range as Kubernetes does: host bits are masked off, and numbers of IPv4 may begin with zeros.
func parse(text string) (netip.Prefix, error) {
	_, n, err := utilnet.ParseCIDRSloppy(strings.TrimSpace(text))
	if err != nil {
		return netip.Prefix{}, err
	}
	a, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), bits).Masked(), nil
}

// Configz implements manager.Flags.
func (o *Options) Configz() (section string, fields any) {
	first, second, _ := strings.Cut(o.ServiceRange, ",")
	return "NodeIPAMController", struct {
		ServiceCIDR, SecondaryServiceCIDR                            string
		NodeCIDRMaskSize, NodeCIDRMaskSizeIPv4, NodeCIDRMaskSizeIPv6 int32
	}{first, second, o.MaskSize, o.MaskSizeIPv4, o.MaskSizeIPv6}
}
