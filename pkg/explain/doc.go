// Package explain has the records of what controllers decided about a key and why, and their JSON.
//
//	r := explain.NewRecords(observe)
//	r.Put(key, explain.Record{Time: time.Now(), Why: "a quota is full"})
//
// A runner keeps its own [Records]. Of each key they hold the last [Record], and a few before it. A record is small
// and refers to no object of a cache, so that none is kept alive. The snapshot, the decision and the plan are in a
// [Detail], which is made anew when somebody asks for it: to observe has no side effects, and to plan is pure.
//
// The JSON of both is stable: names of fields are not changed, and nothing is taken away. It holds no credential:
// values in which people keep some, such as the data of Secrets and the values of environment variables, are left
// out of a Detail.
package explain
