// Package projectiontest has pods and other objects for tests of what decodes, projects and caches them.
//
// [FullPod] has a value in each field that matters, [Filler] fills objects at random, and [Encode] encodes them as a
// server does.
package projectiontest
