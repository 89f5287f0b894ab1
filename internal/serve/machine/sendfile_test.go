package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"glowplug/internal/domain/iso"
	"glowplug/internal/serve/listener"
	"glowplug/internal/testkit"
)

// patchedImage is a file with other bytes in two places, and its content. failing is the error of its checks.
type patchedImage struct {
	segments []iso.Segment
	whole    []byte
	failing  atomic.Pointer[error]
}

func newPatchedImage(t *testing.T) *patchedImage {
	data := make([]byte, 5<<20)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	name := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	p := &patchedImage{whole: bytes.Clone(data)}
	at := 0
	for _, patch := range []int{100_000, 4 << 20} {
		text := []byte("linux /vmlinuz ignition.config.url=http://192.0.2.1/")
		p.segments = append(p.segments, iso.Segment{Source: file, Off: int64(at), Len: int64(patch - at)},
			iso.Segment{Len: int64(len(text)), Data: text})
		at = patch + copy(p.whole[patch:], text)
	}
	p.segments = append(p.segments, iso.Segment{Source: file, Off: int64(at), Len: int64(len(data) - at)})
	return p
}

// ReadAt implements io.ReaderAt.
func (p *patchedImage) ReadAt(b []byte, off int64) (int, error) {
	if err := p.failing.Load(); err != nil {
		return 0, *err
	}
	return bytes.NewReader(p.whole).ReadAt(b, off)
}

func (p *patchedImage) content() *imageContent {
	return &imageContent{
		SectionReader: io.NewSectionReader(p, 0, int64(len(p.whole))),
		next: func(off, n int64) (iso.Segment, error) {
			i := 0
			for off >= p.segments[i].Len {
				off -= p.segments[i].Len
				i++
			}
			_, rest := p.segments[i].Split(off)
			first, _ := rest.Split(n)
			if err := p.failing.Load(); err != nil {
				return first, *err
			}
			return first, nil
		},
	}
}

// kernelServer serves a content behind the connections of the server for machines.
type kernelServer struct {
	testkit.KernelListener
	url     string
	answers chan *response // that were given
}

func newKernelServer(t *testing.T, content func() io.ReadSeeker) *kernelServer {
	t.Helper()
	s := &kernelServer{answers: make(chan *response, 100)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(hw http.ResponseWriter, r *http.Request) {
		w := &response{ResponseWriter: hw, head: r.Method == http.MethodHead}
		w.Header().Set("Etag", `"one"`)
		w.Header().Set("Content-Type", bytesType)
		http.ServeContent(w, r, "", time.Time{}, content())
		s.answers <- w
	}))
	s.Listener = server.Listener
	bounds := listener.Bounds{Open: 10, Source: func(net.Addr) string { return "" }}
	server.Listener = Coalesce(listener.Heads(listener.Unstalled(listener.Bounded(&s.KernelListener, bounds))))
	server.Start()
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func download(t *testing.T, url string, headers ...string) (*http.Response, []byte, error) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

// TestKernelSendsImages: what an image has in its file is sent by the kernel, what is set in it is in its place, and
// only the end is copied. So are ranges.
func TestKernelSendsImages(t *testing.T) {
	p := newPatchedImage(t)
	s := newKernelServer(t, func() io.ReadSeeker { return p.content() })
	size := len(p.whole)
	for _, c := range []struct {
		from, to int // the range; all of the image where to is 0
		least    int // sent by the kernel
	}{
		{0, 0, size - 10_000}, {99_990, 4<<20 + 10, 4<<20 - 120_000}, {100_010, 600_000, 490_000}, {1 << 20, 1<<20 + 999, 0},
		{size - 70_000, size - 1, 60_000}, {100_000, 100_020, 0},
	} {
		var headers []string
		want, status := p.whole, http.StatusOK
		if c.to > 0 {
			headers = []string{"Range", fmt.Sprintf("bytes=%d-%d", c.from, c.to), "If-Range", `"one"`}
			want, status = p.whole[c.from:c.to+1], http.StatusPartialContent
		}
		s.Sent.Store(0)
		resp, got, err := download(t, s.url, headers...)
		if err != nil || resp.StatusCode != status || !bytes.Equal(got, want) {
			t.Errorf("%+v: %s, %v, %d bytes, the right ones: %t", c, resp.Status, err, len(got), bytes.Equal(got, want))
		}
		if sent := int(s.Sent.Load()); sent < c.least || sent > len(want) {
			t.Errorf("%+v: the kernel has sent %d bytes, want at least %d", c, sent, c.least)
		}
	}
}

// TestChangedImageBreaksOff: an answer with a part of a file that has changed meanwhile is not complete.
func TestChangedImageBreaksOff(t *testing.T) {
	p := newPatchedImage(t)
	s := newKernelServer(t, func() io.ReadSeeker {
		content := p.content()
		inner := content.next
		content.next = func(off, n int64) (iso.Segment, error) {
			if off > 4<<20 { // the last part: what comes is the end
				defer func() { err := errors.New("the file was overwritten"); p.failing.Store(&err) }()
			}
			return inner(off, n)
		}
		return content
	})
	_, got, err := download(t, s.url)
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) >= len(p.whole) || !bytes.HasPrefix(p.whole, got) {
		t.Errorf("%v after %d bytes", err, len(got))
	}
	if written := <-s.answers; written.broken == nil || written.bytes != len(got) {
		t.Errorf("the log has %v and %d bytes, want %d", written.broken, written.bytes, len(got))
	}
}
