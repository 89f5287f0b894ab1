package netaddr

import (
	"strings"
	"testing"
)

// TestParseOtherMAC: an address of 8, 9 or 20 bytes has one form, whatever its notation.
func TestParseOtherMAC(t *testing.T) {
	const port = "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f2"
	for s, want := range map[string]string{
		port:                  port,
		strings.ToUpper(port): port,
		strings.ToUpper(strings.ReplaceAll(port, ":", "-")): port,
		"00-02-C9-03-00-31-78-F2":                           "00:02:c9:03:00:31:78:f2",
		"20-00-02-c9-03-00-31-78-f2":                        "20:00:02:c9:03:00:31:78:f2",
	} {
		if got, err := ParseOtherMAC(s); err != nil || got != want {
			t.Errorf("ParseOtherMAC(%q) = %q, %v; want %q", s, got, err, want)
		}
		if got, err := ParseAnyMAC(s); err != nil || got != want || !IsOtherMAC(s) {
			t.Errorf("ParseAnyMAC(%q) = %q, %v; want %q", s, got, err, want)
		}
		if _, err := ParseMAC(s); err == nil {
			t.Errorf("ParseMAC(%q) reads an address of other hardware", s)
		}
	}
	for _, s := range []string{
		"", "ac:1f:6b:8a:a7:9c", "00:02:c9:03:00:31:78", "00:02:c9:03:00:31:78:f2:00:00", port + ":00", port[3:],
		"00:02-c9:03:00:31:78:f2", "00.02.c9.03.00.31.78.f2", "0002c903003178f2", "00:02:c9:03:00:31:78:g2",
		"00:00:00:00:00:00:00:00", strings.Repeat("00-", 19) + "00", strings.Repeat("a", 5000),
	} {
		if got, err := ParseOtherMAC(s); err == nil {
			t.Errorf("ParseOtherMAC(%q) = %q; want an error", s, got)
		} else if len(err.Error()) > 400 {
			t.Errorf("ParseOtherMAC(%d characters): the error has %d", len(s), len(err.Error()))
		}
	}
	if got, err := ParseAnyMAC("AC1F.6B8A.A79C"); err != nil || got != "ac:1f:6b:8a:a7:9c" {
		t.Errorf("ParseAnyMAC of an Ethernet address = %q, %v", got, err)
	}
	if got := testing.AllocsPerRun(100, func() { _, _ = ParseOtherMAC(port) }); got > 0 {
		t.Errorf("ParseOtherMAC: %v allocations", got)
	}
}
