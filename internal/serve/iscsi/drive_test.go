package iscsi

import (
	"encoding/binary"
	"strings"
	"testing"
)

func testDrive(blocks int) *drive {
	return newDrive(&Target{IQN: testTarget, Disk: newMemory(make([]byte, blocks*blockSize))})
}

func (d *drive) try(lun uint64, cdb ...byte) result {
	return d.execute(lun, append(cdb, make([]byte, 16-len(cdb))...), nil)
}

func TestSense(t *testing.T) {
	for _, test := range []struct {
		name string
		lun  uint64
		cdb  []byte
		want sense // zero: good
	}{
		{"test unit ready", 0, []byte{0x00}, sense{}},
		{"another unit", 1 << 48, []byte{0x00}, senseUnit},
		{"inquiry of another unit", 1 << 48, []byte{0x12, 0, 0, 0, 36}, sense{}},
		{"its vital data", 1 << 48, []byte{0x12, 1, 0, 0, 36}, senseUnit},
		{"read of another unit", 1 << 48, cdbRead10(0, 1), senseUnit},
		{"list of units, any unit", 1 << 48, []byte{0xa0, 0, 0, 0, 0, 0, 0, 0, 1}, sense{}},
		{"list of units, no room", 0, []byte{0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 8}, senseField(6)},
		{"list of units, which", 0, []byte{0xa0, 0, 9, 0, 0, 0, 0, 0, 1}, senseField(2)},
		{"unknown opcode", 0, []byte{0xc1}, senseOpcode},
		{"unknown service action", 0, []byte{0x9e, 0x1f}, senseField(1)},
		{"read", 0, cdbRead10(0, 10), sense{}},
		{"nothing at the end", 0, cdbRead10(10, 0), sense{}},
		{"nothing past the end", 0, cdbRead10(11, 0), senseRange},
		{"past the end", 0, cdbRead10(10, 1), senseRange},
		{"over the end", 0, cdbRead10(5, 6), senseRange},
		{"far past the end", 0, cdbRead10(0xffffffff, 0xffff), senseRange},
		{"read 6, 256 blocks", 0, []byte{0x08, 0, 0, 0, 0}, senseRange},
		{"read 12", 0, []byte{0xa8, 0, 0, 0, 0, 9, 0, 0, 0, 1}, sense{}},
		{"read 16 at the end of numbers", 0, []byte{0x88, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
			senseRange},
		{"protection information", 0, []byte{0x28, 0x20, 0, 0, 0, 0, 0, 0, 1}, senseField(1)},
		{"write 6", 0, []byte{0x0a}, senseWriteProtect},
		{"write 10", 0, []byte{0x2a}, senseWriteProtect},
		{"write 12", 0, []byte{0xaa}, senseWriteProtect},
		{"write 16", 0, []byte{0x8a}, senseWriteProtect},
		{"write same", 0, []byte{0x93}, senseWriteProtect},
		{"format", 0, []byte{0x04}, senseWriteProtect},
		{"unknown inquiry page", 0, []byte{0x12, 1, 0xc7, 0, 255}, senseField(2)},
		{"page without vital", 0, []byte{0x12, 0, 0x80, 0, 255}, senseField(2)},
		{"unknown mode page", 0, []byte{0x1a, 0, 0x11, 0, 255}, senseField(2)},
		{"saved mode pages", 0, []byte{0x1a, 0, 0xff, 0, 255}, senseSaved},
		{"unknown subpage", 0, []byte{0x5a, 0, 0x3f, 7, 0, 0, 0, 0, 255}, senseField(3)},
		{"reservation keys", 0, []byte{0x5e, 0, 0, 0, 0, 0, 0, 0, 255}, sense{}},
		{"unknown reservation question", 0, []byte{0x5e, 4}, senseField(1)},
		{"reserve", 0, []byte{0x5f, 1}, senseOpcode},
		{"wait for an event", 0, []byte{0x4a, 0, 0, 0, 16, 0, 0, 0, 8}, senseField(1)},
		{"read CD", 0, cdbReadCD(0, 10), sense{}},
		{"read CD of mode 1", 0, []byte{0xbe, 2 << 2, 0, 0, 0, 0, 0, 0, 1, 0x10}, sense{}},
		{"read CD of nothing", 0, []byte{0xbe, 0, 0, 0, 0, 0, 0, 0, 1}, sense{}},
		{"read CD of nothing, over the end", 0, []byte{0xbe, 0, 0, 0, 0, 9, 0, 0, 2}, senseRange},
		{"read CD over the end", 0, cdbReadCD(5, 6), senseRange},
		{"read CD far past the end", 0, cdbReadCD(0xffffffff, 0xffffff), senseRange},
		{"read CD of audio", 0, []byte{0xbe, 1 << 2, 0, 0, 0, 0, 0, 0, 1, 0x10}, senseTrackMode},
		{"read CD of mode 2", 0, []byte{0xbe, 4 << 2, 0, 0, 0, 0, 0, 0, 1, 0x10}, senseTrackMode},
		{"read CD of no type", 0, []byte{0xbe, 7 << 2, 0, 0, 0, 0, 0, 0, 1, 0x10}, senseField(1)},
		{"read CD, whole sectors", 0, []byte{0xbe, 0, 0, 0, 0, 0, 0, 0, 1, 0xf8}, senseField(9)},
		{"read CD, headers", 0, []byte{0xbe, 0, 0, 0, 0, 0, 0, 0, 1, 0x30}, senseField(9)},
		{"read CD, error flags", 0, []byte{0xbe, 0, 0, 0, 0, 0, 0, 0, 1, 0x12}, senseField(9)},
		{"read CD, subchannels", 0, []byte{0xbe, 0, 0, 0, 0, 0, 0, 0, 1, 0x10, 1}, senseField(10)},
		{"read CD MSF", 0, []byte{0xb9, 0, 0, 0, 2, 0, 0, 2, 10, 0x10}, sense{}},
		{"read CD MSF of nothing", 0, []byte{0xb9, 0, 0, 0, 2, 0, 0, 2, 0, 0x10}, sense{}},
		{"read CD MSF over the end", 0, []byte{0xb9, 0, 0, 0, 2, 0, 0, 2, 11, 0x10}, senseRange},
		{"read CD MSF before the first block", 0, []byte{0xb9, 0, 0, 0, 1, 74, 0, 2, 1, 0x10}, senseRange},
		{"read CD MSF backwards", 0, []byte{0xb9, 0, 0, 0, 2, 5, 0, 2, 4, 0x10}, senseField(6)},
		{"read CD MSF from no time", 0, []byte{0xb9, 0, 0, 0, 60, 0, 1, 2, 4, 0x10}, senseField(3)},
		{"read CD MSF to no time", 0, []byte{0xb9, 0, 0, 0, 2, 0, 0, 2, 75, 0x10}, senseField(6)},
		{"read CD MSF, whole sectors", 0, []byte{0xb9, 0, 0, 0, 2, 0, 0, 2, 10, 0xf8}, senseField(9)},
		{"contents from track 2", 0, []byte{0x43, 0, 0, 0, 0, 0, 2, 0, 255}, senseField(6)},
		{"text of the disc", 0, []byte{0x43, 0, 5, 0, 0, 0, 0, 0, 255}, senseField(2)},
		{"track 2", 0, []byte{0x52, 1, 0, 0, 0, 2, 0, 0, 255}, senseField(2)},
	} {
		r := testDrive(10).try(test.lun, test.cdb...)
		if good := test.want == (sense{}); good && r.status != statusGood || !good && (r.status != statusCheck ||
			r.sense != test.want) {
			t.Errorf("%s: status %d, sense %+v, want %+v", test.name, r.status, r.sense, test.want)
		}
	}
}

// TestCDReadFeature: the commands that the feature CD Read of GET CONFIGURATION promises
// (MMC-4, section 5.3.11) are there while it is current.
func TestCDReadFeature(t *testing.T) {
	d := testDrive(10)
	r := d.try(0, 0x46, 2, 0, 0x1e, 0, 0, 0, 0, 255)
	if feature := r.data[8:]; feature[0] != 0 || feature[1] != 0x1e || feature[2]&1 != 1 {
		t.Fatalf("CD Read is not current: % x", feature)
	}
	for _, opcode := range []byte{0x43, 0xb9, 0xbe} {
		if r := d.try(0, 0xa3, 0x0c, 1, opcode, 0, 0, 0, 0, 1); r.status != statusGood || r.data[1] != 3 {
			t.Errorf("%#x is not supported: % x", opcode, r.data)
		}
	}
	d.try(0, 0x1b, 0, 0, 0, 2)
	for _, cdb := range [][]byte{cdbReadCD(0, 1), {0xb9, 0, 0, 0, 2, 0, 0, 2, 1, 0x10}} {
		if r := d.try(0, cdb...); r.sense != senseNoMedium {
			t.Errorf("%#x without a disc: %+v", cdb[0], r.sense)
		}
	}
}

// Every command answers an allocation length of any size with no more than that.
func TestAllocationLength(t *testing.T) {
	for _, test := range []struct {
		name     string
		at, size int // where the allocation length stands
		cdb      []byte
		least    int
	}{
		{"inquiry", 3, 2, []byte{0x12}, 36},
		{"vital pages", 3, 2, []byte{0x12, 1}, 8},
		{"serial number", 3, 2, []byte{0x12, 1, 0x80}, 20},
		{"identification", 3, 2, []byte{0x12, 1, 0x83}, 80},
		{"block limits", 3, 2, []byte{0x12, 1, 0xb0}, 64},
		{"request sense", 4, 1, []byte{0x03}, 18},
		{"mode sense 6", 4, 1, []byte{0x1a, 0, 0x3f}, 50},
		{"mode sense 10", 7, 2, []byte{0x5a, 0, 0x2a}, 30},
		{"contents", 7, 2, []byte{0x43}, 20},
		{"sessions", 7, 2, []byte{0x43, 0, 1}, 12},
		{"raw contents", 7, 2, []byte{0x43, 2, 2}, 48},
		{"configuration", 7, 2, []byte{0x46}, 70},
		{"event", 7, 2, []byte{0x4a, 1, 0, 0, 16}, 8},
		{"disc", 7, 2, []byte{0x51}, 34},
		{"track", 7, 2, []byte{0x52, 1, 0, 0, 0, 1}, 36},
		{"reservation", 7, 2, []byte{0x5e, 2}, 8},
		{"capacity 16", 10, 4, []byte{0x9e, 0x10}, 32},
		{"opcodes", 6, 4, []byte{0xa3, 0x0c}, 300},
		{"opcodes and timeouts", 6, 4, []byte{0xa3, 0x0c, 0x80}, 700},
		{"mechanism", 8, 2, []byte{0xbd}, 8},
	} {
		cdb := make([]byte, 16)
		copy(cdb, test.cdb)
		for _, n := range []int{0, 1, 7, 8, 255, 4096} {
			var b [8]byte
			binary.BigEndian.PutUint64(b[:], uint64(n))
			copy(cdb[test.at:test.at+test.size], b[8-test.size:])
			if n > 255 && test.size == 1 {
				continue
			}
			r := testDrive(10).execute(0, cdb, nil)
			if r.status != statusGood || len(r.data) > n || n == 4096 && len(r.data) < test.least {
				t.Errorf("%s: %d bytes allocated, status %d, %d bytes", test.name, n, r.status, len(r.data))
			}
		}
	}
}

func TestTray(t *testing.T) {
	const eject, load = 0x02, 0x03
	d := testDrive(10)
	event := func() byte { return d.try(0, 0x4a, 1, 0, 0, 16, 0, 0, 0, 8).data[4] }
	steps := []struct {
		name string
		cdb  []byte
		want sense
	}{
		{"lock", []byte{0x1e, 0, 0, 0, 1}, sense{}},
		{"eject while locked", []byte{0x1b, 0, 0, 0, eject}, senseLocked},
		{"unlock", []byte{0x1e, 0, 0, 0, 0}, sense{}},
		{"stop is no eject", []byte{0x1b, 0, 0, 0, 0}, sense{}},
		{"ready", []byte{0x00}, sense{}},
		{"eject", []byte{0x1b, 0, 0, 0, eject}, sense{}},
		{"not ready", []byte{0x00}, senseNoMedium},
		{"no read", cdbRead10(0, 1), senseNoMedium},
		{"no capacity", []byte{0x25}, senseNoMedium},
		{"inquiry", []byte{0x12, 0, 0, 0, 36}, sense{}},
		{"load", []byte{0x1b, 0, 0, 0, load}, sense{}},
		{"ready again", []byte{0x00}, sense{}},
	}
	for _, step := range steps {
		if r := d.try(0, step.cdb...); r.sense != step.want {
			t.Errorf("%s: %+v, want %+v", step.name, r.sense, step.want)
		}
	}
	if e := event(); e != eventNew {
		t.Errorf("event %d", e)
	}
	if e := event(); e != eventNone {
		t.Errorf("event %d told twice", e)
	}
	d.try(0, 0x1b, 0, 0, 0, eject)
	if r := d.try(0, 0x03, 0, 0, 0, 18); r.data[2] != keyNotReady {
		t.Errorf("request sense % x", r.data)
	}
	d.reset()
	if r := d.try(0, 0x00); r.status != statusGood {
		t.Error("reset does not load")
	}
}

func TestCapacity(t *testing.T) {
	d := testDrive(10)
	if r := d.try(0, 0x25); binary.BigEndian.Uint32(r.data) != 9 || binary.BigEndian.Uint32(r.data[4:]) != blockSize {
		t.Errorf("% x", r.data)
	}
	d.blocks = 1 << 40
	if r := d.try(0, 0x25); binary.BigEndian.Uint32(r.data) != 1<<32-1 {
		t.Errorf("more than fits: % x", r.data)
	}
	r := d.try(0, 0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32)
	if binary.BigEndian.Uint64(r.data) != 1<<40-1 || len(r.data) != 32 {
		t.Errorf("% x", r.data)
	}
	if d.profile() != profileDVD || testDrive(10).profile() != profileCD {
		t.Error("profiles")
	}
}

func TestIdentity(t *testing.T) {
	one, same := testDrive(1), testDrive(2)
	other := newDrive(&Target{IQN: testTarget + "2", Disk: newMemory(nil)})
	if one.serialNumber() != same.serialNumber() || one.serialNumber() == other.serialNumber() ||
		len(one.serialNumber()) != 16 {
		t.Errorf("serial numbers %s, %s, %s", one.serialNumber(), same.serialNumber(), other.serialNumber())
	}
	if page := string(one.identification()); !strings.Contains(page, testTarget+",t,0x0001\x00") {
		t.Errorf("%q", page)
	}
}

// The list of operations is in order, and REPORT SUPPORTED OPERATION CODES
// knows each of them.
func TestOperations(t *testing.T) {
	d := testDrive(1)
	last := -1
	for _, op := range operations() {
		if n := len(op.usage); n != 6 && n != 10 && n != 12 && n != 16 {
			t.Errorf("%#x: %d bytes", op.opcode, n)
		}
		if at := int(op.opcode)<<8 + op.action + 1; at <= last {
			t.Errorf("%#x stands in the wrong place", op.opcode)
		} else {
			last = at
		}
		options := byte(1)
		if op.action != noAction {
			options = 2
		}
		r := d.try(0, 0xa3, 0x0c, options, op.opcode, 0, byte(max(op.action, 0)), 0, 0, 1)
		if r.status != statusGood || r.data[1] != 3 || r.data[4] != op.opcode || int(r.data[3]) != len(op.usage) {
			t.Errorf("%#x: status %d, % x", op.opcode, r.status, r.data)
		}
	}
	if r := d.try(0, 0xa3, 0x0c, 1, 0xc1, 0, 0, 0, 0, 1); r.data[1] != 1 {
		t.Errorf("unknown opcode: % x", r.data)
	}
	if r := d.try(0, 0xa3, 0x0c, 1, 0x9e, 0, 0, 0, 0, 1); r.status != statusCheck {
		t.Error("an opcode of service actions asked for without one")
	}
}
