// Package certificates has the certificates of the HTTPS server and the authorities of its clients (CLI-32..34, CLI-36,
// CLI-39).
//
// [Server] and [Clients] say where that comes from: files, a certificate that the server makes for itself, and a
// ConfigMap in which a cluster keeps the authorities of its clients. A [Set] has what was found there. [Set.Load] reads
// all of it, and fails if something is missing. [Set.Reload] is called every few seconds after that. It reports whether
// something has changed; what cannot be read any more stays as it was.
//
// The server asks the Set for what it needs, and asks again after each change: the choice of a certificate by the name
// that a client asks for, the authorities that clients are offered, and the authenticators of certificates and of front
// proxies.
package certificates
