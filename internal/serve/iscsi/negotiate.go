package iscsi

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The protocol's defaults, RFC 7143 section 13, and its bounds.
const (
	defaultSegment    = 8192
	defaultBurst      = 262144
	defaultFirstBurst = 65536
	minSegment        = 512
	maxSegment        = 1<<24 - 1
)

const (
	yes           = "Yes"
	no            = "No"
	none          = "None"
	crc32c        = "CRC32C"
	rejected      = "Reject"
	irrelevant    = "Irrelevant"
	notUnderstood = "NotUnderstood"
)

// params is what a connection has agreed on.
type params struct {
	digests
	maxSend  int // the initiator's MaxRecvDataSegmentLength, in bytes
	maxBurst int // in bytes
}

func defaultParams() params {
	return params{maxSend: defaultSegment, maxBurst: defaultBurst}
}

// negotiate answers one operational key of the initiator (RFC 7143, section 13). reply
// is false for a key without an answer. A value that cannot be accepted is rejected, and
// the parameter keeps its value.
func (p *params) negotiate(key, value string) (answer string, reply bool) {
	switch key {
	case "HeaderDigest":
		return pickDigest(value, &p.header), true
	case "DataDigest":
		return pickDigest(value, &p.data), true
	case "MaxRecvDataSegmentLength":
		n, ok := number(value, minSegment, maxSegment)
		if !ok {
			return rejected, true
		}
		p.maxSend = n &^ 3
		return "", false
	case "TaskReporting":
		if !slices.Contains(list(value), "RFC3720") {
			return rejected, true
		}
		return "RFC3720", true
	case "InitiatorAlias", "InitiatorName", "SessionType", "TargetName":
		return "", false
	case "IFMarkInt", "OFMarkInt":
		return irrelevant, true
	}
	if k, ok := numbers[key]; ok {
		n, ok := number(value, k.low, k.high)
		if !ok {
			return rejected, true
		}
		return strconv.Itoa(k.agree(p, n)), true
	}
	answer, ok := bools[key]
	switch {
	case !ok:
		return notUnderstood, true
	case value != yes && value != no:
		return rejected, true
	}
	return answer, true
}

// numbers are the keys with a range of valid numbers. agree returns the answer to one.
var numbers = map[string]struct {
	low, high int
	agree     func(p *params, n int) int
}{
	"MaxConnections":     {1, 65535, always(1)},
	"MaxOutstandingR2T":  {1, 65535, always(1)},
	"ErrorRecoveryLevel": {0, 2, always(0)},
	"DefaultTime2Retain": {0, 3600, always(0)},
	"DefaultTime2Wait":   {0, 3600, func(_ *params, n int) int { return max(n, 2) }},
	"iSCSIProtocolLevel": {0, 31, always(1)},
	"MaxBurstLength": {minSegment, maxSegment, func(p *params, n int) int {
		p.maxBurst = min(n, defaultBurst) &^ 3
		return p.maxBurst
	}},
	"FirstBurstLength": {minSegment, maxSegment, func(p *params, n int) int {
		return min(n, defaultFirstBurst, p.maxBurst)
	}},
}

func always(answer int) func(*params, int) int {
	return func(*params, int) int { return answer }
}

// bools are the keys that are Yes or No, with their one answer. Where either side's
// Yes decides it is Yes: no data is sent that was not requested. Where either side's No
// decides it is No: a write fails, and its data would be sent in vain.
var bools = map[string]string{
	"InitialR2T": yes, "DataPDUInOrder": yes, "DataSequenceInOrder": yes,
	"ImmediateData": no, "IFMarker": no, "OFMarker": no,
}

func pickDigest(value string, on *bool) string {
	for _, method := range list(value) {
		if method == crc32c || method == none {
			*on = method == crc32c
			return method
		}
	}
	return rejected
}

const (
	// maxKeys bounds the keys of one exchange; login needs about twenty.
	maxKeys = 64
	// maxKeyName is the longest name of a key, RFC 7143 section 6.1.
	maxKeyName = 63
	// maxText bounds the text that is put together from continued PDUs.
	maxText = 32 << 10
	// maxName is the longest iSCSI name, section 4.2.7.1.
	maxName = 223
)

var (
	errText    = errors.New("text is not a list of key=value")
	errTooLong = errors.New("text too long")
)

// pair is one key=value.
type pair struct{ key, value string }

// pairs is a text: the keys in their order.
type pairs []pair

// parseText parses a text.
func parseText(b []byte) (pairs, error) {
	var list pairs
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte{0})
		b = rest
		if len(line) == 0 {
			continue // padding that was counted
		}
		key, value, found := bytes.Cut(line, []byte{'='})
		if !found || len(key) == 0 || len(key) > maxKeyName {
			return nil, errText
		}
		if len(list) == maxKeys {
			return nil, errTooLong
		}
		list = append(list, pair{string(key), string(value)})
	}
	return list, nil
}

// get returns a key's value.
func (p pairs) get(key string) (string, bool) {
	for _, each := range p {
		if each.key == key {
			return each.value, true
		}
	}
	return "", false
}

// add appends a key.
func (p *pairs) add(key, value string) { *p = append(*p, pair{key, value}) }

// encode returns the text as it is sent.
func (p pairs) encode() []byte {
	var b []byte
	for _, each := range p {
		b = append(b, each.key...)
		b = append(b, '=')
		b = append(b, each.value...)
		b = append(b, 0)
	}
	return b
}

// validName reports whether a text can be an iSCSI name. It accepts the characters that
// initiators use, but none that could break a log line or a text.
func validName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || r == '=' || r == ','
	})
}

// number reads a numerical value within bounds; the protocol allows hex.
func number(s string, low, high int) (int, bool) {
	base := 10
	if cut, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		s, base = cut, 16
	}
	n, err := strconv.ParseUint(s, base, 32)
	if err != nil || int(n) < low || int(n) > high {
		return 0, false
	}
	return int(n), true
}

// list returns the elements of a value that is a list in order of preference.
func list(value string) []string { return strings.Split(value, ",") }

// texts is a text exchange under way: the text so far, and the rest of the answer.
type texts struct{ in, out []byte }

// textTag is the target's tag of a text exchange that goes on; there is one at a time.
const textTag = 1

// textExchange is a connection in its answers to Text Requests.
type textExchange struct{ *conn }

// text answers a Text Request (RFC 7143, section 11.10): SendTargets, or a new segment
// length. It sends a long answer a segment at a time.
func (c textExchange) text(r request) error {
	const more = 0x40
	t := &c.texts
	if r.word(20) == noTag {
		*t = texts{}
	}
	if r.flags()&more != 0 {
		if t.in = append(t.in, r.data...); len(t.in) > maxText {
			return fmt.Errorf("text request: %w", errTooLong)
		}
		return c.textResponse(r, 0, textTag, nil)
	}
	if len(t.out) == 0 {
		keys, err := parseText(append(t.in, r.data...))
		if err != nil {
			return fmt.Errorf("text request: %w", err)
		}
		t.in, t.out = nil, c.answerKeys(keys).encode()
	}
	n := min(len(t.out), c.params.maxSend, maxReceive)
	part := t.out[:n]
	if t.out = t.out[n:]; len(t.out) > 0 {
		return c.textResponse(r, more, textTag, part)
	}
	return c.textResponse(r, flagFinal, noTag, part)
}

// textResponse sends a part of an answer. After one with textTag the initiator asks for
// the next part.
func (c textExchange) textResponse(r request, flags byte, tag uint32, part []byte) error {
	h := newHeader(opTextDone, flags, r.tag())
	copy(h[8:16], r.head[8:16])
	h.put(20, tag)
	return c.answer(&h, part)
}

func (c textExchange) answerKeys(keys pairs) pairs {
	var answer pairs
	for _, each := range keys {
		switch each.key {
		case "SendTargets":
			answer = append(answer, c.sendTargets(each.value)...)
		case "MaxRecvDataSegmentLength":
			if value, reply := c.params.negotiate(each.key, each.value); reply {
				answer.add(each.key, value)
			}
		default:
			answer.add(each.key, rejected)
		}
	}
	return answer
}

// sendTargets lists targets: all in a discovery session, in a normal one its own.
func (c textExchange) sendTargets(which string) pairs {
	var names []string
	switch {
	case !c.discovery:
		names = []string{c.target.IQN}
	case c.server.options.Discover != nil:
		names = c.server.options.Discover(c.loginTo(""))
	}
	portal := c.server.options.Portal
	if portal == "" {
		portal = address(c.local)
	}
	var answer pairs
	for _, name := range names {
		if which == "All" || which == "" && !c.discovery || which == name {
			answer.add("TargetName", name)
			answer.add("TargetAddress", portal+",1")
		}
	}
	return answer
}

// address returns an address in the form of TargetAddress, which has no zone.
func address(a netip.AddrPort) string {
	return net.JoinHostPort(a.Addr().WithZone("").String(), fmt.Sprint(a.Port()))
}
