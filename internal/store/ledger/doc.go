// Package ledger remembers which store a server belongs to, and guards against
// every other one.
//
// A store has an identity: a random id, made once. It is written down twice, in
// the store itself (the key "identity" of the bucket GLOWPLUG) and in the data
// directory of each server (store.json), each time with the buckets that exist and
// the revisions that they have reached. Before a server follows, makes or writes
// anything, a Keeper compares the two with what is there. NATS that is empty,
// holds another store, lacks a bucket or is older than it was is refused until an
// operator says which of the two is right: Keeper.Init and Keeper.Adopt.
//
// The data directory belongs to one process at a time: a Ledger holds its lock.
package ledger
