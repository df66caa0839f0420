// Package paging follows the continue tokens of lists, which servers make up: no list continues for ever.
//
// Whoever reads a list page by page has a [List] for it, and gives [List.Next] the token of each page.
package paging
