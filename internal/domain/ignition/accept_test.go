package ignition

import (
	"strings"
	"testing"
)

const (
	// What real clients send: v0.34, v0.20, v2.14 and coreos-installer.
	client0_34 = "application/vnd.coreos.ignition+json; version=2.2.0, application/vnd.coreos.ignition+json; " +
		"version=1; q=0.5, */*; q=0.1"
	client2_14 = "application/vnd.coreos.ignition+json;version=3.3.0, */*;q=0.1"
	installer  = "*/*"
)

func TestAccept(t *testing.T) {
	const v = "application/vnd.coreos.ignition+json;version="
	tests := []struct {
		name, header, version string
		takes, names          bool
	}{
		{"no header", "", "3.6.0", true, false},
		{"installer", installer, "3.6.0", true, false},
		{"same version", client2_14, "3.3.0", true, true},
		{"older", client2_14, "3.0.0", true, true},
		{"newer", client2_14, "3.4.0", false, true},
		{"other major, although */* follows", client0_34, "3.0.0", false, true},
		{"the old spec to an old client", client0_34, "2.2.0", true, true},
		{"the oldest spec by the second entry", client0_34, "1.0.0", true, true},
		{"two parts", v + "3.2, */*;q=0.1", "3.2.0", true, true},
		{"one part", v + "3", "3.0.0", true, true},
		{"quoted", v + `"3.2.0"`, "3.2.0", true, true},
		{"any case", "Application/VND.CoreOS.Ignition+JSON; VERSION=3.2.0", "3.2.0", true, true},
		{"no version named", MediaType, "3.6.0", true, true},
		{"q=0 refuses the type", MediaType + ";q=0, */*", "3.6.0", false, false},
		{"q=0 refuses a version", v + "3.3.0;q=0, " + v + "3.6.0", "3.3.0", false, true},
		{"q=0 for one version leaves others to */*", v + "3.3.0;q=0, */*", "3.2.0", true, false},
		{"*/*;q=0", "*/*;q=0", "3.2.0", false, false},
		{"q=0.000", "*/*;q=0.000", "3.2.0", false, false},
		{"application/*", "application/*;q=0.2", "3.2.0", true, false},
		{"application/json", "text/html, application/json", "3.2.0", true, false},
		{"only text", "text/plain", "3.2.0", false, false},
		{"browser", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "3.2.0", true, false},
		{"experimental client, released config", v + "3.7.0-experimental", "3.6.0", true, true},
		{"experimental client, its own config", v + "3.7.0-experimental", "3.7.0-experimental", true, true},
		{"experimental client, the release of it", v + "3.7.0-experimental", "3.7.0", false, true},
		{"released client, experimental config", v + "3.7.0", "3.7.0-experimental", false, true},
		{"no header, experimental config", "", "3.7.0-experimental", true, false},
		{"an entry that cannot be read is left out", v + "x, " + v + "3.2.0;q=zz, */*", "3.2.0", true, false},
		{"empty entries", ", ,;,", "3.2.0", true, false},
		{"other parameters", v + "3.2.0;charset=utf-8", "3.1.0", true, true},
		{"many other types", strings.Repeat("text/plain,", 100) + MediaType, "3.2.0", true, true},
		{"the last of many versions", v + "2.0.0," + v + "2.1.0," + v + "2.2.0," + v + "2.3.0," + v + "2.4.0," + v + "1," +
			v + "0.1," + v + "4.0.0;q=0.1," + v + "3.5.0", "3.5.0", true, true},
		{"more entries than are kept", strings.Repeat(v+"3.0.0,", 100) + MediaType, "3.2.0", false, true},
		{"the config's version is no version", client2_14, "", false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ParseAccept(tt.header)
			takes, reason := a.Takes(tt.version)
			if takes != tt.takes {
				t.Errorf("takes = %v (%s)", takes, reason)
			}
			if takes == (reason != "") {
				t.Errorf("takes = %v beside the reason %q", takes, reason)
			}
			if names := a.NamesIgnition(); names != tt.names {
				t.Errorf("names = %v", names)
			}
		})
	}
}

func TestAcceptReasonNamesThePreferredFirst(t *testing.T) {
	header := MediaType + ";version=1;q=0.5, " + MediaType + ";version=2.2.0"
	_, reason := ParseAccept(header).Takes("3.4.0")
	if want := "the client reads Ignition spec 2.2.0 or 1.0.0 and the config is of spec 3.4.0"; reason != want {
		t.Errorf("got %q, want %q", reason, want)
	}
}

// TestAcceptReasonOfQ0: a header with entries for an Ignition config does not lack them.
func TestAcceptReasonOfQ0(t *testing.T) {
	const none, refused = "the client's Accept header has no entry for an Ignition config", " with a q above 0"
	for header, want := range map[string]string{
		"text/html":                         none,
		"*/*;q=0":                           none + refused,
		"text/html, application/json;q=0":   none + refused,
		MediaType + ";version=3.2.0;q=0":    none + refused,
		MediaType + ";version=3.4.0;q=0":    "the client refuses Ignition configs of spec 3.4.0",
		MediaType + ";q=0":                  "the client refuses Ignition configs of spec 3.4.0",
		MediaType + ";q=0, " + "text/plain": "the client refuses Ignition configs of spec 3.4.0",
	} {
		if _, reason := ParseAccept(header).Takes("3.4.0"); reason != want {
			t.Errorf("%q: got %q, want %q", header, reason, want)
		}
	}
}

func TestAcceptDoesNotAllocate(t *testing.T) {
	for header, version := range map[string]string{client0_34: "2.2.0", client2_14: "3.3.0", installer: "3.6.0",
		"": "3.6.0"} {
		if n := testing.AllocsPerRun(100, func() {
			a := ParseAccept(header)
			if ok, _ := a.Takes(version); !ok {
				t.Fatal("refused")
			}
			a.NamesIgnition()
		}); n != 0 {
			t.Errorf("%q: %v allocations", header, n)
		}
	}
}

func BenchmarkAccept(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		a := ParseAccept(client2_14)
		if ok, _ := a.Takes("3.3.0"); !ok {
			b.Fatal("refused")
		}
	}
}

func FuzzParseAccept(f *testing.F) {
	for _, header := range []string{"", installer, client0_34, client2_14, "a;q=0.5;version=\"3\",,"} {
		f.Add(header, "3.4.0")
	}
	f.Fuzz(func(t *testing.T, header, version string) {
		a := ParseAccept(header)
		ok, reason := a.Takes(version)
		if ok == (reason != "") {
			t.Errorf("takes %v beside %q", ok, reason)
		}
		for i := 1; i < a.n; i++ {
			if a.ranges[i-1].q < a.ranges[i].q {
				t.Errorf("entries out of order: %+v", a.ranges[:a.n])
			}
		}
	})
}
