package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// Addresses in the network of a bench: ours, that of the other TFTP server, and the first one of the clients.
	ourAddress   = "192.0.2.1"
	otherAddress = "192.0.2.2"
	clients      = "clients" // the network namespace of the clients
	// tftpFile is a file of tftpSize bytes that readTFTP asks for.
	tftpFile = "large.kpxe"
	tftpSize = 1 << 20
	// neighbours are the hosts whose boots go on meanwhile.
	neighbours = 500
)

// network measures a part in a network namespace of its own: the answers to machines that boot from the network, or
// failover.
func (b *bench) network(ctx context.Context, part string) error {
	if os.Geteuid() != 0 {
		return errors.New(part + ": needs root, for network namespaces")
	}
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", b.self, "--program", b.program, "--rounds",
		strconv.Itoa(b.rounds), "--only", part, "--in-namespace")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", part, err)
	}
	var rows [][5]string
	if err := json.Unmarshal(out, &rows); err != nil {
		return err
	}
	for _, r := range rows {
		b.add(r[0], r[1], r[2], r[3], r[4])
	}
	return nil
}

// inNamespace measures, and writes the rows to standard output.
func (b *bench) inNamespace(ctx context.Context) error {
	var err error
	if b.dir, err = os.MkdirTemp("", "glowplug-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := plug(ctx); err != nil {
		return err
	}
	if b.only == "failover" {
		err = b.failover(ctx)
	} else {
		err = errors.Join(b.networkLoad(ctx), b.powerOn(ctx))
	}
	rows := [][5]string{}
	for _, r := range b.rows {
		rows = append(rows, [5]string{r.measure, r.ours, r.against, r.ratio, r.target})
	}
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(rows))
}

// plug makes a bridge with our addresses, and the namespace of the clients, which have 25 addresses. Both go with this
// process.
func plug(ctx context.Context) error {
	script := `set -e
mount -t tmpfs tmpfs /run/netns 2>/dev/null || { mkdir -p /run/netns; mount -t tmpfs tmpfs /run/netns; }
ip link set lo up
ip link add br0 type bridge
ip addr add ` + ourAddress + `/24 dev br0
ip addr add ` + otherAddress + `/24 dev br0
ip link set br0 up
ip netns add ` + clients + `
ip link add port type veth peer name eth0 netns ` + clients + `
ip link set port master br0 up
ip tuntap add dev tap0 mode tap
ip link set tap0 master br0 up
ip -n ` + clients + ` link set lo up
for n in $(seq 20 44); do ip -n ` + clients + ` addr add 192.0.2.$n/24 dev eth0; done
ip -n ` + clients + ` link set eth0 up`
	out, err := exec.CommandContext(ctx, "sh", "-c", script).CombinedOutput()
	if err != nil {
		return fmt.Errorf("making the network: %w\n%s", err, out)
	}
	return nil
}

// client runs a role of this program as clients, and returns its figures.
func (b *bench) client(ctx context.Context, role string) (figures []float64, err error) {
	cmd := exec.CommandContext(ctx, "ip", "netns", "exec", clients, b.self, "--client", role)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("clients (%s): %w", role, err)
	}
	return figures, json.Unmarshal(out, &figures)
}

// inNetwork runs the server at the bridge.
func (b *bench) inNetwork(ctx context.Context, data string, args ...string) (*process, error) {
	argv := append([]string{b.program, "serve", "--data-dir", filepath.Join(b.dir, data), "--listen", ourAddress + ":8082",
		"--listen-tls", "", "--identity-claims", "trust", "--max-requests-per-source", "1000000"}, args...)
	return b.launch(ctx, ourAddress+":8082", "/readyz", argv...)
}

// networkLoad measures offers, TFTP beside tftpd-hpa, and boots of others meanwhile.
func (b *bench) networkLoad(ctx context.Context) error {
	loaders, manifests := filepath.Join(b.dir, "loaders"), filepath.Join(b.dir, "hosts.yaml")
	var objects bytes.Buffer
	objects.Write(object("IgnitionConfig", "all", map[string]any{"type": "ignition", "format": "ignition",
		"config": `{"ignition":{"version":"3.4.0"}}`, "selector": map[string]any{"default": true}}))
	for i := range neighbours {
		objects.WriteString("\n---\n")
		objects.Write(object("BareMetalHost", fmt.Sprintf("host-%06d", i), map[string]any{
			"bootMACAddress": macOf(i), "bootMode": "forever", "image": "localboot",
		}))
	}
	err := errors.Join(os.Mkdir(loaders, 0o755), os.Chmod(b.dir, 0o755),
		os.WriteFile(filepath.Join(loaders, tftpFile), bytes.Repeat([]byte("glowplug"), tftpSize/8), 0o644),
		os.WriteFile(manifests, objects.Bytes(), 0o644))
	if err != nil {
		return err
	}
	p, err := b.inNetwork(ctx, "network", "--pxe-interface", "br0", "--boot-loaders", loaders, "--manifests", manifests)
	if err != nil {
		return err
	}
	defer p.stop()
	other := exec.CommandContext(ctx, "in.tftpd", "--foreground", "--listen", "--address", otherAddress+":69", "--user", "root",
		"--secure", loaders)
	if err := other.Start(); err != nil {
		return fmt.Errorf("%w: apt-get install tftpd-hpa", err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()

	var offers, ours, theirs, alone, beside []float64
	for range b.rounds {
		offer, err := b.client(ctx, "dhcp")
		if err != nil {
			return err
		}
		offers = append(offers, offer[0])
		mine, err := b.client(ctx, "tftp="+ourAddress)
		if err != nil {
			return err
		}
		his, err := b.client(ctx, "tftp="+otherAddress)
		if err != nil {
			return err
		}
		ours, theirs = append(ours, mine[0]), append(theirs, his[0])
		quiet, err := b.client(ctx, "boots")
		if err != nil {
			return err
		}
		busy, err := b.besideMachines(ctx)
		if err != nil {
			return err
		}
		alone, beside = append(alone, quiet[0]), append(beside, busy)
	}
	b.add("DISCOVER to offer, p99, 200 machines a second", fmt.Sprintf("%.1f ms", median(offers)), "-", "-", "5 ms")
	b.add("TFTP of 1 MB to 200 clients at once", fmt.Sprintf("%.0f MB/s", median(ours)),
		fmt.Sprintf("tftpd-hpa: %.0f MB/s", median(theirs)), fmt.Sprintf("%.2f", medianRatio(ours, theirs)), "1.0")
	b.add("100 boots a second, done within 100 ms, while 200 machines a second ask and 20 a second read 1 MB",
		fmt.Sprintf("%.0f %%", 100*median(beside)), fmt.Sprintf("alone: %.0f %%", 100*median(alone)),
		fmt.Sprintf("%.2f", medianRatio(beside, alone)), "0.95")
	return nil
}

// besideMachines measures boots while other machines boot from the network.
func (b *bench) besideMachines(ctx context.Context) (share float64, err error) {
	var load sync.WaitGroup
	var failed [2]error
	for i, role := range []string{"dhcp", "paced=" + ourAddress} {
		load.Go(func() { _, failed[i] = b.client(ctx, role) })
	}
	busy, err := b.client(ctx, "boots")
	load.Wait()
	if err = errors.Join(err, failed[0], failed[1]); err != nil {
		return 0, err
	}
	return busy[0], nil
}

// powerOn measures the time from power-on to the script, in QEMU with UEFI: once as glowplug answers beside a DHCP
// server that gives addresses alone, and once as dnsmasq gives everything.
func (b *bench) powerOn(ctx context.Context) error {
	var ours, theirs []float64
	for round := range min(b.rounds, 3) {
		for _, way := range []struct {
			took        *[]float64
			serve, dhcp []string
		}{
			{&ours, []string{"--pxe-interface", "br0"}, nil},
			{&theirs, nil, []string{"--enable-tftp", "--tftp-root=/usr/lib/ipxe", "--dhcp-userclass=set:ipxe,iPXE",
				"--dhcp-boot=tag:!ipxe,snponly.efi", "--dhcp-boot=tag:ipxe,http://" + ourAddress + ":8082/boot.ipxe"}},
		} {
			took, err := b.boot(ctx, fmt.Sprint("power-", round, len(way.serve)), way.serve, way.dhcp)
			if err != nil {
				return err
			}
			*way.took = append(*way.took, took)
		}
	}
	b.add("power-on to script, UEFI in QEMU", fmt.Sprintf("%.1f s", median(ours)),
		fmt.Sprintf("dnsmasq gives everything: %.1f s", median(theirs)), fmt.Sprintf("%.2f", medianRatio(ours, theirs)), "1.0 at most")
	return nil
}

// boot switches a machine on, and returns the seconds until it asks for its script.
func (b *bench) boot(ctx context.Context, data string, serve, dhcp []string) (seconds float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	p, err := b.inNetwork(ctx, data, serve...)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	vars, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
	if err != nil {
		return 0, err
	}
	writable := filepath.Join(b.dir, "vars")
	if err := os.WriteFile(writable, vars, 0o644); err != nil {
		return 0, err
	}
	off, err := switchOn(ctx, dhcp, ",romfile=", "-drive", "if=pflash,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
		"-drive", "if=pflash,format=raw,file="+writable)
	defer off()
	if err != nil {
		return 0, err
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("no machine asked for its script: %w", err)
		}
		if asked, err := scripts(ctx); err != nil || asked {
			return time.Since(began).Seconds(), err
		}
	}
}

// switchOn starts a machine in QEMU, with options for its network card and of QEMU, beside a DHCP server with options.
// off ends both.
func switchOn(ctx context.Context, dhcp []string, card string, options ...string) (off func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running []*exec.Cmd
	off = func() {
		cancel()
		for _, cmd := range running {
			_ = cmd.Wait()
		}
	}
	for _, argv := range [][]string{
		append([]string{"dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root", "--interface=br0",
			"--bind-interfaces", "--leasefile-ro", "--pid-file=", "--no-ping", "--dhcp-range=192.0.2.100,192.0.2.200,1h"}, dhcp...),
		append([]string{"qemu-system-x86_64", "-machine", "q35,graphics=off", "-accel", "tcg", "-m", "512", "-display", "none",
			"-serial", "none", "-monitor", "none", "-no-reboot", "-netdev", "tap,id=n0,ifname=tap0,script=no,downscript=no",
			"-device", "virtio-net-pci,netdev=n0,mac=52:54:00:00:00:01" + card}, options...),
	} {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		if err := cmd.Start(); err != nil {
			return off, err
		}
		running = append(running, cmd)
	}
	return off, nil
}

// scripts reports whether a machine has asked for its script.
func scripts(ctx context.Context) (bool, error) {
	text, err := fetch(ctx, "http://"+ourAddress+":8082/metrics")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "glowplug_boot_requests_total{") && strings.Contains(line, `endpoint="ipxe"`) &&
			!strings.HasSuffix(strings.TrimSpace(line), " 0") {
			return true, nil
		}
	}
	return false, nil
}

// medianRatio is the median of the ratios of two figures of each round.
func medianRatio(a, b []float64) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}
