package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"glowplug/internal/serve/pxe"
)

const (
	askers, askRate   = 1000, 200 // machines, and how many a second
	tftpReaders       = 200       // of a file over TFTP at once; 8 have one address
	pacedRate         = 20        // readers a second, while others boot
	bootRate, bootFor = 100, 5 * time.Second
	inTime            = 100 * time.Millisecond
)

// runClient runs a role as clients, and writes its figures to standard output.
func runClient(role string) error {
	name, server, _ := strings.Cut(role, "=")
	var figure float64
	var err error
	switch name {
	case "dhcp":
		figure, err = askAll()
	case "tftp":
		figure, err = readAll(server)
	case "paced":
		err = readPaced(server)
	case "boots":
		figure, err = bootOthers()
	default:
		err = fmt.Errorf("there is no role %q", role)
	}
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode([]float64{figure}))
}

// askAll sends a DISCOVER of each machine, and returns the 99th percentile of the time until the offer, in
// milliseconds.
func askAll() (float64, error) {
	config := net.ListenConfig{Control: pxe.BindTo("eth0", true)}
	conn, err := config.ListenPacket(context.Background(), "udp4", ":68")
	if err != nil {
		return 0, err
	}
	var mu sync.Mutex
	sent, took := map[uint32]time.Time{}, []time.Duration{}
	var reading sync.WaitGroup
	reading.Go(func() {
		packet := make([]byte, 1500)
		for {
			n, _, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			now := time.Now()
			if reply, err := dhcpv4.FromBytes(packet[:n]); err == nil {
				mu.Lock()
				if at, ok := sent[binary.BigEndian.Uint32(reply.TransactionID[:])]; ok {
					took = append(took, now.Sub(at))
				}
				mu.Unlock()
			}
		}
	})
	tick := time.NewTicker(time.Second / askRate)
	defer tick.Stop()
	run := uint32(os.Getpid()) << 12
	for n := range uint32(askers) {
		id := dhcpv4.TransactionID{}
		binary.BigEndian.PutUint32(id[:], run+n)
		p, err := dhcpv4.New(dhcpv4.WithHwAddr(net.HardwareAddr{0x52, 0x54, 1, byte(os.Getpid()), byte(n >> 8), byte(n)}),
			dhcpv4.WithMessageType(dhcpv4.MessageTypeDiscover), dhcpv4.WithTransactionID(id),
			dhcpv4.WithOption(dhcpv4.OptClientArch(iana.INTEL_X86PC)), dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient")),
			dhcpv4.WithOption(dhcpv4.OptUserClass("iPXE")))
		if err != nil {
			return 0, err
		}
		<-tick.C
		mu.Lock()
		sent[run+n] = time.Now()
		mu.Unlock()
		if _, err := conn.WriteTo(p.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: 67}); err != nil {
			return 0, err
		}
	}
	time.Sleep(time.Second)
	_ = conn.Close()
	reading.Wait()
	if len(took) < askers {
		return 0, fmt.Errorf("%d of %d machines were answered", len(took), askers)
	}
	slices.Sort(took)
	return float64(took[len(took)*99/100]) / float64(time.Millisecond), nil
}

// readAll has all readers read the file at once, and returns the megabytes a second of all.
func readAll(server string) (float64, error) {
	failures := make(chan error, tftpReaders)
	began := time.Now()
	for n := range tftpReaders {
		go func() { failures <- readTFTP(server, n) }()
	}
	var err error
	for range tftpReaders {
		err = errors.Join(err, <-failures)
	}
	return tftpReaders * tftpSize / 1e6 / time.Since(began).Seconds(), err
}

// readPaced has pacedRate readers a second read the file, for as long as askAll takes.
func readPaced(server string) error {
	failures := make(chan error, tftpReaders)
	tick := time.NewTicker(time.Second / pacedRate)
	defer tick.Stop()
	const all = pacedRate * askers / askRate
	for n := range all {
		go func() { failures <- readTFTP(server, n) }()
		<-tick.C
	}
	var err error
	for range all {
		err = errors.Join(err, <-failures)
	}
	return err
}

// readTFTP reads the file as the n-th reader (RFC 1350, with the block size of RFC 2348).
func readTFTP(server string, n int) error {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(192, 0, 2, byte(20+n%25))})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	to := &net.UDPAddr{IP: net.ParseIP(server), Port: 69}
	last := []byte("\x00\x01" + tftpFile + "\x00octet\x00blksize\x001428\x00")
	packet := make([]byte, 2048)
	for block, got, tries := uint16(0), 0, 0; ; {
		if _, err := conn.WriteToUDP(last, to); err != nil {
			return err
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		size, from, err := conn.ReadFromUDP(packet)
		if err != nil {
			if tries++; tries > 20 {
				return fmt.Errorf("reader %d has no answer after %d bytes: %w", n, got, err)
			}
			continue
		}
		switch kind := binary.BigEndian.Uint16(packet); {
		case kind == 6 && block == 0: // the options are accepted
			to, last = from, []byte{0, 4, 0, 0}
		case kind == 3 && binary.BigEndian.Uint16(packet[2:]) == block+1:
			block++
			tries, got, last = 0, got+size-4, binary.BigEndian.AppendUint16([]byte{0, 4}, block)
			if size-4 < 1428 {
				_, err := conn.WriteToUDP(last, to)
				if got != tftpSize {
					err = fmt.Errorf("reader %d has %d bytes", n, got)
				}
				return err
			}
		case kind == 5:
			return fmt.Errorf("reader %d: %q", n, packet[4:size])
		}
	}
}

// bootOthers boots hosts at bootRate, and returns the share of boots that are done in time.
func bootOthers() (float64, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	tick := time.NewTicker(time.Second / bootRate)
	defer tick.Stop()
	var done atomic.Int64
	var booting sync.WaitGroup
	failures := make(chan error, neighbours)
	all := int(bootRate * bootFor / time.Second)
	for n := range all {
		<-tick.C
		booting.Go(func() {
			began := time.Now()
			if err := bootOnce(client, "mac="+macOf(n%neighbours)); err != nil {
				failures <- err
			} else if time.Since(began) < inTime {
				done.Add(1)
			}
		})
	}
	booting.Wait()
	close(failures)
	return float64(done.Load()) / float64(all), <-failures
}

// bootOnce does the requests of a boot.
func bootOnce(client *http.Client, query string) error {
	for _, r := range []struct{ method, path string }{
		{http.MethodGet, "/ipxe"}, {http.MethodGet, "/api/v1/ignition"}, {http.MethodPost, "/api/v1/boot-complete"},
	} {
		req, err := http.NewRequest(r.method, "http://"+ourAddress+":8082"+r.path+"?"+query, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if _ = resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s %s: %s, %v", r.method, r.path, resp.Status, err)
		}
	}
	return nil
}
