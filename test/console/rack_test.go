package console

import (
	_ "embed"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

//go:embed testdata/rack.yaml
var rackObjects string

const (
	// hostsOfRack is the number of hosts in each of the two racks.
	hostsOfRack = 24
	// bootedOfRack is the number of those of rack-a that are provisioned.
	bootedOfRack = 17
)

// rack starts a server with two racks: in rack-a most machines have booted and some are at it, rack-b has a config
// that does not compile and an image without a file, each for two hosts, and a machine asks that nobody knows.
func rack(t *testing.T, args ...string) *server {
	t.Helper()
	s := start(t, append([]string{"--trusted-proxies", "127.0.0.0/8", "--iso-dir", t.TempDir(),
		"--iscsi-listen", freeAddress(t), "--neighbors", "off"}, args...)...)
	var objects strings.Builder
	objects.WriteString(rackObjects)
	for i := range hostsOfRack {
		objects.WriteString(hostObject("rack-a", i, "worker", ""))
		role, image := "cache", ""
		if i < 2 {
			role = "db"
		}
		if i == 2 || i == 3 {
			image = ", image: coreos"
		}
		objects.WriteString(hostObject("rack-b", i, role, image))
	}
	s.apply(objects.String())
	testkit.Until(t, "the first host is served", func() bool { return s.boots("192.0.2.100", true) })
	for i := 1; i < hostsOfRack-4; i++ {
		s.boots(fmt.Sprintf("192.0.2.%d", 100+i), i%5 != 0)
	}
	s.machine(http.MethodGet, "198.51.100.7", "/ipxe?mac=52-54-00-aa-bb-cc&serial=S7&product=R640")
	return s
}

func hostObject(namespace string, i int, role, more string) string {
	third := map[string]int{"rack-a": 2, "rack-b": 3}[namespace]
	return fmt.Sprintf(`
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: node-%[2]d, namespace: %[1]s, labels: {role: %[3]s, row: "%[4]d"}}
spec: {bootMACAddress: "52:54:00:00:%02[5]x:%02[2]x", ip: 192.0.%[5]d.%[6]d%[7]s}
`, namespace, i, role, i/12, third, 100+i, more)
}

// boots has the machine of an address ask for its script and its config and, if it completes, say that it has booted.
// It reports whether it got a config.
func (s *server) boots(address string, completes bool) bool {
	s.t.Helper()
	s.machine(http.MethodGet, address, "/ipxe")
	status, _ := s.machine(http.MethodGet, address, "/api/v1/ignition")
	if completes && status == http.StatusOK {
		s.machine(http.MethodPost, address, "/api/v1/boot-complete")
	}
	return status == http.StatusOK
}
