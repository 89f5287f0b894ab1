package compile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// laidOver merges configs, each over those before it, as layers are. Members are given
// without the ignition section, whose version is 3.4.0 unless they have one.
func laidOver(t *testing.T, configs ...string) string {
	t.Helper()
	var stack []*Layer
	for i, members := range configs {
		stack = append(stack, layerOf(fmt.Sprint("l", i), wholeConfig(members)))
	}
	last := len(stack) - 1
	laid, found := Lay("x", stack[last].Bytes, stack[:last])
	if laid == nil {
		t.Fatal(found)
	}
	return string(laid.Artifact.Bytes)
}

func wholeConfig(members string) string {
	switch {
	case strings.HasPrefix(members, `{"ignition"`):
		return members
	case members == "":
		return head + "}"
	}
	return head + "," + members + "}"
}

// want holds a config against members, as wholeConfig takes them.
func want(t *testing.T, got, members string) {
	t.Helper()
	var a, b any
	if json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal([]byte(wholeConfig(members)), &b) != nil {
		t.Fatalf("no JSON: %s or %s", got, members)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("got  %s\nwant %s", got, wholeConfig(members))
	}
}

// TestSeed1Merging has a test for each sentence of the operator notes on merging. A
// layer is the parent, the config above it the child.
func TestSeed1Merging(t *testing.T) {
	t.Run("When a child config is merged with a parent, generally the child config's values override the parent "+
		"config's values.", func(t *testing.T) {
		want(t, laidOver(t,
			`{"ignition":{"version":"3.4.0","timeouts":{"httpTotal":1},"proxy":{"httpProxy":"http://parent/","noProxy":["a"]}}}`,
			`{"ignition":{"version":"3.4.0","timeouts":{"httpTotal":2},"proxy":{"httpProxy":"http://child/"}}}`),
			`{"ignition":{"version":"3.4.0","timeouts":{"httpTotal":2},"proxy":{"httpProxy":"http://child/","noProxy":["a"]}}}`)
	})
	t.Run("If a parent and child object are being merged, the fields in the child object take precedence over the "+
		"fields in the parent config.", func(t *testing.T) {
		want(t, laidOver(t,
			`"storage":{"files":[{"path":"/a","mode":420,"overwrite":true,"contents":{"source":"data:,parent"}}]}`,
			`"storage":{"files":[{"path":"/a","mode":384,"overwrite":false,"contents":{"source":"data:,child"}}]}`),
			`"storage":{"files":[{"path":"/a","mode":384,"overwrite":false,"contents":{"source":"data:,child"}}]}`)
	})
	t.Run("If a field in the child object is not specified, the field from the parent is used instead.",
		func(t *testing.T) {
			want(t, laidOver(t,
				`"storage":{"files":[{"path":"/a","mode":420,"user":{"name":"root"},"contents":{"source":"data:,parent"}}]}`,
				`"storage":{"files":[{"path":"/a","group":{"id":3}}]}`),
				`"storage":{"files":[{"path":"/a","mode":420,"user":{"name":"root"},"group":{"id":3},"contents":{"source":"data:,parent"}}]}`)
		})
	t.Run("All lists of objects have a field that uniquely identifies that object.", func(t *testing.T) {
		for _, c := range []struct{ list, key, other string }{
			{`"storage":{"disks":[%s]}`, `"device":"/dev/vda"`, `"wipeTable":true`},
			{`"storage":{"raid":[%s]}`, `"name":"md"`, `"level":"raid1","devices":["/dev/a","/dev/b"]`},
			{`"storage":{"luks":[%s]}`, `"name":"l"`, `"device":"/dev/a"`},
			{`"storage":{"filesystems":[%s]}`, `"device":"/dev/a"`, `"format":"ext4"`},
			{`"storage":{"directories":[%s]}`, `"path":"/d"`, `"mode":448`},
			{`"storage":{"links":[%s]}`, `"path":"/l"`, `"target":"/t"`},
			{`"storage":{"disks":[{"device":"/dev/vda","partitions":[%s]}]}`, `"number":1`, `"label":"one"`},
			{`"passwd":{"users":[%s]}`, `"name":"u"`, `"uid":3`},
			{`"passwd":{"groups":[%s]}`, `"name":"g"`, `"gid":3`},
			{`"systemd":{"units":[%s]}`, `"name":"u.service"`, `"enabled":true`},
			{`"systemd":{"units":[{"name":"u.service","dropins":[%s]}]}`, `"name":"d.conf"`, `"contents":"[Unit]"`},
		} {
			whole := fmt.Sprintf(c.list, "{"+c.key+","+c.other+"}")
			want(t, laidOver(t, whole, whole), whole)
			if !strings.Contains(c.list, "raid") && !strings.Contains(c.list, "links") {
				want(t, laidOver(t, whole, fmt.Sprintf(c.list, "{"+c.key+"}")), whole)
			}
		}
	})
	t.Run("If a child config contains an entry that matches an entry already specified in the parent config, those "+
		"entries are merged.", func(t *testing.T) {
		want(t, laidOver(t,
			`"systemd":{"units":[{"name":"a.service","enabled":true},{"name":"b.service","mask":true}]}`,
			`"systemd":{"units":[{"name":"c.service","mask":true},{"name":"a.service","dropins":[{"name":"x.conf","contents":"[Unit]"}]}]}`),
			`"systemd":{"units":[{"name":"a.service","enabled":true,"dropins":[{"name":"x.conf","contents":"[Unit]"}]},{"name":"b.service","mask":true},{"name":"c.service","mask":true}]}`)
	})
	t.Run("Generally the only lists that are simply appended are those that specify arguments to commands like mkfs or "+
		"mdadm.", func(t *testing.T) {
		for _, list := range []string{
			`"storage":{"filesystems":[{"device":"/dev/a","format":"ext4","path":"/a","options":[%s]}]}`,
			`"storage":{"filesystems":[{"device":"/dev/a","format":"ext4","path":"/a","mountOptions":[%s]}]}`,
			`"storage":{"raid":[{"name":"md","level":"raid1","devices":["/dev/a","/dev/b"],"options":[%s]}]}`,
			`"storage":{"luks":[{"name":"l","device":"/dev/a","options":[%s]}]}`,
		} {
			want(t, laidOver(t, fmt.Sprintf(list, `"-a","-b"`), fmt.Sprintf(list, `"-b","-c"`)), fmt.Sprintf(list,
				`"-a","-b","-b","-c"`))
		}
		appended := `"storage":{"files":[{"path":"/a","append":[%s]}]}`
		want(t, laidOver(t, fmt.Sprintf(appended, `{"source":"data:,1"}`), fmt.Sprintf(appended, `{"source":"data:,1"}`)),
			fmt.Sprintf(appended, `{"source":"data:,1"},{"source":"data:,1"}`))
		// Other lists of words are keyed by the word.
		keys := `"passwd":{"users":[{"name":"u","sshAuthorizedKeys":[%s]}]}`
		want(t, laidOver(t, fmt.Sprintf(keys, `"a","b"`), fmt.Sprintf(keys, `"b","c"`)), fmt.Sprintf(keys, `"a","b","c"`))
	})
	t.Run("Since files, directories, and links all describe filesystem entries can conflict, these lists are "+
		"deduplicated across each other.", func(t *testing.T) {
		nodes := map[string]string{
			"files": `{"path":"/n","contents":{"source":"data:,x"}}`, "directories": `{"path":"/n","mode":448}`,
			"links": `{"path":"/n","target":"/t"}`,
		}
		for parent, was := range nodes {
			for child, is := range nodes {
				t.Run(child+" over "+parent, func(t *testing.T) {
					want(t, laidOver(t,
						fmt.Sprintf(`"storage":{%q:[%s]}`, parent, was), fmt.Sprintf(`"storage":{%q:[%s]}`, child, is)),
						fmt.Sprintf(`"storage":{%q:[%s]}`, child, is))
				})
			}
		}
	})
	t.Run("This means a file in a child config can replace a link in the parent, or a directory in a child config can "+
		"replace a file in the parent.", func(t *testing.T) {
		want(t, laidOver(t,
			`"storage":{"links":[{"path":"/a","target":"/t"}],"files":[{"path":"/b"},{"path":"/c"}]}`,
			`"storage":{"files":[{"path":"/a"}],"directories":[{"path":"/b"}]}`),
			`"storage":{"files":[{"path":"/c"},{"path":"/a"}],"directories":[{"path":"/b"}]}`)
	})
	t.Run("Those children are merged into their parent config before that config is merged into its own parent.",
		func(t *testing.T) {
			parent := `"storage":{"files":[{"path":"/a","contents":{"source":"data:,parent"}}]}`
			// The child has a header of its own for the file, and its child takes it away: that
			// must not reach the parent's.
			child := `"storage":{"files":[{"path":"/b","contents":{"source":"http://h/","httpHeaders":[{"name":"X","value":"child"}]}},{"path":"/a","mode":420}]}`
			grandchild := `"storage":{"files":[{"path":"/b","contents":{"source":"http://h/","httpHeaders":[{"name":"X"}]}}],"directories":[{"path":"/a"}]}`
			inner := laidOver(t, child, grandchild)
			want(t, laidOver(t, parent, inner),
				`"storage":{"files":[{"path":"/b","contents":{"source":"http://h/"}}],"directories":[{"path":"/a"}]}`)
		})
	t.Run("If a config specifies multiple children, those children are merged in the order they appear.",
		func(t *testing.T) {
			one, two, three := `"storage":{"files":[{"path":"/a","mode":256}]}`,
				`"storage":{"files":[{"path":"/a","mode":257}]}`, `"storage":{"files":[{"path":"/a","user":{"id":3}}]}`
			want(t, laidOver(t, one, two, three), `"storage":{"files":[{"path":"/a","mode":257,"user":{"id":3}}]}`)
			want(t, laidOver(t, two, one, three), `"storage":{"files":[{"path":"/a","mode":256,"user":{"id":3}}]}`)
		})

	headers := `"storage":{"files":[{"path":"/a","contents":{"source":"http://h/","httpHeaders":[%s]}}]}`
	t.Run("If names of the parent and child headers match, the result will be to replace the value of the parent "+
		"header with that of the child.", func(t *testing.T) {
		want(t, laidOver(t, fmt.Sprintf(headers, `{"name":"A","value":"1"},{"name":"B","value":"1"}`), fmt.Sprintf(headers,
			`{"name":"C","value":"2"},{"name":"A","value":"2"}`)),
			fmt.Sprintf(headers, `{"name":"A","value":"2"},{"name":"B","value":"1"},{"name":"C","value":"2"}`))
	})
	t.Run("If a child header has no value, the parent header with the same name will be removed.", func(t *testing.T) {
		want(t, laidOver(t, fmt.Sprintf(headers, `{"name":"A","value":"1"},{"name":"B","value":"1"}`), fmt.Sprintf(headers,
			`{"name":"A"}`)),
			fmt.Sprintf(headers, `{"name":"B","value":"1"}`))
		for _, fetched := range []string{`"config":{"merge":[{"source":"http://h/","httpHeaders":[%s]}]}`,
			`"security":{"tls":{"certificateAuthorities":[{"source":"http://h/","httpHeaders":[%s]}]}}`} {
			whole := func(headers string) string {
				return `{"ignition":{"version":"3.4.0",` + fmt.Sprintf(fetched, headers) + `}}`
			}
			want(t, laidOver(t, whole(`{"name":"A","value":"1"},{"name":"B","value":"1"}`), whole(`{"name":"A"}`)),
				whole(`{"name":"B","value":"1"}`))
		}
	})
}

// TestLayersOfDifferentVersions are brought to the highest among them.
func TestLayersOfDifferentVersions(t *testing.T) {
	for _, c := range []struct {
		name    string
		configs []string
		want    string
	}{
		{"3.0 under 3.4", []string{`{"ignition":{"version":"3.0.0"},"passwd":{"users":[{"name":"u"}]}}`,
			`"kernelArguments":{"shouldExist":["quiet"]}`},
			`"passwd":{"users":[{"name":"u"}]},"kernelArguments":{"shouldExist":["quiet"]}`},
		{"3.4 under 3.0", []string{`"kernelArguments":{"shouldExist":["quiet"]}`,
			`{"ignition":{"version":"3.0.0"},"passwd":{"users":[{"name":"u"}]}}`},
			`"passwd":{"users":[{"name":"u"}]},"kernelArguments":{"shouldExist":["quiet"]}`},
		{"2.2 under 3.4", []string{`{"ignition":{"version":"2.2.0"},"systemd":{"units":[{"name":"a.service","enable":true}]}}`, `"systemd":{"units":[{"name":"a.service","mask":false}]}`},
			`"systemd":{"units":[{"name":"a.service","enabled":true,"mask":false}]}`},
		{"2.0 under 2.3: appended, as spec 2 does",
			[]string{`{"ignition":{"version":"2.0.0"},"passwd":{"users":[{"name":"a"}]}}`,
				`{"ignition":{"version":"2.3.0"},"passwd":{"users":[{"name":"a"}]}}`},
			`{"ignition":{"version":"2.3.0"},"passwd":{"users":[{"name":"a"},{"name":"a"}]}}`},
		{"2.2.0-experimental beside its release",
			[]string{`{"ignition":{"version":"2.2.0-experimental"},"passwd":{"users":[{"name":"a"}]}}`,
				`{"ignition":{"version":"2.1.0"}}`},
			`{"ignition":{"version":"2.2.0"},"passwd":{"users":[{"name":"a"}]}}`},
		{"2.2.0-experimental alone",
			[]string{`{"ignition":{"version":"2.2.0-experimental"},"passwd":{"users":[{"name":"a"}]}}`,
				`{"ignition":{"version":"2.2.0-experimental"}}`},
			`{"ignition":{"version":"2.2.0-experimental"},"passwd":{"users":[{"name":"a"}]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			want(t, laidOver(t, c.configs...), c.want)
		})
	}
}
