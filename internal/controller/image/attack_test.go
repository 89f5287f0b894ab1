package image

import (
	"bytes"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/image"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/testkit"
)

// secret is what a metadata service, or the server's own API, would answer.
const secret = `{"Code": "Success", "AccessKeyId": "AKIAEXAMPLE", "SecretAccessKey": "hunter2"}`

// metadata is a server of secrets on a loopback address, which counts who asks it.
type metadata struct {
	*httptest.Server
	port string
	mu   sync.Mutex
	via  []string
}

func newMetadata(t *testing.T, address string, start func(*httptest.Server)) *metadata {
	t.Helper()
	m := &metadata{}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Skip(err) // a machine without IPv6, or without the whole of 127.0.0.0/8
	}
	m.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.via = append(m.via, r.Header.Get("Via"))
		m.mu.Unlock()
		_, _ = io.WriteString(w, secret)
	}))
	_ = m.Listener.Close()
	m.Listener, m.Config.ErrorLog = listener, log.New(io.Discard, "", 0)
	start(m.Server)
	t.Cleanup(m.Close)
	_, m.port, _ = net.SplitHostPort(listener.Addr().String())
	return m
}

// asked returns the Via header of each request.
func (m *metadata) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.via...)
}

// with sets the places that images may be downloaded from besides public ones.
func with(t *testing.T, entries ...string) func(*Controller, *kitOptions) {
	return func(_ *Controller, o *kitOptions) { o.Allow = allow(t, entries...) }
}

// onceAnHour lets what hardly passes be tried once: its error shows at once.
func onceAnHour(c *Controller, _ *kitOptions) {
	if c != nil {
		c.pace.late = doubling(time.Hour, time.Hour)
	}
}

// logged has the library log to a buffer.
func logged() (func(*Controller, *kitOptions), func() string) {
	logger, lines := logstest.Logger()
	return func(_ *Controller, o *kitOptions) { o.Logger = logger }, lines
}

// tellsNothing fails where a text has the secret in it, its digest, or where it is.
func tellsNothing(t *testing.T, text string, more ...string) {
	t.Helper()
	for _, bad := range append(more, "AKIA", "hunter2", digestOf([]byte(secret))) {
		if strings.Contains(text, bad) {
			t.Errorf("%q is in: %s", bad, text)
		}
	}
}

// TestImageURLsOfOwnMachine names servers on loopback and metadata addresses in every way
// that there is. None is asked.
func TestImageURLsOfOwnMachine(t *testing.T) {
	plain := newMetadata(t, "127.0.0.1", (*httptest.Server).Start)
	own := newMetadata(t, "127.0.0.1", (*httptest.Server).StartTLS)
	six := plain
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		_ = l.Close()
		six = newMetadata(t, "::1", (*httptest.Server).Start)
	}
	for url, want := range map[string]string{
		"http://127.0.0.1:" + plain.port:                "--allow-image-fetch=127.0.0.0/8",
		"http://127.9.9.9:" + plain.port:                "--allow-image-fetch=127.0.0.0/8",
		"https://127.0.0.1:" + own.port:                 "--allow-image-fetch=127.0.0.0/8",
		"http://localhost:" + plain.port:                "a loopback address, which --allow-image-fetch has to name as such",
		"https://localhost:" + own.port:                 "a loopback address, which --allow-image-fetch has to name as such",
		"http://[::1]:" + six.port:                      "--allow-image-fetch=::1/128",
		"http://[::ffff:127.0.0.1]:" + plain.port:       "--allow-image-fetch=127.0.0.0/8",
		"http://[::ffff:7f00:1]:" + plain.port:          "--allow-image-fetch=127.0.0.0/8",
		"http://[64:ff9b::7f00:1]:" + plain.port:        "a loopback address",
		"http://0.0.0.0:" + plain.port:                  "an unspecified address",
		"http://[::]:" + plain.port:                     "an unspecified address",
		"http://2130706433:" + plain.port:               "",
		"http://0x7f000001:" + plain.port:               "",
		"http://0177.0.0.1:" + plain.port:               "",
		"http://127.1:" + plain.port:                    "",
		"http://public.example@127.0.0.1:" + plain.port: "--allow-image-fetch=127.0.0.0/8",
		"http://169.254.169.254/latest/meta-data/":      "--allow-image-fetch=169.254.169.254/32",
		"http://[fd00:ec2::254]/latest/meta-data/":      "--allow-image-fetch=fd00:ec2::254/128",
		"http://[fe80::1%25lo]:" + plain.port:           "a link-local address",
		"http://10.0.0.1/":                              "--allow-image-fetch=10.0.0.0/8",
		"http://192.168.7.7/":                           "--allow-image-fetch=192.168.0.0/16",
	} {
		t.Run(url, func(t *testing.T) {
			k := newKit(t, with(t))
			ref := k.create("a", v1.ISCSICdromSpec{URL: url, SHA256: digestOf([]byte("guess"))})
			s := k.phase(ref, v1.PhaseError)
			if !strings.HasPrefix(s.ErrorMessage, "spec.url: ") || !strings.Contains(s.ErrorMessage, want) {
				t.Errorf("%q, want %q", s.ErrorMessage, want)
			}
			tellsNothing(t, s.ErrorMessage)
		})
	}
	for _, m := range []*metadata{plain, own, six} {
		if asked := m.asked(); len(asked) > 0 {
			t.Errorf("%s was asked %d times", m.URL, len(asked))
		}
	}
}

// TestImageRedirects follows a server that may be asked to one that may not. That one is
// not asked, and its name is not told.
func TestImageRedirects(t *testing.T) {
	m := newMetadata(t, "127.0.0.2", (*httptest.Server).Start)
	for _, to := range []string{
		"http://127.0.0.2:" + m.port, "http://[::ffff:127.0.0.2]:" + m.port, "http://169.254.169.254/latest/",
		"gopher://127.0.0.2:" + m.port,
	} {
		var told atomic.Bool
		hop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/second" {
				told.Store(r.Header.Get("Referer") != "")
				http.Redirect(w, r, to+"/vault?key=topsecret", http.StatusTemporaryRedirect)
				return
			}
			http.Redirect(w, r, "/second", http.StatusFound)
		}))
		defer hop.Close()
		k := newKit(t, with(t, "127.0.0.1"))
		ref := k.create("a", v1.ISCSICdromSpec{URL: hop.URL + "/a.iso?token=mine", SHA256: digestOf([]byte(secret))})
		s := k.phase(ref, v1.PhaseError)
		if !strings.Contains(s.ErrorMessage, "spec.url: what it redirects to is ") &&
			!strings.HasSuffix(s.ErrorMessage, "it redirects to what is neither http nor https") {
			t.Errorf("%s: %s", to, s.ErrorMessage)
		}
		tellsNothing(t, s.ErrorMessage, m.port, "127.0.0.2", "vault", "topsecret", "mine")
		if told.Load() {
			t.Error("the first URL was told to the second")
		}
	}
	if asked := m.asked(); len(asked) > 0 {
		t.Errorf("it was asked %d times", len(asked))
	}
}

// TestDigestsAreNotTold asks a server that may be asked, with a digest that is guessed:
// neither the status nor the log tells the real one. The request says that it is made for
// another.
func TestDigestsAreNotTold(t *testing.T) {
	m := newMetadata(t, "127.0.0.1", (*httptest.Server).Start)
	log, lines := logged()
	k, cat := streamKit(t, with(t, "127.0.0.1"), log)
	guess := digestOf([]byte("guess"))
	cat.publish("1", coreos.File{Role: coreos.Disk, URLs: []string{m.URL, m.URL + "/mirror"}, SHA256: guess})
	for name, spec := range map[string]v1.ISCSICdromSpec{"a": {URL: m.URL, SHA256: guess}, "b": follow()} {
		s := k.phase(k.create(name, spec), v1.PhaseError)
		if !strings.Contains(s.ErrorMessage, "the file is not taken: its SHA-256 is not "+guess) {
			t.Error(s.ErrorMessage)
		}
		tellsNothing(t, s.ErrorMessage)
	}
	testkit.Until(t, "it comes to pass", func() bool { return strings.Count(lines(), "its SHA-256 is not") >= 2 })
	tellsNothing(t, lines())
	for _, via := range m.asked() {
		if via != "1.1 glowplug" {
			t.Errorf("Via: %q", via)
		}
	}
	url := k.serve()
	k.create("up", v1.ISCSICdromSpec{})
	resp, body := send(t, http.MethodPut, url+"up/iso?sha256="+guess, strings.NewReader(secret))
	tellsNothing(t, wantStatus(t, resp, body, http.StatusUnprocessableEntity).Message)
}

// TestSecretsAsPXE is the whole way of an attack: a release whose kernel is a secret, with
// the right digest, and its file asked for as a machine would. It is refused before it is
// asked for; where the operator has allowed the place, because it is no kernel, and nothing
// of it is left on the disk.
func TestSecretsAsPXE(t *testing.T) {
	p := newPXE(t, "one")
	for _, c := range []struct {
		allow []string
		role  string
		want  string
	}{
		{nil, coreos.Kernel, "--allow-image-fetch=127.0.0.0/8"},
		{[]string{"127.0.0.1"}, coreos.Kernel, "spec.stream: the image is not taken: its kernel does not begin like"},
		{[]string{"127.0.0.1"}, coreos.Initramfs, "spec.stream: the image is not taken: its initramfs does not begin like"},
		{[]string{"127.0.0.1"}, coreos.Rootfs, "spec.stream: the image is not taken: its rootfs does not begin like"},
	} {
		t.Run(c.role, func(t *testing.T) {
			m := newMetadata(t, "127.0.0.1", (*httptest.Server).Start)
			k, cat := streamKit(t, with(t, c.allow...), onceAnHour)
			files := p.release()
			for i := range files {
				if files[i].Role == c.role {
					files[i].URLs, files[i].SHA256 = []string{m.URL}, digestOf([]byte(secret))
				}
			}
			cat.publish("1", files...)
			spec := follow()
			spec.Stream.Format = v1.FormatPXE
			ref := k.create("a", spec)
			s := k.phase(ref, v1.PhaseError)
			if !strings.Contains(s.ErrorMessage, c.want) {
				t.Error(s.ErrorMessage)
			}
			if got, err := k.readFile(ref, "", c.role); err == nil {
				t.Errorf("a machine is given %q", got)
			}
			if c.allow == nil && len(m.asked()) > 0 {
				t.Error("it was asked")
			}
			k.stop()
			k.holdsNot(secret)
		})
	}
}

// holdsNot fails where a file below the ISO directory has a text in it.
func (k *kit) holdsNot(text string) {
	k.t.Helper()
	err := filepath.WalkDir(k.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			k.t.Errorf("%s has it", path)
		}
		return err
	})
	if err != nil {
		k.t.Error(err)
	}
}

// TestSecretsOfAnEarlierRelease has a set that was taken before files were looked at. It
// is served no more, and the file that is none goes.
func TestSecretsOfAnEarlierRelease(t *testing.T) {
	p := newPXE(t, "one")
	k, cat := streamKit(t)
	cat.publish("1", p.release()...)
	spec := follow()
	spec.Stream.Format = v1.FormatPXE
	ref := k.create("a", spec)
	k.phase(ref, v1.PhaseReady)
	k.stop()
	names, _ := filepath.Glob(filepath.Join(k.dir, image.OwnDir, "0*", "kernel.*"))
	folder, was, is := filepath.Dir(names[0]), digestOf(p.files[coreos.Kernel]), digestOf([]byte(secret))
	manifest, err := os.ReadFile(filepath.Join(folder, image.ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"kernel." + is: secret,
		image.ManifestFile: strings.ReplaceAll(string(manifest), was, is)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := p.release()
	files[0].SHA256, files[0].URLs = is, []string{p.URL + "/gone"}
	p.mu.Lock()
	p.bad["gone"] = true
	p.mu.Unlock()
	cat.publish("1", files...)
	k.start()
	s := k.phase(ref, v1.PhaseError)
	if got, err := k.readFile(ref, "", coreos.Kernel); err == nil {
		t.Errorf("a machine is given %q: %+v", got, s)
	}
	testkit.Until(t, "it comes to pass", func() bool { _, err := os.Stat(filepath.Join(folder, "kernel."+is)); return os.IsNotExist(err) })
}

// TestNoISO has a server, and somebody who uploads, give a page instead of an ISO image,
// with the right digest. Nothing of it is served or kept.
func TestNoISO(t *testing.T) {
	m := newMetadata(t, "127.0.0.1", (*httptest.Server).Start)
	k := newKit(t, onceAnHour)
	downloaded := k.create("a", v1.ISCSICdromSpec{URL: m.URL, SHA256: digestOf([]byte(secret))})
	if s := k.phase(downloaded, v1.PhaseError); !strings.Contains(s.ErrorMessage, "no ISO 9660 image") {
		t.Error(s.ErrorMessage)
	}
	uploaded := k.create("b", v1.ISCSICdromSpec{})
	resp, body := send(t, http.MethodPut, k.serve()+"b/iso", strings.NewReader(secret))
	wantStatus(t, resp, body, http.StatusUnprocessableEntity)
	for _, ref := range []Ref{downloaded, uploaded} {
		if d, err := k.lib.Disk(ref, nil); err == nil {
			d.Release()
			t.Errorf("%s is served", ref)
		}
	}
	k.stop()
	k.holdsNot(secret)
}

// TestModes looks for files that other users of the machine can read, at every stage of
// what is received. The operator's own files keep their modes.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	img := isoImage("MODES", 400*sector, 5)
	hold := make(chan struct{})
	m := newMirror(t, img, func(w http.ResponseWriter, r *http.Request, img []byte) {
		_, _ = w.Write(img[:100*sector])
		w.(http.Flusher).Flush()
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}, well)
	p := newPXE(t, "one")
	k, cat := streamKit(t)
	k.stop()
	own := filepath.Join(k.dir, image.OwnDir)
	if err := os.Chmod(own, 0o755); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.MkdirAll(own, 0o755); err != nil { // of an earlier release
		t.Fatal(err)
	}
	k.write("mine.iso", img)
	k.start()
	url := k.serve()
	k.create("up", v1.ISCSICdromSpec{})
	cutUpload(t, url+"up/iso", img, 0, 250*sector)
	testkit.Until(t, "it comes to pass", func() bool { return offset(t, url+"up/iso") == 250*sector })
	half := k.create("half", m.spec())
	testkit.Until(t, "it comes to pass", func() bool { return k.counter("glowplug_images_received_bytes_total") >= 350*sector })
	k.modes(2) // .part of both, and what is known of them
	close(hold)
	k.phase(half, v1.PhaseReady)
	cat.publish("1", p.release()...)
	spec := follow()
	spec.Stream.Format = v1.FormatPXE
	k.phase(k.create("set", spec), v1.PhaseReady)
	if resp, body := send(t, http.MethodPut, url+"up/iso", bytes.NewReader(img)); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", resp.Status, body)
	}
	k.modes(7) // two images, three files, the manifest and the digests
	if info, err := os.Stat(filepath.Join(k.dir, "mine.iso")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the operator's file: %v, %v", info.Mode(), err)
	}
}

// modes fails unless there are so many own files, and all are closed to others.
func (k *kit) modes(want int) {
	k.t.Helper()
	n := 0
	err := filepath.WalkDir(filepath.Join(k.dir, image.OwnDir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has been renamed
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		mode := fs.FileMode(0o600)
		if entry.IsDir() {
			mode = 0o700
		} else {
			n++
		}
		if info.Mode().Perm() != mode {
			k.t.Errorf("%s is %s", path, info.Mode())
		}
		return nil
	})
	if err != nil || n < want {
		k.t.Errorf("%d files, %v", n, err)
	}
}
