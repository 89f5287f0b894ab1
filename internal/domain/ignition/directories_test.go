package ignition

import (
	"strings"
	"testing"
)

// A directory of which nothing is set is left out if spec 2 makes it for a file or link in it.
func TestImpliedDirectories(t *testing.T) {
	const (
		file3 = `"files":[{"contents":{"source":"data:,a"},"mode":420,"overwrite":true,"path":"/opt/a/b/f"}]`
		file2 = `"files":[{"contents":{"source":"data:,a"},"filesystem":"root","mode":420,"overwrite":true,"path":"/opt/a/b/f"}]`
		// The fields that are in the way.
		mode, group, user = "$.storage.directories.0.mode", "$.storage.directories.0.group", "$.storage.directories.0.user"
		all               = group + " " + mode + " " + user
	)
	directories := func(list string) string { return `"storage":{"directories":[` + list + `],` + file3 + `}` }
	for _, tt := range []struct{ name, source, want string }{
		{"a file below", directories(`{"path":"/opt/a"},{"path":"/opt/a/b"}`), `"storage":{` + file2 + `}`},
		{"a default that is set", directories(`{"overwrite":false,"path":"/opt/a"}`), `"storage":{` + file2 + `}`},
		{"a link below", `"storage":{"directories":[{"path":"/opt/a"}],"links":[{"path":"/opt/a/l","target":"/x"}]}`,
			`"storage":{"links":[{"filesystem":"root","path":"/opt/a/l","target":"/x"}]}`},
		{"a mode that is set", directories(`{"mode":493,"path":"/opt/a"}`), group + " " + user},
		{"an owner that is set", directories(`{"group":{"id":0},"path":"/opt/a","user":{"name":"root"}}`), mode},
		{"nothing below", directories(`{"path":"/opt/a/c"}`), all},
		{"a file that begins like it", directories(`{"path":"/opt/a/b/fi"}`), all},
		{"a file in another filesystem", `"storage":{"directories":[{"path":"/opt/a"}],` +
			`"filesystems":[{"device":"/dev/a","format":"xfs","path":"/opt/a/b"}],` + file3 + `}`, all},
		{"one that is made anew", directories(`{"overwrite":true,"path":"/opt/a"}`),
			`"storage":{"directories":[{"filesystem":"root","mode":493,"overwrite":true,"path":"/opt/a"}],` + file2 + `}`},
		// Spec 2 gives the mode of a directory to the missing ones above.
		{"another mode below", directories(`{"path":"/opt/a"},{"group":{"id":0},"mode":448,"path":"/opt/a/x","user":{"id":0}}`), all},
		{"another mode further below",
			directories(`{"path":"/opt/a"},{"group":{"id":0},"mode":448,"path":"/opt/a/x/y","user":{"id":0}}`),
			"$.storage.directories.1.mode"},
		{"the same mode below", directories(`{"path":"/opt/a"},{"group":{"id":0},"mode":493,"path":"/opt/a/x","user":{"id":0}}`),
			`"storage":{"directories":[{"filesystem":"root","group":{"id":0},"mode":493,"path":"/opt/a/x","user":{"id":0}}],` +
				file2 + `}`},
		{"another config, which may have one below",
			`"ignition":{"config":{"merge":[{"source":"https://example.com/a"}]},"version":"VERSION"},` +
				directories(`{"path":"/opt/a"}`), all},
	} {
		t.Run(tt.name, func(t *testing.T) { becomes(t, "3.2.0", "2.4.0", tt.source, tt.want) })
	}
	// Spec 2.0.0 has no directories.
	becomes(t, "3.2.0", "2.0.0", directories(`{"path":"/opt/a"}`),
		`"storage":{`+strings.Replace(file2, `,"overwrite":true`, "", 1)+`}`)
}
