package ignition

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vincent-petithory/dataurl"
)

// Reference is a config, or a bundle of certificates, that a config names by URL.
type Reference struct {
	// Path is its place in the config, such as "$.ignition.config.merge.0".
	Path string
	// Source is the URL.
	Source string
	// Compression is "gzip", or empty.
	Compression string
	// Hash is that of the content after unpacking, such as "sha512-0f…"; empty: any.
	Hash string
	// Headers are sent with a request for it, in the config's order.
	Headers []Header
}

// Header is an HTTP header of a request.
type Header struct {
	Name, Value string
}

// Fetching is the part of a config about fetching others.
type Fetching struct {
	// Replace is the config that replaces this one; nil: none.
	Replace *Reference
	// Children are merged into this config in order: ignition.config.merge of spec 3
	// and ignition.config.append of spec 2.
	Children []Reference
	// ResponseHeaders and Total are timeouts in seconds; nil where not set.
	ResponseHeaders, Total *int
	// Authorities are trusted beside those of the system.
	Authorities []Reference
	// HTTPProxy and HTTPSProxy are URLs, empty for none; NoProxy has the hosts that
	// are reached without.
	HTTPProxy, HTTPSProxy string
	NoProxy               []string
}

// reference is a Reference as configs of every version write it.
type reference struct {
	Source, Compression string
	Verification        struct{ Hash string }
	HTTPHeaders         []Header
}

func (r *reference) at(path string) Reference {
	return Reference{Path: path, Source: r.Source, Compression: r.Compression, Hash: r.Verification.Hash,
		Headers: r.HTTPHeaders}
}

// FetchingOf reads what a valid config says about fetching. The members have the same
// names in every version; Validate refuses those that a version lacks.
func FetchingOf(raw []byte) (Fetching, error) {
	var c struct {
		Ignition struct {
			Config struct {
				Replace       *reference
				Append, Merge []reference
			}
			Timeouts struct{ HTTPResponseHeaders, HTTPTotal *int }
			Security struct {
				TLS struct{ CertificateAuthorities []reference }
			}
			Proxy struct {
				HTTPProxy, HTTPSProxy string
				NoProxy               []string
			}
		}
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return Fetching{}, fmt.Errorf("the config cannot be read: %w", err)
	}
	ign := &c.Ignition
	f := Fetching{
		ResponseHeaders: ign.Timeouts.HTTPResponseHeaders, Total: ign.Timeouts.HTTPTotal,
		HTTPProxy: ign.Proxy.HTTPProxy, HTTPSProxy: ign.Proxy.HTTPSProxy, NoProxy: ign.Proxy.NoProxy,
		Authorities: references(ign.Security.TLS.CertificateAuthorities, "$.ignition.security.tls.certificateAuthorities"),
	}
	// Spec 3 writes "no replacement" as one without a source.
	if ign.Config.Replace != nil && ign.Config.Replace.Source != "" {
		r := ign.Config.Replace.at("$.ignition.config.replace")
		f.Replace = &r
	}
	f.Children = append(references(ign.Config.Append, "$.ignition.config.append"),
		references(ign.Config.Merge, "$.ignition.config.merge")...)
	return f, nil
}

func references(list []reference, path string) []Reference {
	var out []Reference
	for i := range list {
		out = append(out, list[i].at(path+"."+strconv.Itoa(i)))
	}
	return out
}

// Detach returns a valid config without ignition.config, the references to others.
// A config that has none is returned unchanged.
func Detach(raw []byte) ([]byte, error) {
	root, err := decodeLoosely(raw)
	if err != nil {
		return nil, err
	}
	ign, ok := memberOf(root, "ignition").(map[string]any)
	if !ok || !removeMember(ign, "config") {
		return raw, nil
	}
	return encode(root), nil
}

// Heading returns a config with the member ignition of a valid config, without
// references: it says how others are fetched.
func Heading(raw []byte) ([]byte, error) {
	root, err := decodeLoosely(raw)
	if err != nil {
		return nil, err
	}
	ign, ok := memberOf(root, "ignition").(map[string]any)
	if !ok {
		return nil, errors.New("the config has no member ignition")
	}
	removeMember(ign, "config")
	return encode(map[string]any{"ignition": ign}), nil
}

// Attach returns a valid config with its certificate authorities written into it: the
// contents are in the order of Fetching.Authorities.
func Attach(raw []byte, contents [][]byte) ([]byte, error) {
	if len(contents) == 0 {
		return raw, nil
	}
	root, err := decodeLoosely(raw)
	if err != nil {
		return nil, err
	}
	list, _ := memberOf(root, "ignition", "security", "tls", "certificateAuthorities").([]any)
	if len(list) != len(contents) {
		return nil, fmt.Errorf("the config has %d certificate authorities, and there are %d", len(list), len(contents))
	}
	for i := range list {
		ca, ok := list[i].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("$.ignition.security.tls.certificateAuthorities.%d is no object", i)
		}
		for _, key := range []string{"source", "compression", "httpHeaders"} {
			removeMember(ca, key)
		}
		ca["source"] = dataurl.EncodeBytes(contents[i])
	}
	return encode(root), nil
}

// Reads reports whether a client whose newest spec version is client reads a config of
// another one as it is.
func Reads(client, config string) bool {
	c, _, ok := parseVersion(client)
	v, _, valid := parseVersion(config)
	return ok && valid && c.reads(v)
}

// NewestOf returns the newest released version of the major of a version, and "" for a
// version outside the family.
func NewestOf(version string) string {
	s := specOf(version)
	for _, newest := range slices.Backward(family) {
		if s != nil && newest.major == s.major {
			return newest.name
		}
	}
	return ""
}

// IsVersion reports whether a config can be given in a version.
func IsVersion(name string) bool { return slices.Contains(Versions(), name) }

// decodeLoosely reads a config without a type. Numbers stay as they are written.
func decodeLoosely(raw []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var root map[string]any
	if err := decoder.Decode(&root); err != nil {
		return nil, fmt.Errorf("the config cannot be read: %w", err)
	}
	return root, nil
}

// memberOf returns the value under keys in any case of letters, as Ignition reads them.
func memberOf(o map[string]any, keys ...string) any {
	var found any = o
	for _, key := range keys {
		o, _ := found.(map[string]any)
		found = nil
		for name, value := range o {
			if strings.EqualFold(name, key) {
				found = value
			}
		}
	}
	return found
}

// removeMember removes a member, and reports whether it existed.
func removeMember(o map[string]any, key string) bool {
	before := len(o)
	maps.DeleteFunc(o, func(name string, _ any) bool { return strings.EqualFold(name, key) })
	return len(o) < before
}

const (
	// maxChildren bounds how deep configs are written into configs.
	maxChildren = 8
	// maxChildBytes bounds all such configs together, in bytes.
	maxChildBytes = 2 << 20
	// maxUnpackedBytes bounds all contents that are unpacked for one conversion.
	maxUnpackedBytes = 4 << 20
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
	if !isData(text(ref, "source")) {
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
		c.lose(there, "the config in it is of spec %s, which a client of this version does not read", s.name)
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

// unpack unpacks compressed contents of data: URLs, as Butane writes them. The Ignition of
// the versions before 3.1.0 fails on them: fetchFromDataURL of internal/resource/url.go returns
// ErrCompressionUnsupported in 0.17 to 0.35 and 2.0 to 2.2. The hash stays: in all releases it
// is that of the unpacked content (decompressCopyHashAndVerify).
func (c *conversion) unpack(value any) {
	switch value := value.(type) {
	case object:
		if isData(text(value, "source")) && text(value, "compression") == "gzip" {
			c.unpackResource(value)
		}
		for _, key := range sortedKeys(value) {
			c.unpack(value[key])
		}
	case []any:
		for _, item := range value {
			c.unpack(item)
		}
	}
}

func (c *conversion) unpackResource(resource object) {
	if c.left.unpacked < 0 {
		return // refused already
	}
	data, err := content(resource, c.left.unpacked+1)
	switch c.left.unpacked -= len(data); {
	case err != nil:
		c.lose(pathOf(resource, "source"), "its compressed content cannot be read: %s", oneLine(err.Error()))
	case c.left.unpacked < 0:
		c.lose(pathOf(resource, "source"),
			"versions before 3.1.0 have no compressed data URLs, and the contents unpacked have more than %d bytes", maxUnpackedBytes)
	default:
		resource["source"] = dataURL(data)
		delete(resource, "compression")
	}
}

func isData(url string) bool { return hasScheme(url, "data") }

// hasScheme reports whether a URL begins with a scheme, in any case of letters.
func hasScheme(url, scheme string) bool {
	n := len(scheme)
	return len(url) > n && url[n] == ':' && strings.EqualFold(url[:n], scheme)
}

// content returns the content of a data: URL, unpacked as far as limit.
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
