// Package tftp is a read-only TFTP server (RFC 1350) with the options blksize, tsize, timeout and windowsize (RFC 2347,
// 2348, 2349 and 7440), for the loaders of machines that boot from the network.
package tftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
)

// Operations, and the codes of errors (RFC 1350, sections 5 and appendix; RFC 2347).
const (
	opRead  = 1
	opWrite = 2
	opData  = 3
	opAck   = 4
	opError = 5
	opOack  = 6

	codeUndefined = 0
	codeNotFound  = 1
	codeAccess    = 2
	codeIllegal   = 4
)

const (
	// defaultBlock is the size of a block without the option, and maxBlock that of a block in one packet of Ethernet.
	defaultBlock = 512
	minBlock     = 8
	maxBlock     = 1468
	// maxWindow bounds the blocks that are sent without an answer.
	maxWindow = 16
	// Behind is how many bytes of a file before its newest read position may be read again.
	Behind  = maxWindow * maxBlock
	maxName = 255
)

// request is a read request.
type request struct {
	name string
	// block is the size of a block in bytes, window the number of blocks that are sent at once, and timeout in seconds
	// how long an answer is waited for; 0: the client does not say.
	block, window, timeout int
	// accepted are the options of the answer, without tsize, and size asks for that.
	accepted []option
	size     bool
}

// option is an option with its value.
type option struct{ name, value string }

var (
	errShort   = errors.New("the request is not complete")
	errWrite   = errors.New("this server is read-only")
	errMode    = errors.New("only the mode octet is served")
	errIllegal = errors.New("not a read request")
)

// parse reads the first packet of a client.
func parse(packet []byte) (*request, error) {
	if len(packet) < 2 {
		return nil, errShort
	}
	switch binary.BigEndian.Uint16(packet) {
	case opRead:
	case opWrite:
		return nil, errWrite
	default:
		return nil, errIllegal
	}
	fields := bytes.Split(packet[2:], []byte{0})
	// Each field ends with a zero byte; some firmware pads the packet with more of them.
	if len(fields) < 3 || len(fields[0]) == 0 || len(fields[0]) > maxName {
		return nil, errShort
	}
	r := &request{name: string(fields[0]), block: defaultBlock, window: 1}
	if !strings.EqualFold(string(fields[1]), "octet") {
		return nil, errMode
	}
	for rest := fields[2 : len(fields)-1]; len(rest) >= 2; rest = rest[2:] {
		r.accept(strings.ToLower(string(rest[0])), string(rest[1]))
	}
	return r, nil
}

// accept takes an option over as far as the server has it. Others, and values that make no sense, are left out of the
// answer, which refuses them (RFC 2347).
func (r *request) accept(name, value string) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || r.has(name) {
		return
	}
	switch {
	case name == "tsize":
		r.size = true
		return
	case name == "blksize" && n >= minBlock:
		r.block = min(n, maxBlock)
		n = r.block
	case name == "windowsize" && n >= 1:
		r.window = min(n, maxWindow)
		n = r.window
	case name == "timeout" && n >= 1 && n <= 255:
		r.timeout = n
	default:
		return
	}
	r.accepted = append(r.accepted, option{name, strconv.Itoa(n)})
}

func (r *request) has(name string) bool {
	for _, o := range r.accepted {
		if o.name == name {
			return true
		}
	}
	return false
}

// oack returns the answer to the options; nil: there are none.
func (r *request) oack(size int64) []byte {
	options := r.accepted
	if r.size {
		options = append(options, option{"tsize", strconv.FormatInt(size, 10)})
	}
	if len(options) == 0 {
		return nil
	}
	packet := []byte{0, opOack}
	for _, o := range options {
		packet = append(append(append(append(packet, o.name...), 0), o.value...), 0)
	}
	return packet
}

// failure returns an error packet.
func failure(code uint16, message string) []byte {
	packet := binary.BigEndian.AppendUint16([]byte{0, opError}, code)
	return append(append(packet, message...), 0)
}
