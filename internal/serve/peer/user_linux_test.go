package peer

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// stranger is a user that no other program of this machine runs as.
const stranger = 61234

// accept listens, and returns the connection that dial makes with both its ends.
func accept(t *testing.T, network, address string, dial func(address string)) net.Conn {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if network == "unix" {
		if err := os.Chmod(address, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	dial(l.Addr().String())
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// connect dials from this process; the connection stays open.
func connect(t *testing.T, network string, from net.Addr) func(string) {
	return func(address string) {
		conn, err := (&net.Dialer{LocalAddr: from}).Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
}

// runAs starts a program of another user, which goes with the test.
func runAs(t *testing.T, uid uint32, name string, args ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can start a program of another user")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s, which is not installed", name)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

func TestUserOf(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "127.9.8.7:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			conn := accept(t, "tcp", address, connect(t, "tcp", nil))
			if uid, err := UserOf(conn); err != nil || int(uid) != os.Getuid() {
				t.Errorf("this process: user %d, %v", uid, err)
			}
		})
	}
	t.Run("another user", func(t *testing.T) {
		conn := accept(t, "tcp", "127.0.0.1:0", func(address string) {
			host, port, _ := net.SplitHostPort(address)
			runAs(t, stranger, "bash", "-c", "exec 3<>/dev/tcp/"+host+"/"+port+"; sleep 60")
		})
		if uid, err := UserOf(conn); err != nil || uid != stranger {
			t.Errorf("user %d, %v; want %d", uid, err, stranger)
		}
	})
}

func TestUserOfUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "user") // a short path that others may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	conn := accept(t, "unix", socket, connect(t, "unix", nil))
	if uid, err := UserOf(conn); err != nil || int(uid) != os.Getuid() {
		t.Errorf("this process: user %d, %v", uid, err)
	}
	socket = filepath.Join(dir, "t")
	conn = accept(t, "unix", socket, func(string) {
		runAs(t, stranger, "curl", "-s", "--unix-socket", socket, "http://localhost/")
	})
	if uid, err := UserOf(conn); err != nil || uid != stranger {
		t.Errorf("user %d, %v; want %d", uid, err, stranger)
	}
}

// TestUserOfClosedConnection: a program sends its request and is gone. Who holds
// its port afterwards did not send it.
func TestUserOfClosedConnection(t *testing.T) {
	for name, linger := range map[string]int{"closed": -1, "reset": 0} {
		t.Run(name, func(t *testing.T) {
			var client *net.TCPConn
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			// No other program connects from this address, so none takes the port in between.
			own := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 7, 6, 5)}}
			first, err := own.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			client = first.(*net.TCPConn)
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := client.SetLinger(linger); err != nil {
				t.Fatal(err)
			}
			from := client.LocalAddr()
			client.Close()
			if linger == 0 {
				connect(t, "tcp", from)(l.Addr().String()) // the port again, by another program
				if _, err := lookupOwner(tcpAddr(from), tcpAddr(l.Addr())); err != nil {
					t.Fatalf("the port is not in use again: %v", err)
				}
			}
			if uid, err := UserOf(conn); !errors.Is(err, ErrNoUser) {
				t.Errorf("user %d, %v; want none", uid, err)
			}
		})
	}
}

// TestUserOfConnectionFromElsewhere: a connection that may leave this machine is of
// no user, whoever seems to hold its other end.
func TestUserOfConnectionFromElsewhere(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		ip, ok := addr.(*net.IPNet)
		if !ok || ip.IP.To4() == nil || ip.IP.IsLoopback() {
			continue
		}
		conn := accept(t, "tcp", net.JoinHostPort(ip.IP.String(), strconv.Itoa(0)), connect(t, "tcp", nil))
		if uid, err := UserOf(conn); !errors.Is(err, ErrNoUser) {
			t.Errorf("%s: user %d, %v; want none", ip.IP, uid, err)
		}
		return
	}
	t.Skip("this machine has no address but loopback")
}
