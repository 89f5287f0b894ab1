// Package natsd runs the embedded NATS server that the store lives in, and
// dials an external one.
//
// The embedded server listens on no socket: clients reach it through memory. Its
// data directory is guarded by its ledger, because JetStream guards it not at all:
// a lock keeps a second process out, which would otherwise lose writes that were
// acknowledged, and a record remembers what was ever stored there, so that data
// which went missing is reported instead of being replaced by an empty store.
package natsd
