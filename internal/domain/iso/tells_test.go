package iso

import (
	"slices"
	"testing"
)

// TestTellsConfig: the arguments that tell a system where its config is are told from others with a URL.
func TestTellsConfig(t *testing.T) {
	for arg, want := range map[string]bool{
		"ignition.config.url=http://s/x": true, "inst.ks=hd:LABEL=X": true, "ks=http://s/x": true, "autoinstall": true,
		"talos.config=http://s/x": true, `"ds=nocloud;s=http://s/x"`: true, "own.system.config=https://s/x": true,
		"console=ttyS0": false, "quiet": false, "ip=ibft": false, "ignition.firstboot": false,
		"inst.ks=": false, "coreos.live.rootfs_url=http://s/x": false, "inst.stage2=http://s/x": false, "inst.repo=http://s/x": false,
	} {
		if got := TellsConfig(arg); got != want {
			t.Errorf("%s: %t, want %t", arg, got, want)
		}
	}
}

// TestFlatcarFindsItsConfig: the ISO of Flatcar is known by its kernel, since its label is CDROM, and its system finds
// its config. An argument in the image itself counts, too.
func TestFlatcarFindsItsConfig(t *testing.T) {
	config := "default flatcar\nprompt 1\ntimeout 15\nlabel flatcar\n  menu default\n  kernel /flatcar/vmlinuz\n" +
		"  append initrd=/flatcar/cpio.gz flatcar.autologin"
	for _, own := range []string{"", " flatcar.config.url=http://192.0.2.1/x"} {
		image := layout{volume: "CDROM", rockRidge: true, bios: "/isolinux/isolinux.bin", files: map[string]string{
			"/isolinux/isolinux.bin": "boot", "/isolinux/isolinux.cfg": config + own + "\n",
			"/flatcar/vmlinuz": "kernel", "/flatcar/cpio.gz": "initrd",
		}}.build(t)
		img := open(t, image)
		if _, tells, err := img.BootFiles(); img.Distro() != Flatcar || tells != (own != "") || err != nil {
			t.Errorf("%s, an argument of its own: %t, %v", img.Distro(), tells, err)
		}
		o := customize(t, image, Options{BaseURL: "http://192.0.2.1:8082"})
		want := []string{"flatcar.first_boot=1", "ignition.config.url=http://192.0.2.1:8082/api/v1/ignition"}
		if !slices.Equal(o.Args(), want) {
			t.Errorf("the arguments are %q", o.Args())
		}
	}
}
