package nodeipam

import (
	"fmt"
	"strings"
	"testing"
)

// IPAM-13 to 25: what is wrong with the flags, and what pools they make.
func TestPools(t *testing.T) {
	for _, c := range []struct {
		name    string
		options Options
		want    string // the pools, or the error
	}{
		{"one", Options{ClusterCIDR: "10.244.0.0/16"}, "[{10.244.0.0/16 24}]"},
		{"IPAM-25 host bits, zeros and space", Options{ClusterCIDR: " 010.244.7.1/16 "}, "[{10.244.0.0/16 24}]"},
		{"IPAM-6 two, in their order", Options{ClusterCIDR: "fd00::/48,10.0.0.0/8", MaskSizeIPv4: 26}, "[{fd00::/48 64} {10.0.0.0/8 26}]"},
		{"IPAM-8", Options{ClusterCIDR: "10.0.0.0/8", MaskSize: 20}, "[{10.0.0.0/8 20}]"},
		{"IPAM-8 with IPv6", Options{ClusterCIDR: "fd00::/64", MaskSize: 80}, "[{fd00::/64 80}]"},
		{"IPAM-23, IPAM-67 large", Options{ClusterCIDR: "fd00::/32", MaskSizeIPv6: 96}, "[{fd00::/32 96}]"},
		{"IPAM-15 none", Options{}, "--allocate-node-cidrs needs --cluster-cidr: invalid CIDR[0]: <nil> (invalid CIDR address: )"},
		{"IPAM-15", Options{ClusterCIDR: "10.0.0.0/8,x"}, "--cluster-cidr: invalid CIDR[1]: <nil> (invalid CIDR address: x)"},
		{"IPAM-16", Options{ClusterCIDR: "10.0.0.0/8,11.0.0.0/8"},
			"len of ClusterCIDRs==2 and they are not configured as dual stack (at least one from each IPFamily"},
		{"IPAM-17", Options{ClusterCIDR: "10.0.0.0/8,fd00::/48,11.0.0.0/8"}, "length of clusterCIDRs is:3 more than max allowed of 2"},
		{"IPAM-19", Options{ClusterCIDR: "10.0.0.0/8,fd00::/48", MaskSize: 24},
			"usage of --node-cidr-mask-size is not allowed with dual-stack clusters"},
		{"IPAM-20", Options{ClusterCIDR: "10.0.0.0/8", MaskSize: 24, MaskSizeIPv4: 24},
			"usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if --node-cidr-mask-size is set. "},
		{"IPAM-21", Options{ClusterCIDR: "fd00::/48", MaskSizeIPv4: 24},
			"usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster"},
		{"IPAM-21", Options{ClusterCIDR: "10.0.0.0/8", MaskSizeIPv6: 64},
			"usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster"},
		{"IPAM-22", Options{ClusterCIDR: "10.0.0.0/25"},
			"Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to --node-cidr-mask-size configured " +
				"for CIDR family"},
		{"IPAM-67", Options{ClusterCIDR: "10.0.0.0/8", MaskSize: 33}, "--node-cidr-mask-size=33: it must be between 1 and 32"},
		{"IPAM-67", Options{ClusterCIDR: "10.0.0.0/8", MaskSize: -1}, "--node-cidr-mask-size=-1: it must be between 1 and 32"},
		{"too large", Options{ClusterCIDR: "fd00::/32", MaskSizeIPv6: 97},
			"--node-cidr-mask-size-ipv6: fd00::/32 has more than 2^64 ranges of nodes"},
		{"IPAM-24", Options{ClusterCIDR: "10.0.0.0/8", AllocatorType: "none"}, "invalid CIDR allocator type: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.options.AllocatorType == "" {
				c.options.AllocatorType = rangeAllocator
			} else {
				c.options.AllocatorType = ""
			}
			pools, err := c.options.pools()
			got := fmt.Sprint(pools)
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestServices(t *testing.T) {
	for ranges, want := range map[string]string{
		"": "[] <nil>", "10.96.0.1/12": "[10.96.0.0/12] <nil>", "fd00::/112,10.96.0.0/12": "[fd00::/112 10.96.0.0/12] <nil>",
		"x,10.96.0.0/12":           "[10.96.0.0/12] <nil>",
		"10.0.0.0/12,10.96.0.0/12": "[] serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)",
	} {
		o := Options{ServiceRange: ranges}
		if all, err := o.services(); fmt.Sprint(all, " ", err) != want {
			t.Errorf("%q: %v %v, want %s", ranges, all, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for want, o := range map[string]Options{
		"[]": {AllocatorType: rangeAllocator, ServiceRange: "a,b"},
		"[built-in cloud providers are disabled. The ipam CloudAllocator is not available]": {AllocatorType: "CloudAllocator"},
		"[--service-cluster-ip-range can not contain more than two entries]":                {ServiceRange: "a,b,c"},
	} {
		if got := fmt.Sprint(o.Validate()); got != want {
			t.Errorf("%+v: %s, want %s", o, got, want)
		}
	}
}
