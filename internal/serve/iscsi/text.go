package iscsi

import (
	"fmt"
	"net"
	"net/netip"
)

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
