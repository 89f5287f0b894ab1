// Package kvstore keeps API objects in JetStream KV buckets and implements
// k8s.io/apiserver/pkg/storage.Interface on them.
//
// A Store follows one bucket with one consumer and mirrors it in memory: reads
// and watches are answered from the mirror, writes are compare-and-set publishes
// that are answered once the mirror has them. DESIGN.md says why it is built so.
package kvstore
