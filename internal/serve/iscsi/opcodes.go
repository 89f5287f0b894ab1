package iscsi

import "encoding/binary"

const noAction = -1

// operation is one command of the drive.
type operation struct {
	opcode byte
	action int // the service action, or noAction
	// usage has the bits of the command that have a meaning, in its length (SPC-3,
	// section 6.23).
	usage   string
	medium  bool // needs the disc to be in
	anyUnit bool // is answered for units that are not there as well
	run     func(d *drive, cdb, out []byte) result
}

// Masks of commands of 6, 10, 12 and 16 bytes that write: they fail whatever
// their bits mean.
const (
	write6  = "\x00\x1f\xff\xff\xff\x00"
	write10 = "\x00\xfa\xff\xff\xff\xff\x1f\xff\xff\x00"
	write12 = "\x00\xfa\xff\xff\xff\xff\xff\xff\xff\xff\x1f\x00"
	write16 = "\x00\xfa\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x1f\x00"
)

// operations returns all commands, in the order of their opcodes.
func operations() []operation {
	return []operation{
		{0x00, noAction, "\x00\x00\x00\x00\x00\x00", true, false, testUnitReady},
		{0x03, noAction, "\x00\x01\x00\x00\xff\x00", false, true, requestSense},
		{0x04, noAction, write6, false, false, writeProtected}, // FORMAT UNIT
		{0x08, noAction, "\x00\x1f\xff\xff\xff\x00", true, false, read},
		{0x0a, noAction, write6, false, false, writeProtected},
		{0x12, noAction, "\x00\x01\xff\xff\xff\x00", false, true, inquiry},
		{0x1a, noAction, "\x00\x08\xff\xff\xff\x00", false, false, modeSense},
		{0x1b, noAction, "\x00\x01\x0f\x0f\xf7\x00", false, false, startStop},
		{0x1e, noAction, "\x00\x00\x00\x00\x03\x00", false, false, preventAllow},
		{0x25, noAction, "\x00\x00\xff\xff\xff\xff\x00\x00\x01\x00", true, false, readCapacity10},
		{0x28, noAction, "\x00\xf8\xff\xff\xff\xff\x1f\xff\xff\x00", true, false, read},
		{0x2a, noAction, write10, false, false, writeProtected},
		{0x2e, noAction, write10, false, false, writeProtected}, // WRITE AND VERIFY
		{0x41, noAction, write10, false, false, writeProtected}, // WRITE SAME
		{0x43, noAction, "\x00\x02\x0f\x00\x00\x00\xff\xff\xff\xc0", true, false, readTOC},
		{0x46, noAction, "\x00\x03\xff\xff\x00\x00\x00\xff\xff\x00", false, false, getConfiguration},
		{0x4a, noAction, "\x00\x01\x00\x00\xff\x00\x00\xff\xff\x00", false, false, getEvent},
		{0x51, noAction, "\x00\x07\x00\x00\x00\x00\x00\xff\xff\x00", true, false, readDisc},
		{0x52, noAction, "\x00\x03\xff\xff\xff\xff\x00\xff\xff\x00", true, false, readTrack},
		{0x5a, noAction, "\x00\x18\xff\xff\x00\x00\x00\xff\xff\x00", false, false, modeSense},
		{0x5e, 0x00, "\x00\x1f\x00\x00\x00\x00\x00\xff\xff\x00", false, false, reserveIn},
		{0x5e, 0x01, "\x00\x1f\x00\x00\x00\x00\x00\xff\xff\x00", false, false, reserveIn},
		{0x5e, 0x02, "\x00\x1f\x00\x00\x00\x00\x00\xff\xff\x00", false, false, reserveIn},
		{0x5e, 0x03, "\x00\x1f\x00\x00\x00\x00\x00\xff\xff\x00", false, false, reserveIn},
		{0x88, noAction, "\x00\xf8\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x1f\x00", true, false, read},
		{0x89, noAction, write16, false, false, writeProtected}, // COMPARE AND WRITE
		{0x8a, noAction, write16, false, false, writeProtected},
		{0x8b, noAction, write16, false, false, writeProtected}, // ORWRITE
		{0x8e, noAction, write16, false, false, writeProtected}, // WRITE AND VERIFY
		{0x93, noAction, write16, false, false, writeProtected}, // WRITE SAME
		{0x9e, 0x10, "\x00\x1f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", true, false, readCapacity16},
		{0xa0, noAction, "\x00\x00\xff\x00\x00\x00\xff\xff\xff\xff\x00\x00", false, true, reportLUNs},
		{0xa3, 0x0c, "\x00\x1f\x87\xff\xff\xff\xff\xff\xff\xff\x00\x00", false, false, reportOpcodes},
		{0xa8, noAction, "\x00\xf8\xff\xff\xff\xff\xff\xff\xff\xff\x1f\x00", true, false, read},
		{0xaa, noAction, write12, false, false, writeProtected},
		{0xae, noAction, write12, false, false, writeProtected}, // WRITE AND VERIFY
		{0xb9, noAction, "\x00\x1c\x00\xff\xff\xff\xff\xff\xff\xf8\x07\x00", true, false, readCDMSF},
		{0xbd, noAction, "\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00", false, false, mechanismStatus},
		{0xbe, noAction, "\x00\x1c\xff\xff\xff\xff\xff\xff\xff\xf8\x07\x00", true, false, readCD},
	}
}

// byOpcode has the operations of each opcode. One of them reports the table, so it is
// filled in at the start.
var byOpcode [256][]operation

func init() {
	for _, op := range operations() {
		byOpcode[op.opcode] = append(byOpcode[op.opcode], op)
	}
}

// lookup finds the operation of a command, or nil.
func lookup(cdb []byte) *operation { return find(cdb[0], int(cdb[1]&0x1f)) }

func find(opcode byte, action int) *operation {
	group := byOpcode[opcode]
	for i := range group {
		if group[i].action == noAction || group[i].action == action {
			return &group[i]
		}
	}
	return nil
}

// serviceActions reports whether an opcode is known, by its service actions.
func serviceActions(opcode byte) bool {
	group := byOpcode[opcode]
	return len(group) > 0 && group[0].action != noAction
}

// reportOpcodes is REPORT SUPPORTED OPERATION CODES.
func reportOpcodes(_ *drive, cdb, out []byte) result {
	const all, opcodeOnly, withAction, either = 0, 1, 2, 3
	timeouts := cdb[2]&0x80 != 0
	opcode, action := cdb[3], int(binary.BigEndian.Uint16(cdb[4:]))
	allocated := int(binary.BigEndian.Uint32(cdb[6:]))
	options := cdb[2] & 7
	switch {
	case options == all:
		return good(appendOpcodes(out, timeouts), allocated)
	case options > either, options == opcodeOnly && serviceActions(opcode):
		return checkCondition(senseField(2))
	case options == withAction && len(byOpcode[opcode]) > 0 && !serviceActions(opcode):
		return checkCondition(senseField(2))
	}
	op := find(opcode, action)
	if op == nil {
		return good(append(out, 0, 1, 0, 0), allocated) // not supported
	}
	support := 3 | b2i(timeouts)<<7 // 3: as the standard has it
	out = append(out, 0, support, 0, byte(len(op.usage)))
	start := len(out)
	out = append(out, op.usage...)
	out[start] = opcode
	if op.action != noAction {
		out[start+1] = out[start+1]&0xe0 | byte(op.action)
	}
	if timeouts {
		out = appendTimeouts(out)
	}
	return good(out, allocated)
}

func appendOpcodes(out []byte, timeouts bool) []byte {
	start := len(out)
	out = append(out, 0, 0, 0, 0)
	for opcode, group := range byOpcode {
		for i := range group {
			descriptor := [8]byte{byte(opcode), 7: byte(len(group[i].usage))}
			if action := group[i].action; action != noAction {
				descriptor[3] = byte(action)
				descriptor[5] |= 0x01
			}
			if timeouts {
				descriptor[5] |= 0x02
			}
			out = append(out, descriptor[:]...)
			if timeouts {
				out = appendTimeouts(out)
			}
		}
	}
	binary.BigEndian.PutUint32(out[start:], uint32(len(out)-start-4))
	return out
}

// appendTimeouts adds a timeouts descriptor that names no timeouts.
func appendTimeouts(out []byte) []byte {
	return append(out, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
}
