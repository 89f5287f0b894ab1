package natsd

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/minio/highwayhash"

	"glowplug/internal/store/ledger"
)

// A block file of a stream is a row of records. Each begins with a header in little endian:
// its length (4 bytes, with a bit for headers), the sequence (8, with bits for an erased
// message and for a tombstone), the time (8) and the length of the subject (2). It ends in a
// checksum (8) of what is between. See nats-server's filestore.go, rebuildStateFromBufLocked.
//
// When the NATS server reads such a file anew, it stops at the first record whose checksum
// does not hold: all records behind it are lost, those that were written and acknowledged
// after the damage included. So a damaged record is marked as erased before the server reads
// the file. What the record held is lost in either case, and the key log names it.
const (
	recordHeader   = 22
	recordChecksum = 8
	maxRecord      = 32 << 20 // rlBadThresh of nats-server

	hasHeaders  = 1 << 31 // of the length
	isErased    = 1 << 63 // of the sequence
	isTombstone = 1 << 62 // of the sequence

	// indexFile is what the server knows of all blocks of a stream; it makes it anew from them.
	indexFile = "index.db"
)

// damagedRecord is a record that the server cannot read, before one that it can.
type damagedRecord struct {
	at, length int
	// sequence is that of the record; 0 where it is damaged, too.
	sequence uint64
	subject  string
}

// damagedBlock is a block file with damaged records.
type damagedBlock struct {
	path, stream string
	content      []byte
	records      []damagedRecord
	sum          hash.Hash
}

func (b *damagedBlock) count() string {
	if len(b.records) == 1 {
		return "there is a damaged record"
	}
	return fmt.Sprintf("there are %d damaged records", len(b.records))
}

// mendBlocks marks the damaged records of all buckets as erased. It is safe to interrupt: a
// record that is half marked is damaged, and is marked again at the next start. erased has
// the sequences of the records by bucket and subject.
func mendBlocks(storeDir string, log *slog.Logger) (erased map[string]map[string]uint64, err error) {
	erased = map[string]map[string]uint64{}
	err = eachDamagedBlock(storeDir, func(b *damagedBlock) error {
		bucket := bucketOf(b.stream)
		if erased[bucket] == nil {
			erased[bucket] = map[string]uint64{}
		}
		for _, r := range b.records {
			erased[bucket][r.subject] = r.sequence
			log.Error("a record of the store is damaged and is marked as erased, so that those behind it can be read. "+
				"If its object is lost, a line of its own names it", "bucket", bucket, "revision", r.sequence,
				"subject", r.subject)
		}
		if err := b.erase(); err != nil {
			return fmt.Errorf("marking the damaged records of %s as erased: %w", b.path, err)
		}
		return nil
	})
	return erased, err
}

// Erased returns the subjects of the damaged records of a bucket that this start has marked as
// erased, with their sequences; one of 0 is not known.
func (s *Server) Erased(bucket string) map[string]uint64 { return s.erased[bucket] }

// eachDamagedBlock calls act for the block files of all buckets that have damaged records.
func eachDamagedBlock(storeDir string, act func(*damagedBlock) error) error {
	paths, err := filepath.Glob(filepath.Join(streamsOf(storeDir), "KV_*", "msgs", "*.blk"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		folder := filepath.Dir(filepath.Dir(path))
		if _, err := os.Stat(filepath.Join(folder, keyFile)); err == nil {
			continue // encrypted: the server alone can read it
		}
		b := &damagedBlock{path: path, stream: filepath.Base(folder)}
		if b.content, err = os.ReadFile(path); err != nil {
			return fmt.Errorf("looking for damaged records: %w", err)
		}
		if b.sum, err = blockHash(b.stream, strings.TrimSuffix(filepath.Base(path), ".blk")); err != nil {
			return err
		}
		if b.records = damagedRecords(b.content, b.sum); len(b.records) == 0 {
			continue
		}
		if err := act(b); err != nil {
			return err
		}
	}
	return nil
}

// blockHash is the checksum of the records in a block.
func blockHash(stream, block string) (hash.Hash, error) {
	key := sha256.Sum256([]byte(stream + "-" + block))
	return highwayhash.NewDigest64(key[:])
}

// damagedRecords lists the damaged records that have a whole one behind them. One at the end
// is left: it may be a write that was never acknowledged, and the server cuts it off.
func damagedRecords(block []byte, sum hash.Hash) []damagedRecord {
	var damaged, open []damagedRecord
	var last uint64
	for at := 0; at+recordHeader+recordChecksum <= len(block); {
		length := int(binary.LittleEndian.Uint32(block[at:]) &^ hasHeaders)
		if length < recordHeader+recordChecksum || length > maxRecord || at+length > len(block) {
			break // where the next record begins is not known
		}
		record := block[at : at+length]
		sequence := binary.LittleEndian.Uint64(record[4:])
		if !isWhole(record, sum) {
			open = append(open, damagedRecord{at: at, length: length, sequence: sequence, subject: subjectOf(record)})
			at += length
			continue
		}
		next := sequence &^ isErased
		if sequence&isTombstone != 0 {
			next = last + uint64(len(open)) + 1
		}
		for _, r := range open {
			if r.sequence &^= isErased; r.sequence <= last || r.sequence >= next {
				r.sequence = 0
			}
			damaged, last = append(damaged, r), max(last, r.sequence)
		}
		open = nil
		if sequence&isTombstone == 0 {
			last = max(last, next)
		}
		at += length
	}
	return damaged
}

// isWhole reports whether the checksum of a record holds.
func isWhole(record []byte, sum hash.Hash) bool {
	subject := int(binary.LittleEndian.Uint16(record[20:]))
	data := record[recordHeader : len(record)-recordChecksum]
	rest := subject
	if binary.LittleEndian.Uint32(record)&hasHeaders != 0 {
		rest += 4 // the length of the headers
	}
	if rest > len(data) {
		return false
	}
	sum.Reset()
	_, _ = sum.Write(record[4:20]) // a hash takes all
	_, _ = sum.Write(data[:subject])
	_, _ = sum.Write(data[rest:])
	return bytes.Equal(sum.Sum(nil), record[len(record)-recordChecksum:])
}

// subjectOf returns the subject of a record, as far as it can be printed.
func subjectOf(record []byte) string {
	n := min(int(binary.LittleEndian.Uint16(record[20:])), len(record)-recordHeader-recordChecksum, 256)
	return strings.ToValidUTF8(string(record[recordHeader:recordHeader+n]), "?")
}

// erase marks the damaged records as erased, each with a checksum that holds. The index of
// the stream is removed first, since it counts them.
func (b *damagedBlock) erase() error {
	folder := filepath.Dir(b.path)
	if err := os.Remove(filepath.Join(folder, indexFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := ledger.SyncDir(folder); err != nil {
		return err
	}
	file, err := os.OpenFile(b.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for _, r := range b.records {
		record, end := b.content[r.at:r.at+r.length], r.length-recordChecksum
		binary.LittleEndian.PutUint32(record, uint32(r.length))
		binary.LittleEndian.PutUint64(record[4:], r.sequence|isErased)
		binary.LittleEndian.PutUint16(record[20:], 0)
		b.sum.Reset()
		_, _ = b.sum.Write(record[4:20])
		_, _ = b.sum.Write(record[recordHeader:end])
		copy(record[end:], b.sum.Sum(nil))
		_, err := file.WriteAt(record[:recordHeader], int64(r.at))
		if err == nil {
			_, err = file.WriteAt(record[end:], int64(r.at+end))
		}
		if err != nil {
			return errors.Join(err, file.Close())
		}
	}
	return errors.Join(file.Sync(), file.Close())
}
