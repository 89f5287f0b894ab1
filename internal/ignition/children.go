package ignition

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"

	"github.com/vincent-petithory/dataurl"
)

const (
	// maxChildren bounds how deep configs are written into configs.
	maxChildren = 8
	// maxChildBytes bounds all such configs together, in bytes.
	maxChildBytes = 2 << 20
)

// children converts the configs that are written into this one as data: URLs. A
// child of this config's own version is converted with it. One of another version
// stays as it is where a client of the new version reads it, and is else refused:
// what such a client reads of a config that it fetches is not ours to say.
func (c *conversion) children(root object) {
	config := sub(root, "ignition", "config")
	refs := append(objects(config, "append"), objects(config, "merge")...)
	if replace := sub(config, "replace"); replace != nil {
		refs = append(refs, replace)
	}
	for _, ref := range refs {
		if strings.HasPrefix(strings.ToLower(text(ref, "source")), "data:") {
			c.child(ref)
		}
	}
}

func (c *conversion) child(ref object) {
	there := at(ref, "source")
	raw, err := content(ref, c.left.bytes+1)
	if c.left.bytes -= len(raw); c.left.bytes < 0 {
		c.lose(there, "the configs in it have more than %d bytes", maxChildBytes)
		return
	}
	if err != nil {
		c.lose(there, "the config in it cannot be read: %s", oneLine(err.Error()))
		return
	}
	d, s, failure := read(raw)
	switch {
	case failure != nil:
		c.lose(there, "the config in it cannot be read: %s", failure)
		return
	case s != c.from && c.to.reads(s.version):
		return
	case s != c.from:
		c.lose(there, "the config in it is of spec %s, which a client of spec %s does not read", s.name, c.to.name)
		return
	case c.depth == maxChildren:
		c.lose(there, "more than %d configs are written into one another", maxChildren)
		return
	}
	if c.verified {
		if r := d.validate(s); r.HasError() {
			c.lose(there, "the config in it is not valid: %s", r.Summary())
			return
		}
	}
	child := conversion{from: s, to: c.to, verified: c.verified, depth: c.depth + 1, left: c.left}
	out, losses := child.run(d)
	for _, l := range losses {
		c.lose(there+strings.TrimPrefix(l.Path, "$"), "%s", l.Reason)
	}
	if hash := sub(ref, "verification"); hash["hash"] != nil {
		c.lose(at(hash, "hash"), "it is the hash of a config of spec %s", s.name)
	}
	ref["source"] = dataURL(out)
	delete(ref, "compression")
}

// content gives the config in a data: URL, unpacked as far as limit.
func content(ref object, limit int) ([]byte, error) {
	url, err := dataurl.DecodeString(text(ref, "source"))
	if err != nil {
		return nil, err
	}
	if text(ref, "compression") != "gzip" {
		return url.Data, nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(url.Data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(unpacked, int64(limit)))
}
