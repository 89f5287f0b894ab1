package image

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"

	v1 "glowplug/api/v1"
	"glowplug/internal/image/download"
	"glowplug/internal/testkit"
)

// signed returns a keyring, and the signature by its key.
func signed(t *testing.T, content []byte) (*download.Keyring, []byte) {
	t.Helper()
	key, err := openpgp.NewEntity("Releases", "", "releases@g10.lo", nil)
	if err != nil {
		t.Fatal(err)
	}
	var public, signature bytes.Buffer
	if err := key.Serialize(&public); err != nil {
		t.Fatal(err)
	}
	if err := openpgp.DetachSign(&signature, key, bytes.NewReader(content), nil); err != nil {
		t.Fatal(err)
	}
	keys, err := download.ParseKeyring(public.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return keys, signature.Bytes()
}

func TestSignatures(t *testing.T) {
	img := isoImage("SIGNED", 50*sector, 1)
	keys, signature := signed(t, img)
	_, others := signed(t, img)
	_, stale := signed(t, img[1:])
	for name, c := range map[string]struct {
		signature []byte
		want      string
	}{
		"good":         {signature, ""},
		"missing":      {nil, "404 Not Found"},
		"not named":    {[]byte{}, "names no signature"},
		"by another":   {others, "by none of the keys"},
		"of others":    {stale, "by none of the keys"},
		"broken":       {append([]byte{0}, signature...), "its signature is wrong"},
		"cut":          {signature[:20], "its signature is wrong"},
		"no signature": {[]byte("<html>"), "its signature is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			k, cat := streamKit(t, func(_ *Controller, o *kitOptions) { o.Keyring = keys })
			m := newMirror(t, img, well)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.signature == nil {
					http.NotFound(w, r)
				}
				w.Write(c.signature)
			}))
			t.Cleanup(server.Close)
			f := disk(img, m.URL)
			if c.signature == nil || len(c.signature) > 0 {
				f.Signature = server.URL
			}
			cat.publish("1", f)
			ref := k.create("a", follow())
			if c.want == "" {
				k.phase(ref, v1.PhaseReady)
				return
			}
			s := k.phase(ref, v1.PhaseError)
			if !strings.Contains(s.ErrorMessage, c.want) {
				t.Errorf("%s", s.ErrorMessage)
			}
			if d, err := k.lib.Disk(ref, nil); err == nil {
				d.Release()
				t.Error("it is served all the same")
			}
			testkit.Until(t, "it comes to pass", func() bool { return k.counter("glowplug_images_transfers_total") >= 2 })
			want := 1
			if f.Signature == "" {
				want = 0 // nothing that comes could be right
			}
			if got := m.asked(); len(got) != want {
				t.Errorf("the whole was asked for %d times, not %d: %q", len(got), want, got)
			}
		})
	}
}

// A keyring that is given later holds for what is there already; what was looked at
// once is not asked for again.
func TestKeyringGivenLater(t *testing.T) {
	img := isoImage("SIGNED", 50*sector, 1)
	keys, signature := signed(t, img)
	p := newPXE(t, "one")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(signature) }))
	defer server.Close()
	m := newMirror(t, img, well)
	var use *download.Keyring
	k, c := streamKit(t, func(_ *Controller, o *kitOptions) { o.Keyring = use })
	f := disk(img, m.URL)
	f.Signature = server.URL
	c.publish("1", f)
	ref := k.create("a", pin(""))
	k.phase(ref, v1.PhaseReady)
	c.publish("1", p.release()...) // not signed
	spec := pin("")
	spec.Stream.Format = v1.FormatPXE
	files := k.create("b", spec)
	k.phase(files, v1.PhaseReady)
	k.stop()
	use = keys
	c.publish("1", f)
	k.start()
	testkit.Until(t, "it comes to pass", func() bool { return len(m.asked()) == 2 })
	testkit.Until(t, "it comes to pass", func() bool { d, err := k.lib.Disk(ref, nil); release(d); return err == nil })
	s := k.reaches(ref, "looked at", func(s v1.ISCSICdromStatus) bool { return upToDate(s) == "True" })
	if s.Phase != v1.PhaseReady || !bytes.Equal(k.read(ref), img) {
		t.Errorf("%+v", s)
	}
	if _, err := k.readFile(files, "", "kernel"); err == nil {
		t.Error("files that nobody has signed are served")
	}
	k.restart()
	testkit.Until(t, "it comes to pass", func() bool { d, err := k.lib.Disk(ref, nil); release(d); return err == nil })
	if got := m.asked(); len(got) != 2 {
		t.Errorf("asked for again: %q", got)
	}
}

// What is told of a release changes without a download.
func TestMaxIgnitionChanges(t *testing.T) {
	img := isoImage("MAX", 50*sector, 1)
	m := newMirror(t, img, well)
	k, c := streamKit(t)
	c.publish("34.20210711.3.0", disk(img, m.URL))
	ref := k.create("a", pin(""))
	k.reaches(ref, "3.2.0", func(s v1.ISCSICdromStatus) bool {
		return s.Phase == v1.PhaseReady &&
			s.MaxIgnition == "3.2.0"
	})
	c.mu.Lock()
	r := c.all["34.20210711.3.0"]
	r.MaxIgnition = "3.3.0"
	c.all["34.20210711.3.0"] = r
	c.mu.Unlock()
	c.Publish("stable")
	k.reaches(ref, "3.3.0", func(s v1.ISCSICdromStatus) bool {
		return s.Phase == v1.PhaseReady &&
			s.MaxIgnition == "3.3.0"
	})
	if got := m.asked(); len(got) != 1 {
		t.Errorf("downloaded again: %q", got)
	}
}
