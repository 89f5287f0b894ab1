package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	pin "github.com/pin/tftp/v3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRequests is the table of first packets.
func TestRequests(t *testing.T) {
	for packet, want := range map[string]string{
		"\x00\x01snponly.efi\x00octet\x00":                              "snponly.efi 512 1 0",
		"\x00\x01a\x00OCTET\x00tsize\x000\x00blksize\x001468\x00":       "a 1468 1 0 oack blksize=1468 tsize=7",
		"\x00\x01a\x00octet\x00blksize\x0065464\x00windowsize\x004\x00": "a 1468 4 0 oack blksize=1468 windowsize=4",
		"\x00\x01a\x00octet\x00WindowSize\x0064\x00timeout\x003\x00":    "a 512 16 3 oack windowsize=16 timeout=3",
		"\x00\x01a\x00octet\x00multicast\x00\x00blksize\x001\x00":       "a 512 1 0",
		"\x00\x01a\x00octet\x00blksize\x00512\x00blksize\x00600\x00":    "a 512 1 0 oack blksize=512",
		"\x00\x01a\x00octet\x00\x00\x00\x00\x00":                        "a 512 1 0", // padded
		"\x00\x01a\x00octet\x00blksize\x00":                             "a 512 1 0",
		"\x00\x01a\x00netascii\x00":                                     errMode.Error(),
		"\x00\x02a\x00octet\x00":                                        errWrite.Error(),
		"\x00\x03a\x00octet\x00":                                        errIllegal.Error(),
		"\x00\x01\x00octet\x00":                                         errShort.Error(),
		"\x00\x01a\x00octet":                                            errShort.Error(),
		"\x00\x01" + strings.Repeat("a", 256) + "\x00octet\x00":         errShort.Error(),
		"\x00": errShort.Error(), "": errShort.Error(),
	} {
		if diff := cmp.Diff(want, described(packet)); diff != "" {
			t.Errorf("%q: %s", packet, diff)
		}
	}
}

// described reads a first packet, and describes the request.
func described(packet string) string {
	r, err := parse([]byte(packet))
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s %d %d %d", r.name, r.block, r.window, r.timeout)
	if oack := r.oack(7); oack != nil {
		text += " oack"
		fields := strings.Split(strings.TrimSuffix(string(oack[2:]), "\x00"), "\x00")
		for ; len(fields) >= 2; fields = fields[2:] {
			text += " " + fields[0] + "=" + fields[1]
		}
	}
	return text
}

// FuzzRequest: no packet makes more of a request than its bounds.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("\x00\x01a\x00octet\x00tsize\x000\x00blksize\x001468\x00windowsize\x004\x00"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		r, err := parse(packet)
		if err != nil {
			return
		}
		if len(r.name) > maxName || r.block < minBlock || r.block > maxBlock || r.window < 1 || r.window > maxWindow ||
			r.timeout < 0 || r.timeout > 255 || len(r.accepted) > 3 {
			t.Errorf("%+v", r)
		}
	})
}

// memory is a file in memory.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// serve serves files at a port of the loopback interface.
func serve(t testing.TB, files map[string][]byte) *net.UDPAddr {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{
		Open: func(_ context.Context, name string, _ netip.Addr) (File, int64, error) {
			content, ok := files[name]
			if !ok {
				return nil, 0, errors.New("there is none")
			}
			return memory{bytes.NewReader(content)}, int64(len(content)), nil
		},
		Dial: func(ctx context.Context, client netip.AddrPort) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp4", client.String())
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(ctx, conn); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); serving.Wait() })
	return conn.LocalAddr().(*net.UDPAddr)
}

// read reads a file with another implementation.
func read(address, name string, block int) ([]byte, error) {
	client, err := pin.NewClient(address)
	if err != nil {
		return nil, err
	}
	if block > 0 {
		client.SetBlockSize(block)
	}
	client.SetRetries(20)
	client.SetTimeout(time.Second)
	transfer, err := client.Receive(name, "octet")
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	_, err = transfer.WriteTo(&content)
	return content.Bytes(), err
}

func content(size int) []byte {
	random := rand.NewChaCha8([32]byte{byte(size)})
	b := make([]byte, size)
	_, _ = random.Read(b)
	return b
}

// TestTransfers: files of every length at the edge of a block, and one of more blocks than their number counts, come
// whole.
func TestTransfers(t *testing.T) {
	files := map[string][]byte{}
	for _, size := range []int{0, 1, 511, 512, 513, 1468, 2936, 1 << 20, 512 * 65_540} {
		files[fmt.Sprint(size)] = content(size)
	}
	address := serve(t, files).String()
	for name, want := range files {
		for _, block := range []int{0, 1468} {
			got, err := read(address, name, block)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s in blocks of %d: %d bytes, %v", name, block, len(got), err)
			}
		}
	}
	if _, err := read(address, "missing", 0); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing file: %v", err)
	}
}

// TestManyClients: 200 clients read at once.
func TestManyClients(t *testing.T) {
	want := content(200_000)
	address := serve(t, map[string][]byte{"loader": want}).String()
	var clients sync.WaitGroup
	var refused atomic.Int64
	for range 200 {
		clients.Go(func() {
			for { // of one address, only some at the same time
				got, err := read(address, "loader", 1468)
				if err != nil && strings.Contains(err.Error(), errFull.Error()) {
					refused.Add(1)
					continue
				}
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				return
			}
		})
	}
	clients.Wait()
	t.Logf("%d requests were refused", refused.Load())
}

// TestWindows: a client with a window gets as many blocks without an answer, and after the loss of one of them goes on
// after the last one that it has in order (RFC 7440, section 4). Its packets are written by hand.
func TestWindows(t *testing.T) {
	want := content(512*9 + 100)
	client := newClient(t, serve(t, map[string][]byte{"loader": want}))
	client.send("\x00\x01loader\x00octet\x00windowsize\x004\x00")
	client.wants("\x00\x06windowsize\x004\x00")
	client.send("\x00\x04\x00\x00")
	block := func(n int) string {
		return "\x00\x03\x00" + string(rune(n)) + string(want[(n-1)*512:min(n*512, len(want))])
	}
	for n := range 4 {
		client.wants(block(n + 1))
	}
	client.send("\x00\x04\x00\x02") // block 3 was lost
	for n := range 4 {
		client.wants(block(n + 3))
	}
	client.send("\x00\x04\x00\x02") // the answer of before, once more, starts nothing
	client.send("\x00\x04\x00\x06")
	for n := range 4 {
		client.wants(block(n + 7))
	}
	client.send("\x00\x04\x00\x0a")
}

// client is one whose packets are written by hand.
type client struct {
	t    *testing.T
	conn *net.UDPConn
	peer *net.UDPAddr
}

func newClient(t *testing.T, server *net.UDPAddr) *client {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{t, conn, server}
}

func (c *client) send(packet string) {
	c.t.Helper()
	if _, err := c.conn.WriteToUDP([]byte(packet), c.peer); err != nil {
		c.t.Fatal(err)
	}
}

// wants reads a packet, whose sender gets the next ones.
func (c *client) wants(want string) {
	c.t.Helper()
	packet := make([]byte, 2000)
	n, from, err := c.conn.ReadFromUDP(packet)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.peer = from; string(packet[:n]) != want {
		c.t.Fatalf("%.20q (%d bytes), want %.20q (%d bytes)", packet[:n], n, want, len(want))
	}
}

// TestTransfersOverABadLine: a relay between client and server drops a tenth of the packets.
func TestTransfersOverABadLine(t *testing.T) {
	want := content(20_000)
	server := serve(t, map[string][]byte{"loader": want})
	var clients sync.WaitGroup
	for seed := range uint64(4) {
		clients.Go(func() {
			got, err := read(lossy(t, server, seed), "loader", 1468)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	clients.Wait()
}

// lossy relays between one client and the server, and drops a tenth of the packets.
func lossy(t *testing.T, server *net.UDPAddr, seed uint64) string {
	listen := func() *net.UDPConn {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Error(err)
		}
		return conn
	}
	near, far := listen(), listen()
	random := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	var client, peer *net.UDPAddr
	peer = server
	relay := func(from, to *net.UDPConn, learn, known **net.UDPAddr) {
		packet := make([]byte, 2000)
		for {
			n, sender, err := from.ReadFromUDP(packet)
			if err != nil {
				return
			}
			mu.Lock()
			*learn = sender
			address, isLost := *known, random.IntN(10) == 0
			mu.Unlock()
			if !isLost {
				_, _ = to.WriteToUDP(packet[:n], address)
			}
		}
	}
	var relays sync.WaitGroup
	relays.Go(func() { relay(near, far, &client, &peer) })
	relays.Go(func() { relay(far, near, &peer, &client) })
	t.Cleanup(func() { near.Close(); far.Close(); relays.Wait() })
	return near.LocalAddr().String()
}

// TestTransfersAreBounded: of one source, and in all. A request that is repeated begins nothing, and one of a client
// that was reset begins anew. What is sent in the name of an address that does not answer makes room for those that do.
func TestTransfersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		address := func(n, port int) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(n >> 8), byte(n)}), uint16(port))
		}
		ended := map[netip.AddrPort]bool{}
		begin := func(n, port int, isAnswered bool) error {
			slot, err := s.begin(address(n, port), func() { ended[address(n, port)] = true })
			if err == nil && isAnswered {
				slot.answered.Store(true)
			}
			return err
		}
		for port := range maxPerSource {
			if err := begin(1, port, port > 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := begin(1, 0, false); !errors.Is(err, errAsked) || len(ended) > 0 {
			t.Errorf("a request that is repeated: %v", err)
		}
		if err := begin(1, 3, true); err != nil || !ended[address(1, 3)] {
			t.Errorf("a client that was reset: %v, ended %v", err, ended)
		}
		if err := begin(1, 100, true); !errors.Is(err, errFull) {
			t.Errorf("beside one that may answer yet: %v", err)
		}
		time.Sleep(2 * firstWait)
		if err := begin(1, 100, true); err != nil || !ended[address(1, 0)] {
			t.Errorf("beside one that does not answer: %v, ended %v", err, ended)
		}
		if err := begin(1, 101, true); !errors.Is(err, errFull) {
			t.Errorf("beside others that have: %v", err)
		}
		for n := range maxTransfers - maxPerSource {
			if err := begin(100+n, 1, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := begin(99, 1, true); !errors.Is(err, errFull) {
			t.Errorf("beside many that may answer yet: %v", err)
		}
		time.Sleep(2 * firstWait)
		err := begin(99, 1, true)
		if err != nil || len(s.slots) != maxTransfers || s.sources[address(1, 0).Addr()] != maxPerSource {
			t.Errorf("beside many that do not answer: %v, %d are open", err, len(s.slots))
		}
	})
}

// TestOtherPacketsGetNoAnswer: two servers that answered each other's errors would do so for ever.
func TestOtherPacketsGetNoAnswer(t *testing.T) {
	client := newClient(t, serve(t, map[string][]byte{"loader": content(10)}))
	for _, packet := range []string{
		"\x00\x05\x00\x04not a read request\x00", "\x00\x03\x00\x01x", "\x00\x04\x00\x00", "x", "\x00\x01a",
	} {
		client.send(packet)
	}
	client.send("\x00\x02loader\x00octet\x00")
	client.wants(string(failure(codeAccess, errWrite.Error())))
}

// TestAFileThatShrinks: a file that is changed while it is sent is not sent as if it were whole.
func TestAFileThatShrinks(t *testing.T) {
	conn, other := net.Pipe()
	defer other.Close()
	go func() { _, _ = io.Copy(io.Discard, other) }()
	transfer := &transfer{
		conn: conn, request: &request{block: 512, window: 1}, file: bytes.NewReader(content(600)), size: 2000,
		packet: make([]byte, 516),
	}
	if err := transfer.window(0, 1); err != nil {
		t.Error(err)
	}
	if err := transfer.window(1, 2); err == nil {
		t.Error("a block is made up")
	}
}

// TestTheLastAnswerIsMissing: a client that has answered until the last packet has the file. GRUB does not always
// answer that. One that falls silent before does not have it.
func TestTheLastAnswerIsMissing(t *testing.T) {
	for answers, want := range map[int]error{3: nil, 2: nil, 1: errSilent} {
		synctest.Test(t, func(t *testing.T) {
			conn, client := net.Pipe()
			var reading sync.WaitGroup
			reading.Go(func() {
				packet := make([]byte, 1000)
				for n := 0; ; n++ {
					if _, err := client.Read(packet); err != nil {
						return
					}
					if n < answers {
						_, _ = client.Write(append([]byte{0, opAck}, packet[2:4]...))
					}
				}
			})
			transfer := &transfer{
				conn: conn, request: &request{block: 512, window: 1}, file: bytes.NewReader(content(1200)),
				size: 1200, answered: func() {},
			}
			if err := transfer.run(t.Context()); !errors.Is(err, want) {
				t.Errorf("%d answers: %v", answers, err)
			}
			_ = conn.Close()
			reading.Wait()
		})
	}
}
