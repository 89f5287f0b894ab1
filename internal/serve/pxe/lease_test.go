package pxe

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/lease"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/limit"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/store/leases"
	"glowplug/internal/store/objects"
	"glowplug/internal/testkit"
)

// leaseRig is a rig that gives addresses from 192.0.2.10 to 192.0.2.12. The host "own" has 192.0.2.11.
func leaseRig(t *testing.T, change func(*Leasing)) *rig {
	t.Helper()
	book := leases.New(nil)
	store := kvstore.New(objects.Stored(kinds.Of(kinds.Leases)), kvstore.Options{}, book)
	book.Use(store)
	kvtest.Run(t, kvtest.JetStream(t), store)
	testkit.Until(t, "the leases are read", store.Loaded)
	r, err := lease.ParseRange("192.0.2.10-192.0.2.12")
	if err != nil {
		t.Fatal(err)
	}
	own := netip.MustParseAddr("192.0.2.11")
	host := &model.Host{Ref: model.Ref{Namespace: "rack", Name: "own"}, UID: "uid-own", IPs: []netip.Addr{own},
		Hostnames: []string{"own.example"}}
	return newRig(t, func(o *Options) {
		o.Leasing = &Leasing{
			Pool: lease.Pool{Network: netip.MustParsePrefix("192.0.2.1/24"), Server: o.Address, Range: r},
			Book: book, Routers: []net.IP{{192, 0, 2, 254}}, DNS: []net.IP{{192, 0, 2, 253}},
		}
		all := o.Hosts().(hosts)
		all["52:54:00:00:00:0b"], all[own.String()], all["rack/own"] = host, host, host
		all["4c4c4544-0042-3510-8056-b4c04f4e3132"] = host
		if change != nil {
			change(o.Leasing)
		}
	})
}

// say is a packet of a machine about an address.
type say struct {
	mac, class     string
	kind           dhcpv4.MessageType
	asked, current string
	server         string
}

func (s say) packet(t testing.TB) *dhcpv4.DHCPv4 {
	t.Helper()
	p, err := dhcpv4.FromBytes(ask{mac: s.mac, class: s.class, kind: s.kind, arch: iana.EFI_X86_64}.packet(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.asked != "" {
		p.UpdateOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(s.asked)))
	}
	if s.server != "" {
		p.UpdateOption(dhcpv4.OptServerIdentifier(net.ParseIP(s.server)))
	}
	if s.current != "" {
		p.ClientIPAddr = net.ParseIP(s.current)
	}
	return p
}

// leasedBy returns the reply to a packet.
func (r *rig) leasedBy(t testing.TB, p *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	t.Helper()
	ask := r.admit(p)
	if ask == nil {
		return nil
	}
	defer r.answered(ask.client.MAC)
	return r.lease(t.Context(), ask)
}

// leased says what a machine is answered.
func (r *rig) leased(t testing.TB, s say) string {
	t.Helper()
	p := s.packet(t)
	r.machines = limit.Buckets[netaddr.MAC](maxMachines, ratePerMachine) // as if it had waited
	reply := r.leasedBy(t, p)
	if reply == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s %q to %s", reply.MessageType(), reply.YourIPAddr, reply.BootFileName, destination(p, reply).Addr())
}

const (
	stranger = "52:54:00:00:00:21"
	ours     = "192.0.2.1"
)

// TestAddresses is a conversation of machines with the server, one packet after the other (RFC 2131, section 4.3).
func TestAddresses(t *testing.T) {
	r := leaseRig(t, nil)
	reply := r.leasedBy(t, say{mac: stranger, kind: dhcpv4.MessageTypeDiscover}.packet(t))
	if reply == nil {
		t.Fatal("no offer")
	}
	mine := reply.YourIPAddr.String() // of 192.0.2.10 and 192.0.2.12
	rest := map[string]string{"192.0.2.10": "192.0.2.12", "192.0.2.12": "192.0.2.10"}[mine]
	for i, c := range []struct {
		say
		want string
	}{
		{say{stranger, "", dhcpv4.MessageTypeRequest, mine, "", "192.0.2.77"}, "nothing"}, // another server was chosen
		{say{stranger, "", dhcpv4.MessageTypeDiscover, "", "", ""}, `OFFER ` + mine + ` "" to 255.255.255.255`},
		{say{stranger, "", dhcpv4.MessageTypeRequest, rest, "", ours}, `NAK 0.0.0.0 "" to 255.255.255.255`},
		{say{stranger, "", dhcpv4.MessageTypeRequest, mine, "", ours}, `ACK ` + mine + ` "" to 255.255.255.255`},
		{say{stranger, pxeX64, dhcpv4.MessageTypeDiscover, "", "", ""}, `OFFER ` + mine + ` "snponly.efi" to 255.255.255.255`},
		{say{stranger, pxeX64, dhcpv4.MessageTypeRequest, mine, "", ours}, `ACK ` + mine + ` "snponly.efi" to 255.255.255.255`},
		{say{stranger, "", dhcpv4.MessageTypeRequest, "", mine, ""}, `ACK ` + mine + ` "" to ` + mine}, // renewal
		{say{stranger, "", dhcpv4.MessageTypeInform, "", mine, ""}, `ACK 0.0.0.0 "" to ` + mine},
		// The host has its own address; it may not keep another one, nor a stranger take it.
		{say{"52:54:00:00:00:0b", pxeX64, dhcpv4.MessageTypeDiscover, "", "", ""},
			`OFFER 192.0.2.11 "snponly.efi" to 255.255.255.255`},
		{say{"52:54:00:00:00:0b", "", dhcpv4.MessageTypeRequest, rest, "", ""}, `NAK 0.0.0.0 "" to 255.255.255.255`},
		{say{"52:54:00:00:00:0b", "", dhcpv4.MessageTypeRequest, "192.0.2.11", "", ""}, `ACK 192.0.2.11 "" to 255.255.255.255`},
		{say{"52:54:00:00:00:22", "", dhcpv4.MessageTypeRequest, "192.0.2.11", "", ""}, `NAK 0.0.0.0 "" to 255.255.255.255`},
		// An address of another network, and that of the server itself, are refused.
		{say{"52:54:00:00:00:22", "", dhcpv4.MessageTypeRequest, "10.0.0.9", "", ""}, `NAK 0.0.0.0 "" to 255.255.255.255`},
		{say{"52:54:00:00:00:22", "", dhcpv4.MessageTypeRequest, ours, "", ""}, `NAK 0.0.0.0 "" to 255.255.255.255`},
		// A lease that was lost: its machine keeps the address.
		{say{"52:54:00:00:00:22", "", dhcpv4.MessageTypeRequest, "", rest, ""}, `ACK ` + rest + ` "" to ` + rest},
		{say{"52:54:00:00:00:23", "", dhcpv4.MessageTypeDiscover, "", "", ""}, "nothing"}, // none is free
		{say{"52:54:00:00:00:23", "", dhcpv4.MessageTypeRelease, "", rest, ours}, "nothing"},
		{say{"52:54:00:00:00:23", "", dhcpv4.MessageTypeDiscover, "", "", ""}, "nothing"}, // that was not its own
		{say{"52:54:00:00:00:22", "", dhcpv4.MessageTypeRelease, "", rest, ours}, "nothing"},
		{say{"52:54:00:00:00:23", "", dhcpv4.MessageTypeDiscover, "", "", ""}, `OFFER ` + rest + ` "" to 255.255.255.255`},
		{say{"52:54:00:00:00:23", "", dhcpv4.MessageTypeRequest, rest, "", ours}, `ACK ` + rest + ` "" to 255.255.255.255`},
		{say{"52:54:00:00:00:23", "", dhcpv4.MessageTypeDecline, rest, "", ours}, "nothing"},
		{say{"52:54:00:00:00:23", "", dhcpv4.MessageTypeDiscover, "", "", ""}, "nothing"}, // it is used by somebody
		{say{"01:00:5e:00:00:01", "", dhcpv4.MessageTypeDiscover, "", "", ""}, "nothing"}, // of no card
	} {
		if got := r.leased(t, c.say); got != c.want {
			t.Errorf("%d: %+v\n got %s\nwant %s", i, c.say, got, c.want)
		}
	}
}

// TestLeaseOptions: an address comes with the mask, the router, the DNS server and the name of the host, and GRUB finds
// the server in every reply.
func TestLeaseOptions(t *testing.T) {
	p := leaseRig(t, nil).leasedBy(t, say{mac: "52:54:00:00:00:0b", kind: dhcpv4.MessageTypeDiscover}.packet(t))
	got := fmt.Sprint(net.IP(p.SubnetMask()), p.Router(), p.DNS(), p.HostName(), p.IPAddressLeaseTime(0), p.ServerIPAddr,
		p.ServerIdentifier())
	if want := "255.255.255.0 [192.0.2.254] [192.0.2.253]own.example1h0m0s 192.0.2.1 192.0.2.1"; got != want {
		t.Error(got)
	}
}

// TestAddressesBesideOthers: a machine with an address of the other server is left to that one.
func TestAddressesBesideOthers(t *testing.T) {
	r := leaseRig(t, func(l *Leasing) { l.Beside = true })
	for _, s := range []say{
		{mac: stranger, kind: dhcpv4.MessageTypeRequest, current: "192.0.2.10"},
		{mac: stranger, kind: dhcpv4.MessageTypeRequest, asked: "10.0.0.9"},
	} {
		if got := r.leased(t, s); got != "nothing" {
			t.Errorf("%+v: %s", s, got)
		}
	}
}

// TestUsedAddresses: an address that a machine uses is not offered to another one.
func TestUsedAddresses(t *testing.T) {
	r := leaseRig(t, nil)
	offered := func(mac string) string {
		return strings.Fields(r.leased(t, say{mac: mac, kind: dhcpv4.MessageTypeDiscover}) + " -")[1]
	}
	first := offered(stranger)
	r.probe = &prober{file: nullFile(t), name: "lo", waiting: map[netip.Addr]*question{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // the machine that uses it
		for ctx.Err() == nil {
			r.probe.answer(netip.MustParseAddr(first), netaddr.MAC{2, 9})
		}
	}()
	if second := offered(stranger); second == first || second == "-" {
		t.Error(first, second)
	}
	if got := r.log(); !strings.Contains(got, "already uses this address: 02:09:00:00:00:00") {
		t.Error(got)
	}
}

// TestARP: the question is a probe that nobody notes, and the sender of each whole ARP packet uses its address.
func TestARP(t *testing.T) {
	frame := questionFor(net.HardwareAddr{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("192.0.2.10"))
	if _, _, ok := senderOf(frame); ok || len(frame) != frameARP {
		t.Errorf("%x", frame)
	}
	copy(frame[28:], []byte{192, 0, 2, 10})
	if mac, a, ok := senderOf(frame); !ok || a.String() != "192.0.2.10" || mac.String() != "02:00:00:00:00:01" {
		t.Error(mac, a, ok)
	}
	for n := range frameARP {
		if _, _, ok := senderOf(frame[:n]); ok {
			t.Error(n, "bytes are taken for a packet")
		}
	}
}

// TestRelays: a relay is answered at its own address where --pxe-relays says so, and without an address even where
// machines of this network are given one.
func TestRelays(t *testing.T) {
	p, err := dhcpv4.FromBytes(ask{mac: stranger, class: pxeX64, arch: iana.EFI_X86_64, relay: "198.51.100.1"}.packet(t))
	if err != nil {
		t.Fatal(err)
	}
	if reply := newRig(t, nil).Server.answer(p, portDHCP); reply != nil {
		t.Error("a relay is answered that nobody asked for", reply)
	}
	reply := newRig(t, func(o *Options) { o.Relays = true }).Server.answer(p, portDHCP)
	if reply == nil || destination(p, reply).String() != "198.51.100.1:67" || reply.BootFileName != "snponly.efi" ||
		!reply.YourIPAddr.IsUnspecified() || reply.GatewayIPAddr.String() != "198.51.100.1" {
		t.Error(reply)
	}
}

func nullFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestOneMachineHasOneAddress: a machine that asks for one address after the other has one of them.
func TestOneMachineHasOneAddress(t *testing.T) {
	r := leaseRig(t, nil)
	got := ""
	for _, address := range []string{"192.0.2.10", "192.0.2.12", "192.0.2.254", "192.0.2.253"} {
		got += r.leased(t, say{mac: stranger, kind: dhcpv4.MessageTypeRequest, asked: address})[:3] + " "
	}
	if got != "ACK NAK NAK NAK " {
		t.Error(got)
	}
}

// TestTheSystemOfAHostKeepsItsAddress: a host that is known by its UUID alone, which only its firmware says, keeps its
// address once its system runs.
func TestTheSystemOfAHostKeepsItsAddress(t *testing.T) {
	r := leaseRig(t, nil)
	firmware := say{mac: stranger, class: pxeX64, kind: dhcpv4.MessageTypeRequest, asked: "192.0.2.11", server: ours}.packet(t)
	firmware.UpdateOption(dhcpv4.OptGeneric(optionUUID, append([]byte{0}, "LLED\x00B5\x10\x80V\xb4\xc0ON12"...)))
	if reply := r.leasedBy(t, firmware); reply == nil || reply.MessageType() != dhcpv4.MessageTypeAck {
		t.Fatal(reply)
	}
	if got := r.leased(t, say{mac: stranger, kind: dhcpv4.MessageTypeRequest, current: "192.0.2.11"}); !strings.HasPrefix(got, "ACK") {
		t.Error(got)
	}
	// Its UUID is no secret, and releases nothing.
	release := say{mac: "52:54:00:00:00:22", class: pxeX64, kind: dhcpv4.MessageTypeRelease, current: "192.0.2.11", server: ours}.packet(t)
	release.UpdateOption(dhcpv4.OptGeneric(optionUUID, append([]byte{0}, "LLED\x00B5\x10\x80V\xb4\xc0ON12"...)))
	if r.leasedBy(t, release); !r.opts.Leasing.Book.Has(&leases.Machine{MAC: firmwareMAC(t)}, netip.MustParseAddr("192.0.2.11")) {
		t.Error("another machine has released the lease")
	}
}

func firmwareMAC(t *testing.T) netaddr.MAC {
	t.Helper()
	mac, err := netaddr.ParseMAC(stranger)
	if err != nil {
		t.Fatal(err)
	}
	return mac
}

// TestAFloodWritesLittle: machines that nobody knows make a bounded number of leases, and wait for no known host.
func TestAFloodWritesLittle(t *testing.T) {
	r := leaseRig(t, nil)
	r.writes = limit.PerSecond(1, 2).Bucket()
	answers := ""
	for i := range 4 {
		mac := fmt.Sprintf("52:54:00:00:01:%02x", i)
		answers += r.leased(t, say{mac: mac, kind: dhcpv4.MessageTypeRequest, current: []string{"192.0.2.10", "192.0.2.12"}[i%2]})[:3] + " "
		r.leased(t, say{mac: mac, kind: dhcpv4.MessageTypeRelease, current: []string{"192.0.2.10", "192.0.2.12"}[i%2], server: ours})
	}
	if !strings.HasPrefix(answers, "ACK ACK not") {
		t.Error(answers)
	}
	if got := r.leased(t, say{mac: "52:54:00:00:00:0b", kind: dhcpv4.MessageTypeRequest, asked: "192.0.2.11"}); got[:3] != "ACK" {
		t.Error("a known host is answered", got)
	}
	ask := say{mac: stranger, kind: dhcpv4.MessageTypeDiscover}.packet(t)
	if r.admit(ask) == nil || r.admit(ask) != nil {
		t.Error("a machine is answered twice at the same time")
	}
}

// TestAnotherAddressIsAnEvent: a host that is given another address than its own has an event with the reason.
func TestAnotherAddressIsAnEvent(t *testing.T) {
	r := leaseRig(t, nil)
	m := &leases.Machine{MAC: firmwareMAC(t), Interface: "eth1"}
	own := netip.MustParseAddr("192.0.2.11")
	if _, err := r.opts.Leasing.Book.Bind(t.Context(), m, own); err != nil {
		t.Fatal(err)
	}
	r.leased(t, say{mac: "52:54:00:00:00:0b", kind: dhcpv4.MessageTypeDiscover})
	got := strings.Join(*r.events, "\n")
	if !strings.Contains(got, "rack/own Warning AddressNotGiven: it is given 192.0.2.1") ||
		!strings.Contains(got, "and not 192.0.2.11 of its spec, which another machine has: see Lease 192-0-2-11") {
		t.Error(got)
	}
}
