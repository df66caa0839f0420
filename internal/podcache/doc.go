// Package podcache keeps pods in little memory. Most fields of a pod that controllers do not read are never decoded
// (package projection); of the rest, what is equal in the pods of a controller is held once (interning), and a cache
// holds compact pods in place of whole ones.
//
// [NewInformer] makes the informer: whoever uses it sees pods. [Transform] interns the parts of other objects.
package podcache
