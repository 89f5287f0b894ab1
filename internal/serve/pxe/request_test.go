package pxe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"testing"

	"glowplug/internal/serve/tftp"
)

// TestFilesOfRequests: GRUB reads over TFTP what a machine reads over HTTP, in its own name; a little of it again, and
// no more of it is in memory. What ends early is no file, and a client that goes away ends the request.
func TestFilesOfRequests(t *testing.T) {
	content := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(content)
	ended := make(chan error, 1)
	r := newRig(t, func(o *Options) {
		o.GRUBPath, o.ImagePath, o.Port = "/grub", "/iso/", 8082
		o.Boots = func(w http.ResponseWriter, req *http.Request) {
			local, _ := req.Context().Value(http.LocalAddrContextKey).(net.Addr)
			if req.RemoteAddr != "192.0.2.7:69" || local.String() != "192.0.2.1:8082" {
				t.Errorf("from %s to %s", req.RemoteAddr, local)
			}
			switch req.URL.Path {
			case "/grub":
				text := "echo " + req.URL.Query().Get("mac")
				w.Header().Set("Content-Length", strconv.Itoa(len(text)))
				_, _ = io.WriteString(w, text)
			case "/iso/g10/files/files/kernel":
				w.Header().Set("Content-Length", strconv.Itoa(len(content)))
				_, err := io.Copy(w, bytes.NewReader(content))
				ended <- err
			case "/iso/short":
				w.Header().Set("Content-Length", "10")
				_, _ = io.WriteString(w, "short")
			case "/iso/unknown":
				http.Error(w, "no", http.StatusForbidden)
			}
		}
	})
	open := func(name string) (tftp.File, int64) {
		t.Helper()
		file, size, err := r.open(t.Context(), name, netip.MustParseAddr("192.0.2.7"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return file, size
	}
	read := func(name string) string {
		t.Helper()
		file, size := open(name)
		defer file.Close()
		got, err := io.ReadAll(io.NewSectionReader(file, 0, size))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return string(got)
	}
	if got := read("/grub?mac=52:54:00:00:00:01"); got != "echo 52:54:00:00:00:01" {
		t.Error(got)
	}
	for _, name := range []string{"/grub/grub.cfg", "/debian-installer/amd64/grub/grub.cfg", `\\EFI\\debian\\grub.cfg`} {
		if got := read(name); !bytes.Contains([]byte(got), []byte(`configfile "(tftp,192.0.2.1)/grub?mac=${net_default_mac}&try=${try}"`)) {
			t.Errorf("%s: %s", name, got)
		}
	}

	file, size := open("/iso/g10/files/files/kernel?mac=52:54:00:00:00:01")
	if size != int64(len(content)) {
		t.Errorf("%d bytes", size)
	}
	block := make([]byte, 1468)
	for off := int64(0); off < size; off += int64(len(block)) {
		for _, at := range []int64{off, max(0, off-int64(tftp.Behind)), off} {
			part := block[:min(int64(len(block)), size-at)]
			if n, err := file.ReadAt(part, at); n < len(part) || !bytes.Equal(part, content[at:at+int64(n)]) {
				t.Fatalf("at %d: %d bytes, %v", at, n, err)
			}
		}
	}
	if kept := len(file.(*stream).kept); kept > 3*tftp.Behind {
		t.Errorf("%d bytes are kept", kept)
	}
	if err := file.Close(); err != nil || <-ended != nil {
		t.Error(err)
	}

	file, _ = open("/iso/g10/files/files/kernel")
	_, _ = file.ReadAt(block, 0)
	_ = file.Close()
	if err := <-ended; err == nil {
		t.Error("the request of a client that went away goes on")
	}
	file, size = open("/iso/short")
	if n, err := file.ReadAt(make([]byte, size), 0); err == nil || n == int(size) {
		t.Error("a short answer is a whole file")
	}
	_ = file.Close()
	for _, name := range []string{"/iso/unknown", "/iso/nothing", "/grub", "/ipxe?mac=1"} {
		_, _, err := r.open(context.Background(), name, netip.MustParseAddr("192.0.2.7"))
		if err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
