// Package csinames knows the volume plugins that were part of Kubernetes and were taken over by CSI drivers. All functions are pure.
//
// Whoever has the name of a plugin, as a StorageClass or an annotation has it, asks csinames.Driver(name). Whoever has a volume asks
// csinames.OfVolume(pv), or csinames.OfSource(source) if it stands in a pod. What they return is empty for all others: CSI volumes, and plugins
// that are still in the kubelet, such as NFS.
package csinames
