package natsd

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strings"

	"github.com/minio/highwayhash"
)

// A block file of a stream is a row of records. Each begins with a header in little endian:
// its length (4 bytes, with a bit for headers), the sequence (8, with bits for an erased
// message and for a tombstone), the time (8) and the length of the subject (2). It ends in a
// checksum (8) of what is between. See nats-server's filestore.go, rebuildStateFromBufLocked.
//
// When the NATS server reads such a file anew, it stops at the first record whose checksum
// does not hold: all records behind it are lost, those that were written and acknowledged
// after the damage included. With its index it believes lengths and sequences without a
// checksum, and one flipped bit in them can cost it all memory. So damaged records are marked
// as erased before the server reads the file. What they held is lost in either case, and the
// key log names it.
const (
	recordHeader   = 22
	recordChecksum = 8
	maxRecord      = 32 << 20 // rlBadThresh of nats-server

	hasHeaders  = 1 << 31 // of the length
	isErased    = 1 << 63 // of the sequence
	isTombstone = 1 << 62 // of the sequence
	// maxSequence is more than any bucket reaches.
	maxSequence = 1 << 48
)

// damagedPart is what is between two whole records, or behind the last one.
type damagedPart struct {
	at, length int
	// sequence is the last one of the part; 0 where that is not known.
	sequence uint64
	// time is that of the record before.
	time uint64
	// lost are the records of the part, as far as their headers can be read.
	lost []lostRecord
}

// lostRecord is a record that cannot be read. Its sequence is 0 where that is damaged, too.
type lostRecord struct {
	subject  string
	sequence uint64
}

// damagedParts lists the damaged parts of a block, and its last whole sequence. tail is true
// where nothing whole is behind the last part.
func damagedParts(block []byte, sum hash.Hash) (parts []damagedPart, last uint64, tail bool) {
	var time uint64
	for at := 0; at < len(block); {
		if record := recordAt(block, at); record != nil && isWhole(record, sum) {
			if sequence := binary.LittleEndian.Uint64(record[4:]); sequence&isTombstone == 0 {
				last = max(last, sequence&^isErased)
			}
			time = binary.LittleEndian.Uint64(record[12:])
			at += len(record)
			continue
		}
		next, bound := nextWhole(block, at+1, sum)
		part := damagedPart{at: at, length: next - at, time: time, lost: recordsIn(block[at:next])}
		part.number(last, bound)
		parts, last, tail = append(parts, part), max(last, part.sequence), next == len(block)
		at = next
	}
	return parts, last, tail
}

// number takes the sequences of the part from the headers that can be true: they are between
// those of the whole records around it. A bound of 0 is not known.
func (p *damagedPart) number(last, bound uint64) {
	if bound == 0 {
		bound = last + uint64(len(p.lost)) + 1
	}
	for i := range p.lost {
		r := &p.lost[i]
		if r.sequence &^= isErased; r.sequence <= max(last, p.sequence) || r.sequence >= bound {
			r.sequence = 0
			continue
		}
		p.sequence = r.sequence
	}
}

// recordAt returns the record that begins at a place, as its length says; nil: it cannot.
func recordAt(block []byte, at int) []byte {
	if at+recordHeader+recordChecksum > len(block) {
		return nil
	}
	length := int(binary.LittleEndian.Uint32(block[at:]) &^ hasHeaders)
	if length < recordHeader+recordChecksum || length > min(maxRecord, len(block)-at) {
		return nil
	}
	return block[at : at+length]
}

// nextWhole returns where the next whole record begins; the end of the block if there is
// none. The length of a damaged record may be what is damaged, so each place is tried. The
// sequence is 0 for that of a tombstone, which is older than those around it.
func nextWhole(block []byte, from int, sum hash.Hash) (at int, sequence uint64) {
	for at := from; at < len(block); at++ {
		record := recordAt(block, at)
		if record == nil {
			continue
		}
		sequence := binary.LittleEndian.Uint64(record[4:])
		if sequence&^(isErased|isTombstone) >= maxSequence || !isWhole(record, sum) {
			continue
		}
		if sequence&isTombstone != 0 {
			return at, 0
		}
		return at, sequence &^ isErased
	}
	return len(block), 0
}

// recordsIn lists the records of a damaged part, up to one whose length cannot be true.
func recordsIn(part []byte) (records []lostRecord) {
	for at := 0; at+recordHeader <= len(part); {
		header := part[at:]
		records = append(records, lostRecord{
			subject: subjectOf(header), sequence: binary.LittleEndian.Uint64(header[4:]),
		})
		record := recordAt(part, at)
		if record == nil {
			break
		}
		at += len(record)
	}
	return records
}

// blockHash is the checksum of the records in a block.
func blockHash(stream, block string) (hash.Hash, error) { return hashOf(stream + "-" + block) }

func hashOf(name string) (hash.Hash, error) {
	key := sha256.Sum256([]byte(name))
	return highwayhash.NewDigest64(key[:])
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
	n := min(int(binary.LittleEndian.Uint16(record[20:])), len(record)-recordHeader, 1100)
	return strings.ToValidUTF8(string(record[recordHeader:recordHeader+n]), "?")
}

// erase makes one erased record of a part, with a checksum that holds.
func (p *damagedPart) erase(block []byte, sum hash.Hash) {
	record, end := block[p.at:p.at+p.length], p.length-recordChecksum
	binary.LittleEndian.PutUint32(record, uint32(p.length))
	binary.LittleEndian.PutUint64(record[4:], p.sequence|isErased)
	binary.LittleEndian.PutUint64(record[12:], p.time)
	binary.LittleEndian.PutUint16(record[20:], 0)
	sum.Reset()
	_, _ = sum.Write(record[4:20])
	_, _ = sum.Write(record[recordHeader:end])
	copy(record[end:], sum.Sum(nil))
}
