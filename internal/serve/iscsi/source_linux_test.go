package iscsi

import (
	"net"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// ownNetwork moves the test's goroutine into a network namespace that has one card
// with addresses. Its thread ends with it.
func ownNetwork(t *testing.T, addresses ...string) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("needs root for a network of its own: %v", err)
	}
	commands := []string{"link set lo up", "link add card0 type veth peer name card1", "link set card0 up",
		"link set card1 up"}
	for _, address := range addresses {
		commands = append(commands, "addr add "+address+"/64 dev card0 nodad")
	}
	for _, command := range commands {
		if out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			t.Skipf("ip %s: %v\n%s", command, err, out)
		}
	}
}

// The same over a network: the system says which card a link-local address is behind.
func TestLinkLocalSources(t *testing.T) {
	ownNetwork(t, "fe80::1", "fe80::2", "fe80::66")
	l, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	options := serving(newMemory(make([]byte, blockSize)))
	options.MaxPerSource = 2
	s, _ := start(t, options)
	go s.Serve(l)
	address := net.JoinHostPort("fe80::1%card0", portOf(l))
	for i := range 3 {
		attacker := dialFrom(t, "fe80::66%card0", address)
		attacker.isid = byte(i)
		if refused := attacker.refused(); refused != (i == 2) {
			t.Errorf("connection %d: refused %v", i, refused)
		}
	}
	if dialFrom(t, "fe80::2%card0", address).refused() {
		t.Error("another machine is refused")
	}
}

func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
