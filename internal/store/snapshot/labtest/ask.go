package labtest

import (
	"net/netip"
	"testing"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

// Ask is the request of a machine, as a test writes it; "" is what it does not have.
type Ask struct {
	Endpoint       string // default: ignition
	From, Neighbor string
	Former         string // what Neighbor has lately been
	Believed       bool
	MAC, IP        string
	OtherMAC       string
	Hostname, UUID string
	Role, Accept   string
	Arch           string
	Raw            bool
}

// Caller returns the sender of the request.
func (a Ask) Caller(t testing.TB) identity.Caller {
	t.Helper()
	return identity.Caller{
		Addr: addr(a.From), MAC: mac(t, a.Neighbor), Former: mac(t, a.Former), Believed: a.Believed,
	}
}

// Claims returns what the request says of its machine.
func (a Ask) Claims(t testing.TB) identity.Claims {
	t.Helper()
	return identity.Claims{
		MAC: mac(t, a.MAC), OtherMAC: a.OtherMAC, IP: addr(a.IP), Hostname: a.Hostname, UUID: a.UUID, Role: a.Role,
		Arch: a.Arch, Raw: a.Raw,
	}
}

func mac(t testing.TB, s string) (m netaddr.MAC) {
	t.Helper()
	if s != "" {
		var err error
		if m, err = netaddr.ParseMAC(s); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func addr(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(s)
}
