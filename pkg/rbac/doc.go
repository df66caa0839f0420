// Package rbac is the vocabulary in which the parts of the manager say what they ask of the API server. Each
// controller says it in a file next to the code that asks, the manager as a whole in [Manager]. The roles under
// deploy/ are made from it, and an integration test compares it with the API server's audit log: nothing is asked for
// that is not declared, and nothing is declared that is not asked for (RB-12).
//
// A controller declares its [Rights] in a function of that name, and puts it into its entry.
package rbac
