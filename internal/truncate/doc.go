// Package truncate cuts texts whose length others decide: tenants, webhooks and API servers.
//
// Such a text becomes part of an event, a status, a log line or a record with [Text], which names
// the most bytes that there may be.
package truncate
