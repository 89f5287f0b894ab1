package identity

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/netaddr"
)

var (
	testMAC  = netaddr.MAC{0xac, 0x1f, 0x6b, 0x8a, 0xa7, 0x9c}
	testPort = "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f2"
	testUUID = "4c4c4544-0042-3510-8056-b4c04f4e3132"
)

func TestParseClaims(t *testing.T) {
	ip := netip.MustParseAddr("192.168.10.10")
	for query, want := range map[string]Claims{
		"":                                  {},
		"&&":                                {},
		"mac=AC-1F-6B-8A-A7-9C":             {MAC: testMAC},
		"mac=ac:1f:6b:8a:a7:9c":             {MAC: testMAC},
		"mac=ac%3a1f%3A6b%3a8a%3aa7%3a9c":   {MAC: testMAC},
		"mac=ac1f.6b8a.a79c":                {MAC: testMAC},
		"mac=ac1f6b8aa79c":                  {MAC: testMAC},
		"%6dac=ac1f6b8aa79c":                {MAC: testMAC},
		"ip=192.168.10.10":                  {IP: ip},
		"ip=::ffff:192.168.10.10":           {IP: ip},
		"ip=2001:db8::1":                    {IP: netip.MustParseAddr("2001:db8::1")},
		"hostname=Server1.G10.lo.":          {Hostname: "server1.g10.lo"},
		"uuid=" + strings.ToUpper(testUUID): {UUID: testUUID},
		"role=builder":                      {Role: "builder"},
		"format=raw":                        {Raw: true},
		"spec=3.2.0":                        {Spec: "3.2.0"},
		"spec=2.2.0-experimental":           {Spec: "2.2.0-experimental"},
		"spec=${spec}":                      {},
		"format=raw&mac=ac1f6b8aa79c&ip=192.168.10.10&role=a": {MAC: testMAC, IP: ip, Role: "a", Raw: true},

		"buildarch=arm64":         {Arch: "aarch64"},
		"arch=x86_64&buildarch=":  {Arch: "x86_64"},
		"arch=${buildarch}":       {},
		"arch=vax&buildarch=i386": {Arch: "i386"},

		// absent
		"mac=&ip=&hostname=&uuid=&role=&format=":                  {},
		"mac&ip&role":                                             {},
		"mac=${mac}&ip=${net0/ip}&hostname=${hostname:uristring}": {},
		"mac=%24%7Bmac%7D":                                        {},
		"hostname=node-${serial}.lo&role=${role}":                 {},
		"uuid=00000000-0000-0000-0000-000000000000":               {},
		"uuid=FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF":               {},
		"mac=00:00:00:00:00:00:00:00":                             {},
		"mac=01-ac-1f-6b-8a-a7-9c":                                {MAC: testMAC},
		"mac=ac1f-6b8a-a79c":                                      {MAC: testMAC},
		"mac=AC1F6B-8AA79C":                                       {MAC: testMAC},
		"uuid=03000200-0400-0500-0006-000700080009":               {},
		"uuid=00020003-0004-0005-0006-000700080009":               {},

		// other hardware than Ethernet
		"mac=" + testPort: {OtherMAC: testPort},
		"mac=80-00-02-08-FE-80-00-00-00-00-00-00-00-02-C9-03-00-31-78-F2": {OtherMAC: testPort},
		"mac=00%3A02%3Ac9%3A03%3A00%3A31%3A78%3Af2":                       {OtherMAC: "00:02:c9:03:00:31:78:f2"},
		"mac=20-00-02-c9-03-00-31-78-f2":                                  {OtherMAC: "20:00:02:c9:03:00:31:78:f2"},
		"mac=" + testPort + "&mac=00:02:c9:03:00:31:78:f2":                {OtherMAC: testPort},
		"mac=" + testPort + "&mac=ac1f6b8aa79c":                           {OtherMAC: testPort, MAC: testMAC},

		// the same thing again
		"mac=ac1f6b8aa79c&mac=AC:1F:6B:8A:A7:9C": {MAC: testMAC},
		"mac=ac1f6b8aa79c&mac=${net1/mac}&mac=":  {MAC: testMAC},
		"mac=${net0/mac}&mac=ac1f6b8aa79c":       {MAC: testMAC},

		// unknown parameters
		"MAC=nonsense&token=%zz&%zz=1&a;b=c&x=\x00": {},
		"mac%00=nonsense": {},
		"macx=1&xmac=2":   {},
	} {
		got, err := ParseClaims(query)
		if err != nil || got != want {
			t.Errorf("ParseClaims(%q) = %+v, %v; want %+v", query, got, err, want)
		}
		if want.Raw, want.Spec, want.Arch = false, "", ""; got.Any() != (want != Claims{}) {
			t.Errorf("ParseClaims(%q): Any = %v", query, got.Any())
		}
	}
}

func TestParseClaimsMalformed(t *testing.T) {
	for query, name := range map[string]string{
		"mac=nonsense":                            "mac",
		"mac=dc:1f:6b:8a:a7":                      "mac",
		"mac=00:02:c9:03:00:31:78:f2:00:00":       "mac",
		"mac=00:02:c9:03:00:31:78-f2":             "mac",
		"mac=ff:ff:ff:ff:ff:ff":                   "mac",
		"mac=ac%3":                                "mac",
		"mac=ac%zz":                               "mac",
		"mac=ac1f6b8aa79c;ip=10.0.0.1":            "mac",
		"mac=ac1f6b8aa79c%00":                     "mac",
		"mac=$mac":                                "mac",
		"ip=192.168.10":                           "ip",
		"ip=192.168.10.10/24":                     "ip",
		"ip=fe80::1%25eth0":                       "ip",
		"ip=1.2.3.4%0a":                           "ip",
		"hostname=a%0d%0aX-Evil:%201":             "hostname",
		"hostname=a\nb":                           "hostname",
		"hostname=a+b":                            "hostname",
		"hostname=a%00":                           "hostname",
		"hostname=${hostname":                     "hostname",
		"hostname=" + strings.Repeat("a", 8192):   "hostname",
		"uuid=1":                                  "uuid",
		"uuid=" + strings.Repeat("0", 36):         "uuid",
		"role=../../etc":                          "role",
		"role=-a":                                 "role",
		"role=a%20b":                              "role",
		"role=" + strings.Repeat("a", 64):         "role",
		"format=xml":                              "format",
		"spec=3":                                  "spec",
		"spec=3.2.0%0a":                           "spec",
		"spec=3.2.0;x":                            "spec",
		"spec=" + strings.Repeat("1.", 20):        "spec",
		"format=RAW":                              "format",
		"mac=ac1f6b8aa79c&mac=ac1f6b8aa79d":       "mac",
		"ip=10.0.0.1&ip=10.0.0.2":                 "ip",
		"role=builder&role=server":                "role",
		"role=builder&mac=ac1f6b8aa79c&ip=forged": "ip",
	} {
		got, err := ParseClaims(query)
		if err == nil || err.Kind != fault.Malformed || got != (Claims{}) {
			t.Errorf("ParseClaims(%.80q) = %+v, %v; want malformed", query, got, err)
			continue
		}
		if !strings.Contains(err.Sentence, "parameter "+name+" ") || len(err.Sentence) > 120 {
			t.Errorf("ParseClaims(%.80q): %q should name %s", query, err.Sentence, name)
		}
		if _, value, _ := strings.Cut(query, "="); len(value) > 6 && strings.Contains(err.Error(), value) {
			t.Errorf("ParseClaims(%.80q): %q repeats the value", query, err.Sentence)
		}
	}
}

// TestBadHostname: the sentence names every character that ParseHostname allows.
func TestBadHostname(t *testing.T) {
	_, err := ParseClaims("hostname=a+b")
	if err == nil || !strings.HasSuffix(err.Sentence, ": want letters, digits, hyphens, underscores and dots") {
		t.Errorf("got %v", err)
	}
}

func TestParseClaimsLong(t *testing.T) {
	long := strings.Repeat("x=1&", 2048) + "mac=ac1f6b8aa79c" + strings.Repeat("&token=hunter2", 600)
	if got, err := ParseClaims(long); err != nil || got.MAC != testMAC {
		t.Errorf("ParseClaims(%d bytes) = %+v, %v", len(long), got, err)
	}
	if _, err := ParseClaims(strings.Repeat("&", 1<<20)); err != nil {
		t.Errorf("ParseClaims(a megabyte of &) = %v", err)
	}
}

func TestParseClaimsAllocations(t *testing.T) {
	for query, want := range map[string]float64{
		"": 0,
		"mac=ac:1f:6b:8a:a7:9c&ip=192.168.10.10&role=builder": 0,
		"hostname=server1.g10.lo&uuid=" + testUUID:            0,
		"mac=" + testPort: 0,
	} {
		if got := testing.AllocsPerRun(100, func() { _, _ = ParseClaims(query) }); got > want {
			t.Errorf("ParseClaims(%q): %v allocations; want %v", query, got, want)
		}
	}
}

func FuzzParseClaims(f *testing.F) {
	for _, s := range []string{"", "mac=ac1f6b8aa79c", "ip=::1&role=a", "hostname=%41&uuid=" + testUUID,
		"format=raw;mac=1", "mac=${mac}", "ip=%", "a=\x00", "mac=" + testPort} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		c, err := ParseClaims(query)
		if err != nil {
			if err.Kind != fault.Malformed || c != (Claims{}) || len(err.Sentence) > 120 || strings.ContainsAny(err.Sentence,
				"\r\n") {
				t.Fatalf("%q: %+v, %v", query, c, err)
			}
			return
		}
		if strings.ContainsAny(c.Hostname+c.Role+c.UUID+c.OtherMAC, "\r\n\x00 ${}/\"'&;") || len(c.Role) > 63 || c.IP.Is4In6() ||
			c.IP.Zone() != "" {
			t.Fatalf("%q: %+v", query, c)
		}
		// What was read, written again, reads the same.
		v := url.Values{}
		if c.MAC != (netaddr.MAC{}) {
			v.Add("mac", c.MAC.String())
		}
		if c.OtherMAC != "" {
			v.Add("mac", c.OtherMAC)
		}
		if c.IP.IsValid() {
			v.Set("ip", c.IP.String())
		}
		v.Set("hostname", c.Hostname)
		v.Set("uuid", c.UUID)
		v.Set("role", c.Role)
		if c.Raw {
			v.Set("format", "raw")
		}
		if again, err := ParseClaims(v.Encode()); err != nil || again != c {
			t.Fatalf("%q is %+v; %q reads as %+v, %v", query, c, v.Encode(), again, err)
		}
	})
}
