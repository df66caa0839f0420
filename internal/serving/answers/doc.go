// Package answers writes the answers that the HTTPS server and its pages have in common.
//
// [JSON] answers with a value. [Refuse] answers with a Status, which tells programs such as kubectl why a request was refused.
package answers
