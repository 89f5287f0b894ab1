package iscsi

// SCSI statuses.
const (
	statusGood  = 0x00
	statusCheck = 0x02
)

// Sense keys.
const (
	keyNone        = 0x00
	keyNotReady    = 0x02
	keyMedium      = 0x03
	keyIllegal     = 0x05
	keyDataProtect = 0x07
)

// senseLength is that of fixed format sense data, in bytes.
const senseLength = 18

// sense is an error: key, additional code and qualifier (SPC-3, section 4.5.6), and the invalid
// byte of the command (0: none, as that is the opcode).
type sense struct {
	key, code, qualifier byte
	field                byte
}

var (
	senseNone         = sense{}
	senseOpcode       = sense{keyIllegal, 0x20, 0x00, 0}
	senseRange        = sense{keyIllegal, 0x21, 0x00, 0}
	senseUnit         = sense{keyIllegal, 0x25, 0x00, 0}
	senseSaved        = sense{keyIllegal, 0x39, 0x00, 0}
	senseLocked       = sense{keyIllegal, 0x53, 0x02, 0}
	senseNoMedium     = sense{keyNotReady, 0x3a, 0x02, 0}
	senseBecoming     = sense{keyNotReady, 0x04, 0x01, 0}
	senseWriteProtect = sense{keyDataProtect, 0x27, 0x00, 0}
	senseUnreadable   = sense{keyMedium, 0x11, 0x00, 0}
)

// senseField is an invalid field, at a byte of the command.
func senseField(at byte) sense { return sense{keyIllegal, 0x24, 0x00, at} }

// appendFixed adds fixed format sense data.
func (s sense) appendFixed(dst []byte) []byte {
	var b [senseLength]byte
	b[0], b[2], b[7], b[12], b[13] = 0x70, s.key, senseLength-8, s.code, s.qualifier
	if s.field != 0 {
		b[15], b[17] = 0xc0, s.field // valid, in the command
	}
	return append(dst, b[:]...)
}

// appendDescriptor adds descriptor format sense data without descriptors.
func (s sense) appendDescriptor(dst []byte) []byte {
	return append(dst, 0x72, s.key, s.code, s.qualifier, 0, 0, 0, 0)
}

// result is the result of a command: data, or blocks of the disk to read, or a status
// that is not GOOD.
type result struct {
	status       byte
	sense        sense
	data         []byte
	block, count int64
}

func checkCondition(s sense) result { return result{status: statusCheck, sense: s} }

// good answers with data, cut to the allocation length of the command.
func good(data []byte, allocated int) result {
	return result{data: data[:min(len(data), allocated)]}
}
