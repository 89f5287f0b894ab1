// Package keylog remembers, in a file for each bucket, which keys the bucket
// holds and which it held, each with the revision of its last message.
//
// A store compares that with what it reads at its next start. A block file of
// NATS that was cut, emptied or removed is no error for the NATS server: the
// objects in it are gone, and older ones, deleted ones among them, may be back.
// The file is what tells.
//
// It is written after a change was acknowledged, and trails by some milliseconds.
// After a crash it is a prefix of what happened: the changes that it lacks are
// not verified, and cause no alarm.
package keylog
