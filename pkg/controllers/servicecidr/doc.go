// Package servicecidr is the service-cidr controller: a ServiceCIDR that is deleted stays as long as a Service has an
// address that lies in its ranges and in no others.
//
// A program passes what servicecidr.New(servicecidr.Options{}) returns to manager.New. For users,
// docs/servicecidr.md says what the controller does.
//
// A key is a ServiceCIDR. Plan gives it the finalizer, and Report says that it is ready. When it is being deleted,
// Observe counts the addresses that it alone holds. The term has all addresses, in a tree that counts those of a range
// without looking at them. The finalizer comes off when the caches show no such address, the API servers have had time
// to notice the deletion, and a live list of ServiceCIDRs and addresses shows the same.
package servicecidr
