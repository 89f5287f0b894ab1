package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/image"
	"glowplug/internal/image/download"
	"glowplug/internal/testkit"
)

func TestUpload(t *testing.T) {
	k := newKit(t)
	url := k.serve()
	ref := k.create("a", v1.ISCSICdromSpec{})
	s := k.phase(ref, v1.PhasePending)
	k.reaches(ref, "told what to do", func(s v1.ISCSICdromStatus) bool {
		return strings.Contains(s.ErrorMessage, "glowplug iso upload a FILE -n g10")
	})
	img := isoImage("UP", 300*sector, 3)
	resp, body := send(t, http.MethodPut, url+"a/iso?sha256="+digestOf(img), bytes.NewReader(img))
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", resp.Status, body)
	}
	var got v1.ISCSICdrom
	if err := json.Unmarshal(body, &got); err != nil || got.Kind != "ISCSICdrom" || got.Status.Phase != v1.PhaseReady ||
		got.Status.SHA256 != digestOf(img) {
		t.Fatalf("%v: %s", err, body)
	}
	if !bytes.Equal(k.read(ref), img) {
		t.Error("the disk is not what was uploaded")
	}
	if n := k.counter("glowplug_images_hashed_bytes_total"); n != 0 {
		t.Errorf("an upload was read again: %v bytes", n)
	}
	resp, _ = send(t, http.MethodHead, url+"a/iso", nil)
	if resp.Header.Get(image.HeaderOffset) != "0" || resp.Header.Get("ETag") != `"`+digestOf(img)+`"` {
		t.Errorf("HEAD: %v", resp.Header)
	}
	k.restart()
	testkit.Until(t, "it comes to pass", func() bool { d, err := k.lib.Disk(ref, nil); release(d); return err == nil })
	if n := k.counter("glowplug_images_hashed_bytes_total"); n != 0 {
		t.Errorf("an upload was read again after a restart: %v bytes", n)
	}

	// An open disk outlives a replacement and a deletion; the files go.
	d, err := k.lib.Disk(ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	second := isoImage("UP2", 310*sector, 4)
	if resp, body := send(t, http.MethodPut, url+"a/iso", bytes.NewReader(second)); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", resp.Status, body)
	}
	if s = k.status(ref); s.VolumeID != "UP2" {
		t.Errorf("not replaced: %+v", s)
	}
	folder := filepath.Dir(s.ISOPath)
	k.delete(ref)
	testkit.Until(t, "it comes to pass", func() bool { _, err := os.Stat(folder); return os.IsNotExist(err) })
	if !bytes.Equal(readDisk(t, d), img) {
		t.Error("an open disk has changed")
	}
	d.Release()
}

// cutReader fails after its bytes; with hold it waits first.
type cutReader struct {
	io.Reader
	hold <-chan struct{}
}

func (c *cutReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		if c.hold != nil {
			<-c.hold
		}
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// cutUpload sends the first n bytes of an upload and goes away.
func cutUpload(t *testing.T, url string, img []byte, from, n int) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPut, fmt.Sprintf("%s?offset=%d", url, from),
		&cutReader{Reader: bytes.NewReader(img[from : from+n])})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len(img) - from)
	if resp, err := testClient.Do(req); err == nil {
		resp.Body.Close()
		t.Fatal("an upload that was cut off was answered")
	}
}

// TestAnotherUploadTakesOver: a piece does not follow those of another upload, which has begun anew meanwhile.
func TestAnotherUploadTakesOver(t *testing.T) {
	k := newKit(t)
	url := k.serve() + "a/iso?upload="
	k.create("a", v1.ISCSICdromSpec{})
	img := isoImage("A", 400*sector, 1)
	for _, piece := range []struct {
		id             string
		from, to, want int
	}{
		{"one", 0, 100, http.StatusAccepted},
		{"two", 0, 100, http.StatusAccepted},
		{"one", 100, 200, http.StatusConflict},
		{"two", 100, 200, http.StatusAccepted},
		{"", 200, 300, http.StatusAccepted}, // a client without ids compares the digest
		{"two", 300, 400, http.StatusConflict},
	} {
		resp, body := send(t, http.MethodPut, url+piece.id, bytes.NewReader(img[piece.from*sector:piece.to*sector]),
			"Content-Range", fmt.Sprintf("bytes %d-%d/%d", piece.from*sector, piece.to*sector-1, len(img)))
		if resp.StatusCode != piece.want || resp.StatusCode == http.StatusConflict &&
			(resp.Header.Get(image.HeaderOffset) != "" || !strings.Contains(string(body), "another upload of this image has begun")) {
			t.Errorf("%+v: %s %v %s", piece, resp.Status, resp.Header, body)
		}
	}
}

// TestPiecesAreOneUpload: between two pieces the image is Uploading still, and Pending once no further one comes.
func TestPiecesAreOneUpload(t *testing.T) {
	var later atomic.Int64
	k := newKit(t, func(c *Controller, opts *kitOptions) {
		opts.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		if c != nil {
			c.pace.busy = time.Minute
		}
	})
	url := k.serve() + "a/iso"
	ref := k.create("a", v1.ISCSICdromSpec{})
	img := isoImage("UP", 300*sector, 1)
	resp, body := send(t, http.MethodPut, url, bytes.NewReader(img[:100*sector]),
		"Content-Range", fmt.Sprintf("bytes 0-%d/%d", 100*sector-1, len(img)))
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("%s: %s", resp.Status, body)
	}
	reconciled := func() v1.ISCSICdromStatus {
		if _, err := k.ctl.Reconcile(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		return k.status(ref)
	}
	if s := reconciled(); s.Phase != v1.PhaseUploading || s.ErrorMessage != "" {
		t.Errorf("between two pieces: %s %s", s.Phase, s.ErrorMessage)
	}
	later.Store(int64(time.Hour))
	if s := reconciled(); s.Phase != v1.PhasePending || !strings.Contains(s.ErrorMessage, "has stopped after") {
		t.Errorf("without a further piece: %s %s", s.Phase, s.ErrorMessage)
	}
}

// offset returns the number of received bytes of an upload.
func offset(t *testing.T, url string) int {
	t.Helper()
	resp, _ := send(t, http.MethodHead, url, nil)
	n, err := strconv.Atoi(resp.Header.Get(image.HeaderOffset))
	if err != nil {
		t.Fatalf("HEAD: %s: %v", resp.Status, resp.Header)
	}
	return n
}

func TestUploadGoesOn(t *testing.T) {
	k := newKit(t)
	url := k.serve() + "a/iso"
	ref := k.create("a", v1.ISCSICdromSpec{})
	good := isoImage("GOOD", 100*sector, 1)
	if resp, body := send(t, http.MethodPut, url, bytes.NewReader(good)); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", resp.Status, body)
	}
	img := isoImage("NEXT", 600*sector, 2)
	cutUpload(t, url, img, 0, 250*sector)
	testkit.Until(t, "it comes to pass", func() bool { return offset(t, url) == 250*sector })
	if s := k.status(ref); s.Phase != v1.PhaseReady || s.VolumeID != "GOOD" || !bytes.Equal(k.read(ref), good) {
		t.Errorf("a broken upload harms the good image: %+v", s)
	}

	var resp *http.Response
	var body []byte
	testkit.Until(t, "it comes to pass", func() bool { // until the server knows that it was cut off
		resp, body = send(t, http.MethodPut, url+"?offset=7", bytes.NewReader(img[7:]))
		wantStatus(t, resp, body, http.StatusConflict)
		return resp.Header.Get("Retry-After") == ""
	})
	if resp.Header.Get(image.HeaderOffset) != strconv.Itoa(250*sector) {
		t.Errorf("a wrong offset is not put right: %v", resp.Header)
	}

	// kill -9: what was not saved is lost, and a byte of it is even wrong.
	k.stop()
	folder := filepath.Join(k.dir, image.OwnDir)
	parts, _ := filepath.Glob(filepath.Join(folder, "*", partName+".part"))
	f, err := os.OpenFile(parts[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("this was never hashed")
	f.Close()
	k.start()

	resp, _ = send(t, http.MethodHead, url, nil)
	if resp.Header.Get(image.HeaderOffset) != strconv.Itoa(250*sector) ||
		resp.Header.Get(image.HeaderLength) != strconv.Itoa(len(img)) ||
		resp.Header.Get(image.HeaderDigest) != digestOf(img[:250*sector]) {
		t.Errorf("HEAD: %v", resp.Header)
	}
	resp, body = send(t, http.MethodPut, url, bytes.NewReader(img[250*sector:400*sector]),
		"Content-Range", fmt.Sprintf("bytes %d-%d/%d", 250*sector, 400*sector-1, len(img)))
	if resp.StatusCode != http.StatusAccepted || resp.Header.Get(image.HeaderOffset) != strconv.Itoa(400*sector) {
		t.Fatalf("a piece: %s %v: %s", resp.Status, resp.Header, body)
	}
	resp, body = send(t, http.MethodPut, url, bytes.NewReader(img[400*sector:]),
		"Content-Range", fmt.Sprintf("bytes %d-%d/%d", 400*sector, len(img)-1, len(img)))
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", resp.Status, body)
	}
	if s := k.status(ref); s.Phase != v1.PhaseReady || s.SHA256 != digestOf(img) {
		t.Errorf("%+v", s)
	}
	if !bytes.Equal(k.read(ref), img) {
		t.Error("what was put together is not the image")
	}
	if n := k.counter("glowplug_images_hashed_bytes_total"); n != float64(0) {
		t.Errorf("an upload that went on was read again: %v bytes", n)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*", "*")); len(left) != 1 {
		t.Errorf("left over: %v", left)
	}
}

func TestUploadsThatAreRefused(t *testing.T) {
	k := newKit(t)
	url := k.serve()
	ref := k.create("a", v1.ISCSICdromSpec{})
	k.create("file", v1.ISCSICdromSpec{ISOFile: "a.iso"})
	k.create("url", v1.ISCSICdromSpec{URL: "http://127.0.0.1:1/a.iso", SHA256: strings.Repeat("0", 64)})
	k.create("external", v1.ISCSICdromSpec{External: &v1.ExternalTarget{Portal: "192.0.2.1",
		IQN: "iqn.2000-02.com.example"}})
	good := isoImage("GOOD", 100*sector, 1)
	if resp, body := send(t, http.MethodPut, url+"a/iso", bytes.NewReader(good)); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", resp.Status, body)
	}
	text := strings.Repeat("this is no image ", 5000)
	for name, c := range map[string]struct {
		method, path, body, header string
		code                       int
	}{
		"nowhere":    {http.MethodPut, "none/iso", text, "", 404},
		"file":       {http.MethodPut, "file/iso", text, "", 409},
		"url":        {http.MethodPut, "url/iso", text, "", 409},
		"external":   {http.MethodPut, "external/iso", text, "", 409},
		"method":     {http.MethodGet, "a/iso", "", "", 405},
		"no image":   {http.MethodPut, "a/iso", text, "", 422},
		"empty":      {http.MethodPut, "a/iso", "", "", 422},
		"digest":     {http.MethodPut, "a/iso?sha256=" + strings.Repeat("0", 64), string(isoImage("B", 0, 0)), "", 422},
		"truncated":  {http.MethodPut, "a/iso", string(good[:60*sector]), "", 422},
		"offset":     {http.MethodPut, "a/iso?offset=5", text, "", 409},
		"bad offset": {http.MethodPut, "a/iso?offset=-5", text, "", 400},
		"range":      {http.MethodPut, "a/iso", text, "bytes 0-/9", 400},
		"range size": {http.MethodPut, "a/iso", text, "bytes 0-9/10", 400},
		"range past": {http.MethodPut, "a/iso", text, fmt.Sprintf("bytes 0-%d/%d", len(text)-1, len(text)-1), 400},
		"range of ?": {http.MethodPut, "a/iso", text, fmt.Sprintf("bytes 0-%d/*", len(text)-1), 400},
		"too large":  {http.MethodPut, "a/iso", text, fmt.Sprintf("bytes 0-%d/%d", len(text)-1, download.MaxBytes+1), 413},
	} {
		var header []string
		if c.header != "" {
			header = []string{"Content-Range", c.header}
		}
		resp, body := send(t, c.method, url+c.path, strings.NewReader(c.body), header...)
		t.Run(name, func(t *testing.T) { wantStatus(t, resp, body, c.code) })
	}
	if resp, _ := send(t, http.MethodHead, url+"none/iso", nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("HEAD of nothing: %s", resp.Status)
	}
	resp, body := send(t, http.MethodPut, url+"a/iso", strings.NewReader(text), "Content-Encoding", "gzip")
	wantStatus(t, resp, body, http.StatusUnsupportedMediaType)
	if s := k.status(ref); s.Phase != v1.PhaseReady || s.SHA256 != digestOf(good) || !bytes.Equal(k.read(ref), good) {
		t.Errorf("the good image was harmed: %+v", s)
	}
}

func TestUploadsAtTheSameTime(t *testing.T) {
	k := newKit(t)
	url := k.serve()
	var all sync.WaitGroup
	for i := range 6 {
		name := "c" + strconv.Itoa(i)
		ref := k.create(name, v1.ISCSICdromSpec{})
		img := isoImage("C"+strconv.Itoa(i), 400*sector, byte(i))
		all.Go(func() {
			resp, body := send(t, http.MethodPut, url+name+"/iso", bytes.NewReader(img))
			if resp.StatusCode != http.StatusOK || k.status(ref).SHA256 != digestOf(img) {
				t.Errorf("%s: %s: %s", name, resp.Status, body)
			}
		})
	}
	all.Wait()
}

func TestSecondUploadOfTheSame(t *testing.T) {
	k := newKit(t)
	url := k.serve() + "a/iso"
	ref := k.create("a", v1.ISCSICdromSpec{})
	img := isoImage("A", 400*sector, 1)
	hold := make(chan struct{})
	first := make(chan error, 1)
	begun := func() {
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		req, _ := http.NewRequestWithContext(ctx, http.MethodPut, url, &cutReader{Reader: bytes.NewReader(img[:100*sector]),
			hold: hold})
		req.ContentLength = int64(len(img))
		go func() {
			resp, err := testClient.Do(req)
			if err == nil {
				resp.Body.Close()
				err = fmt.Errorf("%s", resp.Status)
			}
			first <- err
		}()
		testkit.Until(t, "it comes to pass", func() bool { return k.status(ref).Phase == v1.PhaseUploading })
	}
	begun()
	// While bytes arrive, another client is refused; when they stop, it may upload.
	var resp *http.Response
	var body []byte
	testkit.Until(t, "it comes to pass", func() bool {
		resp, body = send(t, http.MethodPut, url, bytes.NewReader(img))
		if resp.StatusCode == http.StatusConflict {
			wantStatus(t, resp, body, http.StatusConflict)
			time.Sleep(k.ctl.pace.busy)
		}
		return resp.StatusCode != http.StatusConflict
	})
	if resp.StatusCode != http.StatusOK || k.status(ref).SHA256 != digestOf(img) {
		t.Errorf("%s: %s", resp.Status, body)
	}
	close(hold)
	if err := <-first; err == nil {
		t.Error("the first upload was taken, too")
	}
}

func TestUploadStandsStill(t *testing.T) {
	k := newKit(t, func(c *Controller, _ *kitOptions) {
		if c != nil {
			c.pace.idle = 100 * time.Millisecond
		}
	})
	url := k.serve() + "a/iso"
	k.create("a", v1.ISCSICdromSpec{})
	img := isoImage("A", 400*sector, 1)
	hold := make(chan struct{})
	defer close(hold)
	req, _ := http.NewRequest(http.MethodPut, url, &cutReader{Reader: bytes.NewReader(img[:100*sector]), hold: hold})
	req.ContentLength = int64(len(img))
	resp, err := testClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	wantStatus(t, resp, body, http.StatusRequestTimeout)
	if n := offset(t, url); n != 100*sector {
		t.Errorf("it goes on at %d", n)
	}
}

func TestUploadEndsWithTheServer(t *testing.T) {
	k := newKit(t)
	url := k.serve() + "a/iso"
	ref := k.create("a", v1.ISCSICdromSpec{})
	img := isoImage("A", 400*sector, 1)
	hold := make(chan struct{})
	defer close(hold)
	req, _ := http.NewRequest(http.MethodPut, url, &cutReader{Reader: bytes.NewReader(img[:100*sector]), hold: hold})
	req.ContentLength = int64(len(img))
	answered := make(chan int, 1)
	go func() {
		resp, err := testClient.Do(req)
		if err != nil {
			answered <- 0
			return
		}
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	part := filepath.Join(k.dir, image.OwnDir, "*", partName+".part")
	testkit.Until(t, "it comes to pass", func() bool { // all that comes has come
		found, _ := filepath.Glob(part)
		if len(found) == 0 {
			return false
		}
		info, err := os.Stat(found[0])
		return err == nil && info.Size() == 100*sector
	})
	k.stop()
	if code := <-answered; code != http.StatusServiceUnavailable {
		t.Errorf("answered %d", code)
	}
	k.start()
	if n := offset(t, url); n != 100*sector {
		t.Errorf("it goes on at %d", n)
	}
	k.reaches(ref, "stopped", func(s v1.ISCSICdromStatus) bool {
		return strings.Contains(s.ErrorMessage,
			"stopped after")
	})
}

func TestUploadOfDeleted(t *testing.T) {
	k := newKit(t)
	url := k.serve() + "a/iso"
	ref := k.create("a", v1.ISCSICdromSpec{})
	img := isoImage("A", 400*sector, 1)
	hold := make(chan struct{})
	defer close(hold)
	req, _ := http.NewRequest(http.MethodPut, url, &cutReader{Reader: bytes.NewReader(img[:100*sector]), hold: hold})
	req.ContentLength = int64(len(img))
	answered := make(chan int, 1)
	go func() {
		resp, err := testClient.Do(req)
		if err != nil {
			answered <- 0
			return
		}
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	k.phase(ref, v1.PhaseUploading)
	k.delete(ref)
	if code := <-answered; code != http.StatusConflict {
		t.Errorf("answered %d", code)
	}
	testkit.Until(t, "it comes to pass", func() bool {
		left, _ := filepath.Glob(filepath.Join(k.dir, image.OwnDir, "0*"))
		return len(left) == 0
	})
}

func TestDiskFull(t *testing.T) {
	free := uint64(0)
	k := newKit(t, func(c *Controller, _ *kitOptions) {
		if c != nil {
			c.pace.free = func(string) (uint64, error) { return free, nil }
		}
	})
	url := k.serve() + "a/iso"
	ref := k.create("a", v1.ISCSICdromSpec{})
	img := isoImage("A", 100*sector, 1)

	// It is told before a byte is read.
	hold := make(chan struct{})
	defer close(hold)
	req, _ := http.NewRequest(http.MethodPut, url, &cutReader{Reader: strings.NewReader("x"), hold: hold})
	req.ContentLength = 1 << 30
	resp, err := testClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if s := wantStatus(t, resp, body, http.StatusInsufficientStorage); !strings.Contains(s.Message, "0 MB are free") {
		t.Error(s.Message)
	}
	free = 1 << 40
	if resp, body := send(t, http.MethodPut, url, bytes.NewReader(img)); resp.StatusCode != http.StatusOK {
		t.Errorf("it does not recover: %s: %s", resp.Status, body)
	}
	k.phase(ref, v1.PhaseReady)
}

// TestDiskFullMidway writes into a real disk that is full: a limit on the size of
// files stands for it.
func TestDiskFullMidway(t *testing.T) {
	k := newKit(t, func(c *Controller, _ *kitOptions) {
		if c != nil {
			c.pace.diskFull = func(err error) bool {
				return image.IsDiskFull(err) || strings.Contains(err.Error(), syscall.EFBIG.Error())
			}
		}
	})
	url := k.serve() + "a/iso"
	ref := k.create("a", v1.ISCSICdromSpec{})
	good := isoImage("GOOD", 100*sector, 1)
	if resp, body := send(t, http.MethodPut, url, bytes.NewReader(good)); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", resp.Status, body)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	low := was
	low.Cur = 16 << 20
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &low); err != nil {
		t.Skip(err)
	}
	big := isoImage("BIG", 20<<20, 2)
	resp, body := send(t, http.MethodPut, url, bytes.NewReader(big))
	syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was)
	wantStatus(t, resp, body, http.StatusInsufficientStorage)
	if left, _ := filepath.Glob(filepath.Join(k.dir, image.OwnDir, "*", "*")); len(left) != 1 {
		t.Errorf("what does not fit takes up room: %v", left)
	}
	if s := k.status(ref); s.SHA256 != digestOf(good) || !bytes.Equal(k.read(ref), good) {
		t.Errorf("the good image was harmed: %+v", s)
	}
	if resp, body := send(t, http.MethodPut, url, bytes.NewReader(big)); resp.StatusCode != http.StatusOK {
		t.Errorf("it does not recover: %s: %s", resp.Status, body)
	}
}
