package ignition

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
)

// generator writes random configs of a spec from the library's types, so that no
// field is forgotten. Values are such that most configs are valid.
type generator struct {
	*rand.Rand
	spec *spec
	// odds is how many of 100 optional fields are written.
	odds int
	next int
	// convertible keeps to what spec 2 and spec 3 both say.
	convertible bool
}

func generate(seed int64, s *spec) []byte {
	r := rand.New(rand.NewSource(seed))
	g := &generator{Rand: r, spec: s, odds: 5 + r.Intn(70), convertible: r.Intn(2) == 0}
	config, _ := g.value(s.config, "$", "").(map[string]any)
	config["ignition"].(map[string]any)["version"] = s.name
	out, err := json.Marshal(config)
	if err != nil {
		panic(err)
	}
	return out
}

func (g *generator) one(values ...string) string { return values[g.Intn(len(values))] }

func (g *generator) unique(prefix string) string {
	g.next++
	return fmt.Sprintf("%s%d", prefix, g.next)
}

func (g *generator) value(t reflect.Type, path, parent string) any {
	t = bare(t)
	key := path[strings.LastIndexByte(path, '.')+1:]
	switch {
	case t.Kind() == reflect.Slice:
		items := []any{}
		for range 1 + g.Intn(3) {
			items = append(items, g.value(t.Elem(), path+".0", key))
		}
		return items
	case t.Kind() == reflect.Struct && !isLeaf(t):
		out := map[string]any{}
		g.fields(t, path, out)
		g.mend(out, path)
		return out
	case t.Kind() == reflect.Bool:
		return g.Intn(3) > 0
	case t.Kind() == reflect.String, isLeaf(t):
		return g.text(path, key, parent)
	}
	switch key {
	case "mode":
		mode := g.Intn(0o1000)
		if g.Intn(10) == 0 {
			mode |= 0o4000
		}
		return mode
	case "spares":
		return 0
	case "number":
		g.next++
		return g.next
	case "size", "start":
		return 2048 * g.Intn(2)
	}
	return g.Intn(1000)
}

// required are written always.
var required = map[string]bool{
	"ignition": true, "device": true, "path": true, "name": true, "target": true, "level": true,
	"filesystem": true, "devices": true, "source": true, "format": true, "url": true, "thumbprint": true, "pin": true,
	"number": true,
}

func (g *generator) fields(t reflect.Type, path string, out map[string]any) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			g.fields(f.Type, path, out)
			continue
		}
		if name != "version" && (required[name] || g.Intn(100) < g.odds) {
			out[name] = g.value(f.Type, path+"."+name, name)
		}
	}
}

func (g *generator) text(path, key, parent string) string {
	switch {
	case key == "source" || key == "url":
		schemes := []string{"https://example.com/", "http://example.com/", "data:,"}
		if strings.Contains(path, "clevis") {
			return g.unique("https://tang.example.com/")
		}
		if strings.Contains(path, ".config.") {
			schemes = schemes[:2]
		}
		if g.Intn(8) == 0 && g.spec.release() > specOf("3.1.0").release() {
			schemes = []string{"gs://bucket/"}
		}
		if g.Intn(8) == 0 && g.spec.major == 3 && g.spec.minor > 3 {
			schemes = []string{"arn:aws:s3:::bucket/"}
		}
		if g.Intn(6) == 0 && strings.Contains(path, ".config.") {
			child := fmt.Sprintf(`{"ignition":{"version":"%s"}}`, g.spec.name)
			return "data:;base64," + base64.StdEncoding.EncodeToString([]byte(child))
		}
		return g.unique(g.one(schemes...))
	case key == "hash":
		if g.Intn(4) == 0 && g.spec.major == 3 && g.spec.minor > 0 {
			return "sha256-" + strings.Repeat("ab", 32)
		}
		return "sha512-" + strings.Repeat("ab", 64)
	case key == "compression":
		return g.one("gzip", "")
	case key == "path" && strings.Contains(path, "filesystems"):
		if g.spec.major == 2 {
			return "/sysroot"
		}
		return g.unique("/mnt/")
	case key == "path":
		if g.Intn(4) == 0 && g.spec.major == 3 {
			return g.unique("/mnt/1/")
		}
		return g.unique(g.one("/etc/a", "/b", "/opt/c/d"))
	case key == "filesystem":
		return "root"
	case key == "device", parent == "devices":
		return g.unique("/dev/vd")
	case key == "format":
		return g.one("ext4", "xfs", "btrfs")
	case key == "label":
		return g.unique("l")
	case key == "guid" || key == "typeGuid":
		g.next++
		return fmt.Sprintf("%08X-1234-1234-1234-123456789ABC", g.next)
	case key == "level":
		return g.one("raid1", "raid5")
	case key == "name" && strings.Contains(path, "systemd.units.0.dropins"),
		key == "name" && strings.Contains(path, "networkd.units.0.dropins"):
		return g.unique("d") + ".conf"
	case key == "name" && strings.Contains(path, "systemd"):
		return g.unique("u") + ".service"
	case key == "name" && strings.Contains(path, "networkd"):
		return g.unique("n") + ".network"
	case key == "name" && strings.Contains(path, "filesystems"):
		return g.one("/var", "/data", "/srv") + g.unique("/f")
	case key == "contents":
		return "[Unit]\nDescription=" + g.unique("x")
	case key == "advertisement":
		return `{"payload":"x"}`
	case key == "httpProxy" || key == "httpsProxy":
		return g.unique("https://proxy.example.com/")
	case key == "pin":
		if g.spec.minor > 5 && g.Intn(3) == 0 {
			return "null"
		}
		return g.one("tpm2", "tang", "sss")
	}
	return g.unique("v")
}

// mend takes out what cannot stand together.
func (g *generator) mend(o map[string]any, path string) {
	drop := func(if1, then string) {
		if o[if1] != nil {
			delete(o, then)
		}
	}
	switch shape := strings.ReplaceAll(path, ".0", ""); {
	case strings.HasSuffix(shape, ".user") || strings.HasSuffix(shape, ".group"):
		drop("id", "name")
	case shape == "$.storage.filesystems" && g.spec.major == 2:
		if o["mount"] == nil && g.Intn(9) > 0 {
			o["mount"] = map[string]any{"device": g.unique("/dev/vd"), "format": "ext4"}
		}
		if o["mount"] != nil {
			delete(o, "path")
		} else {
			o["path"] = "/sysroot"
		}
	case strings.HasSuffix(shape, ".mount"):
		drop("create", "wipeFilesystem")
		drop("create", "options")
	case shape == "$.storage.disks.partitions":
		if o["shouldExist"] == false {
			for key := range o {
				if key != "shouldExist" && key != "number" {
					delete(o, key)
				}
			}
		}
		drop("sizeMiB", "size")
		drop("sizeMiB", "start")
		if o["size"] != nil || o["start"] != nil {
			delete(o, "sizeMiB")
			delete(o, "startMiB")
		}
		if g.spec.major == 2 && g.convertible {
			delete(o, "start")
			delete(o, "size")
		}
	case shape == "$.storage.disks" && g.spec.major == 2:
		// One unit a disk.
		parts, _ := o["partitions"].([]any)
		for _, p := range parts {
			p := p.(map[string]any)
			if p["sizeMiB"] != nil || p["startMiB"] != nil {
				for _, p := range parts {
					delete(p.(map[string]any), "size")
					delete(p.(map[string]any), "start")
				}
			}
		}
	case shape == "$.storage.files" && g.spec.major == 2:
		if o["append"] == true {
			delete(o, "overwrite")
		}
		fallthrough
	case shape == "$.storage.files":
		if contents, ok := o["contents"].(map[string]any); g.spec.major == 3 && (!ok || contents["source"] == nil) {
			delete(o, "contents")
			delete(o, "overwrite")
		}
	case shape == "$.storage.directories" && g.convertible:
		o["mode"] = 0o755
		o["user"], o["group"] = map[string]any{"id": 0}, map[string]any{"id": 0}
	case strings.HasSuffix(shape, ".clevis"):
		drop("custom", "tang")
		drop("custom", "tpm2")
		drop("custom", "threshold")
	case strings.HasSuffix(shape, ".custom"):
		o["config"] = "{}"
	case shape == "$.storage.luks":
		drop("clevis", "cex")
		drop("cex", "keyFile")
	case strings.HasSuffix(shape, "httpHeaders"):
		if o["value"] == nil && g.spec.major == 2 {
			o["value"] = "v"
		}
	case shape == "$.storage" && g.spec.major == 2:
		g.onFilesystems(o)
	case shape == "$.storage" && g.convertible:
		delete(o, "luks")
		g.implied(o)
	case shape == "$.passwd.users" && g.spec.major == 2 && o["create"] != nil:
		for key := range o {
			if key != "name" && key != "create" && key != "passwordHash" && key != "sshAuthorizedKeys" {
				delete(o, key)
			}
		}
	}
	// Headers go with http alone, and a config in a data: URL has no hash that the
	// conversion could keep.
	if s, ok := o["source"].(string); ok && !strings.HasPrefix(s, "http") {
		delete(o, "httpHeaders")
		delete(o, "verification")
		if strings.HasPrefix(s, "data:") {
			delete(o, "compression")
		}
	}
}

// implied makes some directories ones of which nothing is set and that have a file in them.
func (g *generator) implied(storage map[string]any) {
	directories, _ := storage["directories"].([]any)
	files, _ := storage["files"].([]any)
	for i := range min(len(directories), len(files)) {
		if g.Intn(2) > 0 {
			continue
		}
		directory, file := directories[i].(map[string]any), files[i].(map[string]any)
		file["path"] = fmt.Sprint(directory["path"], "/", g.unique("f"))
		for _, key := range []string{"mode", "user", "group", "overwrite"} {
			delete(directory, key)
		}
	}
}

// onFilesystems puts some of the files, directories and links onto the filesystems
// that the config names.
func (g *generator) onFilesystems(storage map[string]any) {
	filesystems, _ := storage["filesystems"].([]any)
	for _, kind := range []string{"files", "directories", "links"} {
		nodes, _ := storage[kind].([]any)
		for _, node := range nodes {
			if len(filesystems) == 0 || g.Intn(3) > 0 {
				continue
			}
			if name, ok := filesystems[g.Intn(len(filesystems))].(map[string]any)["name"]; ok {
				node.(map[string]any)["filesystem"] = name
			}
		}
	}
}
