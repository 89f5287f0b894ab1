package natsd

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"glowplug/internal/store/keylog"
	"glowplug/internal/store/ledger"
)

// A block file of a stream is a row of records. Each begins with a header in little endian:
// its length (4 bytes, with a bit for headers), the sequence (8, with bits for an erased
// message and for a tombstone), the time (8) and the length of the subject (2). It ends in a
// checksum (8) of what is between. See nats-server's filestore.go, rebuildStateFromBufLocked.
//
// When the NATS server reads such a file without its index, as after a kill, it cuts the file off
// at the first record whose checksum does not hold: the acknowledged records behind it are lost,
// and the evidence with them. So the records are verified before the server opens the file. The
// files are read alone; the format is private to nats-server, and nothing here writes it.
const (
	recordHeader   = 22
	recordChecksum = 8
	maxRecord      = 32 << 20 // rlBadThresh of nats-server

	hasHeaders = 1 << 31 // of the length
	// notMessage are the bits of a sequence that mark an erased message and a tombstone.
	notMessage = 3 << 62
	// maxSequence is more than any bucket reaches.
	maxSequence = 1 << 48

	blockSuffix = ".blk"
)

// checkBlocks returns where the first damaged block file of a stream is damaged; nil: none is. What is
// incomplete at the end may be a write that was never acknowledged, which the NATS server removes: it is
// damage where whole records follow, or where the data directory knows newer messages than those before.
func checkBlocks(folder, stream string, l *ledger.Ledger) error {
	if _, err := os.Stat(filepath.Join(folder, keyFile)); err == nil {
		return nil // encrypted: the server alone can read it
	}
	paths, err := filepath.Glob(filepath.Join(folder, "msgs", "*"+blockSuffix))
	if err != nil {
		return err
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(blockNumber(a), blockNumber(b)) })
	var last uint64
	for i, path := range paths {
		block, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("its file %s cannot be read: %w", path, err)
		}
		sum, err := hashOf(stream + "-" + strings.TrimSuffix(filepath.Base(path), blockSuffix))
		if err != nil {
			return err
		}
		end, newest := readRecords(block, sum)
		if last = max(last, newest); end == len(block) {
			continue
		}
		isNewest := i == len(paths)-1
		if isNewest && !isRecordBehind(block, end, sum) && last >= reached(l, bucketOf(stream)) {
			return nil
		}
		return fmt.Errorf("in its file %s the record at byte %d is damaged", path, end)
	}
	return nil
}

// reached is the newest sequence of a bucket that the data directory knows of.
func reached(l *ledger.Ledger, bucket string) uint64 {
	keys := keylog.New(ledger.KeyFile(l.KeyDir(), bucket))
	_ = keys.Read() // a key log that cannot be read knows of nothing
	known := max(l.Reached(bucket), keys.Revision())
	if bucket == ledger.Bucket && l.ID() != "" {
		known = max(known, 1) // the identity
	}
	return known
}

// blockNumber is the number of a block file; 0 for a name without one.
func blockNumber(path string) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), blockSuffix))
	return n
}

// readRecords returns where the whole records at the beginning of a block end, and their newest sequence.
func readRecords(block []byte, sum hash.Hash) (end int, newest uint64) {
	for end < len(block) {
		record := recordAt(block[end:], sum)
		if record == nil {
			break
		}
		newest = max(newest, sequenceOf(record))
		end += len(record)
	}
	return end, newest
}

// isRecordBehind reports whether a whole record begins behind a place. The length of the damaged record may be
// what is damaged, so each place is tried.
func isRecordBehind(block []byte, at int, sum hash.Hash) bool {
	for at++; at < len(block); at++ {
		if recordAt(block[at:], sum) != nil {
			return true
		}
	}
	return false
}

func sequenceOf(record []byte) uint64 { return binary.LittleEndian.Uint64(record[4:]) &^ notMessage }

// recordAt returns the record with which a part of a block begins; nil: no whole record begins there.
func recordAt(part []byte, sum hash.Hash) []byte {
	if len(part) < recordHeader+recordChecksum || sequenceOf(part) >= maxSequence {
		return nil
	}
	header := binary.LittleEndian.Uint32(part)
	length := int(header &^ hasHeaders)
	if length < recordHeader+recordChecksum || length > min(maxRecord, len(part)) {
		return nil
	}
	record := part[:length]
	data := record[recordHeader : length-recordChecksum]
	subject := int(binary.LittleEndian.Uint16(record[20:]))
	rest := subject
	if header&hasHeaders != 0 {
		rest += 4 // the length of the headers
	}
	if rest > len(data) {
		return nil
	}
	sum.Reset()
	_, _ = sum.Write(record[4:20]) // a hash takes all
	_, _ = sum.Write(data[:subject])
	_, _ = sum.Write(data[rest:])
	if !bytes.Equal(sum.Sum(nil), record[length-recordChecksum:]) {
		return nil
	}
	return record
}

// isMissing reports whether there is no file or folder.
func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
