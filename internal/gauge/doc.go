// Package gauge is a gauge whose values are asked for when it is collected: it knows of nothing that is no more.
//
// [OnCollect] makes one, which is registered like others.
package gauge
