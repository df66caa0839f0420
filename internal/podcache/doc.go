// Package podcache keeps pods in little memory. Most fields of a pod that controllers do not read are never decoded
// (package projection); of the rest, what is equal in the pods of a controller is held once (interning), and a cache
// holds compact pods in place of whole ones.
//
// [NewInformer] makes the informer: whoever uses it sees pods. [Transform] interns the parts of other objects.
//
// # What is shared
//
// The pods of one controller differ in little: their names, nodes, addresses, conditions and volumes. A compact pod has
// these itself, and refers to labels, owner references, spec and status that it shares with the pod of its controller
// that came before it. A Deployment and its ReplicaSets share the parts of their templates. Strings such as the names
// of nodes are shared by all.
//
// Whoever looks a pod up gets it expanded. An expanded pod is used again for as long as somebody has it, so that
// frequent readers do not make a new one each time. A list that is repeated, as after a watch has expired, uses the
// pods again that the cache has in the same version: it does not take the memory of all pods once more.
//
// This is safe because nobody writes to objects of a cache.
package podcache
