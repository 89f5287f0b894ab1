package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// guessLimit is how many wrong guesses a source has within a minute.
const guessLimit = 20

// guesser asks from an address of the loopback network of its own.
type guesser struct {
	t      *testing.T
	client *http.Client
	dialer *net.Dialer
}

func newGuesser(t *testing.T, address string) *guesser {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &guesser{t, &http.Client{Transport: transport}, dialer}
}

// ask returns the whole answer but its date.
func (g *guesser) ask(url string) string {
	g.t.Helper()
	resp, err := g.client.Get(url)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	resp.Header.Del("Date")
	return fmt.Sprint(resp.StatusCode, resp.Header, string(body))
}

// initiate logs in to an iSCSI portal and gives the status, and what a discovery
// session is then told.
func (g *guesser) initiate(portal, initiator, target string) (status uint16, targets string) {
	g.t.Helper()
	conn, err := g.dialer.DialContext(g.t.Context(), "tcp", portal)
	if err != nil {
		g.t.Fatal(err)
	}
	defer conn.Close()
	exchange := func(opcode, flags byte, keys ...string) (head [48]byte, data string) {
		text := strings.Join(keys, "\x00") + "\x00"
		pdu := make([]byte, 48, 512)
		pdu[0], pdu[1], pdu[13] = opcode|0x40, flags, 1
		binary.BigEndian.PutUint32(pdu[4:], uint32(len(text)))
		pdu = append(pdu, text...)
		for len(pdu)%4 != 0 {
			pdu = append(pdu, 0)
		}
		if opcode == 0x04 {
			binary.BigEndian.PutUint32(pdu[20:], 0xffffffff)
		}
		if _, err := conn.Write(pdu); err != nil {
			g.t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			g.t.Fatal(err)
		}
		rest := make([]byte, (binary.BigEndian.Uint32(head[4:])&0xffffff+3)&^3)
		if _, err := io.ReadFull(conn, rest); err != nil {
			g.t.Fatal(err)
		}
		return head, string(rest)
	}
	name := "InitiatorName=" + initiator
	if target != "" {
		head, _ := exchange(0x03, 0x87, name, "TargetName="+target)
		return binary.BigEndian.Uint16(head[36:]), ""
	}
	head, _ := exchange(0x03, 0x87, name, "SessionType=Discovery")
	_, targets = exchange(0x04, 0x80, "SendTargets=All")
	return binary.BigEndian.Uint16(head[36:]), targets
}

const guessObjects = `
apiVersion: v1
kind: BareMetalHost
metadata: {name: victim, namespace: default}
spec: {ip: 192.0.2.11, systemUUID: 4c4c4544-0042-3510-8056-b4c04f4e3101, image: linux}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: neighbour, namespace: default}
spec: {ip: 127.0.0.5, systemUUID: 4c4c4544-0042-3510-8056-b4c04f4e3105, image: linux}
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: linux, namespace: default}
spec: {isoFile: linux.iso, kernelArgs: ["console=ttyS0"], version: "43", description: the vault}
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: hidden, namespace: default}
spec: {isoFile: linux.iso, kernelArgs: ["console=ttyS0"], menu: false}
`

// TestGuessing has strangers list hosts and images by guessing: over HTTP by name, over
// iSCSI by the UUID in an initiator's name and by the name of a target.
func TestGuessing(t *testing.T) {
	needs(t, "xorriso")
	dir := t.TempDir()
	tree, isos, objects := filepath.Join(dir, "tree"), filepath.Join(dir, "isos"), filepath.Join(dir, "objects.yaml")
	write(t, filepath.Join(tree, "boot/grub/grub.cfg"),
		"menuentry 'Linux' {\n  linux /boot/vmlinuz quiet\n  initrd /boot/initrd\n}\n")
	write(t, filepath.Join(tree, "boot/vmlinuz"), "kernel")
	write(t, filepath.Join(tree, "boot/initrd"), "initrd")
	write(t, filepath.Join(isos, ".keep"), "")
	write(t, objects, guessObjects)
	output(t, "xorriso", "-as", "mkisofs", "-quiet", "-R", "-J", "-V", "LINUX", "-o", filepath.Join(isos, "linux.iso"),
		tree)
	portal := "127.0.0.1:" + freePort(t)
	s := start(t, "--manifests", objects, "--iso-dir", isos, "--iscsi-listen", portal, "--iscsi-portal", portal)
	kubectl := func(args ...string) string {
		out, _ := exec.CommandContext(t.Context(), kubectlPath(t), append([]string{"--kubeconfig", s.kubeconfig()},
			args...)...).CombinedOutput()
		return string(out)
	}
	for _, name := range []string{"linux", "hidden"} {
		testkit.Until(t, "the image is ready", func() bool {
			return kubectl("get", "cdrom", name, "-o", "jsonpath={.status.phase}") == "Ready"
		})
	}
	iqn := kubectl("get", "cdrom", "linux", "-o", "jsonpath={.status.targetIQN}")
	neighbour := newGuesser(t, "127.0.0.5")
	const initiator = "iqn.2010-04.org.ipxe:4c4c4544-0042-3510-8056-b4c04f4e3"
	goesOn := func() {
		t.Helper()
		if a := neighbour.ask(s.url("/ipxe?uuid=4c4c4544-0042-3510-8056-b4c04f4e3105")); !strings.Contains(a,
			"sanboot iscsi:") {
			t.Errorf("the machine next to it: %s", a)
		}
		if status, _ := neighbour.initiate(portal, initiator+"105", iqn); status != 0 {
			t.Errorf("the machine next to it logs in: %#x", status)
		}
	}

	listing := newGuesser(t, "127.0.0.66")
	first, menu := map[string]bool{}, listing.ask(s.url("/ipxe"))
	if !strings.Contains(menu, "default/linux  43") || strings.Contains(menu, "vault") || strings.Contains(menu,
		"hidden") {
		t.Errorf("the menu: %s", menu)
	}
	after := map[string]bool{}
	for i := range 1000 {
		name := "victim"
		if i%2 == 1 {
			name = fmt.Sprintf("nobody-%d", i)
		}
		answer := listing.ask(s.url("/api/v1/ignition?hostname=" + name))
		if i < guessLimit {
			first[answer[:3]] = true
		} else {
			after[answer] = true
		}
	}
	if len(first) != 2 || !first["403"] || !first["404"] || len(after) != 1 {
		t.Errorf("the first guesses: %v; %d kinds of answers to the others", first, len(after))
	}
	for answer := range after {
		if !strings.HasPrefix(answer, "503") || !strings.Contains(answer, "Retry-After") {
			t.Errorf("the answer: %s", answer)
		}
	}
	goesOn()

	byPath := newGuesser(t, "127.0.0.67")
	for i := range guessLimit {
		byPath.ask(s.url(fmt.Sprintf("/iso/default/nobody-%d.iso", i)))
	}
	one, other := byPath.ask(s.url("/iso/default/linux.iso")), byPath.ask(s.url("/iso/default/nobody.iso"))
	if one != other || !strings.HasPrefix(one, "503") {
		t.Errorf("an image that exists: %s\none that does not: %s", one, other)
	}

	byUUID := newGuesser(t, "127.0.0.68")
	if status, _ := byUUID.initiate(portal, initiator+"101", iqn); status != 0x0202 {
		t.Errorf("a login as another host: %#x", status)
	}
	for i := 1; i < guessLimit; i++ {
		if status, _ := byUUID.initiate(portal, fmt.Sprintf("%s%03d", initiator, 200+i), iqn); status != 0 {
			t.Errorf("a login with a UUID of nobody: %#x", status)
		}
	}
	for _, uuid := range []string{"101", "299"} {
		if status, _ := byUUID.initiate(portal, initiator+uuid, iqn); status != 0x0302 {
			t.Errorf("a login with the UUID %s after %d guesses: %#x", uuid, guessLimit, status)
		}
		if _, targets := byUUID.initiate(portal, initiator+uuid, ""); strings.Contains(targets, "TargetName") {
			t.Errorf("a discovery with the UUID %s: %q", uuid, targets)
		}
	}
	if answer := byUUID.ask(s.url("/api/v1/ignition?hostname=victim")); !strings.HasPrefix(answer, "503") {
		t.Errorf("over HTTP: %s", answer)
	}

	byTarget := newGuesser(t, "127.0.0.69")
	if _, targets := byTarget.initiate(portal, "iqn.2026-01.example:none", ""); !strings.Contains(targets, iqn) {
		t.Errorf("a discovery: %q", targets)
	}
	for i := range guessLimit {
		if status, _ := byTarget.initiate(portal, "iqn.2026-01.example:none", fmt.Sprint(iqn, i)); status != 0x0203 {
			t.Errorf("a target that there is not: %#x", status)
		}
	}
	for _, target := range []string{iqn, iqn + "-none"} {
		if status, _ := byTarget.initiate(portal, "iqn.2026-01.example:none", target); status != 0x0302 {
			t.Errorf("the target %s after %d guesses: %#x", target, guessLimit, status)
		}
	}
	goesOn()

	testkit.Until(t, "each source is one event", func() bool {
		events := kubectl("get", "events", "-A")
		return strings.Count(events, "ClaimsLimited") == 2 && strings.Count(events, "ImagesLimited") == 2
	})
	testkit.Until(t, "each source is one line in the log", func() bool {
		return strings.Count(s.log.String(), "has reached its limit of guesses") == 4
	})
	if metrics := get(t, s.url("/metrics")).body; !strings.Contains(metrics,
		"\nglowplug_boot_limited_sources_total{of=\"claims\"} 2\n") {
		t.Error("the metrics do not count the sources")
	}
}

// TestGuessingFromACard has a stranger go on guessing from another address, with the
// hardware address that it has.
func TestGuessingFromACard(t *testing.T) {
	needs(t, "root", "ip", "curl")
	r := newRack(t)
	r.apply(rackObjects)
	stranger, one := r.machine(1, "52:54:00:00:00:99", "192.0.2.99"), r.machine(2, "52:54:00:00:00:01", "192.0.2.11")
	var more []string
	for i := range guessLimit - 1 {
		more = append(more, fmt.Sprintf("http://%s:8082/api/v1/ignition?hostname=nobody-%d", rackServer, i))
	}
	if status, _ := stranger.curl("/api/v1/ignition?hostname=nobody", more...); status != "404" {
		t.Errorf("a guess: %s", status)
	}
	r.ip("-n", stranger.name, "addr", "flush", "dev", "eth0")
	r.ip("-n", stranger.name, "addr", "add", "192.0.2.98/24", "dev", "eth0")
	for _, name := range []string{"two", "nobody"} {
		if status, body := stranger.curl("/api/v1/ignition?hostname=" + name); status != "503" {
			t.Errorf("a guess of %s from another address: %s %s", name, status, body)
		}
	}
	if status, body := stranger.curl("/api/v1/ignition"); status != "404" {
		t.Errorf("without a claim: %s %s", status, body)
	}
	if status, body := one.curl("/api/v1/ignition?mac=52-54-00-00-00-01"); status != "200" {
		t.Errorf("the machine next to it: %s %s", status, body)
	}
}
