package ignition

import (
	"strings"
	"testing"
)

// TestPointer: a pointer config is valid, names the URL and every CA, and has a version that the client reads.
func TestPointer(t *testing.T) {
	const url = "https://192.0.2.1:8443/api/v1/ignition?mac=52-54&token=a&hostname=\"<"
	authorities := [][]byte{[]byte("first"), []byte("second")}
	for _, c := range []struct{ accept, agent, asked, want string }{
		{"", "curl/7.88.1", "", "3.0.0"},
		{"*/*", "", "", "3.0.0"},
		{AcceptOf("3.0.0"), "", "", "3.0.0"},
		{AcceptOf("3.4.0"), "Ignition/2.14.0", "", "3.0.0"},
		{"application/vnd.coreos.ignition+json; version=2.2.0", "Ignition/2.0.1", "", "3.0.0"},
		{AcceptOf("2.2.0"), "Ignition/v0.35.0", "", "2.2.0"},
		{AcceptOf("2.4.0"), "", "", "2.2.0"},
		{AcceptOf("3.5.0"), "", "2.3.0", "2.2.0"},
		{AcceptOf("2.2.0"), "", "3.1.0", "3.0.0"},
		{AcceptOf("2.1.0"), "Ignition/v0.20.0", "", ""},
		{AcceptOf("2.0.0"), "", "", ""},
		{"text/html", "", "", ""},
		{AcceptOf("3.0.0") + ", " + MediaType + ";version=3.0.0;q=0", "", "", ""},
		{"", "", "2.1.0", ""},
	} {
		config, reason := Pointer(ParseAccept(c.accept), c.agent, c.asked, url, authorities)
		if c.want == "" {
			if config != nil || !strings.Contains(reason, "2.2.0 and later") {
				t.Errorf("%+v: %s, %q", c, config, reason)
			}
			continue
		}
		if !strings.HasPrefix(string(config), `{"ignition":{"version":"`+c.want+`"`) {
			t.Errorf("%+v: %s, %q", c, config, reason)
			continue
		}
		// The second part of each data URL is "first" and "second" in base64.
		for _, text := range []string{`token=a`, `"data:;base64,Zmlyc3Q="`, `"data:;base64,c2Vjb25k"`} {
			if !strings.Contains(string(config), text) {
				t.Errorf("%+v: no %s in %s", c, text, config)
			}
		}
		plain, _ := Pointer(ParseAccept(c.accept), c.agent, c.asked, "https://192.0.2.1/", authorities)
		if _, report := Validate(plain); len(report) > 0 {
			t.Errorf("%+v: %s: %v", c, plain, report)
		}
	}
}
