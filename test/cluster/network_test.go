package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The namespaces' names hold the test's process id, so that a later run can tell
// those that a killed run has left behind.
const namespacePrefix = "gpc-"

// network is a hub with two bridges, and nodes, each in a network namespace of its
// own. A node has two links to the hub: data, plugged into one of the bridges, on
// which NATS and glowplug talk, and a direct one on which the test talks to the
// node whatever the partition. The hub routes nothing.
//
// A partition is a set of nodes plugged into the second bridge. Packets across it
// are lost without a word, and connections live on, as with a broken switch.
type network struct {
	t     *testing.T
	hub   string
	nodes []string
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{t: t, hub: fmt.Sprintf("%s%d-hub", namespacePrefix, os.Getpid())}
	n.namespace(n.hub)
	for _, bridge := range []string{"br0", "br1"} {
		n.ip("-n", n.hub, "link", "add", bridge, "type", "bridge")
		n.ip("-n", n.hub, "link", "set", bridge, "up")
	}
	return n
}

// node is a machine of the network.
type node struct {
	name      string
	namespace string
	data      string // its address for NATS and glowplug
	direct    string // its address for the test
}

func (n *network) addNode(name string) node {
	n.t.Helper()
	number := 11 + len(n.nodes)
	n.nodes = append(n.nodes, name)
	d := node{
		name:      name,
		namespace: fmt.Sprintf("%s%d-%s", namespacePrefix, os.Getpid(), name),
		data:      fmt.Sprintf("192.0.2.%d", number),    // TEST-NET-1
		direct:    fmt.Sprintf("198.51.100.%d", number), // TEST-NET-2
	}
	n.namespace(d.namespace)
	n.ip("-n", n.hub, "link", "add", "p-"+name, "type", "veth", "peer", "name", "data", "netns", d.namespace)
	n.ip("-n", n.hub, "link", "set", "p-"+name, "master", "br0", "up")
	n.ip("-n", d.namespace, "addr", "add", d.data+"/24", "dev", "data")
	n.ip("-n", d.namespace, "link", "set", "data", "up")
	n.ip("-n", n.hub, "link", "add", "d-"+name, "type", "veth", "peer", "name", "direct", "netns", d.namespace)
	n.ip("-n", n.hub, "addr", "add", "198.51.100.1", "peer", d.direct, "dev", "d-"+name)
	n.ip("-n", n.hub, "link", "set", "d-"+name, "up")
	n.ip("-n", d.namespace, "addr", "add", d.direct, "peer", "198.51.100.1", "dev", "direct")
	n.ip("-n", d.namespace, "link", "set", "direct", "up")
	return d
}

// partition plugs these nodes into the second bridge, and all others into the first.
func (n *network) partition(apart ...node) {
	n.t.Helper()
	for _, name := range n.nodes {
		bridge := "br0"
		for _, d := range apart {
			if d.name == name {
				bridge = "br1"
			}
		}
		n.ip("-n", n.hub, "link", "set", "p-"+name, "master", bridge)
	}
}

func (n *network) heal() { n.partition() }

func (n *network) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// namespace makes a network namespace that goes with the test.
func (n *network) namespace(name string) {
	n.t.Helper()
	n.ip("netns", "add", name)
	n.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	n.ip("-n", name, "link", "set", "lo", "up")
}

// dial connects from the hub to a node's direct address. A socket belongs to the
// namespace of the thread that made it.
func (n *network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	hub, err := os.Open(filepath.Join("/run/netns", n.hub))
	if err != nil {
		return nil, err
	}
	defer hub.Close()
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer own.Close()
	if err := unix.Setns(int(hub.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		panic(back) // the thread would serve others from the wrong namespace
	}
	runtime.UnlockOSThread()
	return c, err
}

// removeStale removes the namespaces of runs that are gone.
func removeStale() {
	names, _ := os.ReadDir("/run/netns")
	for _, name := range names {
		rest, ours := strings.CutPrefix(name.Name(), namespacePrefix)
		pid, _, _ := strings.Cut(rest, "-")
		if _, err := strconv.Atoi(pid); !ours || err != nil {
			continue
		}
		if _, err := os.Stat("/proc/" + pid); os.IsNotExist(err) {
			_ = exec.Command("ip", "netns", "del", name.Name()).Run()
		}
	}
}
