// Command devices stands in for systemd on its private socket, for tests of Ignition's disks
// stage: it starts a device unit when the device exists, and fails after half a second without it.
// Everything else that systemd does is left out.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/godbus/dbus/v5"
)

const patience = 500 * time.Millisecond

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: devices SOCKET")
		os.Exit(2)
	}
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var clients sync.Map // of net.Conn: all get the signals
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go serve(conn, &clients)
	}
}

// serve authenticates a client and answers its calls.
func serve(conn net.Conn, clients *sync.Map) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.Trim(line, "\x00\r\n")
		switch {
		case line == "AUTH":
			fmt.Fprint(conn, "REJECTED EXTERNAL\r\n")
		case strings.HasPrefix(line, "AUTH EXTERNAL"):
			fmt.Fprint(conn, "OK 00000000000000000000000000000000\r\n")
		case line == "BEGIN":
			clients.Store(conn, true)
			defer clients.Delete(conn)
			answer(conn, in, clients)
			return
		default:
			fmt.Fprint(conn, "ERROR\r\n")
		}
	}
}

var sending sync.Mutex

func answer(conn net.Conn, in *bufio.Reader, clients *sync.Map) {
	for {
		call, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		if call.Type != dbus.TypeMethodCall {
			continue
		}
		var body []any
		if call.Headers[dbus.FieldMember].Value() == "StartUnit" {
			job := dbus.ObjectPath(fmt.Sprintf("/org/freedesktop/systemd1/job/%d", call.Serial()))
			body = []any{job}
			name, _ := call.Body[0].(string)
			go func() {
				result := wait(unit.UnitNamePathUnescape(strings.TrimSuffix(name, ".device")))
				clients.Range(func(client, _ any) bool {
					send(client.(net.Conn), &dbus.Message{Type: dbus.TypeSignal, Headers: map[dbus.HeaderField]dbus.Variant{
						dbus.FieldPath:      dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/systemd1")),
						dbus.FieldInterface: dbus.MakeVariant("org.freedesktop.systemd1.Manager"),
						dbus.FieldMember:    dbus.MakeVariant("JobRemoved"),
					}, Body: []any{uint32(1), job, name, result}})
					return true
				})
			}()
		}
		send(conn, &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldReplySerial: dbus.MakeVariant(call.Serial()),
		}, Body: body})
	}
}

// wait returns the result of systemd's job for a device.
func wait(device string) string {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(device); err == nil {
			return "done"
		}
	}
	return "timeout"
}

func send(conn net.Conn, message *dbus.Message) {
	sending.Lock()
	defer sending.Unlock()
	if len(message.Body) > 0 {
		message.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(message.Body...))
	}
	// The serial number stays 0: nobody answers these messages. The client may have gone away.
	_ = message.EncodeTo(conn, binary.LittleEndian)
}
