// Package files reads files that may change while the process runs, such as keys and certificates that are rotated.
//
// [Open] reads a file and fails if it is no good. Get returns its parsed content, and Follow calls back when that has
// changed. A file that becomes bad later changes nothing.
package files
