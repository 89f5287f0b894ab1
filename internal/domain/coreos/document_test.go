package coreos_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"glowplug/internal/domain/coreos"
	"glowplug/internal/domain/coreos/streamtest"
)

// fcos and rhcos are whole documents.
var (
	fcos  = streamtest.Document(streamtest.Options{Stream: "stable", Release: "44.20260707.3.1"})
	rhcos = streamtest.Document(streamtest.Options{Stream: "rhcos-4.22", Release: "10.2.20260715-0",
		Artifacts: streamtest.RHCOS, Unsigned: true})
)

// flatcar is a document of the same form by hand: no signatures, no rootfs, no
// time, and an architecture that this program has never heard of.
const flatcar = `{"stream":"flatcar-stable","architectures":{
 "x86_64":{"artifacts":{"metal":{"release":"3815.2.0","formats":{
  "bin.bz2":{"disk":{"location":"https://stable.release.flatcar-linux.net/amd64-usr/3815.2.0/flatcar_production_image.bin.bz2","sha256":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}},
  "pxe":{"kernel":{"location":"https://stable.release.flatcar-linux.net/k","sha256":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"},
         "initramfs":{"location":"https://stable.release.flatcar-linux.net/i","sha256":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"}}}}}},
 "riscv64":{"artifacts":{}}}}`

func TestParseEverythingThatDocumentsList(t *testing.T) {
	for _, c := range []struct {
		name      string
		document  []byte
		artifacts map[string]map[string][]string
		release   string
	}{
		{"Fedora CoreOS", fcos, streamtest.FCOS, "44.20260707.3.1"},
		{"RHEL CoreOS", rhcos, streamtest.RHCOS, "10.2.20260715-0"},
	} {
		doc, err := coreos.Parse(c.document)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !bytes.Equal(doc.Raw, c.document) || doc.Release() != c.release || doc.LastModified.IsZero() ||
			len(doc.Hash) != 71 {
			t.Errorf("%s: release %q, modified %v, hash %q", c.name, doc.Release(), doc.LastModified, doc.Hash)
		}
		if got, want := doc.Architectures(), slices.Sorted(maps.Keys(c.artifacts)); !slices.Equal(got, want) {
			t.Errorf("%s: architectures %v", c.name, got)
		}
		for arch, artifacts := range c.artifacts {
			var want []string
			for name, formats := range artifacts {
				for _, format := range formats {
					want = append(want, name+"/"+format)
				}
			}
			slices.Sort(want)
			if got := doc.Artifacts(arch); !slices.Equal(got, want) {
				t.Errorf("%s: artifacts of %s: %v", c.name, arch, got)
			}
		}
	}
	doc, err := coreos.Parse([]byte(flatcar))
	if err != nil {
		t.Fatal(err)
	}
	listed, err := doc.List(nil, nil)
	if err != nil || len(listed) != 3 || listed[0].SHA256 != strings.Repeat("a", 64) || !doc.LastModified.IsZero() ||
		doc.Release() != "3815.2.0" {
		t.Errorf("%v %+v %q", err, listed, doc.Release())
	}
}

// small is a valid document; the cases below break it.
const small = `{"stream":"s","metadata":{"last-modified":"2026-01-02T03:04:05Z"},"architectures":{"x86_64":{"artifacts":{"metal":{"release":"1","formats":{
"iso":{"disk":{"location":"https://m/1.iso","signature":"https://m/1.iso.sig","sha256":"0000000000000000000000000000000000000000000000000000000000000000"}},
"raw.xz":{"disk":{"location":"https://m/1.raw.xz","sha256":"0000000000000000000000000000000000000000000000000000000000000000","uncompressed-sha256":"1111111111111111111111111111111111111111111111111111111111111111"}},
"pxe":{"kernel":{"location":"https://m/k","sha256":"2222222222222222222222222222222222222222222222222222222222222222"},"initramfs":{"location":"https://m/i","sha256":"3333333333333333333333333333333333333333333333333333333333333333"}}}}},
"images":{"aws":{"regions":{"eu-1":{"release":"1","image":"ami-1"}}}}}}}`

func TestParseErrorsNameThePlace(t *testing.T) {
	const iso = "architectures.x86_64.artifacts.metal.formats.iso.disk."
	for _, c := range []struct{ old, with, want string }{
		{`"sha256":"0000`, `"sha256":"zz00`, iso +
			`sha256: "zz00000000000000000000000000000000000000000000000000000000000000" is not a SHA-256 digest of 64 hex digits`},
		{`"sha256":"0000`, `"sha256":"`, iso +
			`sha256: "000000000000000000000000000000000000000000000000000000000000" is not a SHA-256`},
		{`"uncompressed-sha256":"1`, `"uncompressed-sha256":"x`,
			"architectures.x86_64.artifacts.metal.formats[raw.xz].disk.uncompressed-sha256: "},
		{`"location":"https://m/1.iso"`, `"location":""`, iso + "location: is empty"},
		{`"location":"https://m/1.iso",`, ``, iso + "location: is missing"},
		{`"location":"https://m/1.iso"`, `"Location":"https://m/1.iso"`, iso + "location: is missing"},
		{`"location":"https://m/1.iso"`, `"location":"https://m/1.iso","Location":"https://evil/"`,
			`has the member "Location" twice`},
		{`"location":"https://m/1.iso"`, `"location":"https://m/1.iso","location":"https://evil/"`,
			`has the member "location" twice at "architectures.x86_64.artifacts.metal.formats.iso.disk"`},
		{`"location":"https://m/1.iso"`, `"location":"ftp://m/1.iso"`, iso + "location: is not an http or https URL"},
		{`"location":"https://m/1.iso"`, `"location":"https://u:p@m/1.iso"`, iso +
			"location: holds a user name or a password"},
		{`"location":"https://m/1.iso"`, `"location":7`, iso + "location: must be a string, not a number"},
		{`"signature":"https://m/1.iso.sig"`, `"signature":"1.iso.sig"`, iso + "signature: is not an http or https URL"},
		{`"release":"1","formats"`, `"formats"`, "architectures.x86_64.artifacts.metal.release: is missing"},
		{`"release":"1","formats"`, `"release":"../1","formats"`,
			`architectures.x86_64.artifacts.metal.release: "../1" is not a name`},
		{`"iso":{"disk"`, `"iso":{},"iso2":{"disk"`, "architectures.x86_64.artifacts.metal.formats.iso: lists no file"},
		{`"iso":{`, `"i/so":{`, `architectures.x86_64.artifacts.metal.formats[i/so]: "i/so" is not a name`},
		{`"initramfs":{"location":"https://m/i",`, `"initrd":{"location":"https://m/i",`,
			"architectures.x86_64.artifacts.metal.formats.pxe.initramfs: is missing: nothing boots over PXE without it"},
		{`"x86_64"`, `"amd64"`, "architectures.amd64: is not a name of stream metadata: want x86_64"},
		{`"artifacts":{"metal"`, `"artifact":{"metal"`, "architectures.x86_64.artifacts: is missing"},
		{`"images":{"aws":{"regions"`, `"images":{"aws":{"regions":[],"was"`,
			"architectures.x86_64.images.aws.regions: must not be a JSON array"},
		{`"image":"ami-1"`, `"image":""`, "architectures.x86_64.images.aws.regions.eu-1.image: is empty"},
		{`2026-01-02T03:04:05Z`, `yesterday`,
			`metadata.last-modified: "yesterday" is not a time such as 2022-11-02T18:50:21Z`},
		{`"stream":"s",`, ``, "stream: is missing"},
		{`"architectures":{"x86_64"`, `"architectures":{},"others":{"x86_64"`, "architectures: lists none"},
		{`{"stream":"s",`, `{"stream":"s",,`, "is not JSON: line 1: "},
		{`"images":{"aws"`, `"images":` + strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat("}", 40) + `,"more":{"aws"`,
			"is nested deeper than 32 levels"},
	} {
		broken := strings.Replace(small, c.old, c.with, 1)
		if broken == small {
			t.Fatalf("%q is not in the document", c.old)
		}
		if _, err := coreos.Parse([]byte(broken)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n got %v\nwant %s", c.with, err, c.want)
		}
	}
	for _, c := range []struct{ document, want string }{
		{"", "is not JSON: it ends too early"},
		{"[]", "must be an object, not a list"},
		{"null", "must be an object, not null"},
		{small + "{}", "goes on after the end of its JSON"},
		{small[:200], "it ends too early"},
		{"\xff", "is not UTF-8 text"},
		{`{"baseURI":"https://m/","buildid":"1","images":{}}`, "is of the older rhcos.json form"},
		{small + strings.Repeat(" ", coreos.MaxDocument), "more than the 1044480 that a document may have"},
		{`{"stream":"s","architectures":{` + listOf(33) + `}}`,
			"architectures: lists 33, more than the 32 that there may be"},
		{`{"stream":"s","architectures":{"x86_64":{"artifacts":{` + listOf(257) + `}}}}`,
			"architectures.x86_64.artifacts: lists 257, more than the 256"},
		{`{"stream":"s","architectures":{"x86_64":{"artifacts":{"metal":{"release":"1","formats":{` + listOf(65) + `}}}}}}`,
			"formats: lists 65, more than the 64"},
		{`{"stream":"s","architectures":{"` + strings.Repeat("x", 1<<16) + `":{}}}`, "architectures[" + strings.Repeat("x",
			64) + "…]: "},
	} {
		if _, err := coreos.Parse([]byte(c.document)); err == nil || len(err.Error()) > 4096 || !strings.Contains(err.Error(),
			c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	// What is wrong everywhere is said, to a bound.
	_, err := coreos.Parse([]byte(strings.ReplaceAll(string(fcos), `"sha256": "`, `"sha256": "x`)))
	if err == nil || !strings.HasSuffix(err.Error(), "; and 56 more") {
		t.Error(err)
	}
}

// listOf is as many members.
func listOf(count int) string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf(`"a%d":{}`, i))
	}
	return strings.Join(all, ",")
}

// TestUnknownSurvives: what this program does not know is kept, and rewriting
// touches nothing but locations.
func TestUnknownSurvives(t *testing.T) {
	text := strings.Replace(small, `"stream":"s",`, `"stream":"s", "x-site": {"owner": ["a", 1.50, null, "\u00e9"]},`, 1)
	text = strings.Replace(text, `"metal":{"release":"1",`,
		`"abacus":{"release":"1","formats":{"beads":{"frame":{"location":"https://m/f"}}}},"metal":{"release":"1","since":"2026",`, 1)
	text = strings.Replace(text, `"iso":{`, `"iso":{"manifest":{"location":"https://m/manifest"},`, 1)
	text = strings.Replace(text, `"images":{`, `"images":{"moon":{"region":"dark side"},`, 1)
	doc, err := coreos.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if string(doc.Raw) != text || !slices.Contains(doc.Artifacts("x86_64"), "abacus/beads") {
		t.Errorf("%v %s", doc.Artifacts("x86_64"), doc.Raw)
	}
	same, err := doc.Rewrite(func(_ coreos.Listed, _, url string) string { return url })
	if err != nil || string(same) != text {
		t.Errorf("%v\n%s", err, same)
	}
	moved, err := doc.Rewrite(func(at coreos.Listed, member, url string) string {
		if at.Artifact != "metal" || at.Release != "1" || at.Role == "" || member != "location" && member != "signature" {
			t.Errorf("%+v %s", at, member)
		}
		return strings.Replace(url, "https://m/", "http://mirror/a&b/", 1)
	})
	want := text
	for _, name := range []string{`1.iso"`, `1.iso.sig"`, `1.raw.xz"`, `k"`, `i"`} {
		want = strings.Replace(want, `"https://m/`+name, `"http://mirror/a&b/`+name, 1)
	}
	if err != nil || string(moved) != want {
		t.Errorf("%v\n got %s\nwant %s", err, moved, want)
	}
	if _, err := coreos.Parse(moved); err != nil {
		t.Error(err)
	}
}

func BenchmarkParse(b *testing.B) {
	b.SetBytes(int64(len(fcos)))
	for b.Loop() {
		if _, err := coreos.Parse(fcos); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{small, flatcar, `{"stream":"a","architectures":{"x86_64":{"artifacts":{}}}}`,
		`{"a":{"a":1}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := coreos.Parse(data)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a word")
			}
			return
		}
		moved, err := doc.Rewrite(func(_ coreos.Listed, _, url string) string { return url + "/x" })
		if err != nil {
			t.Fatal(err)
		}
		again, err := coreos.Parse(moved)
		if err != nil {
			t.Skip("a URL that takes no more") // an IPv6 zone, a fragment
		}
		back, err := again.Rewrite(func(_ coreos.Listed, _, url string) string { return strings.TrimSuffix(url, "/x") })
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if json.Unmarshal(data, &a) != nil || json.Unmarshal(back, &b) != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("rewritten and back:\n%s\n%s", data, back)
		}
	})
}

func TestMirrorPath(t *testing.T) {
	got, err := coreos.MirrorPath("stable", "1", "x86_64", "metal", "https://m/a/fedora%2Dcoreos.iso?x=1")
	if err != nil || got != "stable/1/x86_64/metal/fedora-coreos.iso" {
		t.Error(got, err)
	}
	for _, bad := range []string{"https://m", "https://m/", "https://m/a/..", "https://m/a/%2e%2e", "https://m/.hidden",
		"https://m/a%2f..%2f..%2fetc%2f..", "https://m/a%00b", "https://m/a b"} {
		if got, err := coreos.MirrorPath("stable", "1", "x86_64", "metal", bad); err == nil {
			t.Errorf("%s: %s", bad, got)
		}
	}
}
