package keylog

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// The file begins with the magic, the time at which the bucket was made in
// nanoseconds since 1970, and the checksum of both. Records follow, each
//
//	checksum of the rest, 4 bytes · revision, 8 · kind, 1 · length of the key, 2 · length of the note, 2 · key · note
//
// Earlier releases have written notes, which are left out.
//
// with numbers in big endian and CRC-32C as the checksum.
const (
	magic      = "gpkeys1\n"
	headerSize = len(magic) + 8 + 4
	recordSize = 4 + 8 + 1 + 2 + 2

	kindPut    = 1
	kindDelete = 2
	kindReach  = 3
	kindForget = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func kindOf(r Record) byte {
	if r.Deleted {
		return kindDelete
	}
	return kindPut
}

func appendHeader(b []byte, created time.Time) []byte {
	begin := len(b)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint64(b, uint64(created.UnixNano()))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[begin:], castagnoli))
}

func appendRecord(b []byte, kind byte, rev uint64, key string) []byte {
	begin := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, rev)
	b = append(b, kind)
	b = binary.BigEndian.AppendUint16(b, uint16(len(key)))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = append(b, key...)
	binary.BigEndian.PutUint32(b[begin:], crc32.Checksum(b[begin+4:], castagnoli))
	return b
}

// read takes in a file, up to the first thing that is damaged.
func (l *Log) read(raw []byte) {
	if len(raw) < headerSize || string(raw[:len(magic)]) != magic ||
		binary.BigEndian.Uint32(raw[headerSize-4:]) != crc32.Checksum(raw[:headerSize-4], castagnoli) {
		return
	}
	l.created = time.Unix(0, int64(binary.BigEndian.Uint64(raw[len(magic):])))
	for raw = raw[headerSize:]; len(raw) >= recordSize; {
		keyEnd := recordSize + int(binary.BigEndian.Uint16(raw[recordSize-4:]))
		size := keyEnd + int(binary.BigEndian.Uint16(raw[recordSize-2:]))
		if len(raw) < size || binary.BigEndian.Uint32(raw) != crc32.Checksum(raw[4:size], castagnoli) {
			return
		}
		rev, kind, key := binary.BigEndian.Uint64(raw[4:]), raw[12], string(raw[recordSize:keyEnd])
		switch kind {
		case kindPut:
			l.set(key, Record{Revision: rev})
		case kindDelete:
			l.set(key, Record{Revision: rev, Deleted: true})
		case kindForget:
			l.forget(rev)
		}
		l.rev = max(l.rev, rev)
		raw = raw[size:]
	}
}
