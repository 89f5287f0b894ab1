package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"glowplug/internal/testkit"
	"glowplug/test/launch"
)

// isoDir makes an ISO directory with one small image, linux.iso.
func isoDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tree, isos := filepath.Join(dir, "tree"), filepath.Join(dir, "isos")
	write(t, filepath.Join(tree, "boot/grub/grub.cfg"), "menuentry 'Linux' {\n  linux /boot/vmlinuz quiet\n}\n")
	write(t, filepath.Join(isos, ".keep"), "")
	output(t, "xorriso", "-as", "mkisofs", "-quiet", "-R", "-V", "LINUX", "-o", filepath.Join(isos, "linux.iso"), tree)
	return isos
}

// imageRack is a rack with an image for its hosts alone, one with a secret, and one for
// everybody; the second and third machine are a host and a stranger.
func imageRack(t *testing.T, args ...string) (r *rack, one, two, stranger machine) {
	t.Helper()
	needs(t, "root", "ip", "curl", "xorriso", "iscsi-ls", "iscsi-inq")
	r = newRack(t, append(args, "--iso-dir", isoDir(t))...)
	r.apply(imageObjects)
	for _, image := range []string{"private", "locked", "open"} {
		testkit.Until(t, "image "+image+" is ready", func() bool {
			return r.kubectl("get", "cdrom", "-n", "rack", image, "-o", "jsonpath={.status.phase}") == "Ready"
		})
	}
	return r, r.machine(1, "52:54:00:00:00:01", "192.0.2.11"), r.machine(2, "52:54:00:00:00:02", "192.0.2.12"),
		r.machine(9, "52:54:00:00:00:99", "192.0.2.99")
}

const imageObjects = `
apiVersion: v1
kind: ISCSICdrom
metadata: {name: private, namespace: rack}
spec: {isoFile: linux.iso, access: hosts}
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: locked, namespace: rack}
spec: {isoFile: linux.iso, chap: {username: rack, password: correct-horse}}
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: open, namespace: rack}
spec: {isoFile: linux.iso}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: one, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:01", ip: 192.0.2.11, image: private, systemUUID: 4c4c4544-0042-3510-8056-b4c04f4e3101}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: two, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:02", ip: 192.0.2.12, image: open}
`

// run runs a program as this machine.
func (m machine) run(argv ...string) (string, error) {
	out, err := exec.Command("ip", append([]string{"netns", "exec", m.name}, argv...)...).CombinedOutput()
	return string(out), err
}

func iqnOf(r *rack, image string) string {
	return r.kubectl("get", "cdrom", "-n", "rack", image, "-o", "jsonpath={.status.targetIQN}")
}

// TestImageAccess has hosts and a stranger ask for an image with access: hosts, by
// discovery, by login, by HTTP and in the menu.
func TestImageAccess(t *testing.T) {
	r, one, two, stranger := imageRack(t)
	private, open := iqnOf(r, "private"), iqnOf(r, "open")
	const posing = "iqn.2010-04.org.ipxe:4c4c4544-0042-3510-8056-b4c04f4e3101" // as iPXE of host one
	for _, c := range []struct {
		name   string
		from   machine
		may    bool
		status string
	}{{"its host", one, true, "206"}, {"another host", two, false, "403"}, {"a stranger", stranger, false, "403"}} {
		listed, err := c.from.run("iscsi-ls", "iscsi://"+rackServer)
		if err != nil || strings.Contains(listed, private) != c.may || !strings.Contains(listed, open) {
			t.Errorf("%s is shown (%v):\n%s", c.name, err, listed)
		}
		for _, initiator := range []string{"iqn.2010-04.org.example:x", posing} {
			out, err := c.from.run("iscsi-inq", "-i", initiator, "iscsi://"+rackServer+"/"+private+"/0")
			if (err == nil) != c.may {
				t.Errorf("%s logs in as %s: %v\n%s", c.name, initiator, err, out)
			}
		}
		if out, err := c.from.run("iscsi-inq", "iscsi://"+rackServer+"/"+open+"/0"); err != nil {
			t.Errorf("%s, to the image of all: %v\n%s", c.name, err, out)
		}
		for _, path := range []string{"/iso/rack/private.iso", "/iso/rack/private/files/boot/grub/grub.cfg"} {
			if status, _ := c.from.curl(path, "-r", "0-9", "-o", "/dev/null"); status != c.status {
				t.Errorf("%s, %s: %s", c.name, path, status)
			}
		}
	}
	const reason = "the hosts alone whose spec.image it is"
	if status, body := stranger.curl("/iso/rack/private.iso"); status != "403" || !strings.Contains(body, reason) {
		t.Errorf("the reason: %s %s", status, body)
	}
	if _, menu := stranger.curl("/ipxe"); !strings.Contains(menu, "rack/open") || strings.Contains(menu, "rack/private") {
		t.Errorf("the menu:\n%s", menu)
	}
	r.kubectl("patch", "bmh", "-n", "rack", "one", "--type=merge", "-p", `{"spec":{"image":"localboot"}}`)
	testkit.Until(t, "what is no longer its image is refused", func() bool {
		_, err := one.run("iscsi-inq", "iscsi://"+rackServer+"/"+private+"/0")
		return err != nil
	})
}

// TestWrongSecrets has a stranger guess an image's secret as fast as it can, while a
// host that knows it logs in.
func TestWrongSecrets(t *testing.T) {
	r, one, _, stranger := imageRack(t)
	url := func(secret string) string {
		return "iscsi://rack%" + secret + "@" + rackServer + "/" + iqnOf(r, "locked") + "/0"
	}
	right, wrong := url("correct-horse"), url("wrong-horse")
	began := time.Now()
	var tried atomic.Int32
	var over sync.WaitGroup
	for range 24 {
		over.Go(func() {
			for time.Since(began) < 5*time.Second {
				if out, err := stranger.run("iscsi-inq", wrong); err == nil {
					t.Errorf("a wrong secret will do:\n%s", out)
				}
				tried.Add(1)
			}
		})
	}
	for range 5 {
		if out, err := one.run("iscsi-inq", right); err != nil {
			t.Errorf("the right secret: %v\n%s", err, out)
		}
	}
	over.Wait()
	took := time.Since(began)
	event := func(field string) string {
		return r.kubectl("get", "events", "-n", "rack", "-o",
			`jsonpath={.items[?(@.reason=="LoginRefused")]`+field+`}`)
	}
	testkit.Until(t, "the guesses are an event on the image", func() bool {
		return event(".involvedObject.kind") == "ISCSICdrom" && event(".involvedObject.name") == "locked"
	})
	looked := 0
	testkit.Until(t, "each counts", func() bool { // it is written every ten seconds
		looked, _ = strconv.Atoi(event(".count"))
		return looked > 5
	})
	// 16 at once each time that the wait is over, which grows to 8 s.
	if most := 5 + 16*(4+int(took/(8*time.Second))+1); looked > most {
		t.Errorf("%d of %d guesses were looked at in %v; want %d at most", looked, tried.Load(), took, most)
	}
	if message := event(".message"); !strings.Contains(message, "192.0.2.99 (52:54:00:00:00:99)") {
		t.Errorf("the event: %s", message)
	}
	t.Logf("%d of %d guesses were looked at in %v", looked, tried.Load(), took)
	log := r.server.log.String()
	if !strings.Contains(log, "wrong CHAP name or secret") || strings.Contains(log, "horse") {
		t.Errorf("the log:\n%s", launch.Tail(log, 3000))
	}
}

// applyLinux makes the image linux and the host one, which boots it and has further
// fields of a spec, and waits for the image.
func (s *server) applyLinux(spec string) {
	s.t.Helper()
	s.kubectl(`
apiVersion: v1
kind: ISCSICdrom
metadata: {name: linux, namespace: default}
spec: {isoFile: linux.iso, defaultKernelArgs: false}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: one, namespace: default}
spec: {image: linux, `+spec+`}
`, "apply", "-f", "-")
	s.kubectl("", "wait", "cdrom", "linux", "--for=jsonpath={.status.phase}=Ready", "--timeout=20s")
}

// TestSessionOfHost has a login with a machine's initiator name and ISID from elsewhere,
// and from another address of the same host.
func TestSessionOfHost(t *testing.T) {
	needs(t, "xorriso")
	portal := "127.0.0.1:" + freePort(t)
	s := start(t, "--iso-dir", isoDir(t), "--iscsi-listen", portal, "--iscsi-portal", portal)
	s.applyLinux("ip: 127.0.0.11, nics: [{ip: 127.0.0.21}]")
	iqn := s.kubectl("", "get", "cdrom", "linux", "-o", "jsonpath={.status.targetIQN}")

	victim := loginFrom(t, "127.0.0.11", portal, iqn)
	attacker := loginFrom(t, "127.0.0.66", portal, iqn)
	if !victim.alive() || !attacker.alive() {
		t.Fatal("a login from elsewhere ends the session")
	}
	again := loginFrom(t, "127.0.0.21", portal, iqn)
	if victim.alive() || !attacker.alive() || !again.alive() {
		t.Error("a login of the same host from its other address does not take the place of its session alone")
	}
}

// initiator is a session of which the test says name and ISID, always the same.
type initiator struct {
	t    *testing.T
	conn net.Conn
}

func loginFrom(t *testing.T, from, portal, iqn string) initiator {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	conn, err := dialer.DialContext(t.Context(), "tcp", portal)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	i := initiator{t, conn}
	head := make([]byte, 48)
	head[0], head[1], head[8], head[13] = 0x43, 0x87, 0x80, 1 // login, operational to full feature; the ISID
	answer, err := i.exchange(head, "InitiatorName=iqn.2010-04.org.example:one\x00TargetName="+iqn+"\x00")
	if err != nil || answer[36] != 0 {
		t.Fatalf("login from %s: %v, % x", from, err, answer)
	}
	return i
}

// alive reports whether the session answers a ping.
func (i initiator) alive() bool {
	head := make([]byte, 48)
	head[0], head[1], head[19] = 0x40, 0x80, 2 // NOP-Out, at once
	binary.BigEndian.PutUint32(head[20:], 0xffffffff)
	answer, err := i.exchange(head, "")
	return err == nil && answer[0] == 0x20
}

// exchange sends a PDU and gives the header of the answer.
func (i initiator) exchange(head []byte, data string) ([]byte, error) {
	i.conn.SetDeadline(time.Now().Add(20 * time.Second))
	binary.BigEndian.PutUint32(head[4:], uint32(len(data)))
	padding := strings.Repeat("\x00", -len(data)&3)
	if _, err := fmt.Fprintf(i.conn, "%s%s%s", head, data, padding); err != nil {
		return nil, err
	}
	answer := make([]byte, 48)
	if _, err := io.ReadFull(i.conn, answer); err != nil {
		return nil, err
	}
	n := int64(answer[5])<<16 | int64(answer[6])<<8 | int64(answer[7])
	_, err := io.CopyN(io.Discard, i.conn, (n+3)&^3)
	return answer, err
}
