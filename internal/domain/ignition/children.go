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

// children converts the configs that are written into this one as data: URLs. A child of
// this config's own version is converted with it. One of another version stays where a
// client of the new version reads it, and is else refused. A config that replaces this one
// does not meet its entries.
func (c *conversion) children(root object) {
	config := sub(root, "ignition", "config")
	for _, ref := range append(objects(config, "append"), objects(config, "merge")...) {
		if child := c.child(ref); child != nil && child.declared != nil {
			c.include(child.declared, pathOf(ref, "source"))
		}
	}
	if replace := sub(config, "replace"); replace != nil {
		c.child(replace)
	}
}

// child converts a config that is written into this one; nil where there is none.
func (c *conversion) child(ref object) *conversion {
	there := pathOf(ref, "source")
	if !strings.HasPrefix(strings.ToLower(text(ref, "source")), "data:") {
		return nil
	}
	raw, err := content(ref, c.left.bytes+1)
	if c.left.bytes -= len(raw); c.left.bytes < 0 {
		c.lose(there, "the configs in it have more than %d bytes", maxChildBytes)
		return nil
	}
	if err != nil {
		c.lose(there, "the config in it cannot be read: %s", oneLine(err.Error()))
		return nil
	}
	d, s, failure := read(raw)
	switch {
	case failure != nil:
		c.lose(there, "the config in it cannot be read: %s", failure)
		return nil
	case s != c.from && c.to.reads(s.version):
		return nil
	case s != c.from:
		c.lose(there, "the config in it is of spec %s, which a client of spec %s does not read", s.name, c.to.name)
		return nil
	case c.depth == maxChildren:
		c.lose(there, "more than %d configs are written into one another", maxChildren)
		return nil
	}
	if c.verified {
		if r := d.validate(s); r.HasError() {
			c.lose(there, "the config in it is not valid: %s", r.Summary())
			return nil
		}
	}
	child := &conversion{from: s, to: c.to, verified: c.verified, depth: c.depth + 1, left: c.left}
	out, losses := child.run(d)
	for _, l := range losses {
		c.lose(there+strings.TrimPrefix(l.Path, "$"), "%s", l.Reason)
	}
	if hash := sub(ref, "verification"); hash["hash"] != nil {
		c.lose(pathOf(hash, "hash"), "it is the hash of a config of spec %s", s.name)
	}
	ref["source"] = dataURL(out)
	delete(ref, "compression")
	return child
}

// content returns the config in a data: URL, unpacked as far as limit.
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
