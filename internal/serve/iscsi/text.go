package iscsi

import (
	"fmt"
	"net"
	"net/netip"
)

// texts is a text exchange under way: what has come, and what is to be sent.
type texts struct {
	in      []byte
	out     []byte
	pending bool // out is what is left of an answer
}

// textTag is the target's tag of a text exchange that goes on; there is one at a time.
const textTag = 1

// textExchange is a connection in its answers to Text Requests.
type textExchange struct{ *conn }

// text answers a Text Request: SendTargets, or a new segment length. A long
// answer is handed out a segment at a time.
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
		return c.textResponse(r, nil, true)
	}
	if !t.pending {
		keys, err := parseText(append(t.in, r.data...))
		if err != nil {
			return fmt.Errorf("text request: %w", err)
		}
		t.in, t.out, t.pending = nil, c.answerKeys(keys).encode(), true
	}
	n := min(len(t.out), c.params.maxSend, maxReceive)
	part := t.out[:n]
	t.out = t.out[n:]
	if len(t.out) > 0 {
		return c.textResponse(r, part, true)
	}
	*t = texts{}
	return c.textResponse(r, part, false)
}

// textResponse sends a part of an answer; goesOn: the initiator asks for the next.
func (c textExchange) textResponse(r request, part []byte, goesOn bool) error {
	const more = 0x40
	h := newHeader(opTextDone, flagFinal, r.tag())
	h.put(20, noTag)
	if goesOn {
		h[1] = 0
		if len(part) > 0 {
			h[1] = more
		}
		h.put(20, textTag)
	}
	copy(h[8:16], r.head[8:16])
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
		names = c.server.options.Discover(Login{Initiator: c.initiator, Remote: c.remote, Local: c.local})
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

// address writes an address as TargetAddress wants it; it takes no zone.
func address(a netip.AddrPort) string {
	return net.JoinHostPort(a.Addr().WithZone("").String(), fmt.Sprint(a.Port()))
}
