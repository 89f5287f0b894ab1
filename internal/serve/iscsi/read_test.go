package iscsi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"glowplug/internal/domain/iso"
	"glowplug/internal/testkit"
)

// TestReads reads the same bytes in all the ways there are.
func TestReads(t *testing.T) {
	const blocks = 600
	disk, content := newOverlaid(t, blocks*blockSize)
	always := &checked{overlaid: disk}
	always.good.Store(1 << 30)
	for _, way := range []struct {
		name string
		disk Disk
	}{{"segments", disk}, {"reader", newMemory(content)}, {"checked", always}} {
		_, address := start(t, serving(way.disk))
		for _, keys := range []pairs{
			nil,
			{{"MaxRecvDataSegmentLength", "512"}},
			{{"MaxRecvDataSegmentLength", "8192"}},
			{{"MaxRecvDataSegmentLength", "262144"}},
			{{"MaxRecvDataSegmentLength", "16776192"}, {"MaxBurstLength", "66048"}},
			{{"MaxRecvDataSegmentLength", "262144"}, {"HeaderDigest", "CRC32C"}},
			{{"MaxRecvDataSegmentLength", "65536"}, {"DataDigest", "CRC32C"}},
			{{"MaxRecvDataSegmentLength", "8192"}, {"HeaderDigest", "CRC32C"}, {"DataDigest", "CRC32C"}},
		} {
			t.Run(fmt.Sprint(way.name, keys), func(t *testing.T) {
				c := dial(t, address)
				c.login(testTarget, keys...)
				for _, at := range [][2]int{{0, 1}, {0, blocks}, {blocks - 1, 1}, {33, 4}, {34, 1}, {30, 32}, {7, 128},
					{100, 129}} {
					want := content[at[0]*blockSize:][:at[1]*blockSize]
					if got := c.readBlocks(at[0], at[1]); !bytes.Equal(got, want) {
						t.Errorf("%d blocks at %d differ (%d bytes)", at[1], at[0], len(got))
					}
				}
				// READ CD and READ CD MSF, of blocks 30 to 61: 0:02:30 is block 30.
				want := content[30*blockSize:][:32*blockSize]
				for _, cdb := range [][]byte{cdbReadCD(30, 32), {0xb9, 0, 0, 0, 2, 30, 0, 2, 62, 0x10}} {
					if o := c.scsi(0, len(want), cdb...); o.status != statusGood || !bytes.Equal(o.data, want) {
						t.Errorf("%#x: status %d, %d bytes", cdb[0], o.status, len(o.data))
					}
				}
				// Several at once: answers come in their order, whole.
				for i := range 8 {
					c.request(opCommand, 0xc0, 0, 32*blockSize, cdbRead10(uint32(32*i), 32), nil)
				}
				for i := range 8 {
					if o := c.collect(); !bytes.Equal(o.data, content[32*i*blockSize:][:32*blockSize]) {
						t.Errorf("read %d of 8 differs", i)
					}
				}
			})
		}
	}
}

func TestResiduals(t *testing.T) {
	disk, content := newOverlaid(t, 64*blockSize)
	_, address := start(t, serving(disk))
	c := dial(t, address)
	c.login(testTarget, pair{"MaxRecvDataSegmentLength", "262144"})
	for _, test := range []struct {
		expected, blocks int
		flags            byte
		rest             uint32
	}{
		{40 * blockSize, 40, 0, 0},
		{41 * blockSize, 40, residualUnder, blockSize},
		{40*blockSize - 3, 40, residualOver, 3},
		{10001, 40, residualOver, 40*blockSize - 10001},
		{0, 40, residualOver, 40 * blockSize},
		{1024, 0, residualUnder, 1024},
	} {
		o := c.scsi(0, test.expected, cdbRead10(0, uint16(test.blocks))...)
		n := min(test.expected, test.blocks*blockSize)
		if o.status != statusGood || o.flags != test.flags || o.rest != test.rest || !bytes.Equal(o.data, content[:n]) {
			t.Errorf("%d blocks, %d bytes expected: status %d, flags %x, rest %d, %d bytes",
				test.blocks, test.expected, o.status, o.flags, o.rest, len(o.data))
		}
	}
}

func TestLastBlockNotFull(t *testing.T) {
	disk, content := newOverlaid(t, 50*blockSize+100)
	for _, d := range []Disk{disk, newMemory(content)} {
		_, address := start(t, serving(d))
		c := dial(t, address)
		c.login(testTarget)
		want := append(bytes.Clone(content[40*blockSize:]), make([]byte, blockSize-100)...)
		if got := c.readBlocks(40, 11); !bytes.Equal(got, want) {
			t.Errorf("%T: last blocks differ", d)
		}
		if o := c.scsi(0, blockSize, cdbRead10(51, 1)...); o.key() != [3]byte{keyIllegal, 0x21, 0} {
			t.Errorf("%T: sense % x", d, o.sense)
		}
	}
}

// failing cannot be read from an offset on.
type failing struct {
	memory
	from int64
}

func (f failing) AppendSegments(dst []iso.Segment, off, n int64) []iso.Segment {
	return append(dst, iso.Segment{Source: f, Off: off, Len: n})
}

func (f failing) ReadAt(b []byte, off int64) (int, error) {
	if off+int64(len(b)) > f.from {
		return 0, errors.New("bad sector")
	}
	return f.memory.ReadAt(b, off)
}

func TestUnreadableDisk(t *testing.T) {
	_, address := start(t, serving(failing{newMemory(randomBytes(256 * blockSize)), 100 * blockSize}))
	c := dial(t, address)
	c.login(testTarget, pair{"MaxRecvDataSegmentLength", "8192"})
	o := c.scsi(0, 128*blockSize, cdbRead10(0, 128)...)
	if o.key() != [3]byte{keyMedium, 0x11, 0} || len(o.data) != 100*blockSize || o.rest != 28*blockSize {
		t.Errorf("sense % x after %d bytes, %d missing", o.sense, len(o.data), o.rest)
	}
	if len(c.readBlocks(0, 100)) != 100*blockSize {
		t.Error("the session does not go on")
	}
}

// A file that has become shorter breaks the connection: its PDU has begun.
func TestTruncatedFile(t *testing.T) {
	disk, _ := newOverlaid(t, 256*blockSize)
	s, address := start(t, serving(disk))
	c := dial(t, address)
	c.login(testTarget, pair{"MaxRecvDataSegmentLength", "262144"})
	if err := os.Truncate(disk.file.Name(), 100*blockSize); err != nil {
		t.Fatal(err)
	}
	c.request(opCommand, 0xc0, 0, 128*blockSize, cdbRead10(0, 128), nil)
	if _, _, err := c.receive(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a PDU that breaks off: %v", err)
	}
	testkit.Until(t, "the sessions come to that", func() bool { return len(sessionsOf(s)) == 0 })
}

func TestReadHook(t *testing.T) {
	var mu sync.Mutex
	var seen [][2]int64
	options := serving(newMemory(randomBytes(64 * blockSize)))
	options.Hooks.Read = func(s *Session, off, n int64) {
		mu.Lock()
		defer mu.Unlock()
		if s.Initiator == testInitiator {
			seen = append(seen, [2]int64{off, n})
		}
	}
	s, address := start(t, options)
	c := dial(t, address)
	c.login(testTarget)
	c.readBlocks(3, 2)
	cdb := make([]byte, 16)
	cdb[0] = 0x88
	binary.BigEndian.PutUint64(cdb[2:], 10)
	cdb[13] = 5
	c.scsi(0, 5*blockSize, cdb...)
	mu.Lock()
	defer mu.Unlock()
	if want := [][2]int64{{3 * blockSize, 2 * blockSize}, {10 * blockSize, 5 * blockSize}}; !slices.Equal(seen, want) {
		t.Errorf("reads %v, want %v", seen, want)
	}
	if n := sessionsOf(s)[0].BytesRead(); n != 7*blockSize {
		t.Errorf("%d bytes read", n)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	disk, _ := newOverlaid(t, 64*blockSize)
	d := newDrive(&Target{IQN: testTarget, Disk: disk})
	cdb := append(cdbRead10(1, 32), make([]byte, 6)...)
	if n := testing.AllocsPerRun(100, func() { d.execute(0, cdb, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// checked is a disk that proves to be another one at some check.
type checked struct {
	*overlaid
	good atomic.Int32 // checks that still succeed
	then error
}

func (c *checked) Check() error {
	if c.good.Add(-1) < 0 {
		return c.then
	}
	return nil
}

// TestDataOfAChangedDiskIsNotGood: a read of a disk that changes before it, or while
// it is sent, does not end with the status GOOD, and the session goes on.
func TestDataOfAChangedDiskIsNotGood(t *testing.T) {
	for _, segment := range []string{"8192", "262144"} { // through a buffer, and from the page cache
		for name, c := range map[string]struct {
			then error
			want [3]byte
		}{
			"lost":      {errors.New("overwritten"), [3]byte{keyMedium, 0x11, 0}},
			"not ready": {fmt.Errorf("%w: for a moment", ErrNotReady), [3]byte{keyNotReady, 0x04, 0x01}},
		} {
			for good := range int32(2) {
				t.Run(fmt.Sprintf("%s, segments of %s, after %d checks", name, segment, good), func(t *testing.T) {
					plain, content := newOverlaid(t, 256*blockSize)
					disk := &checked{overlaid: plain, then: c.then}
					_, address := start(t, serving(disk))
					client := dial(t, address)
					client.login(testTarget, pair{"MaxRecvDataSegmentLength", segment})
					disk.good.Store(1)
					client.readBlocks(0, 1)
					disk.good.Store(good)
					o := client.scsi(0, 128*blockSize, cdbRead10(0, 128)...)
					if o.status != statusCheck || o.key() != c.want {
						t.Errorf("status %d, sense % x after %d bytes", o.status, o.sense, len(o.data))
					}
					if int(o.rest)+len(o.data) != 128*blockSize || o.flags != residualUnder {
						t.Errorf("%d bytes came, %d are said to be missing", len(o.data), o.rest)
					}
					disk.good.Store(1 << 20)
					if got := client.readBlocks(100, 128); !bytes.Equal(got, content[100*blockSize:228*blockSize]) {
						t.Error("the session does not go on")
					}
					if client.gaps > 0 {
						t.Errorf("%d status numbers were left out", client.gaps)
					}
				})
			}
		}
	}
}
