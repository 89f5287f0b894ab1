package ignition

import (
	"slices"
	"strings"
	"testing"
)

func TestNegotiate(t *testing.T) {
	const (
		v   = "application/vnd.coreos.ignition+json;version="
		old = "application/vnd.coreos.ignition+json; version=2.2.0, application/vnd.coreos.ignition+json; version=1; " +
			"q=0.5, */*; q=0.1"
		oldUA = "Ignition/v0.34.0"
	)
	tests := []struct {
		name, accept, userAgent, asked, own string
		want                                string
	}{
		{"no header", "", "curl/8.5.0", "", "3.4.0", "3.4.0"},
		{"installer", "*/*", "", "", "2.3.0", "2.3.0"},
		{"own version", v + "3.3.0, */*;q=0.1", "Ignition/2.14.0", "", "3.3.0", "3.3.0"},
		{"older config stays", v + "3.3.0, */*;q=0.1", "Ignition/2.14.0", "", "3.1.0", "3.1.0"},
		{"newer config", v + "3.3.0, */*;q=0.1", "Ignition/Debian 2.14.0+ds1-1+b6", "", "3.6.0", "3.3.0 3.2.0 3.1.0 3.0.0"},
		{"other major down", old, oldUA, "", "3.4.0", "2.2.0 2.1.0 2.0.0"},
		{"other major up", v + "3.1.0, */*;q=0.1", "Ignition/2.6.0", "", "2.2.0", "3.1.0 3.0.0"},
		{"own 2.x", old, oldUA, "", "2.1.0", "2.1.0"},
		{"0.35 reads more than it says", old, "Ignition/v0.35.0", "", "3.4.0", "2.4.0 2.3.0 2.2.0 2.1.0 2.0.0"},
		{"0.35 takes 2.4 as it is", old, "Ignition/v0.35.0", "", "2.4.0", "2.4.0"},
		{"0.34 does not", old, oldUA, "", "2.4.0", "2.2.0 2.1.0 2.0.0"},
		{"2.0.1 says 2.2 and reads 3.0", old, "Ignition/2.0.1", "", "3.4.0", "3.0.0"},
		{"2.0.1 with a letter", old, "Ignition/v2.0.0", "", "3.0.0", "3.0.0"},
		{"2.0.1 does not read 2.2", old, "Ignition/2.0.1", "", "2.2.0", "3.0.0"},
		{"order of q", v + "3.0.0;q=0.2, " + v + "2.4.0;q=0.8", "", "", "3.6.0", "2.4.0 2.3.0 2.2.0 2.1.0 2.0.0 3.0.0"},
		{"q=0 refuses a version", v + "3.2.0;q=0, " + v + "3.3.0", "", "", "3.6.0", "3.3.0 3.1.0 3.0.0"},
		{"q=0 refuses the own version", v + "3.2.0;q=0, " + v + "3.3.0", "", "", "3.2.0", "3.3.0 3.1.0 3.0.0"},
		{"q=0 refuses the type", MediaType + ";q=0, */*", "", "", "3.2.0", ""},
		{"*/*;q=0", "*/*;q=0", "", "", "3.2.0", ""},
		{"wildcards count without a version", MediaType + ", */*", "", "", "3.2.0", "3.2.0"},
		{"only text", "text/plain", "", "", "3.2.0", ""},
		{"experimental client", v + "2.2.0-experimental", "", "", "2.2.0-experimental", "2.2.0-experimental"},
		{"experimental client reads what was before", v + "2.2.0-experimental", "", "", "2.2.0", "2.1.0 2.0.0"},
		{"experimental config for a released client", v + "2.2.0", "", "", "2.2.0-experimental", "2.2.0 2.1.0 2.0.0"},
		{"spec 1 alone", v + "1", "", "", "3.2.0", ""},
		{"asked for", v + "3.3.0", "", "3.2.0", "3.6.0", "3.2.0"},
		{"asked for what is not", "", "", "3.9.0", "3.6.0", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, reason := Negotiate(ParseAccept(tt.accept), tt.userAgent, tt.asked, tt.own)
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %v (%s), want %s", got, reason, tt.want)
			}
			if (len(got) == 0) != (reason != "") {
				t.Errorf("got %v beside the reason %q", got, reason)
			}
		})
	}
}

func FuzzNegotiate(f *testing.F) {
	f.Add(client0_34, "Ignition/v0.34.0", "", "3.4.0")
	f.Add(client2_14, "Ignition/Debian 2.14.0+ds1-1+b6", "", "2.4.0")
	f.Add(installer, "", "3.2.0", "3.4.0")
	f.Fuzz(func(t *testing.T, accept, userAgent, asked, own string) {
		got, reason := Negotiate(ParseAccept(accept), userAgent, asked, own)
		if (len(got) == 0) != (reason != "") {
			t.Errorf("got %v beside %q", got, reason)
		}
		for i, name := range got {
			if slices.Contains(got[:i], name) || name != own && specOf(name) == nil {
				t.Errorf("%q in %v", name, got)
			}
		}
	})
}

// TestAcceptOf reads the header of a client as the server does.
func TestAcceptOf(t *testing.T) {
	accept := ParseAccept(AcceptOf("3.2.0"))
	if !accept.NamesIgnition() || !accept.IsTaken("3.2.0") || accept.IsTaken("3.3.0") {
		t.Errorf("%q is not the header of an Ignition that reads up to 3.2.0", AcceptOf("3.2.0"))
	}
}
