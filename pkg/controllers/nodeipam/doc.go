// Package nodeipam is the node IPAM controller: each node gets a range of addresses for its pods, one of each
// family of --cluster-cidr, which no other node has.
//
// A program passes what nodeipam.New(nodeipam.Options{...}) returns to manager.New. For users,
// docs/nodeipam.md says what the controller does.
//
// All nodes are planned together, one after the other, because each range that is given out concerns all
// others: the only key is [allocation]. What is taken follows from the nodes themselves, each time anew, and
// nothing is stored elsewhere. What was planned for a node stays reserved for it until the cache shows its
// ranges or the node is gone. So a write whose answer was lost is only ever repeated as it was. The file
// pool.go has the arithmetic of ranges.
package nodeipam
