package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func listed(t testing.TB, entries ...string) Policy {
	t.Helper()
	p, err := Listed("--allow-fetch", entries)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func publicAnd(t testing.TB, entries ...string) Policy {
	t.Helper()
	p, err := PublicAnd("--allow-image-fetch", entries)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestListed(t *testing.T) {
	for _, bad := range []string{"", " ", "a b", "http://a/", "a/24", "10.0.0.0/33", "*.", "*", "a..b", "127.1",
		"2130706433", "0x7f.0.0.1", "a:80", "[::1]", "*.*.a", "::ffff:0:0/90"} {
		if _, err := Listed("--allow-fetch", []string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if !listed(t).Nowhere() || !(Policy{}).Nowhere() {
		t.Error("an empty list allows")
	}
}

// TestPublicAnd tries to reach what is not public. Nothing may be connected to but what a
// case says.
func TestPublicAnd(t *testing.T) {
	if publicAnd(t).Nowhere() {
		t.Error("public addresses need no entry")
	}
	for _, bad := range []string{"", "mirror.lan", "*.lan", "localhost", "http://10.0.0.1/", "10.0.0.0/33",
		"10.0.0.1:80"} {
		if _, err := PublicAnd("--allow-image-fetch", []string{bad}); err == nil || !strings.Contains(err.Error(),
			"is neither an address nor a CIDR") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	names := map[string][]string{
		"public": {"93.184.215.14"}, "public6": {"2606:2800::1"}, "loop": {"127.0.0.1"}, "localhost": {"127.0.0.1", "::1"},
		"inner": {"10.1.2.3"},
		"both":  {"10.1.2.3", "93.184.215.14"}, "2130706433": {"127.0.0.1"}, "0x7f000001": {"127.0.0.1"},
		"0177.0.0.1": {"127.0.0.1"}, "127.1": {"127.0.0.1"},
		"meta": {"169.254.169.254"}, "nowhere": {},
	}
	for _, c := range []struct{ allow, host, want string }{
		{"", "public", "93.184.215.14:80"},
		{"", "93.184.215.14", "93.184.215.14:80"},
		{"", "public6", "[2606:2800::1]:80"},
		{"", "both", "93.184.215.14:80"},
		{"", "64:ff9b::5db8:d70e", "[64:ff9b::5db8:d70e]:80"},
		{"10.0.0.0/8", "inner", "10.1.2.3:80"},
		{"10.0.0.0/8", "public", "93.184.215.14:80"}, // the list adds
		{"10.1.2.3", "10.1.2.3", "10.1.2.3:80"},
		{"0.0.0.0/0", "192.168.1.1", "192.168.1.1:80"},
		{"fd00::/8", "fd00::7", "[fd00::7]:80"},
		{"127.0.0.0/8", "loop", "127.0.0.1:80"},
		{"169.254.169.254", "meta", "169.254.169.254:80"},

		{"", "inner", "what inner resolves to is a private address, which --allow-image-fetch has to name: " +
			"--allow-image-fetch=10.0.0.0/8"},
		{"", "10.1.2.3", "10.1.2.3 is a private address, which --allow-image-fetch has to name: " +
			"--allow-image-fetch=10.0.0.0/8"},
		{"192.168.0.0/16", "inner", "--allow-image-fetch=10.0.0.0/8"},
		{"", "172.31.255.255", "--allow-image-fetch=172.16.0.0/12"},
		{"", "192.168.0.1", "--allow-image-fetch=192.168.0.0/16"},
		{"", "100.64.0.1", "--allow-image-fetch=100.64.0.0/10"},
		{"", "fd12::1", "--allow-image-fetch=fc00::/7"},
		{"", "192.0.2.1", "an address for documentation"},
		{"", "2001:db8::1", "an address for documentation"},
		{"", "240.0.0.1", "a reserved address"},
		{"", "4000::1", "a reserved address, which --allow-image-fetch has to name: --allow-image-fetch=4000::1/128"},
		{"", "::ffff:10.1.2.3", "a private address"},
		{"", "64:ff9b::a01:203", "a private address"},
		{"", "2002:a01:203::", "a private address"},
		{"10.0.0.0/8", "64:ff9b::a01:203", "a private address"}, // another way than the one that is named
		{"", "loop", "what loop resolves to is a loopback address, which --allow-image-fetch has to name as such: " +
			"--allow-image-fetch=127.0.0.0/8"},
		{"0.0.0.0/0", "localhost", "a loopback address"},
		{"::/0", "::1", "a loopback address"},
		{"0.0.0.0/0", "::ffff:127.0.0.1", "a loopback address"},
		{"", "2130706433", "a loopback address"},
		{"", "0x7f000001", "a loopback address"},
		{"", "0177.0.0.1", "a loopback address"},
		{"", "127.1", "a loopback address"},
		{"0.0.0.0/0", "meta", "the metadata service of a cloud"},
		{"169.254.0.0/16", "meta", "the metadata service of a cloud"},
		{"::/0", "fd00:ec2::254", "the metadata service of a cloud"},
		{"::/0", "64:ff9b::a9fe:a9fe", "the metadata service of a cloud"},
		{"::/0", "64:ff9b:1::a9fe:a9fe", "the metadata service of a cloud"},
		{"::/0", "::127.0.0.1", "a loopback address"},
		{"::/0", "fd20:ce::254", "the metadata service of a cloud"},
		{"169.254.0.0/16", "169.254.170.2", "the metadata service of a cloud"},
		{"0.0.0.0/0", "100.100.100.200", "the metadata service of a cloud"},
		{"0.0.0.0/0", "168.63.129.16", "the metadata service of a cloud"},
		{"0.0.0.0/0", "192.0.0.192", "the metadata service of a cloud"},
		{"", "169.254.1.1", "a link-local address"},
		{"", "fe80::1%eth0", "a link-local address"},
		{"", "0.0.0.0", "an unspecified address"},
		{"", "::", "an unspecified address"},
		{"", "224.0.0.1", "a multicast address"},
		{"", "nowhere", "nowhere has no address"},
	} {
		var allow []string
		if c.allow != "" {
			allow = []string{c.allow}
		}
		d := NewDialer(publicAnd(t, allow...))
		var dialled []string
		d.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			var all []netip.Addr
			for _, a := range names[host] {
				all = append(all, netip.MustParseAddr(a))
			}
			return all, nil
		}
		d.Connect = func(_ context.Context, _, address string) (net.Conn, error) {
			dialled = append(dialled, address)
			return nil, errors.New("stop")
		}
		_, err := d.Dial(t.Context(), "tcp", net.JoinHostPort(c.host, "80"))
		if len(dialled) > 0 {
			if len(dialled) != 1 || dialled[0] != c.want {
				t.Errorf("%s %s: connected to %s", c.allow, c.host, dialled)
			}
			continue
		}
		if !errors.As(err, new(*RefusedError)) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v", c.allow, c.host, err)
		}
	}
}

// TestManyAddresses has a name server that returns more addresses than any host has: the
// time that trying them takes is bounded.
func TestManyAddresses(t *testing.T) {
	d := NewDialer(publicAnd(t))
	d.Lookup = func(context.Context, string) (all []netip.Addr, err error) {
		for i := range 1000 {
			all = append(all, netip.AddrFrom4([4]byte{8, 8, byte(i >> 8), byte(i)}))
		}
		return all, nil
	}
	tried := 0
	d.Connect = func(context.Context, string, string) (net.Conn, error) {
		tried++
		return nil, fmt.Errorf("try %d", tried)
	}
	if _, err := d.Dial(t.Context(), "tcp", "many.example:80"); tried != 8 || err.Error() != "try 1" {
		t.Errorf("%d addresses were tried: %v", tried, err)
	}
}

// FuzzPolicies holds that no list of everything allows a special address, that what is
// public is so by every measure, and that the remedy which an error names is one.
func FuzzPolicies(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 169, 254, 169, 254})
	f.Add([]byte{0x20, 0x02, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1})
	everywhere, public := listed(f, "0.0.0.0/0", "::/0", "*.example"), publicAnd(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		addr, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		bare := addr.Unmap()
		bad := bare.IsLoopback() || bare.IsLinkLocalUnicast() || bare.IsMulticast() || bare.IsUnspecified()
		for _, host := range []string{addr.String(), "a.example"} {
			refused := everywhere.check(host, addr)
			if s := special(bare); bad && refused == nil {
				t.Errorf("%s is allowed", addr)
			} else if s == nil && refused != nil {
				t.Errorf("%s: %s", addr, refused)
			}
			open := public.check(host, addr)
			if (bad || bare.IsPrivate() || refused != nil) && open == nil {
				t.Errorf("%s is public", addr)
			}
			for _, r := range []*RefusedError{refused, open} {
				if r == nil {
					continue
				}
				_, remedy, _ := strings.Cut(r.Error(), "=")
				if publicAnd(t, remedy).check(host, addr) != nil {
					t.Errorf("%s: %s does not allow it", addr, remedy)
				}
			}
		}
	})
}
