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

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"glowplug/internal/store/ledger"
)

// slack is how many records a file may have beyond three for each key, before it
// is rewritten.
const slack = 100_000

// Record is the last message of a key.
type Record struct {
	Revision uint64
	// Deleted is true where it was a tombstone.
	Deleted bool
}

// Log is the file of one bucket, and its content in memory. Only Read, Write and
// Close touch the disk. Its methods are safe for concurrent use.
type Log struct {
	path string
	// writing is held while the file is written.
	writing sync.Mutex

	mu      sync.Mutex
	created time.Time // of the bucket; zero: not known
	keys    map[string]Record
	deleted int // how many of the keys are
	rev     uint64
	pending []byte // records that are not in the file yet
	// whole is set where the file has to be rewritten.
	whole bool

	file    *os.File
	records int // in the file, and pending
	dirty   bool
}

// New makes an empty Log of a file. With no path it is kept in memory alone.
func New(path string) *Log {
	return &Log{path: path, keys: map[string]Record{}, whole: true}
}

// Read reads the file. One that is not there, or whose beginning is damaged,
// leaves the Log empty; of one whose end is damaged the rest is left out. An error
// means that it could not be read.
func (l *Log) Read() error {
	if l.path == "" {
		return nil
	}
	raw, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("key log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// What follows a damaged record is of no use; the next Write leaves it out.
	l.read(raw)
	return nil
}

// Created is when the bucket was made that the Log is of; zero if that is not
// known, and then nothing else is.
func (l *Log) Created() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.created
}

// Revision is the last one that the Log knows of.
func (l *Log) Revision() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rev
}

// Deleted is the number of tombstones.
func (l *Log) Deleted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deleted
}

// Get returns the record of a key; its revision is 0 if there is none.
func (l *Log) Get(key string) Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys[key]
}

// Keys is a copy of what is known of every key.
func (l *Log) Keys() map[string]Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.keys)
}

// Put records that a key has a value since a revision.
func (l *Log) Put(key string, rev uint64) { l.add(key, Record{Revision: rev}) }

// Delete records that a key was deleted at a revision.
func (l *Log) Delete(key string, rev uint64) { l.add(key, Record{Revision: rev, Deleted: true}) }

func (l *Log) add(key string, r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(key, r)
	l.recordLocked(kindOf(r), r.Revision, key)
}

// Reach records that the bucket has a revision, whatever it was of.
func (l *Log) Reach(rev uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rev > l.rev {
		l.rev = rev
		l.recordLocked(kindReach, rev, "")
	}
}

// Forget drops the tombstones up to a revision: the bucket has none of them, and
// none of the values that they hid.
func (l *Log) Forget(rev uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(rev)
	l.recordLocked(kindForget, rev, "")
}

// Replace makes keys all that is known, of a bucket that was made at a time.
func (l *Log) Replace(created time.Time, keys map[string]Record, rev uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.created, l.keys, l.rev, l.deleted = created, keys, rev, 0
	for _, r := range keys {
		if r.Deleted {
			l.deleted++
		}
	}
	l.pending, l.whole = nil, true
}

func (l *Log) set(key string, r Record) {
	if l.keys[key].Deleted {
		l.deleted--
	}
	if r.Deleted {
		l.deleted++
	}
	l.keys[key] = r
	l.rev = max(l.rev, r.Revision)
}

func (l *Log) forget(rev uint64) {
	for key, r := range l.keys {
		if r.Deleted && r.Revision <= rev {
			delete(l.keys, key)
			l.deleted--
		}
	}
}

func (l *Log) recordLocked(kind byte, rev uint64, key string) {
	if !l.whole {
		l.pending = appendRecord(l.pending, kind, rev, key)
		l.records++
	}
}

// Write brings the file up to date. With sync it is on the disk when Write returns.
func (l *Log) Write(sync bool) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	if l.path == "" || l.created.IsZero() {
		l.pending = nil
		l.mu.Unlock()
		return nil
	}
	replace, content := l.whole || l.records > 3*len(l.keys)+slack, l.pending
	if replace {
		content, l.records = l.contentLocked(), len(l.keys)
	}
	l.pending, l.whole = nil, false
	l.mu.Unlock()

	var err error
	if replace {
		err = l.replace(content)
	} else {
		err = l.append(content, sync)
	}
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.whole = true // the file may have a part of the records
		return fmt.Errorf("key log: %w", err)
	}
	return nil
}

// contentLocked is the file with what is known now.
func (l *Log) contentLocked() []byte {
	content := appendHeader(nil, l.created)
	for key, r := range l.keys {
		content = appendRecord(content, kindOf(r), r.Revision, key)
	}
	return appendRecord(content, kindReach, l.rev, "")
}

func (l *Log) append(records []byte, sync bool) error {
	if len(records) > 0 {
		if _, err := l.file.Write(records); err != nil {
			return err
		}
		l.dirty = true
	}
	if sync && l.dirty {
		if err := l.file.Sync(); err != nil {
			return err
		}
		l.dirty = false
	}
	return nil
}

// replace replaces the file in one step, and opens it.
func (l *Log) replace(content []byte) error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	if err := ledger.ReplaceFile(l.path, content); err != nil {
		return err
	}
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if l.file != nil {
		_ = l.file.Close() // its content is in the new one
	}
	l.file, l.dirty = file, false
	return nil
}

// Close writes what is left, and closes the file.
func (l *Log) Close() error {
	err := l.Write(true)
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
		l.file = nil
		l.mu.Lock()
		l.whole = true // a later Write has to open one
		l.mu.Unlock()
	}
	return err
}

const (
	// WriteInterval is how often Keep writes the file, and syncInterval how often it
	// brings the file to the disk.
	WriteInterval = 100 * time.Millisecond
	syncInterval  = 5 * time.Second
)

// Keep writes the file at intervals until ctx ends, and then closes it. before is called
// before each write. failed is given the first of several errors in a row, and that of closing.
func (l *Log) Keep(ctx context.Context, before func(), failed func(error)) {
	ticker := time.NewTicker(WriteInterval)
	defer ticker.Stop()
	failing, synced := false, time.Now()
	for {
		select {
		case <-ctx.Done():
			if err := l.Close(); err != nil {
				failed(err)
			}
			return
		case <-ticker.C:
		}
		before()
		sync := time.Since(synced) >= syncInterval
		err := l.Write(sync)
		if sync {
			synced = time.Now()
		}
		switch {
		case err != nil && !failing: // the whole file has to be written again: less often
			failed(err)
			ticker.Reset(syncInterval)
		case err == nil && failing:
			ticker.Reset(WriteInterval)
		}
		failing = err != nil
	}
}
