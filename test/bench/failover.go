package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	v1 "glowplug/api/v1"
)

// failoverPatience bounds each wait.
const failoverPatience = time.Minute

// reader is a boot sector that reads its medium for ever, 16 blocks at a time, by INT 13h.
var reader = []byte{
	0x0E, 0x1F, // ds = cs
	0xE8, 0x00, 0x00, 0x5E, // si = here
	0x81, 0xC6, 0x13, 0x00, // si = the packet
	0xB4, 0x42, 0x52, 0x56, 0xCD, 0x13, 0x5E, 0x5A, // next: read the packet
	0x83, 0x44, 0x08, 0x10, // its block += 16
	0xEB, 0xF2, // jmp next
	0x10, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, // 16 blocks to 2000:0000
}

// pair is two servers of one store.
type pair [2]*process

// pairAddresses are their addresses.
var pairAddresses = [2]string{ourAddress, otherAddress}

// pairAdmins are those of their admin listeners.
var pairAdmins = [2]string{"127.0.0.1:9000", "127.0.0.1:9001"}

// failover measures the time until another server takes over after the loss of one: led work, and the image that a
// machine in QEMU reads.
func (b *bench) failover(ctx context.Context) error {
	isos := filepath.Join(b.dir, "failover")
	if err := bootableISO(ctx, isos); err != nil {
		return err
	}
	kill := func(p pair, n int) error { return p[n].cmd.Process.Kill() }
	silence := func(_ pair, n int) error {
		// The other address stays although this one may have been there first.
		return exec.CommandContext(ctx, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/conf/br0/promote_secondaries && ip addr del "+
			pairAddresses[n]+"/24 dev br0").Run()
	}
	var led, killed, silent []float64
	for range min(b.rounds, 3) {
		for _, c := range []struct {
			took *[]float64
			find func(ctx context.Context, p pair) (n int, stop func(), err error)
			lose func(p pair, n int) error
			has  func(ctx context.Context, p pair, n int) bool
		}{
			{&led, findLeader, kill, leads}, {&killed, findPortal, kill, isReadFrom},
			{&silent, findPortal, silence, isReadFrom},
		} {
			took, err := b.lose(ctx, isos, c.find, c.lose, c.has)
			for _, address := range pairAddresses { // an error says that the address exists
				_ = exec.CommandContext(ctx, "ip", "addr", "add", address+"/24", "dev", "br0").Run()
			}
			if err != nil {
				return err
			}
			*c.took = append(*c.took, took)
		}
	}
	b.add("another server leads the work that one has led, after kill -9", fmt.Sprintf("%.1f s", median(led)), "-", "-", "10 s")
	b.add("a machine in QEMU reads its image from another server, after kill -9", fmt.Sprintf("%.2f s", median(killed)), "-",
		"-", "15 s")
	b.add("the same where the server goes without a word: iPXE waits 15 s for a block", fmt.Sprintf("%.2f s", median(silent)),
		"-", "-", "15 s")
	return nil
}

// bootableISO makes a folder with an image that reads itself.
func bootableISO(ctx context.Context, dir string) error {
	tree := filepath.Join(dir, "tree")
	err := errors.Join(os.MkdirAll(tree, 0o755), os.WriteFile(filepath.Join(tree, "boot.img"), slices.Concat(reader,
		make([]byte, 2048-len(reader))), 0o644), os.WriteFile(filepath.Join(tree, "data"), nil, 0o644),
		os.Truncate(filepath.Join(tree, "data"), 1<<28))
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "xorriso", "-as", "mkisofs", "-quiet", "-V", "READER", "-b", "boot.img", "-no-emul-boot",
		"-boot-load-size", "4", "-o", filepath.Join(dir, "reader.iso"), tree).CombinedOutput()
	if err != nil {
		return fmt.Errorf("xorriso: %w\n%s", err, out)
	}
	return os.RemoveAll(tree)
}

// lose loses the server of a pair that find returns, and returns after how many seconds the other one has what it had.
func (b *bench) lose(ctx context.Context, isos string, find func(context.Context, pair) (int, func(), error),
	lose func(pair, int) error, has func(context.Context, pair, int) bool,
) (seconds float64, err error) {
	data, err := os.MkdirTemp(b.dir, "pair")
	if err != nil {
		return 0, err
	}
	nats, err := server.NewServer(&server.Options{ServerName: "bench", Host: "127.0.0.1", Port: 4222, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: filepath.Join(data, "nats"), MaxPayload: 16 << 20})
	if err != nil {
		return 0, err
	}
	nats.Start()
	defer func() { nats.Shutdown(); nats.WaitForShutdown() }()
	var p pair
	for n, address := range pairAddresses {
		p[n], err = b.launch(ctx, address+":8082", "/readyz", b.program, "serve", "--data-dir", filepath.Join(data, strconv.Itoa(n)),
			"--listen", address+":8082", "--listen-tls", "", "--admin-listen", pairAdmins[n], "--nats-url", "nats://127.0.0.1:4222",
			"--iso-dir", isos, "--iscsi-listen", address+":3260", "--http-url", "http://"+ourAddress+":8082",
			"--pki-dir", filepath.Join(data, "pki"), "--unknown-hosts", "default")
		if err != nil {
			return 0, err
		}
		defer p[n].stop()
	}
	lost, stop, err := find(ctx, p)
	defer stop()
	if err != nil {
		return 0, err
	}
	if err := lose(p, lost); err != nil {
		return 0, err
	}
	began := time.Now()
	err = await(ctx, "the other server has taken over", func() bool { return has(ctx, p, 1-lost) })
	return time.Since(began).Seconds(), err
}

// await waits until something is so.
func await(ctx context.Context, what string, isSo func() bool) error {
	for began := time.Now(); !isSo(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > failoverPatience || ctx.Err() != nil {
			return fmt.Errorf("failover: waited in vain: %s", what)
		}
	}
	return nil
}

// members returns the servers as one of a pair sees them.
func (p pair) members(ctx context.Context, n int) (list v1.MemberList) {
	if page, err := fetch(ctx, "http://"+pairAdmins[n]+"/api/v1/members"); err == nil {
		_ = json.Unmarshal(page, &list)
	}
	return list
}

// leads reports whether a server of a pair says that it leads.
func leads(ctx context.Context, p pair, n int) bool {
	return slices.ContainsFunc(p.members(ctx, n).Items, func(m v1.Member) bool {
		return m.Status.Address == pairAddresses[n] && len(m.Status.Leads) > 0
	})
}

// findLeader returns the server of a pair that leads, once the other one runs.
func findLeader(ctx context.Context, p pair) (n int, stop func(), err error) {
	err = await(ctx, "a server leads", func() bool {
		n = slices.IndexFunc([]int{0, 1}, func(n int) bool { return leads(ctx, p, n) })
		return n >= 0 && len(p.members(ctx, n).Items) == 2
	})
	return n, func() {}, err
}

// sent is what the portal of a server of a pair has sent to the machine that reads now, in bytes.
func (p pair) sent(ctx context.Context, n int) (bytes int64) {
	out, err := exec.CommandContext(ctx, "ss", "-Htni", "state", "established", "src", pairAddresses[n]+":3260").Output()
	if err != nil {
		return 0
	}
	for _, found := range sentBytes.FindAllSubmatch(out, -1) {
		count, _ := strconv.ParseInt(string(found[1]), 10, 64)
		bytes += count
	}
	return bytes
}

var sentBytes = regexp.MustCompile(`bytes_sent:(\d+)`)

func isReadFrom(ctx context.Context, p pair, n int) bool { return p.sent(ctx, n) > 1<<18 }

// findPortal switches a machine on, and returns the server of a pair that it reads its image from.
func findPortal(ctx context.Context, p pair) (n int, stop func(), err error) {
	stop = func() {}
	err = create(ctx, pairAdmins[0], "iscsicdroms", 1, func(int) []byte {
		return object("ISCSICdrom", "reader", map[string]any{"isoFile": "reader.iso", "default": true})
	})
	if err != nil {
		return 0, stop, err
	}
	err = await(ctx, "both servers have the image", func() bool {
		list := p.members(ctx, 0).Items
		return len(list) == 2 && !slices.ContainsFunc(list, func(m v1.Member) bool { return len(m.Status.Images) == 0 })
	})
	if err != nil {
		return 0, stop, err
	}
	stop, err = switchOn(ctx, []string{"--dhcp-boot=http://" + ourAddress + ":8082/boot.ipxe"}, "")
	if err != nil {
		return 0, stop, err
	}
	err = await(ctx, "a machine reads the image", func() bool {
		n = slices.IndexFunc([]int{0, 1}, func(n int) bool { return isReadFrom(ctx, p, n) })
		return n >= 0
	})
	return n, stop, err
}
