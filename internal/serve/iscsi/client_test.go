package iscsi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"glowplug/internal/domain/iso"
)

const (
	testInitiator = "iqn.2010-04.org.example:node-1"
	testTarget    = "iqn.2000-02.com.example:cd"
)

// memory is a disk whose only segment is a reader.
type memory struct{ *bytes.Reader }

func (m memory) Check() error { return nil }

func (m memory) AppendSegments(dst []iso.Segment, off, n int64) []iso.Segment {
	return append(dst, iso.Segment{Source: m.Reader, Off: off, Len: n})
}

func newMemory(b []byte) memory { return memory{bytes.NewReader(b)} }

// overlaid is a file with replaced stretches: the shape of a patched image.
type overlaid struct {
	file  *os.File
	size  int64
	at    int64 // where patch stands
	patch []byte
}

func (o *overlaid) Size() int64 { return o.size }

func (o *overlaid) Check() error { return nil }

func (o *overlaid) AppendSegments(dst []iso.Segment, off, n int64) []iso.Segment {
	for end := off + n; off < end; {
		patched := o.at + int64(len(o.patch))
		switch {
		case off < o.at:
			part := min(end, o.at) - off
			dst = append(dst, iso.Segment{Source: o.file, Off: off, Len: part})
			off += part
		case off < patched:
			part := min(end, patched) - off
			dst = append(dst, iso.Segment{Data: o.patch[off-o.at:][:part], Len: part})
			off += part
		default:
			dst = append(dst, iso.Segment{Source: o.file, Off: off, Len: end - off})
			off = end
		}
	}
	return dst
}

func randomBytes(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	r.Read(b)
	return b
}

// newOverlaid makes a file of n bytes with a patch, and says what reads see.
func newOverlaid(t testing.TB, n int) (*overlaid, []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.iso")
	content := randomBytes(n)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	o := &overlaid{file: f, size: int64(n), at: 70_001, patch: bytes.Repeat([]byte("patched "), 400)}
	copy(content[o.at:], o.patch)
	return o, content
}

// start serves on the loopback, and closes the server with the test.
func start(t testing.TB, options Options) (*Server, string) {
	t.Helper()
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	t.Cleanup(s.Close)
	return s, l.Addr().String()
}

// sessionsOf returns the sessions of a server, in no order.
func sessionsOf(s *Server) []*Session {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	list := make([]*Session, 0, len(s.sessions.tsih))
	for _, c := range s.sessions.tsih {
		if session := c.public.Load(); session != nil {
			list = append(list, session)
		}
	}
	return list
}

// serving resolves every name to one disk.
func serving(d Disk) Options {
	return Options{Resolve: func(l Login) (*Target, error) { return &Target{IQN: l.Target, Disk: d}, nil }}
}

// client is an initiator that says what the test tells it to.
type client struct {
	t     testing.TB
	conn  net.Conn
	with  digests
	tag   uint32
	cmdSN uint32
	isid  byte
	// statSN is that of the last status, and gaps counts those that were left out.
	statSN uint32
	gaps   int
}

func dial(t testing.TB, address string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return talk(t, conn)
}

// talk returns the client of a connection, which it closes with the test.
func talk(t testing.TB, conn net.Conn) *client {
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return &client{t: t, conn: conn, cmdSN: 7}
}

func (c *client) send(h *header, data []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(appendPDU(nil, h, data, c.with)); err != nil {
		c.t.Fatalf("sending: %v", err)
	}
}

// receive reads a PDU of any length.
func (c *client) receive() (head, data []byte, err error) {
	head = make([]byte, headerLen)
	if _, err := io.ReadFull(c.conn, head); err != nil {
		return nil, nil, err
	}
	raw := bytes.Clone(head)
	n := int(head[5])<<16 | int(head[6])<<8 | int(head[7])
	rest := (n + 3) &^ 3
	if c.with.header {
		rest += digestLen
	}
	if c.with.data && n > 0 {
		rest += digestLen
	}
	tail := make([]byte, rest)
	if _, err := io.ReadFull(c.conn, tail); err != nil {
		return nil, nil, err
	}
	raw = append(raw, tail...)
	start := headerLen
	if c.with.header {
		start += digestLen
	}
	// The same bytes again from what was read, so that the digests are checked.
	var again header
	copy(again[:], head)
	if want := appendPDU(nil, &again, raw[start:start+n], c.with); !bytes.Equal(want, raw) {
		return nil, nil, fmt.Errorf("digest or padding is wrong in % x", raw[:start])
	}
	return head, raw[start : start+n], nil
}

func (c *client) must() (head, data []byte) {
	c.t.Helper()
	head, data, err := c.receive()
	if err != nil {
		c.t.Fatalf("receiving: %v", err)
	}
	return head, data
}

// exchange sends one login PDU and gives the flags, the status and the keys of the answer.
func (c *client) exchange(flags byte, keys pairs) (answerFlags byte, status uint16, answer pairs) {
	c.t.Helper()
	h := newHeader(opLogin|0x40, flags, 1)
	h[8], h[13] = 0x80, c.isid
	h.put(24, c.cmdSN)
	c.send(&h, keys.encode())
	head, data := c.must()
	if head[0] != opLoginDone {
		c.t.Fatalf("opcode %#x instead of a login response", head[0])
	}
	answer, err := parseText(data)
	if err != nil {
		c.t.Fatal(err)
	}
	return head[1], binary.BigEndian.Uint16(head[36:]), answer
}

func named(target string, more ...pair) pairs {
	keys := pairs{{"InitiatorName", testInitiator}}
	if target == "" {
		keys.add("SessionType", "Discovery")
	} else {
		keys.add("TargetName", target)
	}
	return append(keys, more...)
}

const (
	operationalToFull = 0x87
	securityToFull    = 0x83
	security          = 0x00
)

// login goes straight to the full feature phase.
func (c *client) login(target string, more ...pair) pairs {
	c.t.Helper()
	flags, status, answer := c.exchange(operationalToFull, named(target, more...))
	if status != 0 || flags != operationalToFull {
		c.t.Fatalf("login: status %04x, flags %02x", status, flags)
	}
	if v, _ := answer.get("HeaderDigest"); v == crc32c {
		c.with.header = true
	}
	if v, _ := answer.get("DataDigest"); v == crc32c {
		c.with.data = true
	}
	return answer
}

// request sends a numbered PDU.
func (c *client) request(opcode, flags byte, lun uint64, word5 uint32, cdb, data []byte) {
	c.t.Helper()
	c.tag++
	h := newHeader(opcode, flags, c.tag)
	binary.BigEndian.PutUint64(h[8:], lun)
	h.put(20, word5)
	h.put(24, c.cmdSN)
	c.cmdSN++
	copy(h[32:], cdb)
	c.send(&h, data)
}

// outcome is what came of a SCSI command.
type outcome struct {
	status byte
	data   []byte
	sense  []byte
	flags  byte
	rest   uint32
	pdus   int
}

func (o outcome) key() [3]byte {
	if len(o.sense) < 14 {
		return [3]byte{}
	}
	return [3]byte{o.sense[2], o.sense[12], o.sense[13]}
}

// scsi runs a command that expects up to n bytes.
func (c *client) scsi(lun uint64, n int, cdb ...byte) outcome {
	c.t.Helper()
	c.request(opCommand, 0xc0, lun, uint32(n), cdb, nil)
	return c.collect()
}

// collect takes the answer of one command.
func (c *client) collect() outcome {
	c.t.Helper()
	var o outcome
	for {
		head, data := c.must()
		if head[0] == opResponse || head[0] == opDataIn && head[1]&1 != 0 {
			sn := binary.BigEndian.Uint32(head[24:])
			if c.statSN != 0 && sn != c.statSN+1 {
				c.gaps++
			}
			c.statSN = sn
		}
		switch head[0] {
		case opDataIn:
			if sn := binary.BigEndian.Uint32(head[36:]); sn != uint32(o.pdus) {
				c.t.Fatalf("DataSN %d in PDU %d", sn, o.pdus)
			}
			if off := binary.BigEndian.Uint32(head[40:]); off != uint32(len(o.data)) {
				c.t.Fatalf("buffer offset %d after %d bytes", off, len(o.data))
			}
			o.pdus++
			o.data = append(o.data, data...)
			if head[1]&1 == 0 {
				continue
			}
			o.flags, o.status = head[1]&0x06, head[3]
		case opResponse:
			o.status, o.flags = head[3], head[1]&0x06
			if len(data) > 2 {
				o.sense = data[2:]
			}
		default:
			c.t.Fatalf("opcode %#x in answer to a command: % x", head[0], head)
		}
		o.rest = binary.BigEndian.Uint32(head[44:])
		return o
	}
}

func cdbRead10(block uint32, count uint16) []byte {
	cdb := []byte{0x28, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(cdb[2:], block)
	binary.BigEndian.PutUint16(cdb[7:], count)
	return cdb
}

// cdbReadCD reads the user data of sectors.
func cdbReadCD(block, count uint32) []byte {
	cdb := []byte{0xbe, 0, 0, 0, 0, 0, byte(count >> 16), byte(count >> 8), byte(count), 0x10, 0, 0}
	binary.BigEndian.PutUint32(cdb[2:], block)
	return cdb
}

func (c *client) readBlocks(block, count int) []byte {
	c.t.Helper()
	o := c.scsi(0, count*blockSize, cdbRead10(uint32(block), uint16(count))...)
	if o.status != statusGood {
		c.t.Fatalf("read of %d blocks at %d: status %d, sense % x", count, block, o.status, o.sense)
	}
	return o.data
}

// closed waits for the other side to hang up.
func (c *client) closed() {
	c.t.Helper()
	for range 100 {
		if _, _, err := c.receive(); err != nil {
			if os.IsTimeout(err) {
				c.t.Fatal("connection stays open")
			}
			return
		}
	}
	c.t.Fatal("connection does not end")
}

func withTimeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}
