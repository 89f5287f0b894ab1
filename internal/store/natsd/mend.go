package natsd

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"glowplug/internal/store/ledger"
)

// indexFile is what the server knows of all blocks of a stream; it makes it anew from them.
const indexFile = "index.db"

// blockSuffix ends the name of a block file.
const blockSuffix = ".blk"

// damagedBlock is a block file with damaged parts.
type damagedBlock struct {
	path, stream string
	content      []byte
	parts        []damagedPart
	// newest is true for the block that the server writes to.
	newest bool
	// tail is true where nothing whole is behind the last part, and last the sequence before it.
	tail bool
	last uint64
}

// mendBlocks marks the damaged records of all buckets and of the boot log as erased. It is safe
// to interrupt: a file is replaced in one step, and the next start does the rest. erased has the
// sequences of the records by bucket and subject.
func mendBlocks(storeDir string, log *slog.Logger) (erased map[string]map[string]uint64, err error) {
	blocks, err := damagedBlocks(storeDir)
	if err != nil {
		return nil, err
	}
	erased = map[string]map[string]uint64{}
	// The newest block of a stream comes first: the index says whether its tail was whole.
	slices.SortStableFunc(blocks, func(a, b *damagedBlock) int {
		return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(numberOf(b.path), numberOf(a.path)))
	})
	for _, b := range blocks {
		if err := b.mend(); err != nil {
			return nil, fmt.Errorf("marking the damaged records of %s as erased: %w. Make room on the disk, or restore the data "+
				"directory from a backup", b.path, err)
		}
		bucket := bucketOf(b.stream)
		if erased[bucket] == nil {
			erased[bucket] = map[string]uint64{}
		}
		for _, p := range b.parts {
			for _, r := range p.lost {
				erased[bucket][r.subject] = r.sequence
				log.Error("a record of the store is damaged and was marked as erased, so that those behind it can be read. "+
					"If its object is lost, a line of its own names it", "bucket", bucket, "revision", r.sequence,
					"subject", r.subject, "file", b.path)
			}
		}
	}
	return erased, nil
}

// Erased returns the subjects of the damaged records of a bucket that this start has marked as
// erased, with their sequences; one of 0 is not known.
func (s *Server) Erased(bucket string) map[string]uint64 { return s.erased[bucket] }

// AllErased returns the same of all buckets.
func (s *Server) AllErased() map[string]map[string]uint64 { return s.erased }

// damagedBlocks lists the block files of all buckets, and of the boot log, that have damaged
// parts.
func damagedBlocks(storeDir string) (damaged []*damagedBlock, err error) {
	folders, err := filepath.Glob(filepath.Join(streamsOf(storeDir), "*"))
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		if _, ours := ledger.NameOf(filepath.Base(folder)); !ours {
			continue
		}
		if _, err := os.Stat(filepath.Join(folder, keyFile)); err == nil {
			continue // encrypted: the server alone can read it
		}
		paths, err := filepath.Glob(filepath.Join(folder, "msgs", "*"+blockSuffix))
		if err != nil {
			return nil, err
		}
		newest := 0
		for _, path := range paths {
			newest = max(newest, numberOf(path))
		}
		for _, path := range paths {
			b := &damagedBlock{path: path, stream: filepath.Base(folder), newest: numberOf(path) == newest}
			if err := b.read(); err != nil {
				return nil, fmt.Errorf("looking for damaged records: %w", err)
			}
			if len(b.parts) > 0 {
				damaged = append(damaged, b)
			}
		}
	}
	return damaged, nil
}

// numberOf is the number of a block file; 0 for a name without one.
func numberOf(path string) int {
	n, _ := strconv.Atoi(blockName(path))
	return n
}

func blockName(path string) string { return strings.TrimSuffix(filepath.Base(path), blockSuffix) }

func (b *damagedBlock) read() error {
	content, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	sum, err := blockHash(b.stream, blockName(b.path))
	if err != nil {
		return err
	}
	if b.parts, b.last, b.tail = damagedParts(content, sum); len(b.parts) > 0 {
		b.content = content // of a whole block nothing is kept
	}
	return nil
}

// mend replaces the file by one whose damaged parts are erased, and removes the index, which
// counts them.
func (b *damagedBlock) mend() error {
	index := filepath.Join(filepath.Dir(b.path), indexFile)
	withTail := b.tail && b.newest
	if withTail && (!b.isOfBucket() || !b.completeTail(index)) {
		// It may be a write that was never acknowledged, and the server cuts it off. The boot log
		// is refused without its end, since no key log says what that held.
		b.parts = b.parts[:len(b.parts)-1]
		withTail = false
	}
	b.parts = slices.DeleteFunc(b.parts, func(p damagedPart) bool { // the server has no such record
		return p.length < recordHeader+recordChecksum || p.length > maxRecord
	})
	if len(b.parts) == 0 {
		return nil
	}
	if !withTail {
		if err := removeIndex(index); err != nil {
			return err
		}
		return b.replace()
	}
	// The index proves that the tail is no torn write. A file with another end makes it void,
	// so it is removed after that.
	if err := b.replace(); err != nil {
		return err
	}
	return removeIndex(index)
}

func (b *damagedBlock) isOfBucket() bool { return ledger.IsBucket(b.stream) }

func (b *damagedBlock) replace() error {
	sum, err := blockHash(b.stream, blockName(b.path))
	if err != nil {
		return err
	}
	for _, p := range b.parts {
		p.erase(b.content, sum)
	}
	return ledger.ReplaceFile(b.path, b.content)
}

// completeTail reports whether the index was written after the end of the block, and gives
// the last part the newest sequence of the stream, so that the bucket is not older.
func (b *damagedBlock) completeTail(index string) bool {
	raw, err := os.ReadFile(index)
	if err != nil || len(b.content) < recordChecksum {
		return false
	}
	newest, end, ok := readIndex(raw, b.stream)
	if !ok || !bytes.Equal(end, b.content[len(b.content)-recordChecksum:]) {
		return false
	}
	tail := &b.parts[len(b.parts)-1]
	if b.last = max(b.last, tail.sequence); newest >= b.last {
		tail.sequence = newest
	}
	return true
}

// readIndex returns the newest sequence of a stream, and the checksum at the end of its newest
// block. See recoverFullState of nats-server.
func readIndex(raw []byte, stream string) (newest uint64, end []byte, ok bool) {
	const head, sums = 2, 2 * recordChecksum // version; the block's checksum and the index's own
	sum, err := hashOf(stream)
	if err != nil || len(raw) < head+sums {
		return 0, nil, false
	}
	content := raw[:len(raw)-recordChecksum]
	_, _ = sum.Write(content) // a hash takes all
	if !bytes.Equal(sum.Sum(nil), raw[len(content):]) {
		return 0, nil, false
	}
	rest := content[head:]
	for range 5 { // messages, bytes, first sequence, first time, last sequence
		value, n := binary.Uvarint(rest)
		if n <= 0 {
			return 0, nil, false
		}
		newest, rest = value, rest[n:]
	}
	return newest, content[len(content)-recordChecksum:], true
}

func removeIndex(index string) error {
	if err := os.Remove(index); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return ledger.SyncDir(filepath.Dir(index))
}
