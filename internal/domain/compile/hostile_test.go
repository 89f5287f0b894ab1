package compile

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"glowplug/internal/testkit"
)

// fill repeats part until the whole is as large as a source may be.
func fill(head, part, tail string) string {
	return head + strings.Repeat(part, (MaxSource-len(head)-len(tail))/len(part)) + tail
}

// numbered is fill with a part that has one %d, for a number that counts up.
func numbered(head, part, tail string, limit int) string {
	var b strings.Builder
	b.WriteString(head)
	for i := 0; i < limit && b.Len()+len(part)+len(tail)+8 < MaxSource; i++ {
		b.WriteString(strings.ReplaceAll(part, "%d", fmt.Sprint(i)))
	}
	b.WriteString(tail)
	return b.String()
}

const (
	fcos = "variant: fcos\nversion: 1.5.0\n"
	ign  = `{"ignition":{"version":"3.6.0"}`
	ign2 = `{"ignition":{"version":"2.4.0"}`
	all  = 1 << 30
)

// hostile are sources that cost a parser or the library most for their size.
var hostile = []struct{ name, format, config string }{
	{"json/deep lists", FormatIgnition, fill("", "[", "")},
	{"json/deep valid", FormatIgnition, ign + `,"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}"},
	{"json/deep objects", FormatIgnition, ign + `,"x":` + strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000) +
		"}"},
	{"json/empty lists", FormatIgnition, fill(ign+`,"x":[[]`, ",[]", "]}")},
	{"json/zeros", FormatIgnition, fill(ign+`,"x":[0`, ",0", "]}")},
	{"json/unused keys", FormatIgnition, numbered(ign, `,"k%d":0`, "}", 49_000)},
	{"json/more unused keys", FormatIgnition, numbered(ign, `,"k%d":0`, "}", all)},
	{"json/unused keys in files", FormatIgnition, numbered(ign+`,"storage":{"files":[{"path":"/x"}`,
		`,{"path":"/f%d","x":0}`, "]}}", 16_000)},
	{"json/files at the limit", FormatIgnition, numbered(ign+`,"storage":{"files":[{"path":"/x"}`, `,{"path":"/f%d"}`,
		"]}}", 24_500)},
	{"json/files", FormatIgnition, numbered(ign+`,"storage":{"files":[{"path":"/x"}`, `,{"path":"/f%d"}`, "]}}", all)},
	{"json/empty files", FormatIgnition, fill(ign+`,"storage":{"files":[{}`, `,{}`, "]}}")},
	{"json/bad files", FormatIgnition, numbered(ign+`,"storage":{"files":[{}`, `,{}`, "]}}", 24_900)},
	{"json/empty units", FormatIgnition, numbered(ign+`,"systemd":{"units":[{}`, `,{}`, "]}}", 24_900)},
	{"json/links", FormatIgnition, numbered(ign+`,"storage":{"links":[{"path":"/x"}`, `,{"path":"/f%d"}`, "]}}", 40_000)},
	{"json/links and files", FormatIgnition, numbered(numbered(ign+`,"storage":{"links":[{"path":"/x","target":"/"}`,
		`,{"path":"/l%d","target":"/"}`, `],"files":[{"path":"/y"}`, 240), `,{"path":"/f%d"}`, "]}}", 20_000)},
	{"json/partitions", FormatIgnition, numbered(ign+`,"storage":{"disks":[{"device":"/dev/sda","partitions":[{}`,
		`,{"number":%d,"startMiB":%d,"sizeMiB":1}`, "]}]}}", all)},
	{"json/partitions at the limit", FormatIgnition,
		numbered(ign+`,"storage":{"disks":[{"device":"/dev/sda","partitions":[{}`, `,{"number":%d,"startMiB":%d,"sizeMiB":1}`,
			"]}]}}", 3100)},
	{"json/instances", FormatIgnition, numbered(ign+`,"systemd":{"units":[{"name":"a@.service","contents":"`+
		strings.Repeat(`[Unit]\nA=b\n`, 80_000)+`"}`, `,{"name":"a@%d.service","enabled":true}`, "]}}", all)},
	{"json/instances with an odd name", FormatIgnition,
		numbered(ign+`,"systemd":{"units":[{"name":"@@.service","contents":"`+strings.Repeat(`[Unit]\nA=b\n`, 80_000)+`"}`,
			`,{"name":"@@%d.service","enabled":true}`, "]}}", all)},
	{"json/unit of sections", FormatIgnition, fill(ign+`,"systemd":{"units":[{"name":"a.service","contents":"`, `[U]\n`,
		`"}]}}`)},
	{"json/unit of continuations", FormatIgnition, fill(ign+`,"systemd":{"units":[{"name":"a.service","contents":"[U]\nA=`,
		`\\\n`, `"}]}}`)},
	{"json/unit name", FormatIgnition, fill(ign+`,"systemd":{"units":[{"enabled":true,"name":"`, `@`, `.service"}]}}`)},
	{"json/data URL", FormatIgnition, fill(ign+`,"storage":{"files":[{"path":"/a","contents":{"source":"data:,`, `%20`,
		`"}}]}}`)},
	{"json/data URL of letters", FormatIgnition, fill(ign+`,"storage":{"files":[{"path":"/a","contents":{"source":"data:,`,
		`aa`, `"}}]}}`)},
	{"json/data URL parameters", FormatIgnition,
		fill(ign+`,"storage":{"files":[{"path":"/a","contents":{"source":"data:text/plain`, `;a=b`, `,x"}}]}}`)},
	{"json/path", FormatIgnition, fill(ign+`,"storage":{"files":[{"path":"`, `/..`, `"}]}}`)},
	{"json/escapes", FormatIgnition, fill(ign+`,"x":"`, `\u0001`, `"}`)},
	{"json/duplicate keys", FormatIgnition, fill(ign, `,"a":0`, "}")},
	{"json/newlines", FormatIgnition, fill("", "\n", ign+"}")},
	{"json/case of keys", FormatIgnition, numbered(ign, `,"KſK%d":0`, "}", 49_000)},

	{"json/directories and files", FormatIgnition, numbered(numbered(ign+`,"storage":{"directories":[{"path":"/d"}`,
		`,{"path":"/d%d"}`, `],"files":[{"path":"/f"}`, 2400), `,{"path":"/f%d"}`, "]}}", 2400)},
	{"json/packed files", FormatIgnition, numbered(ign+`,"storage":{"files":[{"path":"/f"}`,
		`,{"path":"/f%d","contents":{"compression":"gzip","source":"data:;base64,`+packed(64<<10)+`"}}`, "]}}", 1800)},

	{"json/2.4 unused keys", FormatIgnition, numbered(ign2, `,"k%d":0`, "}", 49_000)},
	{"json/2.4 keys of other versions", FormatIgnition, numbered(ign2+`,"storage":{"files":[{}`,
		`,{"httpHeaders":0,"k%d":0}`, "]}}", 16_000)},
	{"json/2.4 files at the limit", FormatIgnition, numbered(ign2+`,"storage":{"files":[{"path":"/x"}`, `,{"path":"/f%d"}`,
		"]}}", 24_500)},
	{"json/2.4 bad files on lines", FormatIgnition, numbered(ign2+`,"storage":{"files":[{}`, ",\n\n\n{}", "]}}", 24_900)},
	{"json/2.4 empty units", FormatIgnition, numbered(ign2+`,"systemd":{"units":[{}`, `,{}`, "]}}", 24_900)},
	{"json/2.4 partitions at the limit", FormatIgnition, numbered(ign2+
		`,"storage":{"disks":[{"device":"/dev/sda","partitions":[{}`, `,{"number":%d,"start":%d,"size":1}`, "]}]}}", 3100)},
	{"json/2.4 headers", FormatIgnition, numbered(ign2+`,"storage":{"files":[{"contents":{"httpHeaders":[{}`,
		`,{"name":"k%d"}`, "]}}]}}", 24_000)},

	{"yaml/deep flow", FormatButane, fill(fcos+"x: ", "[", "")},
	{"yaml/deep flow below the limit", FormatButane, fcos + "x: " + strings.Repeat("[", 9990) + strings.Repeat("]", 9990)},
	{"yaml/many deep flows", FormatButane, fill(fcos+"x: [0", ","+strings.Repeat("[", 9000)+strings.Repeat("]", 9000),
		"]")},
	{"yaml/deep maps", FormatButane, fcos + "x: " + strings.Repeat("{a: ", 9990) + strings.Repeat("}", 9990)},
	{"yaml/deep blocks", FormatButane, fill(fcos, "- ", "")},
	{"yaml/deep indent", FormatButane, numbered(fcos, "", "", 0) + deepIndent()},
	{"yaml/flow items", FormatButane, fill(fcos+"x: [", ",a", "]")},
	{"yaml/flow commas", FormatButane, fill(fcos+"x: [", "a,", "]")},
	{"yaml/flow pairs", FormatButane, fill(fcos+"x: [", "a:,", "]")},
	{"yaml/flow maps", FormatButane, fill(fcos+"x: {", "a,", "}")},
	{"yaml/empty maps", FormatButane, fill(fcos+"x: [", "{},", "]")},
	{"yaml/block items", FormatButane, fill(fcos+"x:\n", "-\n", "")},
	{"yaml/questions", FormatButane, fill(fcos+"x:\n", "?\n", "")},
	{"yaml/colons", FormatButane, fill(fcos+"x:\n", " :\n", "")},
	{"yaml/unused keys", FormatButane, numbered(fcos, "k%d: 0\n", "", all)},
	{"yaml/unused keys in files", FormatButane, numbered(fcos+"storage:\n  files:\n", "  - {path: /f%d, x: 0}\n", "",
		11_000)},
	{"yaml/maps of keys at the limit", FormatButane, manyMaps()},
	{"yaml/files at the limit", FormatButane, numbered(fcos+"storage:\n  files:\n", "  - path: /f%d\n", "", 14_900)},
	{"yaml/inline files at the limit", FormatButane, numbered(fcos+"storage:\n  files:\n",
		"  - {path: /f%d, contents: {inline: x}}\n", "", 5_200)},
	{"yaml/all at the limit", FormatButane, numbered(numbered(fcos+"storage:\n  files:\n",
		"  - {path: /f%d, contents: {inline: x}}\n", "  directories:\n", 5_190), "  - {path: /d%d}\n", "", 4_500)},
	{"yaml/files", FormatButane, numbered(fcos+"storage:\n  files:\n", "  - path: /f%d\n", "", all)},
	{"yaml/links", FormatButane, numbered(fcos+"storage:\n  links:\n", "  - {path: /f%d, target: /}\n", "", 19_000)},
	{"yaml/units", FormatButane, numbered(fcos+"systemd:\n  units:\n", "  - {name: f%d.service}\n", "", 14_900)},
	{"yaml/users", FormatButane, numbered(fcos+"passwd:\n  users:\n", "  - {name: f%d}\n", "", 14_900)},
	{"yaml/keys of a user", FormatButane, numbered(fcos+"passwd:\n  users:\n  - name: a\n    ssh_authorized_keys:\n",
		"    - k%d\n", "", 59_000)},
	{"yaml/kernel arguments", FormatButane, numbered(fcos+"kernel_arguments:\n  should_exist:\n", "  - k%d\n", "",
		59_000)},
	{"yaml/filesystems with mount units", FormatButane, numbered(fcos+"storage:\n  filesystems:\n",
		"  - {path: /var/f%d, device: /dev/%d, format: ext4, with_mount_unit: true}\n", "", all)},
	{"yaml/mirror", FormatButane, numbered(fcos+"boot_device:\n  layout: x86_64\n  mirror:\n    devices:\n",
		"    - /dev/d%d\n", "", 256)},
	{"yaml/mirrors above the limit", FormatButane, numbered(fcos+
		"boot_device:\n  layout: x86_64\n  mirror:\n    devices:\n", "    - /dev/d%d\n", "", 50_000)},
	{"yaml/empty files", FormatButane, fill(fcos+"storage: {files: [", "{},", "]}\n")},
	{"yaml/bad files", FormatButane, numbered(fcos+"storage: {files: [", "{},", "]}\n", 14_900)},
	{"yaml/bad units", FormatButane, numbered(fcos+"systemd: {units: [", "{},", "]}\n", 14_900)},
	{"yaml/texts of units", FormatButane, numbered(fcos+"systemd:\n  units:\n", "  - {name: f%d.service, contents: x}\n",
		"", 5_200)},
	{"yaml/instances", FormatButane, numbered(fcos+"systemd: {units: [{name: a@.service, contents: '"+
		strings.Repeat("[Unit]\n\n\n", 100_000)+"'},\n", "{name: a@%d.service, enabled: true},\n", "]}", 14_000)},
	{"yaml/filesystems and luks", FormatButane, numbered(numbered(fcos+"storage: {filesystems: [",
		"{path: /var/f%d, device: /dev/%d, format: ext4, with_mount_unit: true},", "], luks: [", 2_000),
		"{name: l%d, device: /dev/x},", "]}", 5_000)},
	{"yaml/children within bounds", FormatButane, numbered("variant: fcos\nversion: 1.7.0\nignition: {config: {merge: [",
		"{inline: '"+ign+`,"storage":{"files":[{}`+strings.Repeat(",{}", 5000)+"]}}'},", "]}}\n", 10)},
	{"yaml/directives by other breaks", FormatButane, numbered("", "%TAG !a%d! b\r", "---\n"+fcos, all)},
	{"yaml/directives in the second document", FormatButane, numbered(fcos+"...\n", "%TAG !a%d! b\n", "---\n"+fcos, all)},
	{"yaml/anchors", FormatButane, numbered(fcos+"x:\n", "- &a%d b\n", "", all)},
	{"yaml/aliases", FormatButane, fill(fcos+"x:\n- &a b\n", "- *a\n", "")},
	{"yaml/alias bomb", FormatButane, aliasBomb()},
	{"yaml/alias bomb in fields", FormatButane, fill(fcos+"x: &a\n"+strings.Repeat("- {path: /a}\n", 1000)+
		"storage:\n  files: &f\n", "  - *a\n", "")},
	{"yaml/alias of a large text", FormatButane, numbered(fcos+"x: &a "+strings.Repeat("a", 1<<20)+
		"\nstorage:\n  files:\n", "  - {path: /f%d, contents: {inline: *a}}\n", "", all)},
	{"yaml/alias of itself", FormatButane, fcos + "x: &a [*a]\n"},
	{"yaml/merge keys", FormatButane, fill(fcos+"x: &a {path: /a}\nstorage:\n  files:\n", "  - {<<: *a}\n", "")},
	{"yaml/merge lists", FormatButane, fill(fcos+"x: &a {path: /a}\nstorage:\n  files:\n  - <<: [", "*a,", "]\n")},
	{"yaml/deep child", FormatButane, "variant: fcos\nversion: 1.7.0\nignition: {config: {replace: {inline: '" +
		strings.Repeat("[", 9990) + strings.Repeat("]", 9990) + "'}}}\n"},
	{"yaml/deep child with fields", FormatButane, "variant: fcos\nversion: 1.7.0\nignition: {config: {merge: [{inline: '" +
		ign + `,"x":` + strings.Repeat(`{"a":`, 9990) + "1" + strings.Repeat("}", 9990) + "}'}]}}\n"},
	{"yaml/many children", FormatButane, numbered("variant: fcos\nversion: 1.7.0\nignition: {config: {merge: [",
		"{inline: '{\"ignition\":{\"version\":\"3.6.0\"},\"k%d\":0}'},", "]}}\n", all)},
	{"yaml/wide child", FormatButane, numbered("variant: fcos\nversion: 1.7.0\nignition: {config: {merge: [{inline: '"+ign,
		`,"k%d":0`, "}'}]}}\n", 49_000)},
	{"yaml/incompressible text", FormatButane, noise()},
	{"yaml/compressible text", FormatButane,
		fill(fcos+"storage:\n  files:\n  - path: /a\n    contents:\n      inline: |\n", "        aab\n", "")},
	{"yaml/text of one letter", FormatButane, fill(fcos+"storage: {files: [{path: /a, contents: {inline: '", "a",
		"'}}]}\n")},
	{"yaml/double quoted escapes", FormatButane, fill(fcos+"x: \"", `\x01`, "\"\n")},
	{"yaml/folded text", FormatButane, fill(fcos+"x: >\n", "  a\n\n", "")},
	{"yaml/spaces", FormatButane, fill(fcos+"x: a", " ", "b\n")},
	{"yaml/long key", FormatButane, fill(fcos, "a", ": b\n")},
	{"yaml/comments", FormatButane, fill(fcos, "#\n", "")},
	{"yaml/comments in flow", FormatButane, fill(fcos+"x: [", "#\n", "]\n")},
	{"yaml/comments behind values", FormatButane, fill(fcos+"x:\n", "- a #\n", "")},
	{"yaml/comment blocks before items", FormatButane, fill(fcos+"x:\n", "#\n\n#\n- a\n", "")},
	{"yaml/documents", FormatButane, fill("", "---\n", "")},
	{"yaml/documents after one", FormatButane, fill(fcos, "---\n", "")},
	{"yaml/ends", FormatButane, fill(fcos, "...\n", "")},
	{"yaml/directives", FormatButane, fill("", "%TAG !a! b\n", "---\n"+fcos)},
	{"yaml/more directives", FormatButane, numbered("", "%TAG !a%d! b\n", "---\n"+fcos, all)},
	{"yaml/tags", FormatButane, fill(fcos+"x:\n", "- !!a b\n", "")},
	{"yaml/percent in tags", FormatButane, fill(fcos+"x: !<", "%41", "> b\n")},
	{"yaml/numbers", FormatButane, fill(fcos+"x: ", "9", "\n")},
	{"yaml/number with underscores", FormatButane, fill(fcos+"storage: {files: [{path: /a, mode: 1", "_", "}]}\n")},
	{"yaml/number as a mode", FormatButane, fill(fcos+"storage: {files: [{path: /a, mode: ", "9", "}]}\n")},
	{"yaml/tabs", FormatButane, fill(fcos, "\t", "")},
	{"yaml/simple keys", FormatButane, fill(fcos+"x: [", "a ", "]\n")},
	{"yaml/quoted keys", FormatButane, fill(fcos+"x: {", "'':,", "}\n")},

	{"kickstart/unknown", FormatKickstart, fill("", "z\n", "")},
	{"kickstart/sections", FormatKickstart, fill("", "%pre\n", "")},
}

func deepIndent() string {
	var b strings.Builder
	for i := range 2000 {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func manyMaps() string {
	var b strings.Builder
	b.WriteString(fcos + "x:\n")
	for range 55 {
		b.WriteString("- {")
		for k := range 510 {
			fmt.Fprintf(&b, "k%d: 0,", k)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func aliasBomb() string {
	var b strings.Builder
	b.WriteString(fcos + "x:\n- &a0 b\n")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&b, "- &a%d [%s]\n", i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10))
	}
	return b.String()
}

// packed is so many equal bytes as a compressed resource.
func packed(n int) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(make([]byte, n))
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// noise is one inline file of text that does not compress well.
func noise() string {
	var b strings.Builder
	b.WriteString(fcos + "storage:\n  files:\n  - path: /a\n    contents:\n      inline: |\n")
	for x := uint64(1); b.Len() < MaxSource-100; {
		b.WriteString("        ")
		for range 8 {
			x = x*6364136223846793005 + 1442695040888963407
			fmt.Fprintf(&b, "%x", x>>16)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestHostile compiles every hostile source. The CPU time is logged and bounded
// far above what is allowed, so that a slow or busy machine does not fail it and a
// quadratic blow-up does.
func TestHostile(t *testing.T) {
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			if len(tt.config) > 32<<10 && !strings.Contains(tt.name, "directives") {
				testkit.NeedsThorough(t) // it takes up to two seconds
			}
			kind := TypeIgnition
			if tt.format == FormatKickstart {
				kind = TypeKickstart
			}
			start := cpuTime(t)
			artifact, found := Compile(Source{Type: kind, Format: tt.format, Config: tt.config})
			took := cpuTime(t) - start
			if (artifact == nil) != found.HasError() {
				t.Errorf("artifact %v beside %v", artifact != nil, found.Strings())
			}
			summary := found.Summary()
			t.Logf("%v for %d bytes: %.160s", took.Round(time.Millisecond), len(tt.config), summary)
			if took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// cpuTime is what this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
