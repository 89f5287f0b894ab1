package pxe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"glowplug/internal/domain/netaddr"
)

const (
	// probeGap is the time between the two questions whether a machine uses an address, and after the second one.
	probeGap = 200 * time.Millisecond
	// frameARP is the size of an Ethernet frame with an ARP packet, in bytes.
	frameARP = 14 + 28
	etherARP = 0x0806
)

// prober asks whether a machine uses an address (RFC 5227, section 2.1.1).
type prober struct {
	file *os.File // nil: it takes every address for unused
	name string   // of the interface

	mu      sync.Mutex
	waiting map[netip.Addr]*question
}

// question is a pending question about an address, which several machines may wait for.
type question struct {
	asking   int
	answered chan struct{} // closed once user is known
	user     netaddr.MAC
}

// newProber opens the socket of an interface. An interface that is not Ethernet has no ARP, and no socket.
func newProber(name string) (*prober, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	p := &prober{name: name, waiting: map[netip.Addr]*question{}}
	if len(link.HardwareAddr) == len(netaddr.MAC{}) {
		p.file, err = openARP(link)
	}
	return p, err
}

// serve reads answers until ctx ends.
func (p *prober) serve(ctx context.Context) error {
	if p.file == nil {
		<-ctx.Done()
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = p.file.Close() })()
	frame := make([]byte, maxPacket)
	for {
		n, err := p.file.Read(frame)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, syscall.ENETDOWN) { // it comes up again
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(checkInterval):
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("reading ARP on %s: %w", p.name, err)
		}
		if mac, a, ok := senderOf(frame[:n]); ok {
			p.answer(a, mac)
		}
	}
}

// answer notes that a machine uses an address.
func (p *prober) answer(a netip.Addr, mac netaddr.MAC) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.waiting[a]; q != nil && q.user == (netaddr.MAC{}) {
		q.user = mac
		close(q.answered)
	}
}

// uses returns the machine that uses an address. It takes some time until none is found.
func (p *prober) uses(ctx context.Context, a netip.Addr) (user netaddr.MAC, isUsed bool) {
	if p == nil || p.file == nil {
		return user, false
	}
	q := p.begin(a)
	defer p.end(a, q)
	for range 2 {
		p.send(a) // without an answer the address is given
		timer := time.NewTimer(probeGap)
		select {
		case <-q.answered:
			timer.Stop()
			return q.user, true
		case <-ctx.Done():
			timer.Stop()
			return user, false
		case <-timer.C:
		}
	}
	return user, false
}

// begin joins the question about an address.
func (p *prober) begin(a netip.Addr) *question {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.waiting[a]
	if q == nil {
		q = &question{answered: make(chan struct{})}
		p.waiting[a] = q
	}
	q.asking++
	return q
}

func (p *prober) end(a netip.Addr, q *question) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.asking--; q.asking == 0 {
		delete(p.waiting, a)
	}
}

// send sends a question. A bridge may have another hardware address by now than before.
func (p *prober) send(a netip.Addr) {
	if link, err := net.InterfaceByName(p.name); err == nil && len(link.HardwareAddr) == len(netaddr.MAC{}) {
		_, _ = p.file.Write(questionFor(link.HardwareAddr, a))
	}
}

// questionFor returns the frame that asks who uses an address. Its sender has no address, so that nobody notes it.
func questionFor(link net.HardwareAddr, a netip.Addr) []byte {
	frame := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, link...)
	frame = binary.BigEndian.AppendUint16(frame, etherARP)
	frame = append(frame, 0, 1, 8, 0, 6, 4, 0, 1) // Ethernet, IPv4, their sizes, a request
	frame = append(append(frame, link...), 0, 0, 0, 0)
	frame = append(frame, 0, 0, 0, 0, 0, 0)
	return append(frame, a.AsSlice()...)
}

// senderOf returns the sender of an ARP packet, of whatever kind; ok is false where it has no address.
func senderOf(frame []byte) (mac netaddr.MAC, a netip.Addr, ok bool) {
	if len(frame) < frameARP || binary.BigEndian.Uint16(frame[12:]) != etherARP || string(frame[14:20]) != "\x00\x01\x08\x00\x06\x04" {
		return mac, a, false
	}
	copy(mac[:], frame[22:])
	a = netip.AddrFrom4([4]byte(frame[28:32]))
	return mac, a, !a.IsUnspecified() && mac != (netaddr.MAC{})
}
