package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/secrets"
	"glowplug/internal/store/snapshot"
)

// rackHosts are hosts at loopback addresses, for the tests ask from there.
var rackHosts = map[string]string{
	"g10/router": `{"spec":{"ip":"127.0.0.1","systemUUID":"4c4c4544-0042-3510-8056-b4c04f4e3101","image":"router"}}`,
	"g10/reader": `{"spec":{"ip":"127.0.0.2","bootMACAddress":"52:54:00:00:00:0a","image":"live"}}`,
	"g10/six":    `{"spec":{"ip":"2001:db8::5","bootMACAddress":"52:54:00:00:00:0b","image":"live"}}`,
	"g10/live":   `{"spec":{"bootMACAddress":"52:54:00:00:00:02","image":"live"}}`,
	"g10/locked": `{"spec":{"bootMACAddress":"52:54:00:00:00:03","image":"locked","kernelArgs":["a=1"]}}`,
	"g10/web":    `{"spec":{"bootMACAddress":"52:54:00:00:00:04","image":"web"}}`,
	"g10/disk":   `{"spec":{"bootMACAddress":"52:54:00:00:00:05"}}`,
	"g10/done":   `{"spec":{"bootMACAddress":"52:54:00:00:00:06","image":"live"},"status":{"state":"Provisioned"}}`,
	"g10/own":    `{"spec":{"bootMACAddress":"52:54:00:00:00:07","image":"live","ipxe":"kernel {{.Server}}/k serial={{.Serial}}\n{{.Sanboot}}"}}`,
	"g10/gone":   `{"spec":{"bootMACAddress":"52:54:00:00:00:08","image":"gone"}}`,
	"g10/intel":  `{"spec":{"bootMACAddress":"52:54:00:00:00:0c","image":"intel"}}`,
	"g10/pxe":    `{"spec":{"bootMACAddress":"52:54:00:00:00:09","ipxe":"kernel http://k\nboot"}}`,
}

// natHosts are hosts of the rack behind one address, which say which they are.
const natHosts = 100

var rackImages = map[string]string{
	"g10/router":     `{"spec":{"external":{"portal":"192.168.10.1","iqn":"iqn.2000-02.com.mikrotik:cdrom-coreos-live"}}}`,
	"g10/live":       `{"spec":{"description":"of the bank's vault","version":"43 || shell"},"status":{"phase":"Ready","targetIQN":"iqn.2026-11.dev.glowplug:g10:live"}}`,
	"g10/locked":     `{"spec":{"chap":{"username":"node","password":"pass word"}},"status":{"phase":"Ready","targetIQN":"iqn.2026-11.dev.glowplug:g10:locked"}}`,
	"g10/web":        `{"spec":{"transport":"http"},"status":{"phase":"Ready","targetIQN":"iqn.2026-11.dev.glowplug:g10:web"}}`,
	"g10/hidden":     `{"spec":{"menu":false},"status":{"phase":"Ready","targetIQN":"iqn.2026-11.dev.glowplug:g10:hidden"}}`,
	"g10/intel":      `{"spec":{"menu":false},"status":{"phase":"Ready","architectures":["x86_64"],"targetIQN":"iqn.2026-11.dev.glowplug:g10:intel"}}`,
	"g10/private":    `{"spec":{"menu":false,"access":"hosts"},"status":{"phase":"Ready","targetIQN":"iqn.2026-11.dev:private"}}`,
	"default/rescue": `{"spec":{"default":true},"status":{"phase":"Ready","targetIQN":"iqn.2026-11.dev.glowplug:default:rescue"}}`,
}

// memoryImages are images whose bytes say which they are.
type memoryImages struct{ opened, released int }

type memoryImage struct {
	*bytes.Reader
	from *memoryImages
	etag string
}

func (m *memoryImages) Open(ref model.Ref, version string, args []string, token string, _ *model.Host) (
	Image, error,
) {
	if version == "old" {
		return nil, fault.New(fault.NoMatch, "it has no version old any more")
	}
	if ref.Name == "pxe" {
		m.opened++
		return &memoryFiles{&memoryImage{bytes.NewReader(nil), m, `"pxe"`}}, nil
	}
	if ref.Name == "web" {
		return nil, fault.New(fault.Unavailable, "it is being read")
	}
	m.opened++
	text := ref.String() + " " + strings.Join(args, " ") + strings.Repeat(".", 4096)
	return &memoryImage{bytes.NewReader([]byte(text)), m, `"` + ref.Name + `"`}, nil
}

func (i *memoryImage) ETag() string { return i.etag }
func (i *memoryImage) Release()     { i.from.released++ }
func (i *memoryImage) File(path string) (io.ReadSeeker, bool) {
	if path == "" {
		return i, true
	}
	return strings.NewReader("content of " + path), path == "images/rootfs.img"
}

// memoryFiles is an image that is several files.
type memoryFiles struct{ *memoryImage }

func (*memoryFiles) File(role string) (io.ReadSeeker, bool) {
	return strings.NewReader("the " + role), role == "kernel"
}

// bootRig is a server with a real decision over the rack.
func bootRig(t *testing.T, policy decide.Policy, change func(*Boot)) (*rig, *memoryImages) {
	t.Helper()
	b, images := rackBoot(t, policy)
	if change != nil {
		change(b)
	}
	return newRig(t, decide.ConfigDecision{}, func(o *Options) { o.Boot = b }), images
}

// rackBoot is the rack with a real decision over it.
func rackBoot(t *testing.T, policy decide.Policy) (*Boot, *memoryImages) {
	t.Helper()
	images := &memoryImages{}
	return &Boot{
		Booter: decide.New(decide.Options{Inventory: rackInventory(t), Policy: policy}), Images: images,
		Unknown: UnknownMenu, URL: "http://192.168.200.2:8082", Portal: "192.168.200.2", CHAP: secrets.New(nil).CHAP,
	}, images
}

// isolate makes all namespaces but default islands.
func isolate(inv *snapshot.Inventory) {
	inv.Namespaces().Put(kvstore.Item{Key: "default", Revision: 2,
		Value: []byte(`{"metadata":{"annotations":{"glowplug.dev/isolated":"true"}}}`)})
}

func rackInventory(t *testing.T) *snapshot.Inventory {
	t.Helper()
	inv := snapshot.New(snapshot.Options{})
	load := func(o kvstore.Observer, objects map[string]string) {
		var items []kvstore.Item
		for key, value := range objects {
			items = append(items, kvstore.Item{Key: key, Revision: 1, Value: []byte(value)})
		}
		o.Load(items)
	}
	load(inv.Hosts(), rackHosts)
	for i := range natHosts {
		inv.Hosts().Put(kvstore.Item{Key: fmt.Sprintf("nat/n%d", i), Revision: 2, Value: fmt.Appendf(nil,
			`{"spec":{"ip":"10.1.0.%d","bootMACAddress":"52:54:00:00:01:%02x","bootSources":["203.0.113.7/32"]}}`, i, i)})
	}
	load(inv.Images(), rackImages)
	if s := inv.Stats(); s.Hosts.Bad+s.Images.Bad > 0 {
		t.Fatalf("%+v", s)
	}
	return inv
}

func (r *rig) do(t *testing.T, method, path string, header ...string) (status int, body string, h http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data), resp.Header
}

func TestIPXE(t *testing.T) {
	r, _ := bootRig(t, decide.Policy{Claims: identity.Trust}, nil)
	for _, c := range []struct {
		path   string
		status int
		lines  []string
		noted  string
	}{
		{"/ipxe", 200, []string{"sanboot iscsi:192.168.10.1::::iqn.2000-02.com.mikrotik:cdrom-coreos-live"},
			"g10/router given the script that boots image g10/router"},
		{"/ipxe?mac=52-54-00-00-00-02&serial=a%0Ashell", 200,
			[]string{"sanboot iscsi:192.168.200.2::::iqn.2026-11.dev.glowplug:g10:live"}, "g10/live given the script that boots image g10/live"},
		{"/ipxe?mac=52-54-00-00-00-03", 200, []string{"set username node", "set password:hex 70:61:73:73:20:77:6f:72:64",
			"sanboot iscsi:192.168.200.2::::iqn.2026-11.dev.glowplug:g10:locked"}, "g10/locked given the script that boots image g10/locked"},
		{"/ipxe?mac=52-54-00-00-00-04&try=0", 200,
			[]string{"sanboot http://192.168.200.2:8082/iso/g10/web.iso?mac=52:54:00:00:00:04"}, "g10/web given the script that boots image g10/web"},
		{"/ipxe?mac=52-54-00-00-00-04&try=2", 200,
			[]string{"sanboot http://192.168.200.2:8082/iso/g10/web.iso?mac=52:54:00:00:00:04"},
			"g10/web given the script that boots image g10/web again"},
		{"/ipxe?mac=52-54-00-00-00-04", 200,
			[]string{"sanboot http://192.168.200.2:8082/iso/g10/web.iso?mac=52:54:00:00:00:04"}, "g10/web given the script that boots image g10/web"},
		{"/ipxe?mac=52-54-00-00-00-05", 200, []string{"exit"}, "g10/disk disk it has no image"},
		{"/ipxe?mac=52-54-00-00-00-06", 200, []string{"exit"},
			"g10/done disk it is provisioned (a new value of the annotation glowplug.dev/rearm arms it again)"},
		{"/ipxe?mac=52-54-00-00-00-07&serial=a%0Ashell%20||%20x", 200,
			[]string{"kernel http://192.168.200.2:8082/k serial=a_shell____x",
				"sanboot iscsi:192.168.200.2::::iqn.2026-11.dev.glowplug:g10:live"}, "g10/own given the script that boots image g10/live"},
		{"/ipxe?mac=52-54-00-00-00-09", 200, []string{"kernel http://k", "boot"}, "g10/pxe given its own script"},
		{"/ipxe?mac=52-54-00-00-00-08", 200, []string{
			"echo glowplug: host g10/gone: there is no image g10/gone, create the ISCSICdrom or correct the host's spec.image",
			"exit 1"}, "g10/gone failed"},
		{"/ipxe?mac=zz", 400, []string{"the parameter mac is malformed: want six bytes such as ac:1f:6b:8a:a7:9c"}, ""},
		{"/boot.ipxe", 200, []string{"set gp-url http://192.168.200.2:8082"}, ""},
		{"/ipxe/x", 404, nil, ""},
	} {
		r.journal.served = nil
		if status, _, h := r.do(t, http.MethodHead, c.path); status != c.status || h.Get("Content-Length") == "0" ||
			len(r.journal.served) > 0 {
			t.Errorf("HEAD %s: %d, %v", c.path, status, r.journal.served)
		}
		status, body, h := r.do(t, http.MethodGet, c.path)
		if status != c.status || h.Get("Cache-Control") != "no-store" || (status == 503) != (h.Get("Retry-After") != "") {
			t.Errorf("%s: %d %v\n%s", c.path, status, h, body)
		}
		for _, line := range c.lines {
			if !strings.Contains("\n"+body, "\n"+line+"\n") {
				t.Errorf("%s: no line %q in\n%s", c.path, line, body)
			}
		}
		if status == 200 && !strings.HasPrefix(body, "#!ipxe\n") {
			t.Errorf("%s: no script:\n%s", c.path, body)
		}
		if got := strings.Join(r.journal.served, ", "); got != c.noted {
			t.Errorf("%s: noted %q; want %q", c.path, got, c.noted)
		}
	}
	r.journal.served = nil
	r.believe = true
	if status, body, _ := r.do(t, http.MethodGet, "/ipxe?mac=52-54-00-00-00-02"); status != 200 || !strings.Contains(body,
		"sanboot") || len(r.journal.served) > 0 {
		t.Errorf("an operator's look: %d, noted %v", status, r.journal.served)
	}
	if status, _, h := r.do(t, http.MethodPost, "/ipxe"); status != 405 || h.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", status)
	}
	r.ready = false
	if status, _, _ := r.do(t, http.MethodGet, "/ipxe"); status != 503 {
		t.Errorf("not ready: %d", status)
	}
	if status, _, _ := r.do(t, http.MethodGet, "/boot.ipxe"); status != 200 {
		t.Errorf("the first script when not ready: %d", status)
	}
	if log := r.logged(); !strings.Contains(log, "endpoint=ipxe") || !strings.Contains(log, `boots="image g10/locked"`) ||
		strings.Contains(log, "pass") {
		t.Errorf("log:\n%s", log)
	}
}

// noArguments serves no image with a host's own kernel arguments.
type noArguments struct{}

func (noArguments) Prepare(_ *model.Image, args []string, _ string) error {
	if len(args) > 0 {
		return fault.New(fault.Unavailable, "/boot/grub/grub.cfg: the argument x='y' cannot be written")
	}
	return nil
}

// A host whose image cannot be had is shown why, and so is whoever looks at it.
func TestImageThatCannotBeHad(t *testing.T) {
	r, _ := bootRig(t, decide.Policy{Claims: identity.Trust}, func(b *Boot) {
		b.Booter = decide.New(decide.Options{
			Inventory: rackInventory(t), Policy: decide.Policy{Claims: identity.Trust}, Images: noArguments{},
		})
	})
	status, body, _ := r.do(t, http.MethodGet, "/ipxe?mac=52-54-00-00-00-03")
	if status != 200 || strings.Contains(body, "sanboot") || !strings.Contains(body,
		"grub.cfg: the argument x='y' cannot be written") || !strings.HasSuffix(body, "\nexit 1\n") {
		t.Errorf("%d\n%s", status, body)
	}
	if strings.Join(r.journal.served, ", ") != "g10/locked failed" || strings.Join(r.journal.notices,
		", ") != decide.ReasonImageUnavailable {
		t.Errorf("noted %v, noticed %v", r.journal.served, r.journal.notices)
	}
	if _, body, _ := r.do(t, http.MethodGet, "/ipxe?mac=52-54-00-00-00-02"); !strings.Contains(body, "sanboot") {
		t.Errorf("another host:\n%s", body)
	}
	r.journal.served, r.believe = nil, true
	if _, body, _ := r.do(t, http.MethodGet, "/ipxe?mac=52-54-00-00-00-03"); !strings.Contains(body, "grub.cfg") ||
		len(r.journal.served) > 0 {
		t.Errorf("an operator's look, noted %v:\n%s", r.journal.served, body)
	}
}

// TestIPXEOfAnotherArchitecture: iPXE shows the reason, whichever name it gives the
// architecture, and the host gets the event.
func TestIPXEOfAnotherArchitecture(t *testing.T) {
	for _, query := range []string{"buildarch=arm64", "arch=arm64"} {
		r, _ := bootRig(t, decide.Policy{Claims: identity.Trust}, nil)
		status, body, _ := r.do(t, http.MethodGet, "/ipxe?mac=52-54-00-00-00-0c&"+query)
		if status != 200 || strings.Contains(body, "sanboot") || !strings.HasSuffix(body, "\necho glowplug: "+
			"host g10/intel: image g10/intel is for x86_64, and this machine is aarch64, give it an image for aarch64\nexit 1\n") {
			t.Errorf("%s: %d\n%s", query, status, body)
		}
		if strings.Join(r.journal.served, ", ") != "g10/intel failed" ||
			strings.Join(r.journal.notices, ", ") != decide.ReasonImageUnavailable {
			t.Errorf("%s: noted %v, noticed %v", query, r.journal.served, r.journal.notices)
		}
		if _, body, _ := r.do(t, http.MethodGet, "/ipxe?mac=52-54-00-00-00-0c&arch=x86_64"); !strings.Contains(body, "sanboot") {
			t.Errorf("x86_64:\n%s", body)
		}
	}
}

func TestUnknownHosts(t *testing.T) {
	const stranger = "/ipxe?mac=52:54:00:00:00:99&ip=10.9.9.9"
	booted := map[string]string{ // what the boot of the machine says
		UnknownExit:    "default/unknown_ disk it is no known host",
		UnknownMenu:    "default/unknown_ given menu",
		UnknownDefault: "default/unknown_ given the script that boots image default/rescue",
	}
	for mode, want := range map[string]string{
		UnknownExit:    "\nexit\n",
		UnknownMenu:    ":image2\nsanboot http://192.168.200.2:8082/iso/g10/web.iso\n",
		UnknownDefault: "\nsanboot iscsi:192.168.200.2::::iqn.2026-11.dev.glowplug:default:rescue\n",
	} {
		r, _ := bootRig(t, decide.Policy{Claims: identity.Trust}, func(b *Boot) { b.Unknown = mode })
		status, body, _ := r.do(t, http.MethodGet, stranger)
		if mode == UnknownMenu {
			if strings.Count(body, "sanboot ") != 4 || strings.Contains(body, "locked") || strings.Contains(body, "||\nshell") {
				t.Errorf("the menu:\n%s", body)
			}
			want = "sanboot http://192.168.200.2:8082/iso/g10/web.iso\n"
		}
		if status != 200 || !strings.Contains(body, want) || strings.Join(r.journal.served, "") != booted[mode] ||
			!strings.Contains(strings.Join(r.journal.notices, " "), decide.ReasonUnknownHost) {
			t.Errorf("%s: %d, %v, %q\n%s", mode, status, r.journal.notices, r.journal.served, body)
		}
	}
	policy := decide.Policy{Claims: identity.Trust}
	r, _ := bootRig(t, policy, func(b *Boot) {
		inv := rackInventory(t)
		isolate(inv)
		b.Booter, b.URL, b.Portal = decide.New(decide.Options{Inventory: inv, Policy: policy}), "", ""
	})
	port := r.URL[strings.LastIndexByte(r.URL, ':'):]
	if _, body, _ := r.do(t, http.MethodGet, stranger, "Host", "evil.example"); strings.Count(body, "sanboot ") != 1 ||
		!strings.Contains(body, "sanboot iscsi:127.0.0.1::::") {
		t.Errorf("isolated:\n%s", body)
	}
	if _, body, _ := r.do(t, http.MethodGet, "/boot.ipxe"); !strings.Contains(body, "set gp-url http://127.0.0.1"+port+
		"\n") {
		t.Errorf("by the local address:\n%s", body)
	}
}

// A stranger's menu shows what images are called and their versions, and nothing of
// those that are not for it.
func TestMenuHidesImages(t *testing.T) {
	r, _ := bootRig(t, decide.Policy{Claims: identity.Trust}, nil)
	status, body, _ := r.do(t, http.MethodGet, "/ipxe?ip=10.9.9.9")
	if status != 200 || strings.Contains(body, "hidden") || strings.Contains(body, "vault") || !strings.Contains(body,
		"g10/live  43") {
		t.Errorf("%d\n%s", status, body)
	}
}

func TestISO(t *testing.T) {
	r, images := bootRig(t, decide.Policy{Claims: identity.Trust}, nil)
	status, body, h := r.do(t, http.MethodGet, "/iso/g10/locked.iso?mac=52-54-00-00-00-03", "Range", "bytes=0-13")
	if status != 206 || body != "g10/locked a=1" || h.Get("Content-Length") != "14" || h.Get("Etag") != `"locked"` ||
		h.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("a range: %d %q %v", status, body, h)
	}
	if status, body, h := r.do(t, http.MethodGet, "/iso/g10/live.iso"); status != 200 || len(body) != 4096+9 ||
		h.Get("Accept-Ranges") != "bytes" {
		t.Errorf("all of it: %d, %d bytes, %v", status, len(body), h)
	}
	if status, body, h := r.do(t, http.MethodHead, "/iso/g10/live.iso"); status != 200 || body != "" ||
		h.Get("Content-Length") != "4105" {
		t.Errorf("HEAD: %d, %v", status, h)
	}
	if status, _, _ := r.do(t, http.MethodGet, "/iso/g10/live.iso", "If-None-Match", `"live"`); status != 304 {
		t.Errorf("unchanged: %d", status)
	}
	// A date says nothing: the arguments may have changed, and the file has not.
	for _, path := range []string{"/iso/g10/live.iso", "/iso/g10/live/files/images/rootfs.img"} {
		const date = "Thu, 31 Dec 2037 00:00:00 GMT"
		if status, _, h := r.do(t, http.MethodGet, path, "If-Modified-Since", date); status != 200 ||
			h.Get("Last-Modified") != "" || h.Get("Etag") == "" {
			t.Errorf("%s since a date: %d, %v", path, status, h)
		}
		if status, _, _ := r.do(t, http.MethodGet, path, "Range", "bytes=0-3", "If-Range", date); status != 200 {
			t.Errorf("a range of %s by its date: %d", path, status)
		}
		if status, _, _ := r.do(t, http.MethodGet, path, "Range", "bytes=0-3", "If-Range", `"live"`); status != 206 {
			t.Errorf("a range of %s by its tag: %d", path, status)
		}
	}
	if status, body, _ := r.do(t, http.MethodGet, "/iso/g10/live.iso", "Range", "bytes=0-3", "If-Range",
		`"other"`); status != 200 || len(body) != 4105 {
		t.Errorf("a range of another: %d", status)
	}
	if status, _, _ := r.do(t, http.MethodGet, "/iso/g10/live.iso", "Range", "bytes=9999-"); status != 416 {
		t.Errorf("a range behind the end: %d", status)
	}
	if status, body, _ := r.do(t, http.MethodGet, "/iso/g10/live/files/images/rootfs.img", "Range",
		"bytes=11-"); status != 206 || body != "images/rootfs.img" {
		t.Errorf("a file: %d %q", status, body)
	}
	for path, want := range map[string]int{
		"/iso/g10/live/files/none": 404, "/iso/g10/live/files/": 404, "/iso/g10/live": 404, "/iso/": 404,
		"/iso/g10/.iso":       404,
		"/iso/g10/router.iso": 404, "/iso/g10/gone.iso": 404, "/iso/g10/web.iso": 503,
	} {
		if status, body, h := r.do(t, http.MethodGet, path); status != want || !strings.HasPrefix(h.Get("Content-Type"),
			"text/plain") || h.Get("Etag") != "" {
			t.Errorf("%s: %d %q %v", path, status, body, h)
		}
	}
	if got := strings.Join(r.journal.notices, ", "); got != decide.ReasonImageUnavailable { // of web.iso
		t.Errorf("noticed %q", got)
	}
	if status, body, _ := r.do(t, http.MethodGet, "/iso/g10/locked.iso"); status != 403 {
		t.Errorf("with a password: %d %q", status, body)
	}
	r.Close()
	if images.opened == 0 || images.opened != images.released {
		t.Errorf("%d opened, %d released", images.opened, images.released)
	}
}

func TestComplete(t *testing.T) {
	r, _ := bootRig(t, decide.Policy{Claims: identity.Trust}, nil)
	if status, body, _ := r.do(t, http.MethodPost, "/api/v1/boot-complete"); status != 200 || !strings.Contains(body,
		"g10/router") {
		t.Errorf("%d %q", status, body)
	}
	if got := strings.Join(r.journal.served, ", "); got != "g10/router complete" {
		t.Errorf("noted %q", got)
	}
	if status, _, h := r.do(t, http.MethodGet, "/api/v1/boot-complete"); status != 405 || h.Get("Allow") != "POST" {
		t.Errorf("GET: %d %v", status, h)
	}
	if status, _, _ := r.do(t, http.MethodPost, "/api/v1/boot-complete?ip=10.9.9.9"); status != 404 {
		t.Errorf("an unknown machine: %d", status)
	}
	if len(r.journal.served) != 1 {
		t.Errorf("noted %v", r.journal.served)
	}
	r.journal.failure = errors.New("the store is away")
	if status, body, h := r.do(t, http.MethodPost, "/api/v1/boot-complete"); status != 503 || h.Get("Retry-After") == "" ||
		strings.Contains(body, "away") {
		t.Errorf("while it cannot be stored: %d %q %v", status, body, h)
	}
	r, _ = bootRig(t, decide.Policy{}, nil)
	if status, _, _ := r.do(t, http.MethodPost, "/api/v1/boot-complete?mac=52-54-00-00-00-02"); status != 403 ||
		len(r.journal.served) > 0 {
		t.Errorf("for another: %d", status)
	}
}

// TestUnknownMachineIsRecorded: an unknown machine is recorded with what it says of itself. An
// operator who asks about a machine, and a known host, are not.
func TestUnknownMachineIsRecorded(t *testing.T) {
	const stranger = "/ipxe?mac=52-54-00-00-00-99&uuid=4c4c4544-0042-3510-8056-b4c04f4e3132&arch=x86_64&serial=S%201" +
		"&manufacturer=Dell&product=R640&ip=10.9.9.9"
	r, _ := bootRig(t, decide.Policy{Claims: identity.Trust}, nil)
	r.do(t, http.MethodGet, stranger)
	if n := len(r.journal.unknown); n != 1 {
		t.Fatalf("%d are recorded", n)
	}
	s := r.journal.unknown[0]
	if s.Request != "ipxe" || s.MAC.String() != "52:54:00:00:00:99" || s.UUID != "4c4c4544-0042-3510-8056-b4c04f4e3132" ||
		s.Serial != "S 1" || s.Manufacturer != "Dell" || s.Product != "R640" || s.Arch != "x86_64" || s.Addr.String() != "10.9.9.9" {
		t.Errorf("%+v", s)
	}
	r.believe = true
	r.do(t, http.MethodGet, stranger)
	r.do(t, http.MethodGet, "/ipxe?mac=52-54-00-00-00-03")
	if n := len(r.journal.unknown); n != 1 {
		t.Errorf("the question of an operator is recorded: %+v", r.journal.unknown)
	}
}
