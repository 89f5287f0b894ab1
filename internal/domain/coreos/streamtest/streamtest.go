// Package streamtest writes stream metadata for tests, in the shapes of real
// documents: every architecture, artifact and format that those of Fedora CoreOS
// (coreos/fedora-coreos-streams, July 2026) and RHEL CoreOS (openshift/installer, 4.8
// to 4.22) list.
package streamtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// FCOS are the artifacts of Fedora CoreOS with their formats, by architecture.
var FCOS = map[string]map[string][]string{
	"x86_64": artifacts(`aliyun:qcow2.xz applehv:raw.gz aws:vmdk.xz azure:vhd.xz azurestack:vhd.xz digitalocean:qcow2.gz
		exoscale:qcow2.xz gcp:tar.gz hetzner:raw.xz hyperv:vhdx.zip ibmcloud:qcow2.xz kubevirt:ociarchive
		metal:4k.raw.xz,iso,pxe,raw.xz nutanix:qcow2 openstack:qcow2.xz oraclecloud:qcow2.xz
		proxmoxve:qcow2.xz qemu:qcow2.xz virtualbox:ova vmware:ova vultr:raw.xz`),
	"aarch64": artifacts(`applehv:raw.gz aws:vmdk.xz azure:vhd.xz gcp:tar.gz hetzner:raw.xz hyperv:vhdx.zip
		metal:4k.raw.xz,iso,pxe,raw.xz openstack:qcow2.xz oraclecloud:qcow2.xz qemu:qcow2.xz`),
	"ppc64le": artifacts(`metal:4k.raw.xz,iso,pxe,raw.xz openstack:qcow2.xz powervs:ova.gz qemu:qcow2.xz`),
	"s390x": artifacts(`ibmcloud:qcow2.xz kubevirt:ociarchive metal:4k.raw.xz,iso,pxe,raw.xz openstack:qcow2.xz
		qemu:qcow2.xz qemu-secex:qcow2.xz`),
}

// RHCOS are those of RHEL CoreOS.
var RHCOS = map[string]map[string][]string{
	"x86_64": artifacts(`aliyun:qcow2.gz aws:vmdk.gz azure:vhd.gz azurestack:vhd.gz gcp:tar.gz ibmcloud:qcow2.gz
		kubevirt:ociarchive metal:4k.raw.gz,iso,pxe,raw.gz nutanix:qcow2 openstack:qcow2.gz
		oraclecloud:qcow2.gz qemu:qcow2.gz vmware:ova`),
	"aarch64": artifacts(`aws:vmdk.gz azure:vhd.gz gcp:tar.gz metal:4k.raw.gz,iso,pxe,raw.gz nvidiabluefield:bfb
		openstack:qcow2.gz oraclecloud:qcow2.gz qemu:qcow2.gz`),
	"ppc64le": artifacts(`metal:4k.raw.gz,iso,pxe,raw.gz openstack:qcow2.gz powervs:ova.gz qemu:qcow2.gz`),
	"s390x": artifacts(`ibmcloud:qcow2.gz kubevirt:ociarchive metal:4k.raw.gz,iso,pxe,raw.gz openstack:qcow2.gz
		qemu:qcow2.gz qemu-secex:qcow2.gz`),
}

// artifacts reads a list such as "aws:vmdk.xz metal:iso,pxe".
func artifacts(list string) map[string][]string {
	all := map[string][]string{}
	for _, word := range strings.Fields(list) {
		name, formats, _ := strings.Cut(word, ":")
		all[name] = strings.Split(formats, ",")
	}
	return all
}

// Options are what a document is made with.
type Options struct {
	Stream, Release string
	// Modified is metadata.last-modified; empty: 2026-07-21T14:07:12Z.
	Modified string
	// Artifacts are FCOS (also where it is nil), RHCOS, or others of their form.
	Artifacts map[string]map[string][]string
	// Base is the URL of the folder that the files lie in.
	Base string
	// Content returns the bytes of the file with a name; nil: its name.
	Content func(name string) []byte
	// Unsigned leaves out the signatures, as RHEL CoreOS does.
	Unsigned bool
}

// object is a JSON object.
type object = map[string]any

// Document writes a document: four spaces deep, as the generator of Fedora CoreOS.
func Document(o Options) []byte {
	if o.Modified == "" {
		o.Modified = "2026-07-21T14:07:12Z"
	}
	if o.Artifacts == nil {
		o.Artifacts = FCOS
	}
	if o.Base == "" {
		o.Base = "https://builds.example/prod/streams/" + o.Stream + "/builds/" + o.Release
	}
	architectures := object{}
	for arch, artifacts := range o.Artifacts {
		listed := object{}
		for name, formats := range artifacts {
			all := object{}
			for _, format := range formats {
				all[format] = o.format(arch, name, format)
			}
			listed[name] = object{"release": o.Release, "formats": all}
		}
		architectures[arch] = object{"artifacts": listed, "images": o.images(arch)}
	}
	return indent(struct {
		Stream        string `json:"stream"`
		Metadata      object `json:"metadata"`
		Architectures object `json:"architectures"`
	}{o.Stream, object{"last-modified": o.Modified, "generator": "fedora-coreos-stream-generator v0.2.19"}, architectures})
}

func (o *Options) format(arch, artifact, format string) object {
	name := func(what string) string { return fmt.Sprintf("fedora-coreos-%s-%s", o.Release, what) }
	if format == "pxe" {
		return object{
			"kernel":    o.file(arch, name("live-kernel."+arch)),
			"initramfs": o.file(arch, name("live-initramfs."+arch+".img")),
			"rootfs":    o.file(arch, name("live-rootfs."+arch+".img")),
		}
	}
	what := artifact + "." + arch + "." + format
	if artifact == "metal" {
		if rest, big := strings.CutPrefix(format, "4k."); big {
			what = "metal4k." + arch + "." + rest
		} else if format == "iso" {
			what = "live-iso." + arch + ".iso"
		}
	}
	disk := o.file(arch, name(what))
	for _, packed := range []string{".xz", ".gz"} {
		if strings.HasSuffix(format, packed) {
			disk["uncompressed-sha256"] = digest([]byte("unpacked " + what))
		}
	}
	return object{"disk": disk}
}

func (o *Options) file(arch, name string) object {
	content := []byte(name)
	if o.Content != nil {
		content = o.Content(name)
	}
	location := o.Base + "/" + arch + "/" + name
	file := object{"location": location, "sha256": digest(content)}
	if !o.Unsigned {
		file["signature"] = location + ".sig"
	}
	return file
}

// images are the images that lie in clouds.
func (o *Options) images(arch string) object {
	switch arch {
	case "x86_64", "aarch64":
		regions := object{}
		for _, region := range []string{"af-south-1", "eu-central-1", "us-east-1", "us-gov-west-1"} {
			regions[region] = object{"release": o.Release, "image": "ami-" + digest([]byte(arch + region))[:17]}
		}
		return object{
			"aws": object{"regions": regions},
			"gcp": object{"release": o.Release, "project": "fedora-coreos-cloud", "family": "fedora-coreos-" + o.Stream,
				"name": "fedora-coreos-" + arch},
			"kubevirt": object{"release": o.Release, "image": "quay.io/fedora/fedora-coreos-kubevirt:" + o.Stream,
				"digest-ref": "quay.io/fedora/fedora-coreos-kubevirt@sha256:" + digest(nil)},
		}
	case "ppc64le":
		return object{"powervs": object{"regions": object{"au-syd": object{"release": o.Release, "object": "o.ova.gz",
			"bucket": "b", "url": "https://s3.example/b/o.ova.gz"}}}}
	}
	return object{}
}

// digest is the SHA-256 of a content in hex.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func indent(value any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "    ")
	if err := enc.Encode(value); err != nil {
		panic(err) // of strings and maps
	}
	return buf.Bytes()
}
