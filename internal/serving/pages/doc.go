// Package pages has the pages about the process that are neither about its health nor its metrics: its configuration,
// its flags, its status, its profiles, and the verbosity of its log (MH-10..13).
//
// Each function returns the handler of one page, or of a few, from what the page is about. The caller decides under
// which path a page is served, and whether it is. The handlers ask nobody whether a client may see the page: the
// server has done so before (package serving).
package pages
