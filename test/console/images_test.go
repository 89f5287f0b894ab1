package console

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/image/imagetest"
	"glowplug/internal/testkit"
)

// imageServer starts a server with an image whose file is to be uploaded.
func imageServer(t *testing.T) *server {
	t.Helper()
	s := start(t, "--iso-dir", t.TempDir(), "--iscsi-listen", freeAddress(t), "--neighbors", "off")
	s.apply(`apiVersion: v1
kind: ISCSICdrom
metadata: {name: coreos, namespace: rack-a}
spec: {kernelArgs: [console=ttyS0]}
`)
	return s
}

// isoFile writes an image of so many bytes, whose content is of fill.
func isoFile(t *testing.T, name string, size int, fill byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, imagetest.ISO("COREOS", size, fill), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// upload opens the page of the image and begins to upload a file in pieces of so many bytes; 0 is the usual size.
func (tab *tab) upload(path string, piece int) {
	tab.t.Helper()
	tab.open("/console/images/rack-a/coreos")
	tab.waitUntil("the form is ready", `!document.getElementById("upload-drop").hidden`)
	if piece > 0 {
		const set = `Object.assign(document.getElementById("upload-form").dataset, {first: %d, largest: %[1]d}) != null`
		evaluate[bool](tab, fmt.Sprintf(set, piece))
	}
	tab.do("choosing "+path, chromedp.SetUploadFiles(chromedp.CSS("#upload-form input[type=file]"), []string{path}))
	tab.click("#upload-begin")
}

// image is the image as it is stored.
func (s *server) image() *v1.ISCSICdrom {
	s.t.Helper()
	image := &v1.ISCSICdrom{}
	request := &client.Request{Resource: kinds.ISCSICdroms, Namespace: "rack-a", Name: "coreos"}
	if _, err := s.api("admin").Do(s.t.Context(), request, image); err != nil {
		s.t.Fatal(err)
	}
	return image
}

const sentMost = `document.querySelector("#upload-progress progress").value > 4 << 20`

// TestUploadGoesOn: an upload that the end of the server cuts off goes on after its restart where it stopped, by
// itself, and the image becomes ready on the page without a reload.
func TestUploadGoesOn(t *testing.T) {
	s := imageServer(t)
	tab := browser(t, s.admin)
	tab.expect("ERR_") // of what is asked while the server is away
	tab.upload(isoFile(t, "coreos.iso", 96<<20, 1), 128<<10)
	tab.waitUntil("some megabytes are sent", sentMost)
	s.kill()
	tab.waitFor("#upload-note", "trying again in")
	t.Log(tab.text("#upload-progress"))
	s.restart()
	tab.waitFor("#upload-note", "going on after")
	t.Log(tab.text("#upload-note"))
	evaluate[bool](tab, `document.getElementById("upload-form").dataset.largest = 64 << 20, true`)
	tab.waitFor("#upload-note", "The server has all of coreos.iso. Ready")
	tab.waitFor("#head", "Ready")
	tab.waitFor("#arguments", "console=ttyS0")
	tab.screenshot("image-uploaded")
}

// TestUploadAgain: an upload after one that was stopped begins anew, with the same file or another one.
func TestUploadAgain(t *testing.T) {
	s := imageServer(t)
	tab := browser(t, s.secure)
	tab.expect("status of 401") // of the page for people who are not signed in
	tab.open("/console/images")
	tab.fill("input[name=token]", s.token("admin"))
	tab.click("#sign-in button:not([type])")
	tab.waitFor("h1", "Images")
	path := isoFile(t, "coreos.iso", 96<<20, 1)
	stop := func() {
		tab.upload(path, 128<<10)
		tab.waitUntil("some megabytes are sent", sentMost)
		tab.click("#upload-stop")
		tab.waitFor("#upload-note", "Stopped. The next upload begins anew.")
	}
	stop()
	tab.upload(path, 0)
	tab.waitFor("#upload-note", "The server has all of coreos.iso. Ready")
	first := s.image().Status.SHA256
	path = isoFile(t, "coreos.iso", 96<<20, 2)
	stop()
	tab.upload(isoFile(t, "other.iso", 96<<20, 3), 0)
	tab.waitFor("#upload-note", "The server has all of other.iso. Ready")
	if now := s.image().Status.SHA256; now == first {
		t.Error("the other file is not served")
	}
}

// TestUploadRefused: the server's sentence stands whole at the form, whatever the file and its name, and the image
// stays as it was.
func TestUploadRefused(t *testing.T) {
	s := imageServer(t)
	s.apply(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: vic}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: User, name: vic, apiGroup: rbac.authorization.k8s.io}]
`)
	write := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tab := browser(t, s.admin)
	tab.expect("422")
	for name, test := range map[string]struct{ path, sum, want string }{
		"a file that is no ISO image": {path: write("x.iso", strings.Repeat("text", 100_000)), want: "no ISO 9660 image"},
		"an empty file":               {path: write("empty.iso", ""), want: "no ISO 9660 image"},
		"markup as the name":          {path: write(`<img src=x onerror=alert(1)>.iso`, "text"), want: "no ISO 9660 image"},
		"another digest": {
			path: isoFile(t, "a.iso", 3<<20, 1), sum: strings.Repeat("0", 64),
			want: "its SHA-256 is not " + strings.Repeat("0", 64),
		},
	} {
		t.Run(name, func(t *testing.T) {
			tab := tab.in(t)
			tab.open("/console/images/rack-a/coreos")
			tab.fill("#upload-form input[name=sha256]", test.sum)
			tab.do("choosing the file", chromedp.SetUploadFiles(chromedp.CSS("#upload-form input[type=file]"), []string{test.path}))
			tab.click("#upload-begin")
			tab.waitFor("#upload-problem", test.want)
			t.Log(tab.text("#upload-problem"))
			testkit.Until(t, "the image waits for an upload", func() bool { return s.image().Status.Phase == v1.PhasePending })
		})
	}
	t.Run("a user who may only read", func(t *testing.T) {
		tab := browser(t, s.secure)
		tab.expect("status of 40")
		tab.open("/console/images/rack-a/coreos")
		tab.fill("input[name=token]", s.token("vic"))
		tab.click("#sign-in button:not([type])")
		tab.waitFor("h1", "coreos")
		tab.upload(isoFile(t, "a.iso", 3<<20, 1), 0)
		tab.waitFor("#upload-problem", `User "vic" cannot`)
		t.Log(tab.text("#upload-problem"))
	})
}

// TestTwoTabsUpload: two pages that upload different files of one size end with the whole file of one of them. A page
// whose upload was taken over says so.
func TestTwoTabsUpload(t *testing.T) {
	s := imageServer(t)
	one := browser(t, s.admin)
	one.expect("409")
	other := one.sibling()
	files := []string{isoFile(t, "coreos.iso", 96<<20, 1), isoFile(t, "coreos.iso", 96<<20, 2)}
	one.upload(files[0], 512<<10)
	other.upload(files[1], 512<<10)
	testkit.Within(t, 3*patience, "each says that the server has its file, or that it was taken over", func() bool {
		const ended = `/The server has all of|another upload of this image has/.test(document.querySelector("#upload").innerText)`
		return evaluate[bool](one, ended) && evaluate[bool](other, ended)
	})
	const said = `document.querySelector("#upload-note").innerText + document.querySelector("#upload-problem").innerText`
	t.Logf("one: %s; other: %s", evaluate[string](one, said), evaluate[string](other, said))
	image := s.image()
	if image.Status.Phase != v1.PhaseReady {
		t.Errorf("the image is %s", image.Status.Phase)
	}
	isWhole := func(path string) bool {
		content, err := os.ReadFile(path)
		return err == nil && fmt.Sprintf("%x", sha256.Sum256(content)) == image.Status.SHA256
	}
	if !slices.ContainsFunc(files, isWhole) {
		t.Errorf("the image has the digest %s, that of no file", image.Status.SHA256)
	}
}

// TestUploadByAForm: a form uploads without scripts, and a refusal is a page with the server's sentence.
func TestUploadByAForm(t *testing.T) {
	s := imageServer(t)
	for _, test := range []struct {
		content   []byte
		sum, want string
		status    int
	}{
		{bytes.Repeat([]byte("text"), 8<<20), "", "no ISO 9660 image", http.StatusUnprocessableEntity},
		{imagetest.ISO("COREOS", 8<<20, 1), strings.Repeat("0", 64), "its SHA-256 is not 000", http.StatusUnprocessableEntity},
		{imagetest.ISO("COREOS", 8<<20, 1), "", "✓</span> Ready", http.StatusOK},
	} {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		_ = form.WriteField("sha256", test.sum) // into memory
		file, err := form.CreateFormFile("iso", "a.iso")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = file.Write(test.content)
		_ = form.Close()
		resp, err := http.Post(s.admin+"/console/images/rack-a/coreos/upload", form.FormDataContentType(), &body)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != test.status || !strings.Contains(string(page), test.want) {
			t.Errorf("want %d and %q, got %d (%v):\n%s", test.status, test.want, resp.StatusCode, err, page)
		}
	}
}

// TestImageOfItsOwn: a new image is shown before it is made, and is deleted after a question.
func TestImageOfItsOwn(t *testing.T) {
	s := start(t, "--iso-dir", t.TempDir(), "--iscsi-listen", freeAddress(t), "--neighbors", "off")
	tab := browser(t, s.admin)
	// then clicks, and waits for the text of the next page.
	then := func(selector, want string) {
		tab.waitUntil("the page is whole", `document.readyState == "complete"`)
		tab.click(selector)
		tab.waitFor("main", want)
	}
	const goOn, confirm = "form.form button", "main form button.primary"
	tab.open("/console/images")
	then("a[href='/console/images/new']", "Where the image comes from")
	tab.fill("input[name=name]", "coreos")
	tab.fill("input[name=namespace]", "rack-a")
	tab.fill("input[name=isoFile]", "../etc/passwd")
	then(goOn, "spec.isoFile") // refused before there is anything to confirm
	then("main form a", "Where the image comes from")
	tab.fill("input[name=isoFile]", "coreos.iso")
	tab.fill("input[name=kernelArgs]", "console=ttyS0  quiet")
	then(goOn, "The same in a terminal") // the form speaks of kubectl, too
	then(confirm, "there is no file coreos.iso in the ISO directory")
	tab.waitFor("main", "kubectl edit iscsicdrom coreos -n rack-a")
	if spec := s.image().Spec; spec.ISOFile != "coreos.iso" || !slices.Equal(spec.KernelArgs, []string{"console=ttyS0", "quiet"}) {
		t.Errorf("the image has %+v", spec)
	}
	then("a[href$='/delete']", "kubectl delete iscsicdrom coreos -n rack-a")
	then(confirm, "There is no image that you may read.")
}
