package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	pin "github.com/pin/tftp/v3"

	"glowplug/internal/serve/pxe"
	"glowplug/test/launch"
)

const (
	// roleOfClients is the variable that has the test's program run as many clients, in the network namespace of a
	// machine.
	roleOfClients = "E2E_NETWORK_CLIENTS"
	discoverers   = 1000
	discoverRate  = 200 // a second
	readers       = 8   // of one address, which may have twice as many
)

// TestNetworkBootOfManyMachines: 200 machines a second ask for their boot file, while others read theirs.
func TestNetworkBootOfManyMachines(t *testing.T) {
	needs(t, "root", "ip")
	r := newRack(t, "--pxe-interface", "br0")
	run := func(m machine, role string) string {
		cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", m.name, os.Args[0])
		cmd.Env = append(os.Environ(), roleOfClients+"="+role)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", role, err, launch.Tail(string(out), 2000))
		}
		return string(out)
	}
	asking := r.machine(1, "52:54:00:00:00:01", "192.0.2.11")
	var clients sync.WaitGroup
	for n := range 25 { // together 200 readers
		reading := r.machine(2+n, fmt.Sprintf("52:54:00:00:01:%02x", n), fmt.Sprintf("192.0.2.%d", 20+n))
		clients.Go(func() { run(reading, "tftp") })
	}
	clients.Go(func() { t.Log(strings.TrimSpace(run(asking, "dhcp"))) })
	clients.Wait()
	// And alone, which is what the time is of.
	t.Log(strings.TrimSpace(run(asking, "dhcp")))
}

// networkClients runs as many clients. The result is the exit code.
func networkClients(role string) int {
	run := askAll
	if role == "tftp" {
		run = readAll
	}
	if err := run(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// askAll sends a DISCOVER of each machine, and says how long the answers took.
func askAll() error {
	config := net.ListenConfig{Control: pxe.BindTo("eth0", true)}
	listener, err := config.ListenPacket(context.Background(), "udp4", ":68")
	if err != nil {
		return err
	}
	defer listener.Close()
	var mu sync.Mutex
	sent, took := map[uint32]time.Time{}, []time.Duration{}
	all := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		packet := make([]byte, 1500)
		for {
			n, _, err := listener.ReadFrom(packet)
			if err != nil {
				return
			}
			reply, err := dhcpv4.FromBytes(packet[:n])
			if err != nil {
				continue
			}
			mu.Lock()
			if at, ok := sent[binary.BigEndian.Uint32(reply.TransactionID[:])]; ok {
				if took = append(took, time.Since(at)); len(took) == discoverers {
					close(all)
				}
			}
			mu.Unlock()
		}
	})
	tick := time.NewTicker(time.Second / discoverRate)
	defer tick.Stop()
	run := uint32(os.Getpid()) << 12
	for n := range uint32(discoverers) {
		mac := net.HardwareAddr{0x52, 0x54, 1, byte(os.Getpid()), byte(n >> 8), byte(n)}
		id := dhcpv4.TransactionID{}
		binary.BigEndian.PutUint32(id[:], run+n)
		p, err := dhcpv4.New(dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(dhcpv4.MessageTypeDiscover),
			dhcpv4.WithTransactionID(id), dhcpv4.WithOption(dhcpv4.OptClientArch(iana.EFI_X86_64)),
			dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00007:UNDI:003000")))
		if err != nil {
			return err
		}
		<-tick.C
		mu.Lock()
		sent[run+n] = time.Now()
		mu.Unlock()
		if _, err := listener.WriteTo(p.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: 67}); err != nil {
			return err
		}
	}
	select {
	case <-all:
	case <-time.After(5 * time.Second):
	}
	_ = listener.Close()
	reading.Wait()
	slices.Sort(took)
	if len(took) != discoverers {
		return fmt.Errorf("%d of %d machines were answered", len(took), discoverers)
	}
	fmt.Printf("%d machines at %d a second: median %v, p99 %v, slowest %v\n", discoverers, discoverRate,
		took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	return nil
}

// readAll has as many clients as one address may have read the boot loader, again and again.
func readAll() error {
	var reading sync.WaitGroup
	failures := make(chan error, readers)
	for range readers {
		reading.Go(func() {
			for range 4 {
				if err := readLoader(); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	reading.Wait()
	close(failures)
	return <-failures
}

func readLoader() error {
	client, err := pin.NewClient(rackServer + ":69")
	if err != nil {
		return err
	}
	client.SetBlockSize(1468)
	client.SetTimeout(time.Second)
	client.SetRetries(20)
	transfer, err := client.Receive("snponly.efi", "octet")
	if err != nil {
		return err
	}
	var got bytes.Buffer
	if _, err := transfer.WriteTo(&got); err != nil {
		return err
	}
	want, err := os.ReadFile("/usr/lib/ipxe/snponly.efi")
	if err == nil && !bytes.Equal(got.Bytes(), want) {
		err = fmt.Errorf("%d bytes came, which are not those of the loader", got.Len())
	}
	return err
}
