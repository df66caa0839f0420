// Package gauge has a metric whose series are computed when it is scraped, so there are none of objects that are gone.
//
// [OnCollect] makes one, which is registered like others.
package gauge
