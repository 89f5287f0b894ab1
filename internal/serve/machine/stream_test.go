package machine

import (
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/identity"
)

// The images of a stream are named by version: another one may come while a machine
// boots.
func TestImagesOfStreams(t *testing.T) {
	const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	hosts, images := maps.Clone(rackHosts), maps.Clone(rackImages)
	defer func() { rackHosts, rackImages = hosts, images }()
	rackHosts, rackImages = maps.Clone(hosts), maps.Clone(images)
	rackHosts["g10/core"] = `{"spec":{"bootMACAddress":"52:54:00:00:01:01","image":"pxe","kernelArgs":["console=ttyS0","ignition.platform.id=qemu"]}}`
	rackHosts["g10/flat"] = `{"spec":{"bootMACAddress":"52:54:00:00:01:02","image":"flatcar"}}`
	rackHosts["g10/iso"] = `{"spec":{"bootMACAddress":"52:54:00:00:01:03","image":"streamed"}}`
	rackHosts["g10/args"] = `{"spec":{"bootMACAddress":"52:54:00:00:01:04","image":"long"}}`
	rackHosts["g10/new"] = `{"spec":{"bootMACAddress":"52:54:00:00:01:07","image":"install"}}`
	const needsToken = `{"metadata":{"uid":"u"},"spec":{"provisioning":{"token":true},`
	rackHosts["g10/token"] = needsToken + `"bootMACAddress":"52:54:00:00:01:05","image":"pxe"}}`
	rackHosts["g10/web"] = needsToken + `"bootMACAddress":"52:54:00:00:01:06","image":"streamed"}}`
	rackImages["g10/pxe"] = `{"spec":{"stream":{"name":"stable","format":"pxe"}},"status":{"phase":"Ready","sha256":"` +
		sum + `","files":[{"role":"kernel"},{"role":"initramfs"},{"role":"rootfs"}]}}`
	rackImages["g10/install"] = `{"spec":{"stream":{"name":"stable","format":"pxe"},"defaultKernelArgs":false,"kernelArgs":[` +
		`"coreos.inst.install_dev=/dev/sda","coreos.inst.ignition_url=${glowplug}/api/v1/ignition"]},"status":{"phase":"Ready",` +
		`"sha256":"` + sum + `","files":[{"role":"kernel"},{"role":"initramfs"},{"role":"rootfs"}]}}`
	rackImages["g10/flatcar"] = `{"spec":{"stream":{"name":"lts","format":"pxe"}},"status":{"phase":"Ready","sha256":"` +
		sum + `","files":[{"role":"kernel"},{"role":"initramfs"}]}}`
	rackImages["g10/streamed"] = `{"spec":{"stream":{"name":"stable"},"transport":"http"},"status":{"phase":"Ready","sha256":"` + sum + `"}}`
	rackImages["g10/long"] = `{"spec":{"stream":{"name":"stable","format":"pxe"},"kernelArgs":["x=` + strings.Repeat("y",
		2100) + `"]},"status":{"phase":"Ready","sha256":"` + sum + `","files":[]}}`
	key := boottoken.NewKey([]byte("key"))
	r, opened := bootRig(t, decide.Policy{Claims: identity.Trust}, func(b *Boot) { b.Tokens = key })
	const base = "http://192.168.200.2:8082/iso/g10/"
	for path, lines := range map[string][]string{
		"/ipxe?mac=52-54-00-00-01-01": {
			"kernel " + base + "pxe@0123456789ab/files/kernel?mac=52:54:00:00:01:01 initrd=main ignition.firstboot " +
				"ignition.config.url=http://192.168.200.2:8082/api/v1/ignition console=ttyS0 ignition.platform.id=qemu " +
				"coreos.live.rootfs_url=" + base + "pxe@0123456789ab/files/rootfs",
			"initrd --name main " + base + "pxe@0123456789ab/files/initramfs?mac=52:54:00:00:01:01", "boot"},
		"/ipxe?mac=52-54-00-00-01-02": {
			"kernel " + base + "flatcar@0123456789ab/files/kernel?mac=52:54:00:00:01:02 initrd=main flatcar.first_boot=1 " +
				"ignition.platform.id=metal ignition.config.url=http://192.168.200.2:8082/api/v1/ignition", "boot"},
		"/ipxe?mac=52-54-00-00-01-03": {"sanboot " + base + "streamed@0123456789ab.iso?mac=52:54:00:00:01:03"},
		"/ipxe?mac=52-54-00-00-01-04": {"exit 1"},
		"/ipxe?mac=52-54-00-00-01-05": {
			"kernel " + base + "pxe@0123456789ab~TOKEN/files/kernel?mac=52:54:00:00:01:05 initrd=main ignition.firstboot " +
				"ignition.platform.id=metal ignition.config.url=http://192.168.200.2:8082/api/v1/ignition?token=TOKEN " +
				"coreos.live.rootfs_url=" + base + "pxe@0123456789ab~TOKEN/files/rootfs",
			"initrd --name main " + base + "pxe@0123456789ab~TOKEN/files/initramfs?mac=52:54:00:00:01:05"},
		"/ipxe?mac=52-54-00-00-01-07": { // what docs/start/tutorial.md installs with
			"kernel " + base + "install@0123456789ab/files/kernel?mac=52:54:00:00:01:07 initrd=main " +
				"coreos.inst.install_dev=/dev/sda coreos.inst.ignition_url=http://192.168.200.2:8082/api/v1/ignition " +
				"coreos.live.rootfs_url=" + base + "install@0123456789ab/files/rootfs"},
		"/ipxe?mac=52-54-00-00-01-06": {"sanboot " + base + "streamed@0123456789ab~TOKEN.iso?mac=52:54:00:00:01:06"},
	} {
		_, body, _ := r.do(t, http.MethodGet, path)
		if token := tokenForm.FindString(body); token != "" {
			if _, ok := key.Issued("u", token); !ok {
				t.Errorf("%s is no token", token)
			}
			body = strings.ReplaceAll(body, token, "TOKEN")
		}
		for _, line := range lines {
			if !strings.Contains("\n"+body, "\n"+line+"\n") {
				t.Errorf("%s: no line %q in\n%s", path, line, body)
			}
		}
	}
	if got := strings.Join(r.journal.notices, ", "); got != decide.ReasonImageUnavailable {
		t.Errorf("arguments that are too long for a kernel: noticed %q", got)
	}
	for path, want := range map[string]string{
		"/iso/g10/pxe/files/kernel": "200 the kernel", "/iso/g10/pxe@0123456789ab/files/kernel": "200 the kernel",
		"/iso/g10/pxe@old/files/kernel": "404", "/iso/g10/pxe/files/shell": "404", "/iso/g10/pxe/files/../kernel": "404",
		"/iso/g10/pxe.iso": "404", "/iso/g10/pxe@0123456789ab.iso": "404", "/iso/g10/streamed@0123456789ab.iso": "200",
		"/iso/g10/streamed@old.iso":  "404",
		"/iso/g10/@0123456789ab.iso": "404",
	} {
		status, body, _ := r.do(t, http.MethodGet, path)
		code, text, _ := strings.Cut(want, " ")
		if code != strconv.Itoa(status) || text != "" && body != text {
			t.Errorf("%s: %d %.100q; want %s", path, status, body, want)
		}
	}
	r.Close()
	if opened.opened == 0 || opened.opened != opened.released {
		t.Errorf("%d opened, %d released", opened.opened, opened.released)
	}
}

var tokenForm = regexp.MustCompile(`[a-z2-7]{32}`)
