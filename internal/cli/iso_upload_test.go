package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/rest"

	"glowplug/internal/client"
	imagecontroller "glowplug/internal/controller/image"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/image"
	"glowplug/internal/serve/api"
	"glowplug/internal/serve/listener"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/store/objects"
)

// imageServer is the API with a library of images behind it. A PUT of which
// more than cut bytes come is cut off there, as often as cuts says.
type imageServer struct {
	url       string
	handler   http.Handler
	cut       int64
	cuts      atomic.Int32
	puts      atomic.Int32
	busy      atomic.Pointer[string] // who reads every image
	committed atomic.Int64           // bytes of bodies
}

func newImageServer(t *testing.T) *imageServer {
	t.Helper()
	js := kvtest.JetStream(t)
	stores := map[string]storage.Interface{}
	for _, kind := range kinds.All() {
		store := kvstore.New(objects.Stored(kind), kvstore.Options{Exclusive: true})
		stores[kind.Resource] = store
		kvtest.Run(t, js, store)
	}
	api.BridgeLogs(slog.New(slog.DiscardHandler))
	library, err := image.New(image.Options{Dir: t.TempDir(), HTTPURL: "http://192.0.2.1:8082"})
	if err != nil {
		t.Fatal(err)
	}
	images := imagecontroller.New(imagecontroller.Options{Library: library, Store: stores[kinds.ISCSICdroms]})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { images.Run(ctx) })
	s := &imageServer{}
	apiServer, err := api.New(api.Options{Stores: stores, Upload: images.Upload(), InUse: func(_, _ string) []string {
		if name := s.busy.Load(); name != nil {
			return []string{*name}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	handler := apiServer.Handler(api.Listener{Admin: true, Admitted: true})
	s.handler = handler
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			s.puts.Add(1)
			body := &limitedBody{ReadCloser: r.Body, server: s, left: -1}
			if s.cuts.Add(-1) >= 0 {
				body.left = s.cut
			}
			r.Body = body
		}
		handler.ServeHTTP(w, r)
	}))
	s.url = listener.URL
	t.Cleanup(func() {
		cancel()
		stop, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		_ = apiServer.Shutdown(stop)
		listener.Close()
		running.Wait()
		_ = library.Close()
	})
	return s
}

// limitedBody ends a connection after some bytes; -1: never.
type limitedBody struct {
	io.ReadCloser
	server *imageServer
	left   int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	if b.left > 0 {
		p = p[:min(int64(len(p)), b.left)]
	}
	n, err := b.ReadCloser.Read(p)
	b.server.committed.Add(int64(n))
	if b.left > 0 {
		b.left -= int64(n)
	}
	return n, err
}

// run runs the program as Main does.
func run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Main(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// writeTestISO makes an image of size bytes, from what xorriso would write for an
// empty folder: no more than two descriptors and a root directory.
func writeTestISO(t *testing.T, size int) string {
	t.Helper()
	const sector = 2048
	img := bytes.Repeat([]byte("glowplug"), size/8)
	clear(img[:24*sector])
	both := func(b []byte, v uint32) {
		for i := range 4 {
			b[i], b[7-i] = byte(v>>(8*i)), byte(v>>(8*i))
		}
	}
	root := make([]byte, 34)
	root[0], root[25], root[28], root[31], root[32] = 34, 2, 1, 1, 1
	both(root[2:], 19)
	both(root[10:], sector)
	copy(img[16*sector:], "\x01CD001\x01")
	copy(img[16*sector+40:], "CLI                             ")
	both(img[16*sector+80:], uint32(len(img)/sector))
	copy(img[16*sector+128:], "\x00\x08\x08\x00")
	copy(img[16*sector+156:], root)
	copy(img[17*sector:], "\xffCD001\x01")
	copy(img[19*sector:], root)
	root[33] = 1
	copy(img[19*sector+34:], root)
	name := filepath.Join(t.TempDir(), "test.iso")
	if err := os.WriteFile(name, img, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestISOUpload(t *testing.T) {
	s := newImageServer(t)
	// More than an object may have.
	const size = 12 << 20
	name := writeTestISO(t, size)

	code, _, stderr := run("iso", "upload", "coreos", name, "-n", "g10", "--server", s.url)
	if code != 1 || !strings.Contains(stderr, "404") || !strings.Contains(stderr, "--create creates it there") {
		t.Errorf("without an object: %d: %s", code, stderr)
	}
	code, _, stderr = run("iso", "upload", "coreos", filepath.Join(filepath.Dir(name), "none.iso"), "--server", s.url)
	if code != 1 || !strings.Contains(stderr, "none.iso") {
		t.Errorf("without a file: %d: %s", code, stderr)
	}

	s.cut = 5 << 20
	s.cuts.Store(2)
	code, stdout, stderr := run("iso", "upload", "coreos", name, "-n", "g10", "--server", s.url, "--create")
	if code != 0 {
		t.Fatalf("%d: %s", code, stderr)
	}
	for _, want := range []string{"iscsicdrom g10/coreos: Ready, 12.0Mi, generic", "sha256: ",
		"target: iqn.2026-11.dev.glowplug:g10:coreos"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q lacks %q", stdout, want)
		}
	}
	if s.puts.Load() != 3 || s.committed.Load() != size {
		t.Errorf("%d requests, %d bytes of %d", s.puts.Load(), s.committed.Load(), size)
	}
	if strings.ContainsAny(stdout+stderr, "\r\x1b") {
		t.Errorf("a bar in a pipe: %q %q", stdout, stderr)
	}

	// Going on in another run, with the same file and with another.
	s.cut, s.puts = 5<<20, atomic.Int32{}
	s.cuts.Store(1)
	ctx, cancel := context.WithCancel(context.Background())
	c, err := (&clientOptions{server: s.url}).connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var notes bytes.Buffer
	u := &uploader{client: c, file: file, size: size, notes: &notes, namespace: "g10", name: "coreos"}
	u.bar = newProgress(&notes, name, size)
	if _, again, err := u.once(ctx); err == nil && again {
		t.Error("it was not cut off")
	}
	cancel()
	if _, err := u.run(ctx); err == nil {
		t.Error("it goes on after an interruption")
	}
	code, _, stderr = run("iso", "upload", "coreos", name, "-n", "g10", "--server", s.url)
	if code != 0 || !strings.Contains(stderr, "going on after 5.0Mi of 12.0Mi") {
		t.Errorf("%d: %s", code, stderr)
	}
	c.Close()
}

// lateReader is a transport that answers the first PUT before it has read the body,
// and reads on while the second one is sent.
type lateReader struct {
	tries   int
	reading sync.WaitGroup
	got     []byte
}

func (l *lateReader) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(code int, body string) *http.Response {
		return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
			Request: r}
	}
	switch {
	case r.Method != http.MethodPut:
		return answer(http.StatusOK, `{}`), nil
	case l.tries > 0:
		var err error
		l.got, err = io.ReadAll(r.Body)
		return answer(http.StatusOK, `{"metadata":{"name":"coreos"}}`), err
	}
	l.tries++
	begun := make(chan struct{})
	l.reading.Go(func() {
		defer r.Body.Close()
		buf := make([]byte, 1<<10)
		_, _ = r.Body.Read(buf)
		close(begun)
		for {
			time.Sleep(time.Millisecond)
			if _, err := r.Body.Read(buf); err != nil {
				return
			}
		}
	})
	<-begun
	return answer(http.StatusServiceUnavailable, `{}`), nil
}

// What a transport still reads of a try that was answered is neither counted nor
// missing from the next one.
func TestISOUploadAnsweredEarly(t *testing.T) {
	const size = 1 << 20
	name := writeTestISO(t, size)
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	transport := &lateReader{}
	c, err := client.New(&rest.Config{Host: "http://192.0.2.1", Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	u := &uploader{client: c, file: file, size: size, notes: io.Discard, namespace: "g10", name: "coreos"}
	u.bar = newProgress(io.Discard, name, size)
	if _, again, err := u.once(t.Context()); err == nil || !again {
		t.Fatalf("the first try: %v, another: %v", err, again)
	}
	if _, _, err := u.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	transport.reading.Wait()
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(transport.got, want) {
		t.Errorf("the second try sent %d bytes of %d, or others", len(transport.got), size)
	}
	if u.bar.now != size {
		t.Errorf("the bar stands at %d of %d", u.bar.now, size)
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A client that sends a large image to a CD-ROM which takes none has the whole answer before
// it has sent the image, over HTTP/1.1 and HTTP/2.
func TestRefusedUploadIsAnsweredAtOnce(t *testing.T) {
	s := newImageServer(t)
	for _, protocol := range []int{1, 2} {
		server := httptest.NewUnstartedServer(listener.Bodies(s.handler))
		server.EnableHTTP2 = protocol == 2
		server.StartTLS()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodPut,
			server.URL+"/api/v1/namespaces/g10/iscsicdroms/nobody/iso", endless{})
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = 1 << 50
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatalf("HTTP/%d: %v", protocol, err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.ProtoMajor != protocol || resp.StatusCode != http.StatusNotFound {
			t.Errorf("HTTP/%d: %v, %s over %s: %s", protocol, err, resp.Status, resp.Proto, body)
		}
		cancel()
		server.Close()
	}
}

// An image that is read is not deleted, unless forced.
func TestISODeleteInUse(t *testing.T) {
	s := newImageServer(t)
	if code, _, stderr := run("iso", "upload", "a", writeTestISO(t, 1<<20), "--create", "--server", s.url); code != 0 {
		t.Fatal(stderr)
	}
	reader := "g10/node1 (iqn.2010-04.org.ipxe:node1)"
	s.busy.Store(&reader)
	remove := func(path, body string) (int, string) {
		req, err := http.NewRequest(http.MethodDelete, s.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(answer)
	}
	const collection = "/api/v1/namespaces/default/iscsicdroms"
	for _, path := range []string{collection + "/a", collection} {
		if code, answer := remove(path, ""); code != http.StatusConflict || !strings.Contains(answer, reader) {
			t.Errorf("%s: %d: %s", path, code, answer)
		}
	}
	if code, answer := remove(collection+"/a",
		`{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}`); code != http.StatusOK {
		t.Errorf("forced: %d: %s", code, answer)
	}
}

func TestISOUsage(t *testing.T) {
	for _, args := range [][]string{{"iso", "upload"}, {"iso", "upload", "a"}, {"iso", "nothing"}} {
		if code, _, stderr := run(args...); code != 2 || !strings.HasPrefix(stderr, "error: ") {
			t.Errorf("%v: %d: %s", args, code, stderr)
		}
	}
	if code, stdout, _ := run("iso"); code != 0 || !strings.Contains(stdout, "upload") {
		t.Error(fmt.Sprint(code), stdout)
	}
}
