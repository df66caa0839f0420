// Package why answers why an object is not as it was asked to be: which other object is the cause, and what ends the
// wait. It reads the API with the rights of who asks, decides by fixed rules, and writes nothing.
//
// [Ask] begins with one object and follows what it waits for, from the Deployment to its ReplicaSet, to the worst of
// its pods, to the claim, the node or the quota. Each step is a [Link] of the [Answer]; the last one is the cause. A
// cause is certain if the API says so, in a condition, an event or a field. It is likely if it was inferred.
//
// A rule about one kind is a function from objects to a verdict, in the file of that kind. What may not be read is
// named in the answer, and the rules do with what there is.
package why
