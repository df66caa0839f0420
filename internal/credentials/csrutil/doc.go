// Package csrutil answers questions about requests for certificates that several controllers ask. It is pure.
//
// [Parse] reads what a request asks for, and [Approved], [Decided] and [Failed] say what has become of it.
package csrutil
