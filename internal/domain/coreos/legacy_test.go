package coreos_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"glowplug/internal/domain/coreos"
)

// rhcosJSON is the older form as the OpenShift installer had it for 4.7, with the
// images of the installer before 4.6 beside the live ones.
const rhcosJSON = `{
    "amis": {"eu-west-1": {"hvm": "ami-0770d1d7e95da7ba3"}, "us-east-1": {"hvm": "ami-0523c75e911667e58"}},
    "azure": {"image": "rhcos-47.83.202103251640-0-azure.x86_64.vhd", "url": "https://rhcos.blob.example/imagebucket/rhcos-47.83.202103251640-0-azure.x86_64.vhd"},
    "baseURI": "https://releases.example/art/rhcos-4.7/47.83.202103251640-0/x86_64/",
    "buildid": "47.83.202103251640-0",
    "gcp": {"image": "rhcos-47-83-202103251640-0-gcp-x86-64", "project": "rhcos-cloud", "url": "https://storage.example/rhcos/47.tar.gz"},
    "images": {
        "aws": {"path": "rhcos-47.83.202103251640-0-aws.x86_64.vmdk.gz", "sha256": "1111111111111111111111111111111111111111111111111111111111111111", "size": 991984532, "uncompressed-sha256": "2222222222222222222222222222222222222222222222222222222222222222", "uncompressed-size": 1013014528},
        "iso": {"path": "rhcos-47.83.202103251640-0-installer.x86_64.iso", "sha256": "3333333333333333333333333333333333333333333333333333333333333333"},
        "live-initramfs": {"path": "rhcos-47.83.202103251640-0-live-initramfs.x86_64.img", "sha256": "4444444444444444444444444444444444444444444444444444444444444444"},
        "live-iso": {"path": "rhcos-47.83.202103251640-0-live.x86_64.iso", "sha256": "5555555555555555555555555555555555555555555555555555555555555555"},
        "live-kernel": {"path": "rhcos-47.83.202103251640-0-live-kernel-x86_64", "sha256": "6666666666666666666666666666666666666666666666666666666666666666"},
        "live-rootfs": {"path": "rhcos-47.83.202103251640-0-live-rootfs.x86_64.img", "sha256": "7777777777777777777777777777777777777777777777777777777777777777"},
        "metal": {"path": "rhcos-47.83.202103251640-0-metal.x86_64.raw.gz", "sha256": "8888888888888888888888888888888888888888888888888888888888888888", "size": 1, "uncompressed-sha256": "9999999999999999999999999999999999999999999999999999999999999999", "uncompressed-size": 2},
        "metal4k": {"path": "rhcos-47.83.202103251640-0-metal4k.x86_64.raw.gz", "sha256": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
        "ostree": {"path": "rhcos-47.83.202103251640-0-ostree.x86_64.tar", "sha256": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "size": 926402560},
        "vmware": {"path": "rhcos-47.83.202103251640-0-vmware.x86_64.ova", "sha256": "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc", "size": 1031915520}
    },
    "oscontainer": {"digest": "sha256:eb81", "image": "quay.io/openshift-release-dev/ocp-v4.0-art-dev"},
    "ostree-commit": "86e3934e5a039782f1f1df0f827ce00be7572f9be2441e0d7631a20dff9b2933",
    "ostree-version": "47.83.202103251640-0"
}`

func TestLegacyThereAndBack(t *testing.T) {
	if !coreos.IsLegacy([]byte(rhcosJSON)) || coreos.IsLegacy(fcos) {
		t.Fatal("the forms are not told apart")
	}
	doc, err := coreos.FromLegacy("", []byte(rhcosJSON))
	if err != nil {
		t.Fatal(err)
	}
	if doc.Stream.Stream != "rhcos-4.7" || doc.Release() != "47.83.202103251640-0" ||
		doc.Stream.Metadata.LastModified != "2021-03-25T16:40:00Z" {
		t.Errorf("%+v %s", doc.Stream, doc.Release())
	}
	if got := strings.Join(doc.Artifacts("x86_64"),
		" "); got != "aws/vmdk.gz metal/4k.raw.gz metal/iso metal/pxe metal/raw.gz vmware/ova" {
		t.Error(got)
	}
	arch := doc.Stream.Architectures["x86_64"]
	if arch.Images.Aws.Regions["us-east-1"].Image != "ami-0523c75e911667e58" || arch.Images.Gcp.Project != "rhcos-cloud" ||
		arch.RHELCoreOSExtensions.AzureDisk.URL == "" || len(doc.Raw) == 0 {
		t.Errorf("%+v", arch)
	}
	iso, err := doc.Stream.QueryDisk("x86_64", "metal", "iso")
	if err != nil || iso.Location != "https://releases.example/art/rhcos-4.7/47.83.202103251640-0/x86_64/rhcos-47.83.202103251640-0-live.x86_64.iso" {
		t.Error(iso, err)
	}
	again, _ := coreos.FromLegacy("", []byte(rhcosJSON))
	if again.Hash != doc.Hash {
		t.Error("the same document becomes another each time")
	}
	back, err := doc.Legacy("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if json.Unmarshal([]byte(rhcosJSON), &want) != nil || json.Unmarshal(back, &got) != nil || !reflect.DeepEqual(want,
		got) {
		t.Errorf("%s", back)
	}
}

// TestLegacyOfTheOldInstaller: before 4.6 there were no live images.
func TestLegacyOfTheOldInstaller(t *testing.T) {
	old := strings.NewReplacer(`"live-iso"`, `"iso"`, `"iso"`, `"iso-was"`, `"live-kernel"`, `"kernel"`,
		`"live-initramfs"`, `"initramfs"`, `"live-rootfs"`, `"ostree2"`).Replace(rhcosJSON)
	doc, err := coreos.FromLegacy("", []byte(old))
	if err != nil {
		t.Fatal(err)
	}
	pxe := doc.Stream.Architectures["x86_64"].Artifacts["metal"].Formats["pxe"]
	if pxe.Kernel == nil || pxe.Initramfs == nil || pxe.Rootfs != nil {
		t.Errorf("%+v", pxe)
	}
	back, err := doc.Legacy("x86_64")
	var want, got any
	if err != nil || json.Unmarshal([]byte(old), &want) != nil || json.Unmarshal(back, &got) != nil ||
		!reflect.DeepEqual(want, got) {
		t.Errorf("%v %s", err, back)
	}
}

// TestLegacyOfSeveralArchitectures: one document each, of builds of their own.
func TestLegacyOfSeveralArchitectures(t *testing.T) {
	z := strings.NewReplacer("x86_64", "s390x", "202103251640", "202104011200", "amis", "amis-not").Replace(rhcosJSON)
	doc, err := coreos.FromLegacy("", []byte(rhcosJSON), []byte(z))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(doc.Architectures(), " "); got != "s390x x86_64" || doc.Release() != "47.83.202103251640-0" ||
		doc.Stream.Metadata.LastModified != "2021-04-01T12:00:00Z" ||
		doc.Stream.Architectures["s390x"].Artifacts["metal"].Release != "47.83.202104011200-0" {
		t.Errorf("%s %s %+v", got, doc.Release(), doc.Stream.Metadata)
	}
	for arch, text := range map[string]string{"x86_64": rhcosJSON, "s390x": z} {
		back, err := doc.Legacy(arch)
		var want, got any
		if err != nil || json.Unmarshal([]byte(text), &want) != nil || json.Unmarshal(back, &got) != nil ||
			!reflect.DeepEqual(want, got) {
			t.Errorf("%s: %v %s", arch, err, back)
		}
	}
	if _, err := coreos.FromLegacy("", []byte(rhcosJSON), []byte(rhcosJSON)); err == nil ||
		err.Error() != "is of x86_64, and so is another" {
		t.Error(err)
	}
}

func TestLegacyOfStreamMetadata(t *testing.T) {
	doc, err := coreos.Parse(rhcos)
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range doc.Architectures() {
		text, err := doc.Legacy(arch)
		if err != nil {
			t.Fatal(err)
		}
		back, err := coreos.FromLegacy("rhcos-4.22", text)
		if err != nil {
			t.Fatalf("%s: %v", arch, err)
		}
		if got, want := strings.Join(back.Artifacts(arch), " "), strings.Join(doc.Artifacts(arch), " "); got != want {
			t.Errorf("%s: %s, not %s", arch, got, want)
		}
	}
	if _, err := doc.Legacy("m68k"); err == nil ||
		err.Error() != "the stream has no architecture m68k, only aarch64, ppc64le, s390x, x86_64" {
		t.Error(err)
	}
	for _, other := range []string{"https://other/", "http://m/"} {
		apart, err := coreos.Parse([]byte(strings.Replace(small, "https://m/1.iso", other+"1.iso", 1)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := apart.Legacy("x86_64"); err == nil || !strings.Contains(err.Error(), "on several servers") {
			t.Error(err)
		}
	}
}

func TestLegacyErrors(t *testing.T) {
	for _, c := range []struct{ old, with, want string }{
		{`"sha256": "1`, `"sha256": "x`, "architectures.x86_64.artifacts.aws.formats[vmdk.gz].disk.sha256: "},
		{`"baseURI": "https:`, `"baseURI": "file:`, "baseURI: is not an http or https URL"},
		{`"buildid": "47.83.202103251640-0",`, `"buildid": 47,`, "buildid: must not be a JSON number"},
		{`"buildid": "47.83.202103251640-0",`, `"buildid": "seven",`, `buildid: tells no stream: name it`},
		{`"path": "rhcos-47.83.202103251640-0-aws`, `"path": 9, "p": "rhcos-aws`,
			"images.aws.path: must not be a JSON number"},
		{`"images": {`, `"images": {}, "other": {`, "images: no image is named after an architecture"},
		{`"amis": {`, `"amis": [], "old": {`, "amis: must not be a JSON array"},
	} {
		broken := strings.Replace(rhcosJSON, c.old, c.with, 1)
		if _, err := coreos.FromLegacy("", []byte(broken)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
}

func FuzzLegacy(f *testing.F) {
	f.Add([]byte(rhcosJSON))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := coreos.FromLegacy("s", data)
		if err != nil {
			return
		}
		for _, arch := range doc.Architectures() {
			_, _ = doc.Legacy(arch) // may be of several servers
		}
	})
}
