// Csidriver is a CSI driver for tests. It has the Identity and the Controller service, and its volumes are records in memory: it
// provisions, attaches, resizes and modifies them, and fails on command. It runs beside a local control plane and plays what
// a cluster has for a driver:
//
//   - the pod of the driver: the sidecars external-provisioner, external-attacher and external-resizer, which it starts, starts
//     again when they end, and ends with itself;
//   - the kubelets, as far as simulated nodes lack them: it registers the driver at each node, reports the volumes that
//     pods use in the status of nodes, and finishes resizes that need a node.
//
// Tests tell it what shall fail, and ask what it has, by HTTP: see README.md.
package main
