package netaddr

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseMAC(t *testing.T) {
	want := MAC{0xac, 0x1f, 0x6b, 0x8a, 0xa7, 0x9c}
	for _, s := range []string{
		"ac:1f:6b:8a:a7:9c", "AC:1F:6B:8A:A7:9C", "ac-1f-6b-8a-a7-9c", "AC-1F-6b-8A-A7-9C",
		"ac1f-6b8a-a79c", "AC1F6B-8AA79C", "01-ac-1f-6b-8a-a7-9c",
		"ac1f.6b8a.a79c", "AC1F.6B8A.A79C", "ac1f6b8aa79c", "AC1F6B8AA79C",
	} {
		if got, err := ParseMAC(s); err != nil || got != want {
			t.Errorf("ParseMAC(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "ac", "ac:1f:6b:8a:a7", "ac:1f:6b:8a:a7:9c:00", "ac:1f-6b:8a-a7:9c", "ac.1f.6b.8a.a7.9c",
		"ac1f:6b8a:a79c", "ac1f-6b8a.a79c", "ac1f6b:8aa79c", "01:ac:1f:6b:8a:a7:9c", "01-ac1f6b8aa79c",
		"06-ac-1f-6b-8a-a7-9c", "gc:1f:6b:8a:a7:9c", " ac:1f:6b:8a:a7:9c", "ac:1f:6b:8a:a7:9c\n",
		"ac:1f:6b:8a:a7:9\x00", "a:c1:f6:b8:aa:79c", "::::::::::::", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff",
		"01:00:5e:00:00:01", strings.Repeat("a", 5000),
	} {
		if got, err := ParseMAC(s); err == nil {
			t.Errorf("ParseMAC(%q) = %v; want an error", s, got)
		} else if len(err.Error()) > 400 {
			t.Errorf("ParseMAC(%d characters): the error has %d", len(s), len(err.Error()))
		}
	}
}

func TestParseIP(t *testing.T) {
	for s, want := range map[string]string{
		"192.168.10.10":        "192.168.10.10",
		"::ffff:192.168.10.10": "192.168.10.10",
		"::ffff:c0a8:0a0a":     "192.168.10.10",
		"2001:DB8::1":          "2001:db8::1",
		"fe80::1":              "fe80::1",
	} {
		if got, err := ParseIP(s); err != nil || got != netip.MustParseAddr(want) {
			t.Errorf("ParseIP(%q) = %v, %v; want %s", s, got, err, want)
		}
	}
	for _, s := range []string{"", "192.168.10", "192.168.10.256", "192.168.010.1", "[::1]", "fe80::1%eth0",
		"::ffff:1.2.3.4%1", "1.2.3.4:80", "1.2.3.4\n", "1.2.3.4\x00", " 1.2.3.4"} {
		if got, err := ParseIP(s); err == nil {
			t.Errorf("ParseIP(%q) = %v; want an error", s, got)
		}
	}
}

func TestParsePrefix(t *testing.T) {
	for s, want := range map[string]string{
		"192.168.10.10":           "192.168.10.10/32",
		"192.168.10.77/24":        "192.168.10.0/24",
		"0.0.0.0/0":               "0.0.0.0/0",
		"::ffff:192.168.10.1/120": "192.168.10.0/24",
		"::ffff:192.168.10.1":     "192.168.10.1/32",
		"2001:db8::1/64":          "2001:db8::/64",
		"::1":                     "::1/128",
	} {
		if got, err := ParsePrefix(s); err != nil || got.String() != want {
			t.Errorf("ParsePrefix(%q) = %v, %v; want %s", s, got, err, want)
		}
	}
	for _, s := range []string{"", "/", "/24", "192.168.10.0/33", "192.168.10.0/-1", "192.168.10.0/024",
		"::ffff:1.2.3.4/24", "fe80::1%eth0/64", "192.168.10.0/24/24", "x/24"} {
		if got, err := ParsePrefix(s); err == nil {
			t.Errorf("ParsePrefix(%q) = %v; want an error", s, got)
		}
	}
}

func TestParseHostname(t *testing.T) {
	for s, want := range map[string]string{
		"server1":          "server1",
		"Server1.G10.LO.":  "server1.g10.lo",
		"node_1":           "node_1",
		"1node":            "1node",
		"a-b.c-d":          "a-b.c-d",
		"xn--bcher-kva.de": "xn--bcher-kva.de",
	} {
		if got, err := ParseHostname(s); err != nil || got != want {
			t.Errorf("ParseHostname(%q) = %q, %v; want %q", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", ".", "..", "a..b", ".a", "-a", "a-", "a.-b", "a b", "a\nb", "a\r\nX: y", "a\x00", "${hostname}", "a$b", "a;b",
		"a/b", "bücher",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a.b", strings.Repeat("a", 5000),
	} {
		if got, err := ParseHostname(s); err == nil {
			t.Errorf("ParseHostname(%q) = %q; want an error", s, got)
		}
	}
	if _, err := ParseHostname("a$b"); err == nil || !strings.Contains(err.Error(), "hyphens, underscores and dots") {
		t.Errorf("ParseHostname(a$b) = %v; want all characters that are allowed", err)
	}
	if got := FirstLabel("server1.g10.lo"); got != "server1" {
		t.Errorf("FirstLabel = %q", got)
	}
	if got := FirstLabel("server1"); got != "server1" {
		t.Errorf("FirstLabel = %q", got)
	}
}

func TestParseUUID(t *testing.T) {
	if got, err := ParseUUID("4C4C4544-0042-3510-8056-B4C04F4E3132"); err != nil ||
		got != "4c4c4544-0042-3510-8056-b4c04f4e3132" {
		t.Errorf("ParseUUID = %q, %v", got, err)
	}
	for _, s := range []string{
		"", "4c4c4544", "4c4c4544004235108056b4c04f4e3132", "4c4c4544-0042-3510-8056-b4c04f4e313g",
		"4c4c45440-042-3510-8056-b4c04f4e3132", "00000000-0000-0000-0000-000000000000",
		"FFFFFFFF-ffff-ffff-ffff-ffffffffffff",
	} {
		if got, err := ParseUUID(s); err == nil {
			t.Errorf("ParseUUID(%q) = %q; want an error", s, got)
		}
	}
	for _, s := range []string{
		"00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
		"03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009",
		"fefefefe-fefe-fefe-fefe-fefefefefefe", "4C4C4544-0000-2010-8020-80C04F202020",
	} {
		if !IsPlaceholderUUID(s) {
			t.Errorf("IsPlaceholderUUID(%q) = false", s)
		}
	}
	for _, s := range []string{"", "0", "4c4c4544-0042-3510-8056-b4c04f4e3132", strings.Repeat("0", 36),
		strings.Repeat("-", 36)} {
		if IsPlaceholderUUID(s) {
			t.Errorf("IsPlaceholderUUID(%q) = true", s)
		}
	}
}

// TestKeyOfUUID: a UUID whose first three groups are in the other byte order is the same.
func TestKeyOfUUID(t *testing.T) {
	const uuid, swapped = "4c4c4544-0042-3510-8056-b4c04f4e3132", "44454c4c-4200-1035-8056-b4c04f4e3132"
	for _, s := range []string{uuid, swapped, strings.ToUpper(swapped)} {
		if KeyOfUUID(s) != KeyOfUUID(uuid) {
			t.Errorf("KeyOfUUID(%q) differs from that of %q", s, uuid)
		}
	}
	for _, s := range []string{"4c4c4544-0042-3510-5680-b4c04f4e3132", "44454c4c-0042-3510-8056-b4c04f4e3132", "", "x"} {
		if KeyOfUUID(s) == KeyOfUUID(uuid) {
			t.Errorf("KeyOfUUID(%q) is that of %q", s, uuid)
		}
	}
	if got := testing.AllocsPerRun(100, func() { KeyOfUUID(swapped) }); got > 0 {
		t.Errorf("KeyOfUUID: %v allocations", got)
	}
}

func FuzzParseMAC(f *testing.F) {
	for _, s := range []string{"ac:1f:6b:8a:a7:9c", "AC-1F-6B-8A-A7-9C", "ac1f.6b8a.a79c", "ac1f6b8aa79c", "",
		"ff:ff:ff:ff:ff:ff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseMAC(s)
		if err != nil {
			return
		}
		if again, err := ParseMAC(m.String()); err != nil || again != m {
			t.Fatalf("%q is %v, which reads as %v, %v", s, m, again, err)
		}
		if m == (MAC{}) || m[0]&1 == 1 {
			t.Fatalf("%q gives %v, which names no card", s, m)
		}
	})
}

func FuzzParseIP(f *testing.F) {
	for _, s := range []string{"192.168.10.10", "::ffff:1.2.3.4", "fe80::1%eth0", "2001:db8::/64", "10.0.0.0/8", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := ParseIP(s); err == nil {
			if a.Is4In6() || a.Zone() != "" {
				t.Fatalf("%q gives %v", s, a)
			}
			if again, err := ParseIP(a.String()); err != nil || again != a {
				t.Fatalf("%q is %v, which reads as %v, %v", s, a, again, err)
			}
		}
		if p, err := ParsePrefix(s); err == nil {
			if p != p.Masked() || p.Addr().Is4In6() {
				t.Fatalf("%q gives %v", s, p)
			}
			if again, err := ParsePrefix(p.String()); err != nil || again != p {
				t.Fatalf("%q is %v, which reads as %v, %v", s, p, again, err)
			}
		}
	})
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"server1", "Server1.g10.lo.", "a..b", "4C4C4544-0042-3510-8056-B4C04F4E3132"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if name, err := ParseHostname(s); err == nil {
			if again, err := ParseHostname(name); err != nil || again != name {
				t.Fatalf("%q is %q, which reads as %q, %v", s, name, again, err)
			}
			if strings.ContainsAny(name, "\r\n\x00 ${}\"'/") {
				t.Fatalf("%q gives %q", s, name)
			}
		}
		if u, err := ParseUUID(s); err == nil {
			if again, err := ParseUUID(u); err != nil || again != u {
				t.Fatalf("%q is %q, which reads as %q, %v", s, u, again, err)
			}
		}
	})
}

func TestParseMACPrefix(t *testing.T) {
	for text, want := range map[string]string{
		"52:54:00:*": "52:54:00:*", "52-54-00-AB-*": "52:54:00:ab:*", "00:*": "00:*", "52:54:00:12:34:*": "52:54:00:12:34:*",
	} {
		if p, err := ParseMACPrefix(text); err != nil || p.String() != want {
			t.Errorf("%s: %s, %v", text, p, err)
		}
	}
	for _, text := range []string{
		"", "*", "52:54:00*", "52:54:00:", "52:5*", "52.54.*", "52:54-00:*", "52:54:00:12:34:56:*", "01:*", "zz:*", "52:*:00:*", "5:2:*",
	} {
		if p, err := ParseMACPrefix(text); err == nil {
			t.Errorf("%q is read as %s", text, p)
		}
	}
	m := MAC{0x52, 0x54, 0, 0xab}
	if p, _ := ParseMACPrefix("52:54:*"); m.Prefix(2) != p || m.Prefix(3) == p {
		t.Error(m.Prefix(2), p)
	}
}
