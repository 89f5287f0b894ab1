package download

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var content = bytes.Repeat([]byte("a file that is larger than one read\n"), 10_000)

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// store is a web server with one file, which answers in turn as it is told.
type store struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string
	answer []http.HandlerFunc
}

func newStore(t *testing.T, answer ...http.HandlerFunc) *store {
	s := &store{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Header.Get("Range")+" "+r.Header.Get("If-Range"))
		f := s.answer[0]
		if len(s.answer) > 1 {
			s.answer = s.answer[1:]
		}
		s.mu.Unlock()
		f(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func well(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"one"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// cut tells the whole length and hangs up after n bytes.
func cut(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"one"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		w.Write(content[:n])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func failing(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
}

func folder(t *testing.T) (Folder, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return Folder{Root: root}, dir
}

func client() *Client {
	return &Client{HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, Agent: "test",
		Idle: 200 * time.Millisecond}
}

// names are the files below a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestGet(t *testing.T) {
	root, dir := folder(t)
	gone, good := newStore(t, failing(404)), newStore(t, cut(5000), well)
	s := &Source{URLs: []string{gone.URL, good.URL}, SHA256: strings.ToUpper(sumOf(content))}
	if err := client().Get(t.Context(), root, "sub", "file", s, nil, 1<<20); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "sub", "file"))
	if err != nil || !bytes.Equal(got, content) || names(t, filepath.Join(dir, "sub")) != "file" {
		t.Errorf("%v, %d bytes, %s", err, len(got), names(t, filepath.Join(dir, "sub")))
	}
	if fmt.Sprint(good.asked) != `[  bytes=5000- "one"]` {
		t.Errorf("asked %q", good.asked)
	}
}

// What an interrupted Get leaves is gone on with, by whichever mirror; what has no
// name is no file.
func TestGetGoesOn(t *testing.T) {
	root, dir := folder(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := newStore(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		w.Write(content[:5000])
		w.(http.Flusher).Flush()
		time.Sleep(50 * time.Millisecond)
		cancel()
		<-r.Context().Done()
	})
	s := &Source{URLs: []string{first.URL}, SHA256: sumOf(content)}
	if err := client().Get(ctx, root, ".", "file", s, nil, 1000); err == nil {
		t.Fatal("an interrupted one is whole")
	}
	if got := names(t, dir); got != "file.part file.part.json" {
		t.Errorf("left: %s", got)
	}
	state, err := ReadState(root.Root, ".", "file", s.origin())
	if err != nil || state.Offset != 5000 || state.Partial() != sumOf(content[:5000]) {
		t.Errorf("%+v, %v", state, err)
	}
	second := newStore(t, well)
	s.URLs = []string{second.URL}
	if err := client().Get(t.Context(), root, ".", "file", s, nil, 1000); err != nil {
		t.Fatal(err)
	}
	// The validator was the other server's.
	if fmt.Sprint(second.asked) != `[bytes=5000- ]` || names(t, dir) != "file" {
		t.Errorf("asked %q, left %s", second.asked, names(t, dir))
	}
}

func TestGetThatFails(t *testing.T) {
	const secret = "/?token=secret"
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		source func(*Source)
		want   string
	}{
		"gone":    {failing(404), nil, "404 Not Found"},
		"corrupt": {func(w http.ResponseWriter, _ *http.Request) { w.Write(content[1:]) }, nil, "its SHA-256 is"},
		"encoded": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(content)
		}, nil, "encoded"},
		"too large": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(int64(MaxBytes)+1))
		}, nil, "at most"},
		"no location": {well, func(s *Source) { s.URLs = nil }, "no location"},
		"no URL":      {well, func(s *Source) { s.URLs = []string{"http://a b/" + secret} }, "it is no URL"},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil,
			"the server hung up"},
		"other scheme": {well, func(s *Source) { s.URLs = []string{"file:///etc/passwd"} },
			"neither an http nor an https URL"},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := folder(t)
			server := newStore(t, c.answer)
			s := &Source{URLs: []string{server.URL + secret}, SHA256: sumOf(content)}
			if c.source != nil {
				c.source(s)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			err := client().Get(ctx, root, ".", "file", s, nil, 1<<20)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v; want %q", err, c.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "file")); err == nil {
				t.Error("there is a file")
			}
		})
	}
}

// A folder is for its owner, unless it is shared: a mirror is read by web servers. What was
// there and is looser is tightened.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	for shared, want := range map[bool][]os.FileMode{false: {0o700, 0o600, 0o600}, true: {0o755, 0o644, 0o644}} {
		f, dir := folder(t)
		f.Shared = shared
		if !shared {
			if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "sub", "file"+partSuffix), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s := &Source{URLs: []string{newStore(t, well).URL}, SHA256: sumOf(content)}
		if err := client().Get(t.Context(), f, "sub", "file", s, nil, 1<<20); err != nil {
			t.Fatal(err)
		}
		if err := f.Replace("sub/small", []byte("text")); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"sub", "sub/file", "sub/small"} {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want[i] {
				t.Errorf("shared %v: %s is %v, want %v: %v", shared, name, info.Mode(), want[i], err)
			}
		}
	}
}

// Two servers that share a folder do not write into one file.
func TestBusy(t *testing.T) {
	root, dir := folder(t)
	s := &Source{URLs: []string{"http://a"}, SHA256: sumOf(content)}
	p, err := s.Open(root, ".", "file", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(content); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(root, ".", "file", 1); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	if err := p.Commit("file"); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if q, err := s.Open(root, ".", "file", 1); err != nil {
		t.Error(err)
	} else {
		q.Close()
	}
	if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("what is there was harmed: %v, %d bytes", err, len(got))
	}
}

func TestRoomAndStandstill(t *testing.T) {
	root, _ := folder(t)
	full := errors.New("the disk is full")
	c := client()
	c.Room = func(p *Part) error {
		if p.State.Total != int64(len(content)) {
			t.Errorf("asked for %d bytes", p.State.Total)
		}
		return full
	}
	s := &Source{URLs: []string{newStore(t, well).URL}, SHA256: sumOf(content)}
	if err := c.Get(t.Context(), root, ".", "file", s, nil, 1<<20); !errors.Is(err, full) || !errors.As(err,
		new(LocalError)) {
		t.Error(err)
	}
	p, err := s.Open(root, ".", "other", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	still := newStore(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write(content[:100])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	if err := client().Fill(t.Context(), p, still.URL); err == nil || !strings.Contains(err.Error(), "nothing came for") {
		t.Error(err)
	}
}

// armored returns a block as text.
func armored(t *testing.T, kind string, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := armor.Encode(&b, kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(body)
	w.Close()
	return b.Bytes()
}

func TestKeyring(t *testing.T) {
	entity := func(config *packet.Config) (*openpgp.Entity, []byte) {
		e, err := openpgp.NewEntity("a", "", "a@example.org", config)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := e.Serialize(&b); err != nil {
			t.Fatal(err)
		}
		return e, b.Bytes()
	}
	sign := func(e *openpgp.Entity, config *packet.Config) []byte {
		var b bytes.Buffer
		if err := openpgp.DetachSign(&b, e, bytes.NewReader(content), config); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	past := &packet.Config{Time: func() time.Time { return time.Now().Add(-time.Hour) }, KeyLifetimeSecs: 60}
	one, public := entity(nil)
	two, other := entity(nil)
	old, expired := entity(past)
	keyring := func(text []byte) *Keyring {
		name := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := ReadKeyring(name)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	text := append(append([]byte("# keys of the releases\n"), armored(t, openpgp.PublicKeyType, public)...), '\n')
	text = append(text, armored(t, openpgp.PublicKeyType, other)...)
	for name, c := range map[string]struct {
		keys      *Keyring
		signature []byte
		want      string
	}{
		"binary":            {keyring(append(public, other...)), sign(two, nil), ""},
		"armored keys":      {keyring(text), sign(two, nil), ""},
		"armored signature": {keyring(public), armored(t, openpgp.SignatureType, sign(one, nil)), ""},
		"armored key":       {keyring(public), armored(t, openpgp.PublicKeyType, public), "no PGP SIGNATURE"},
		"another's":         {keyring(public), sign(two, nil), "by none of the keys"},
		"expired":           {keyring(expired), sign(old, past), "expired"},
		"nothing":           {keyring(public), nil, "by none of the keys"},
		"a key":             {keyring(public), public, "wrong"},
	} {
		err := c.keys.Verify(bytes.NewReader(content), c.signature)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	if err := keyring(public).Verify(bytes.NewReader(content[1:]), sign(one, nil)); err == nil ||
		!strings.Contains(err.Error(), "wrong") {
		t.Errorf("of other bytes: %v", err)
	}
	var private bytes.Buffer
	if err := one.SerializePrivate(&private, nil); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"empty": nil, "text": []byte("hello"), "cut": text[:300], "a signature": sign(one, nil), "private": private.Bytes(),
	} {
		if _, err := ParseKeyring(bad); err == nil {
			t.Errorf("%s is taken for a keyring", name)
		}
	}
	if _, err := ReadKeyring(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there")
	}
}

// FuzzKeyring proves that any content of a keyring or a signature is an error at
// the most.
func FuzzKeyring(f *testing.F) {
	f.Add([]byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nxx\n-----END PGP PUBLIC KEY BLOCK-----"),
		[]byte("-----BEGIN PGP SIGNATURE-----\n"))
	f.Add([]byte{0x99, 0x01, 0x0d}, []byte{0xc2, 0x04})
	e, err := openpgp.NewEntity("a", "", "a@example.org", nil)
	if err != nil {
		f.Fatal(err)
	}
	var public, signature bytes.Buffer
	_ = e.Serialize(&public)
	_ = openpgp.DetachSign(&signature, e, strings.NewReader("x"), nil)
	f.Add(public.Bytes(), signature.Bytes())
	f.Fuzz(func(t *testing.T, keys, signature []byte) {
		k, err := ParseKeyring(keys)
		if err != nil {
			return
		}
		_ = k.Verify(strings.NewReader("y"), signature)
	})
}

// A server that sends a byte now and then is left for the next mirror, which goes on
// with what it brought.
func TestASlowMirror(t *testing.T) {
	root, dir := folder(t)
	slow := newStore(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		for i := range content {
			w.Write(content[i : i+1])
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	good := newStore(t, well)
	c := client()
	c.Idle = 50 * time.Millisecond
	s := &Source{URLs: []string{slow.URL, good.URL}, SHA256: sumOf(content)}
	if err := c.Get(t.Context(), root, ".", "file", s, nil, 1<<20); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%v, %d bytes", err, len(got))
	}
	if len(good.asked) != 1 || !strings.HasPrefix(good.asked[0], "bytes=") {
		t.Errorf("asked %q", good.asked)
	}
	alone := &Source{URLs: []string{slow.URL}, SHA256: sumOf(content)}
	p, err := alone.Open(root, ".", "alone", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := c.Round(t.Context(), p, alone, nil, 0); !errors.Is(err, ErrSlow) || !strings.HasSuffix(err.Error(),
		"less than 128 KiB in 100ms") {
		t.Error(err)
	}
}

// One that does not say how long its file is takes no more room than there is, and
// gives it back.
func TestAnEndlessMirror(t *testing.T) {
	root, dir := folder(t)
	block := make([]byte, 1<<20)
	endless := newStore(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	good := newStore(t, well)
	c := client()
	most := int64(0)
	c.Room = func(p *Part) error {
		most = max(most, p.State.Offset)
		if p.State.Offset >= 40<<20 {
			return errors.New("40 MB are too much")
		}
		return nil
	}
	alone := &Source{URLs: []string{endless.URL}, SHA256: sumOf(content)}
	p, err := alone.Open(root, ".", "alone", 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, err = c.Round(t.Context(), p, alone, nil, 0)
	if !IsPermanent(err) || err.Error() != "the server does not say how long it is, and there is no room for more: 40 MB are too much" {
		t.Error(err)
	}
	if info, err := p.Stat(); err != nil || info.Size() != 0 || most < 40<<20 || most > 40<<20+2*roomStep {
		t.Errorf("%v: %d bytes are left, there were %d", err, info.Size(), most)
	}
	s := &Source{URLs: []string{endless.URL, good.URL}, SHA256: sumOf(content)}
	if err := c.Get(t.Context(), root, ".", "file", s, nil, 64<<20); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%v, %d bytes", err, len(got))
	}
}

// What would be refused in the end is not downloaded first.
func TestNothingSignedIsNotAskedFor(t *testing.T) {
	root, _ := folder(t)
	good := newStore(t, well)
	s := &Source{URLs: []string{good.URL}, SHA256: sumOf(content)}
	err := client().Get(t.Context(), root, ".", "file", s, &Keyring{}, 1<<20)
	if !IsPermanent(err) || !strings.Contains(err.Error(), "names no signature") || len(good.asked) > 0 {
		t.Errorf("%v; asked %q", err, good.asked)
	}
}
