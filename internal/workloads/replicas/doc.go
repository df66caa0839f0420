// Package replicas keeps as many pods alive as a ReplicaSet or a ReplicationController asks for: it adopts and
// releases pods by their labels, creates what is missing, deletes what is too many, the least valuable first, and
// reports how many there are. The controllers of both kinds are made of it; what they do not have in common is behind
// the view [Set].
//
// A controller calls [New] in its Init, with a [Config] that says where its sets are.
package replicas
