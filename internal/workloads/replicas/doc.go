// Package replicas keeps as many pods alive as a ReplicaSet or a ReplicationController asks for: it adopts
// and releases pods by their labels, creates what is missing, deletes what is too many, the least valuable
// first, and reports how many there are. The controllers of both kinds are made of it; what they do not have
// in common is behind the view [Set].
//
// A controller calls [New] in its Init, with a [Config] that says where its sets are.
//
// A key is a set. Observe finds its pods, the orphans that it may adopt and, if pods have to be ranked, those
// of related sets. Plan sorts out once which pods are the set's own. It adopts and releases first, and then
// creates or deletes in one reconcile no more than a burst (plan.go). Which pods go first is in rank.go. Pods
// that fail at start again and again are replaced at a falling rate (backoff.go): that is what the memory is
// for. Report counts the pods and writes the status, the sooner the more users wait for it (report.go).
package replicas
