package image

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/image"
	"glowplug/internal/testkit"
)

// mirror is a web server with one image and bad habits.
type mirror struct {
	*httptest.Server
	mu sync.Mutex
	// answer is asked in turn; the last one again and again.
	answer []func(w http.ResponseWriter, r *http.Request, img []byte)
	img    []byte
	ranges []string
}

func newMirror(t *testing.T, img []byte, answer ...func(http.ResponseWriter, *http.Request, []byte)) *mirror {
	m := &mirror{img: img, answer: answer}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.ranges = append(m.ranges, r.Header.Get("Range"))
		f := m.answer[0]
		if len(m.answer) > 1 {
			m.answer = m.answer[1:]
		}
		img := m.img
		m.mu.Unlock()
		f(w, r, img)
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *mirror) spec() v1.ISCSICdromSpec {
	return v1.ISCSICdromSpec{URL: m.URL + "/a.iso?token=secret", SHA256: strings.ToUpper(digestOf(m.img))}
}

func (m *mirror) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.ranges)
}

func well(w http.ResponseWriter, r *http.Request, img []byte) {
	w.Header().Set("ETag", `"one"`)
	http.ServeContent(w, r, "a.iso", time.Time{}, bytes.NewReader(img))
}

func status(code int) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) { http.Error(w, "the body of an error", code) }
}

// cutAt tells the whole length, sends n bytes from where it was asked for, and
// hangs up.
func cutAt(n int) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, r *http.Request, img []byte) {
		from, code := 0, http.StatusOK
		if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
			from, _ = strconv.Atoi(strings.TrimSuffix(text, "-"))
			code = http.StatusPartialContent
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(img)-1, len(img)))
		}
		w.Header().Set("ETag", `"one"`)
		w.Header().Set("Content-Length", strconv.Itoa(len(img)-from))
		w.WriteHeader(code)
		w.Write(img[from : from+n])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestDownload(t *testing.T) {
	img := isoImage("DOWN", 400*sector, 5)
	other := slices.Clone(img)
	other[len(other)-1]++
	for name, c := range map[string]struct {
		answer []func(http.ResponseWriter, *http.Request, []byte)
		ranges []string
	}{
		"at once": {[]func(http.ResponseWriter, *http.Request, []byte){well}, []string{""}},
		"cut off": {[]func(http.ResponseWriter, *http.Request, []byte){cutAt(100 * sector), cutAt(1000), well},
			[]string{"", "bytes=204800-", "bytes=205800-"}},
		"cut at zero": {[]func(http.ResponseWriter, *http.Request, []byte){cutAt(0), well}, []string{"", ""}},
		"recovers": {[]func(http.ResponseWriter, *http.Request, []byte){status(503), status(429), well}, []string{"", "",
			""}},
		"appears": {[]func(http.ResponseWriter, *http.Request, []byte){status(404), well}, []string{"", ""}},
		"no ranges": {[]func(http.ResponseWriter, *http.Request, []byte){cutAt(5000), func(w http.ResponseWriter,
			_ *http.Request, img []byte) {
			w.Write(img)
		}}, []string{"", "bytes=5000-"}},
		"another by now": {[]func(http.ResponseWriter, *http.Request, []byte){func(w http.ResponseWriter, r *http.Request,
			_ []byte) {
			cutAt(5000)(w, r, other)
		},
			func(w http.ResponseWriter, r *http.Request, img []byte) {
				w.Header().Set("ETag", `"two"`) // so that If-Range gives the whole
				http.ServeContent(w, r, "a.iso", time.Time{}, bytes.NewReader(img))
			}}, []string{"", "bytes=5000-"}},
		"wrong range": {[]func(http.ResponseWriter, *http.Request, []byte){cutAt(5000), func(w http.ResponseWriter,
			_ *http.Request, img []byte) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(img)-1, len(img)))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(img)
		}, well}, []string{"", "bytes=5000-", ""}},
		"shorter by now": {[]func(http.ResponseWriter, *http.Request, []byte){cutAt(5000), status(416), well},
			[]string{"", "bytes=5000-", ""}},
		"unknown length": {[]func(http.ResponseWriter, *http.Request, []byte){func(w http.ResponseWriter, _ *http.Request,
			img []byte) {
			w.Write(img[:1000])
			w.(http.Flusher).Flush()
			w.Write(img[1000:])
		}}, []string{""}},
		"patched together": {[]func(http.ResponseWriter, *http.Request, []byte){cutAt(5000), func(w http.ResponseWriter,
			r *http.Request, _ []byte) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 5000-%d/%d", len(other)-1, len(other)))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(other[5000:])
		}, well}, []string{"", "bytes=5000-", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			m := newMirror(t, img, c.answer...)
			ref := k.create("a", m.spec())
			s := k.phase(ref, v1.PhaseReady)
			if s.SHA256 != digestOf(img) || !bytes.Equal(k.read(ref), img) {
				t.Errorf("not the image: %+v", s)
			}
			if got := m.asked(); !slices.Equal(got, c.ranges) {
				t.Errorf("asked %q, want %q", got, c.ranges)
			}
			if n := k.counter("glowplug_images_hashed_bytes_total"); n != 0 {
				t.Errorf("a download was read again: %v bytes", n)
			}
			if left, _ := filepath.Glob(filepath.Join(k.dir, image.OwnDir, "*", "*")); len(left) != 1 {
				t.Errorf("left over: %v", left)
			}
			k.restart()
			testkit.Until(t, "it comes to pass", func() bool { d, err := k.lib.Disk(ref, nil); release(d); return err == nil })
			if got := m.asked(); len(got) != len(c.ranges) {
				t.Errorf("downloaded again after a restart: %q", got)
			}
		})
	}
}

func TestDownloadsThatFail(t *testing.T) {
	img := isoImage("DOWN", 400*sector, 5)
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, []byte)
		want   string
	}{
		"gone":       {status(404), "404 Not Found"},
		"forbidden":  {status(403), "403 Forbidden"},
		"broken":     {status(500), "500 Internal Server Error"},
		"always cut": {cutAt(0), "cut off after 0 bytes"},
		"corrupt": {func(w http.ResponseWriter, r *http.Request, img []byte) {
			well(w, r, append(slices.Clone(img[:len(img)-1]), 'x'))
		}, "its SHA-256 is not "},
		"claims less": {func(w http.ResponseWriter, r *http.Request, img []byte) { well(w, r, img[:200*sector]) },
			"its SHA-256 is not "},
		"claims more": {func(w http.ResponseWriter, r *http.Request, img []byte) {
			w.Header().Set("Content-Length", strconv.Itoa(len(img)+10))
			w.Write(img)
		}, "cut off after"},
		"encoded": {func(w http.ResponseWriter, r *http.Request, img []byte) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(img)
		}, "encoded"},
		"nothing": {func(w http.ResponseWriter, r *http.Request, img []byte) { w.WriteHeader(http.StatusNoContent) },
			"204 No Content"},
		"stands still": {func(w http.ResponseWriter, r *http.Request, img []byte) {
			w.Write(img[:4096])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "nothing came for"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, func(c *Controller, _ *kitOptions) {
				if c != nil {
					c.pace.idle = 100 * time.Millisecond
				}
			})
			good := isoImage("GOOD", 50*sector, 1)
			first := newMirror(t, good, well)
			ref := k.create("a", first.spec())
			k.phase(ref, v1.PhaseReady)
			m := newMirror(t, img, c.answer)
			k.update(ref, func(cdrom *v1.ISCSICdrom) {
				cdrom.Spec.URL, cdrom.Spec.SHA256 = m.spec().URL, m.spec().SHA256
			})
			s := k.reaches(ref, "an error", func(s v1.ISCSICdromStatus) bool {
				return s.Phase == v1.PhaseError && strings.Contains(s.ErrorMessage, c.want)
			})
			if strings.Contains(s.ErrorMessage, "secret") || strings.Contains(s.ErrorMessage, "the body of") {
				t.Errorf("%q tells too much", s.ErrorMessage)
			}
			testkit.Until(t, "it comes to pass", func() bool { return len(m.asked()) >= 2 }) // it tries again
			if s.SHA256 != digestOf(good) || !bytes.Equal(k.read(ref), good) {
				t.Errorf("the good image was harmed: %+v", s)
			}
			k.update(ref, func(cdrom *v1.ISCSICdrom) {
				cdrom.Spec.URL, cdrom.Spec.SHA256 = first.spec().URL, first.spec().SHA256
			})
			if s := k.phase(ref, v1.PhaseReady); s.ErrorMessage != "" {
				t.Errorf("back to what was: %+v", s)
			}
			if got := first.asked(); len(got) != 1 {
				t.Errorf("what was there is downloaded again: %q", got)
			}
		})
	}
}

// A server whose first answer has more than the second one says is asked less and
// less often, though each time much comes.
func TestDownloadThatBeginsAnewAgainAndAgain(t *testing.T) {
	img := isoImage("DOWN", 400*sector, 5)
	k := newKit(t, func(c *Controller, _ *kitOptions) {
		if c != nil {
			c.pace.soon = doubling(time.Millisecond, time.Minute)
		}
	})
	m := newMirror(t, img, func(w http.ResponseWriter, r *http.Request, img []byte) {
		if r.Header.Get("Range") != "" {
			well(w, r, img)
			return
		}
		w.Header().Set("ETag", `"one"`)
		w.Header().Set("Content-Length", strconv.Itoa(len(img)+100))
		w.Write(img)
	})
	began := time.Now()
	k.create("a", m.spec())
	tries := func() float64 { return k.counter("glowplug_images_transfers_total") }
	testkit.Until(t, "it comes to pass", func() bool { return tries() >= 9 })
	// The pauses after them double from a millisecond, but for a quarter.
	if took := time.Since(began); took < 180*time.Millisecond {
		t.Errorf("nine tries in %v", took)
	}
}

func TestDownloadOfAServerThatIsAway(t *testing.T) {
	img := isoImage("DOWN", 0, 5)
	m := newMirror(t, img, well)
	k := newKit(t)
	spec := m.spec()
	spec.URL = "http://127.0.0.1:1/a.iso?token=secret"
	ref := k.create("a", spec)
	s := k.phase(ref, v1.PhaseError)
	if !strings.Contains(s.ErrorMessage, "refused") || strings.Contains(s.ErrorMessage, "secret") {
		t.Error(s.ErrorMessage)
	}
	k.update(ref, func(cdrom *v1.ISCSICdrom) { cdrom.Spec.URL = m.spec().URL })
	k.phase(ref, v1.PhaseReady)
	// Without its source the file is as good as one that was uploaded.
	k.update(ref, func(cdrom *v1.ISCSICdrom) { cdrom.Spec.URL, cdrom.Spec.SHA256 = "", "" })
	k.phase(ref, v1.PhaseReady)
}

func TestDownloadGoesOnAfterARestart(t *testing.T) {
	img := isoImage("DOWN", 400*sector, 5)
	hold := make(chan struct{})
	m := newMirror(t, img, func(w http.ResponseWriter, r *http.Request, img []byte) {
		w.Header().Set("ETag", `"one"`)
		w.Header().Set("Content-Length", strconv.Itoa(len(img)))
		w.Write(img[:100*sector])
		w.(http.Flusher).Flush()
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}, well)
	defer close(hold)
	k := newKit(t)
	ref := k.create("a", m.spec())
	testkit.Until(t, "it comes to pass", func() bool { return k.counter("glowplug_images_received_bytes_total") == 100*sector })
	if s := k.status(ref); s.Phase != v1.PhaseUploading {
		t.Errorf("%+v", s)
	}
	k.restart()
	k.phase(ref, v1.PhaseReady)
	if got := m.asked(); !slices.Equal(got, []string{"", "bytes=204800-"}) {
		t.Errorf("asked %q", got)
	}
}

func TestDownloadEndsWithItsObject(t *testing.T) {
	img := isoImage("DOWN", 400*sector, 5)
	ended := make(chan struct{})
	m := newMirror(t, img, func(w http.ResponseWriter, r *http.Request, img []byte) {
		w.Write(img[:100*sector])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	}, well)
	k := newKit(t)
	ref := k.create("a", m.spec())
	testkit.Until(t, "it comes to pass", func() bool { return k.counter("glowplug_images_received_bytes_total") > 0 })
	k.delete(ref)
	<-ended
	testkit.Until(t, "it comes to pass", func() bool {
		left, _ := filepath.Glob(filepath.Join(k.dir, image.OwnDir, "0*"))
		return len(left) == 0
	})
	testkit.Until(t, "it comes to pass", func() bool {
		k.ctl.mu.Lock()
		defer k.ctl.mu.Unlock()
		return len(k.lib.Refs()) == 0 && len(k.ctl.states) == 0
	})
}
