package iscsi

import "encoding/binary"

// The commands of this file (MMC-4, section 6) describe a disc of one session with one data
// track.

const (
	leadOut   = 0xaa
	dataTrack = 0x14 // a data track that may be copied
	// cdBlocks is the capacity of a CD of 80 minutes; what is longer is a DVD.
	cdBlocks = 80 * 60 * 75
	// leadIn is the offset of a block's address in minutes, seconds and frames.
	leadIn = 150
)

// appendAddress adds a block address, or its time on the disc.
func appendAddress(out []byte, block int64, asTime bool) []byte {
	if !asTime {
		return binary.BigEndian.AppendUint32(out, uint32(block))
	}
	frames := block + leadIn
	return append(out, 0, byte(min(frames/75/60, 255)), byte(frames/75%60), byte(frames%75))
}

func readTOC(d *drive, cdb, out []byte) result {
	const tracks, session, raw = 0, 1, 2
	allocated := int(binary.BigEndian.Uint16(cdb[7:]))
	asTime, first := cdb[1]&2 != 0, cdb[6]
	format := cdb[2] & 0x0f
	if format == 0 {
		format = cdb[9] >> 6 // where it stood once
	}
	start := len(out)
	out = append(out, 0, 0, 1, 1) // length; first and last
	switch format {
	case tracks:
		if first > 1 && first != leadOut {
			return checkCondition(senseField(6))
		}
		if first <= 1 {
			out = appendAddress(append(out, 0, dataTrack, 1, 0), 0, asTime)
		}
		out = appendAddress(append(out, 0, dataTrack, leadOut, 0), d.blocks, asTime)
	case session:
		out = appendAddress(append(out, 0, dataTrack, 1, 0), 0, asTime)
	case raw:
		for _, point := range []byte{0xa0, 0xa1} { // first and last track
			out = append(out, 1, dataTrack, 0, point, 0, 0, 0, 0, 1, 0, 0)
		}
		out = appendAddress(append(out, 1, dataTrack, 0, 0xa2, 0, 0, 0), d.blocks, true)
		out = appendAddress(append(out, 1, dataTrack, 0, 1, 0, 0, 0), 0, true)
	default:
		return checkCondition(senseField(2))
	}
	binary.BigEndian.PutUint16(out[start:], uint16(len(out)-start-2))
	return good(out, allocated)
}

// Profiles of GET CONFIGURATION.
const (
	profileCD  = 0x0008
	profileDVD = 0x0010
)

func (d *drive) profile() uint16 {
	switch {
	case d.ejected:
		return 0
	case d.blocks > cdBlocks:
		return profileDVD
	}
	return profileCD
}

// features are what the drive can do: code, version, always current, data.
var features = []struct {
	code    uint16
	flags   byte
	data    string
	profile uint16 // current with this profile, 0: always
}{
	{0x0001, 0x0b, "\x00\x00\x00\x07\x01\x00\x00\x00", 0}, // core; ATAPI's command set
	{0x0002, 0x07, "\x02\x00\x00\x00", 0},                 // morphing
	{0x0003, 0x03, "\x29\x00\x00\x00", 0},                 // removable: a tray, ejects, locks
	{0x0010, 0x01, "\x00\x00\x08\x00\x00\x01\x00\x00", 0}, // random readable: blocks of 2048
	{0x001e, 0x08, "\x00\x00\x00\x00", profileCD},
	{0x001f, 0x00, "", profileDVD},
	{0x0100, 0x03, "", 0},                 // power management
	{0x0105, 0x03, "\x00\x00\x00\x00", 0}, // timeout
}

func getConfiguration(d *drive, cdb, out []byte) result {
	const all, current, one = 0, 1, 2
	which, from := cdb[1]&3, binary.BigEndian.Uint16(cdb[2:])
	if which > one {
		return checkCondition(senseField(1))
	}
	profile := d.profile()
	start := len(out)
	out = append(out, 0, 0, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint16(out, profile)
	if from == 0 {
		out = append(out, 0, 0, 0x03, 8)
		for _, each := range []uint16{profileDVD, profileCD} {
			out = binary.BigEndian.AppendUint16(out, each)
			out = append(out, b2i(each == profile), 0)
		}
	}
	for i := range features {
		f := &features[i]
		active := f.profile == 0 || f.profile == profile
		if f.code < from || which == one && f.code != from || which == current && !active {
			continue
		}
		out = binary.BigEndian.AppendUint16(out, f.code)
		out = append(out, f.flags&^1|b2i(active), byte(len(f.data)))
		out = append(out, f.data...)
	}
	binary.BigEndian.PutUint32(out[start:], uint32(len(out)-start-4))
	return good(out, int(binary.BigEndian.Uint16(cdb[7:])))
}

func b2i(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// getEvent returns the event of ejecting or loading, for polling.
func getEvent(d *drive, cdb, out []byte) result {
	const media = 4
	allocated := int(binary.BigEndian.Uint16(cdb[7:]))
	if cdb[1]&1 == 0 { // would have to wait
		return checkCondition(senseField(1))
	}
	if cdb[4]&(1<<media) == 0 {
		return good(append(out, 0, 2, 0x80, 1<<media), allocated)
	}
	out = append(out, 0, 6, media, 1<<media, d.event, b2i(!d.ejected)<<1|b2i(d.ejected), 0, 0)
	if allocated > 4 {
		d.event = eventNone
	}
	return good(out, allocated)
}

// readDisc is READ DISC INFORMATION: complete, one session, one track.
func readDisc(_ *drive, cdb, out []byte) result {
	if cdb[1]&7 != 0 {
		return checkCondition(senseField(1))
	}
	b := [34]byte{1: 32, 2: 0x0e, 3: 1, 4: 1, 5: 1, 6: 1, 7: 0x20}
	copy(b[16:24], "\xff\xff\xff\xff\xff\xff\xff\xff") // no further session
	return good(append(out, b[:]...), int(binary.BigEndian.Uint16(cdb[7:])))
}

// readTrack is READ TRACK INFORMATION, by block, track or session.
func readTrack(d *drive, cdb, out []byte) result {
	at := binary.BigEndian.Uint32(cdb[2:])
	switch kind := cdb[1] & 3; {
	case kind == 0 && int64(at) >= d.blocks:
		return checkCondition(senseRange)
	case kind == 1 && at != 1, kind == 2 && at != 1, kind == 3:
		return checkCondition(senseField(2))
	}
	b := [36]byte{1: 34, 2: 1, 3: 1, 5: 0x04, 6: 0x01}
	binary.BigEndian.PutUint32(b[24:], uint32(d.blocks))
	return good(append(out, b[:]...), int(binary.BigEndian.Uint16(cdb[7:])))
}

// mechanismStatus: no changer, nothing moves.
func mechanismStatus(_ *drive, cdb, out []byte) result {
	return good(append(out, 0, 0, 0, 0, 0, 1, 0, 0), int(binary.BigEndian.Uint16(cdb[8:])))
}
