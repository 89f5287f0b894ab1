package pxe

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"go.uber.org/goleak"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/loader"
	"glowplug/internal/logs"
	"glowplug/internal/logs/logstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hosts are the known hosts by hardware address and by UUID.
type hosts map[string]*model.Host

func (h hosts) HostByMAC(mac netaddr.MAC) *model.Host { return h[mac.String()] }
func (h hosts) HostByUUID(uuid string) *model.Host    { return h[uuid] }
func (h hosts) HostByIP(a netip.Addr) *model.Host     { return h[a.String()] }
func (h hosts) Host(ref model.Ref) *model.Host        { return h[ref.String()] }

// events records events.
type events []string

func (e *events) RecordStep(host model.Ref, _, reason, message string) {
	*e = append(*e, host.String()+" "+reason+": "+message)
}

func (e *events) Record(object v1.ObjectReference, eventType, reason, message string) {
	*e = append(*e, object.Namespace+"/"+object.Name+" "+eventType+" "+reason+": "+message)
}

// rig is a server without sockets.
type rig struct {
	*Server
	events *events
	log    func() string
}

func newRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "undionly.kpxe"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// Programs for UEFI come from Debian's package ipxe.
	loaders, err := loader.Find(dir, "/usr/lib/ipxe")
	if err != nil {
		t.Fatal(err)
	}
	if loaders.For(loader.X64) == nil {
		t.Skip("needs Debian's package ipxe, which is not installed")
	}
	known := func(name string, boot *model.HostBoot) *model.Host {
		return &model.Host{Ref: model.Ref{Namespace: "rack", Name: name}, UID: "uid-" + name, Boot: boot}
	}
	all := hosts{
		"52:54:00:00:00:01": known("one", nil), "4c4c4544-0042-3510-8056-b4c04f4e3131": known("two", nil),
		"52:54:00:00:00:03": known("three", &model.HostBoot{PXE: v1.HostPXE{Loader: "ipxe.efi", Style: v1.PXEStyleServer}}),
		"52:54:00:00:00:04": known("four", &model.HostBoot{PXE: v1.HostPXE{Loader: "missing.efi"}}),
	}
	logger, log := logstest.Logger()
	r := &rig{events: &events{}, log: log}
	opts := Options{
		Interface: "eth1", Events: r.events, Logger: logger, Ready: func() bool { return true },
		Hosts: func() Hosts { return all },
		Rules: Rules{
			Hosts: HostsAll, Loaders: loaders, Address: netip.MustParseAddr("192.0.2.1"), URL: "http://192.0.2.1:8082",
			ScriptPath: "/boot.ipxe", LoaderPath: "/boot-loaders/",
		},
	}
	if change != nil {
		change(&opts)
	}
	r.Server = newServer(opts)
	return r
}

// answer is that of the server, in bytes.
func (r *rig) answer(packet []byte, port uint16) []byte {
	p, err := dhcpv4.FromBytes(packet)
	if err != nil {
		return nil
	}
	if reply := r.Server.answer(p, port); reply != nil {
		return reply.ToBytes()
	}
	return nil
}

// ask is a packet of a client, as they were seen on the wire.
type ask struct {
	mac         string
	class, user string
	arch        iana.Arch
	kind        dhcpv4.MessageType
	uuid        string
	relay       string
	ipxe        bool
}

func (a ask) packet(t testing.TB) []byte {
	t.Helper()
	mac, err := net.ParseMAC(a.mac)
	if err != nil {
		t.Fatal(err)
	}
	if a.kind == 0 {
		a.kind = dhcpv4.MessageTypeDiscover
	}
	p, err := dhcpv4.New(dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(a.kind), dhcpv4.WithBroadcast(true),
		dhcpv4.WithOption(dhcpv4.OptClientArch(a.arch)), dhcpv4.WithTransactionID(dhcpv4.TransactionID{1, 2, 3, 4}))
	if err != nil {
		t.Fatal(err)
	}
	if a.class != "" {
		p.UpdateOption(dhcpv4.OptClassIdentifier(a.class))
	}
	if a.user != "" {
		p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionUserClassInformation, []byte(a.user)))
	}
	if a.ipxe {
		p.UpdateOption(dhcpv4.OptGeneric(optionIPXE, []byte{1, 1, 1}))
	}
	if a.uuid != "" {
		raw, err := hex.DecodeString(strings.ReplaceAll(a.uuid, "-", ""))
		if err != nil {
			t.Fatal(err)
		}
		p.UpdateOption(dhcpv4.OptGeneric(optionUUID, append([]byte{0}, raw...)))
	}
	if a.relay != "" {
		p.GatewayIPAddr = net.ParseIP(a.relay)
	}
	return p.ToBytes()
}

// described describes a reply.
func described(t testing.TB, reply []byte) string {
	t.Helper()
	if reply == nil {
		return "nothing"
	}
	p, err := dhcpv4.FromBytes(reply)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%s %s from %s, address %s", p.MessageType(), p.BootFileName, p.ServerIPAddr, p.YourIPAddr)
	options := []string{}
	for code, value := range p.Options {
		if code != uint8(dhcpv4.OptionDHCPMessageType) && code != uint8(dhcpv4.OptionServerIdentifier) {
			options = append(options, fmt.Sprintf("%d=%q", code, value))
		}
	}
	slices.Sort(options)
	return text + " " + strings.Join(options, " ")
}

const (
	pxeX64  = "PXEClient:Arch:00007:UNDI:003000"
	httpX64 = "HTTPClient:Arch:00016:UNDI:003000"
	now     = ` 43="\x06\x01\b\xff" 60="PXEClient"`
)

// TestAnswers is the table of what clients ask, as they were seen on the wire, and what they are given.
func TestAnswers(t *testing.T) {
	const one, other = "52:54:00:00:00:01", "52:54:00:00:00:09"
	for name, c := range map[string]struct {
		ask  ask
		port uint16
		want string
	}{
		"BIOS": {ask{mac: one, class: "PXEClient:Arch:00000:UNDI:002001"}, 67,
			"OFFER undionly.kpxe from 192.0.2.1, address 0.0.0.0" + now},
		"UEFI": {ask{mac: one, class: pxeX64, arch: iana.EFI_X86_64}, 67,
			"OFFER snponly.efi from 192.0.2.1, address 0.0.0.0" + now},
		"UEFI with architecture 9": {ask{mac: one, class: "PXEClient:Arch:00009", arch: iana.EFI_BC}, 67,
			"OFFER snponly.efi from 192.0.2.1, address 0.0.0.0" + now},
		"an unknown machine": {ask{mac: other, class: pxeX64, arch: iana.EFI_X86_64}, 67,
			"OFFER snponly.efi from 192.0.2.1, address 0.0.0.0" + now},
		"its UUID comes back": {
			ask{mac: other, class: pxeX64, arch: iana.EFI_X86_64, uuid: "4c4c4544-0042-3510-8056-b4c04f4e3131"}, 67,
			`OFFER snponly.efi from 192.0.2.1, address 0.0.0.0` + now +
				` 97="\x00LLED\x00B5\x10\x80V\xb4\xc0ON11"`},
		"iPXE in the ROM": {ask{mac: one, class: "PXEClient:Arch:00000:UNDI:002001", user: "iPXE", ipxe: true}, 67,
			"OFFER http://192.0.2.1:8082/boot.ipxe from 192.0.2.1, address 0.0.0.0" + now},
		"iPXE without an architecture in its class": {ask{mac: one, class: "PXEClient", user: "iPXE"}, 67,
			"OFFER http://192.0.2.1:8082/boot.ipxe from 192.0.2.1, address 0.0.0.0" + now},
		"iPXE with a length before its class": {ask{mac: one, class: pxeX64, user: "\x04iPXE", arch: iana.EFI_X86_64}, 67,
			"OFFER http://192.0.2.1:8082/boot.ipxe from 192.0.2.1, address 0.0.0.0" + now},
		"HTTP Boot": {ask{mac: one, class: httpX64, arch: iana.EFI_X86_64_HTTP}, 67,
			`OFFER http://192.0.2.1:8082/boot-loaders/snponly.efi from 192.0.2.1, address 0.0.0.0 60="HTTPClient"`},
		"a host with another loader, by port 4011": {
			ask{mac: "52:54:00:00:00:03", class: pxeX64, arch: iana.EFI_X86_64}, 67,
			`OFFER  from 192.0.2.1, address 0.0.0.0 60="PXEClient"`},
		"and there": {
			ask{mac: "52:54:00:00:00:03", class: pxeX64, arch: iana.EFI_X86_64, kind: dhcpv4.MessageTypeRequest}, 4011,
			`ACK ipxe.efi from 192.0.2.1, address 0.0.0.0 60="PXEClient"`},
		"any machine at port 4011": {ask{mac: one, class: pxeX64, arch: iana.EFI_X86_64, kind: dhcpv4.MessageTypeRequest}, 4011,
			"ACK snponly.efi from 192.0.2.1, address 0.0.0.0" + now},
		"a request for the DHCP server": {
			ask{mac: one, class: pxeX64, arch: iana.EFI_X86_64, kind: dhcpv4.MessageTypeRequest}, 67, "nothing"},
		"a loader that is missing": {
			ask{mac: "52:54:00:00:00:04", class: pxeX64, arch: iana.EFI_X86_64}, 67, "nothing"},
		"no loader for its firmware": {ask{mac: one, class: "PXEClient:Arch:00011", arch: iana.EFI_ARM64}, 67, "nothing"},
		"32 bits":                    {ask{mac: one, class: "PXEClient:Arch:00006", arch: iana.EFI_IA32}, 67, "nothing"},
		"a Raspberry Pi":             {ask{mac: one, class: "PXEClient:Arch:00041", arch: 41}, 67, "nothing"},
		"an installed system":        {ask{mac: one, class: "dhcpcd-9.4.1"}, 67, "nothing"},
		"a relay": {ask{mac: one, class: pxeX64, arch: iana.EFI_X86_64, relay: "198.51.100.1"}, 67,
			"nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			got := described(t, newRig(t, nil).answer(c.ask.packet(t), c.port))
			if got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// TestKnownHostsAlone: with --pxe-hosts=known, machines that are no hosts are left to others.
func TestKnownHostsAlone(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Rules.Hosts = HostsKnown })
	for _, c := range []struct {
		ask  ask
		want string
	}{
		{ask{mac: "52:54:00:00:00:01", class: pxeX64, arch: iana.EFI_X86_64}, "OFFER snponly.efi"},
		{ask{mac: "52:54:00:00:00:08", class: pxeX64, arch: iana.EFI_X86_64, uuid: "44454c4c-4200-1035-8056-b4c04f4e3131"},
			"nothing"}, // its host is in the other form in this test
		{ask{mac: "52:54:00:00:00:08", class: pxeX64, arch: iana.EFI_X86_64, uuid: "4c4c4544-0042-3510-8056-b4c04f4e3131"},
			"OFFER snponly.efi"},
		{ask{mac: "52:54:00:00:00:09", class: pxeX64, arch: iana.EFI_X86_64}, "nothing"},
		{ask{mac: "52:54:00:00:00:09", class: "PXEClient", user: "iPXE"}, "nothing"},
	} {
		if got := described(t, r.answer(c.ask.packet(t), portDHCP)); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.ask.mac, got, c.want)
		}
	}
}

// TestNetworkBootIsNoted: one line and one event for a boot, however often the firmware asks, and why it was not
// answered.
func TestNetworkBootIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		boot := func() {
			for range 3 {
				r.answer(ask{mac: "52:54:00:00:00:01", class: pxeX64, arch: iana.EFI_X86_64}.packet(t), portDHCP)
				time.Sleep(6 * time.Second)
			}
			r.answer(ask{mac: "52:54:00:00:00:01", class: "PXEClient", user: "iPXE", arch: iana.EFI_X86_64}.packet(t), portDHCP)
		}
		boot()
		time.Sleep(time.Hour)
		boot()
		r.answer(ask{mac: "52:54:00:00:00:09", class: pxeX64, arch: iana.EFI_X86_64}.packet(t), portDHCP)
		r.answer(ask{mac: "52:54:00:00:00:04", class: pxeX64, arch: iana.EFI_X86_64}.packet(t), portDHCP)
		given := "rack/one NetworkBootOffered: UEFI x64 PXE: given snponly.efi"
		want := events{given, given, "rack/four Warning NetworkBootIgnored: UEFI x64 PXE: not answered: spec.pxe.loader of the host is " +
			`"missing.efi", and there is no such file: glowplug boot-loaders lists them`}
		if diff := cmp.Diff(want, *r.events); diff != "" {
			t.Error(diff)
		}
		if n := strings.Count(r.log(), "a machine boots from the network"); n != 5 {
			t.Errorf("%d lines:\n%s", n, r.log())
		}
	})
}

// TestAFloodIsBounded: of one machine, and of many that do not exist, whose addresses take no memory, and few lines of
// the log.
func TestAFloodIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := logs.NewLimiter(slog.New(slog.DiscardHandler), nil)
		defer limiter.Close()
		r := newRig(t, func(o *Options) { o.Limiter = limiter })
		answered := func(n int, mac func(i int) string) (answered int) {
			for i := range n {
				if r.answer(ask{mac: mac(i), class: pxeX64, arch: iana.EFI_X86_64}.packet(t), portDHCP) != nil {
					answered++
				}
			}
			return answered
		}
		if n := answered(100, func(int) string { return "52:54:00:00:00:01" }); n != ratePerMachine.Burst {
			t.Errorf("one machine: %d answers", n)
		}
		n := answered(3*maxMachines, func(i int) string { return fmt.Sprintf("52:54:01:00:%02x:%02x", i>>8, i&255) })
		if n > rateInAll.Burst || r.machines.Len() > maxMachines || r.notes.machines.Len() > maxMachines {
			t.Errorf("many: %d answers, %d and %d machines are known", n, r.machines.Len(), r.notes.machines.Len())
		}
		if lines := strings.Count(r.log(), "\n"); lines > 1000 {
			t.Errorf("%d lines", lines)
		}
		time.Sleep(10 * time.Second)
		if n := answered(1, func(int) string { return "52:54:00:00:00:01" }); n != 1 {
			t.Error("after the flood nothing is answered")
		}
	})
}

// FuzzPackets: no packet has an answer that is larger than a packet, or that nobody could read.
func FuzzPackets(f *testing.F) {
	f.Add(ask{mac: "52:54:00:00:00:01", class: pxeX64, arch: iana.EFI_X86_64}.packet(f), true)
	f.Add(ask{mac: "52:54:00:00:00:01", class: httpX64, arch: iana.EFI_X86_64_HTTP}.packet(f), false)
	f.Add(ask{mac: "52:54:00:00:00:01", class: "PXEClient", user: "iPXE", ipxe: true}.packet(f), true)
	opts := newRig(f, nil).opts
	f.Fuzz(func(t *testing.T, packet []byte, isBroadcast bool) {
		r := &rig{Server: newServer(opts)}
		port := uint16(portPXE)
		if isBroadcast {
			port = portDHCP
		}
		reply := r.answer(packet, port)
		if reply == nil {
			return
		}
		p, err := dhcpv4.FromBytes(reply)
		if err != nil || len(reply) > 1400 || p.OpCode != dhcpv4.OpcodeBootReply || !p.YourIPAddr.IsUnspecified() {
			t.Errorf("%d bytes: %v, %v", len(reply), err, p)
		}
	})
}

// TestSolicitations: the machine is the one in the option of a solicitation; what is not whole is nobody's.
func TestSolicitations(t *testing.T) {
	header := "\x85\x00\x00\x00\x00\x00\x00\x00"
	for packet, want := range map[string]string{
		header + "\x01\x01\x52\x54\x00\x00\x00\x01":                                 "52:54:00:00:00:01",
		header + "\x0e\x01aaaaaa\x01\x01\x52\x54\x00\x00\x00\x02":                   "52:54:00:00:00:02",
		header + "\x01\x00\x52\x54\x00\x00\x00\x01":                                 "",
		header + "\x01\x09\x52\x54\x00\x00\x00\x01":                                 "",
		header + "\x01\x02\x52\x54\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00": "",
		header: "", header[:7]: "", "": "",
	} {
		got := ""
		if mac, ok := solicitor([]byte(packet)); ok {
			got = mac.String()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", packet, got, want)
		}
	}
	r := newRig(t, nil)
	mac := netaddr.MAC{0x52, 0x54, 0, 0, 0, 4}
	r.answer(ask{mac: mac.String(), class: pxeX64, arch: iana.EFI_X86_64}.packet(t), portDHCP)
	if r.notes.isOffered(mac) {
		t.Error("a machine that was not answered gets an advertisement")
	}
	mac[5] = 1
	if r.notes.isOffered(mac) {
		t.Error("a machine that has not asked gets an advertisement")
	}
	r.answer(ask{mac: mac.String(), class: pxeX64, arch: iana.EFI_X86_64}.packet(t), portDHCP)
	if !r.notes.isOffered(mac) {
		t.Error("a machine that was given a file gets none")
	}
	if got := hex.EncodeToString(advertisement(net.HardwareAddr{2, 0, 0, 0, 0, 1})); got !=
		"86"+strings.Repeat("00", 15)+"0101020000000001" {
		t.Error(got)
	}
}
