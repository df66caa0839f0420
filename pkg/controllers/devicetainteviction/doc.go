// Package devicetainteviction is the device taint eviction controller: it deletes pods whose devices have NoExecute
// taints that their claims do not tolerate, or not any longer.
//
// A program passes what devicetainteviction.New(devicetainteviction.Options{}) returns to manager.New. For users,
// docs/devicetainteviction.md says what the controller does.
//
// It has two queues. A key of the first is a pod. When it is due follows from the taints of its devices, which stand in
// ResourceSlices and DeviceTaintRules, and from the tolerations of its claims. Before it is deleted, it is read live,
// and so is what taints its devices. A key of the second is a DeviceTaintRule, whose status says how many pods are left
// to evict.
package devicetainteviction
