// Package quota says what objects are charged with in the quotas of their namespaces. It decides and keeps nothing,
// and imports only API types.
//
// For each kind there is a function from an object to its charges, such as [Service], and one that names the fields
// it reads, such as [ServiceFields], for the cache of the kind.
package quota
