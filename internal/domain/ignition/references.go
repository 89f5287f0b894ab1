package ignition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

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

// Fetching is what a config says about the fetching of further ones.
type Fetching struct {
	// Replace is the config that stands in for this one; nil: none.
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
	Source       string `json:"source"`
	Compression  string `json:"compression"`
	Verification struct {
		Hash string `json:"hash"`
	} `json:"verification"`
	HTTPHeaders []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"httpHeaders"`
}

func (r *reference) at(path string) Reference {
	out := Reference{Path: path, Source: r.Source, Compression: r.Compression, Hash: r.Verification.Hash}
	for _, h := range r.HTTPHeaders {
		out.Headers = append(out.Headers, Header{h.Name, h.Value})
	}
	return out
}

// FetchingOf reads what a valid config says about fetching. The members have the
// same names in every version; that a version lacks one is for Validate to say.
func FetchingOf(raw []byte) (Fetching, error) {
	var c struct {
		Ignition struct {
			Config struct {
				Replace *reference  `json:"replace"`
				Append  []reference `json:"append"`
				Merge   []reference `json:"merge"`
			} `json:"config"`
			Timeouts struct {
				ResponseHeaders *int `json:"httpResponseHeaders"`
				Total           *int `json:"httpTotal"`
			} `json:"timeouts"`
			Security struct {
				TLS struct {
					Authorities []reference `json:"certificateAuthorities"`
				} `json:"tls"`
			} `json:"security"`
			Proxy struct {
				HTTP  string   `json:"httpProxy"`
				HTTPS string   `json:"httpsProxy"`
				No    []string `json:"noProxy"`
			} `json:"proxy"`
		} `json:"ignition"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return Fetching{}, fmt.Errorf("the config cannot be read: %w", err)
	}
	ign := &c.Ignition
	f := Fetching{
		ResponseHeaders: ign.Timeouts.ResponseHeaders, Total: ign.Timeouts.Total,
		HTTPProxy: ign.Proxy.HTTP, HTTPSProxy: ign.Proxy.HTTPS, NoProxy: ign.Proxy.No,
		Authorities: references(ign.Security.TLS.Authorities, "$.ignition.security.tls.certificateAuthorities"),
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

// Detach returns a valid config without the references to others: ignition.config is
// left out. Where there is none the config is given back as it is.
func Detach(raw []byte) ([]byte, error) {
	root, err := loose(raw)
	if err != nil {
		return nil, err
	}
	ign, ok := loosely(root, "ignition").(map[string]any)
	if !ok || !without(ign, "config") {
		return raw, nil
	}
	return encode(root), nil
}

// Heading returns the part of a valid config that says how to fetch others, as a config
// of its own: the member ignition, without references.
func Heading(raw []byte) ([]byte, error) {
	root, err := loose(raw)
	if err != nil {
		return nil, err
	}
	ign, ok := loosely(root, "ignition").(map[string]any)
	if !ok {
		return nil, errors.New("the config has no member ignition")
	}
	without(ign, "config")
	return encode(map[string]any{"ignition": ign}), nil
}

// Attach returns a valid config with its certificate authorities written into it: the
// contents are in the order of Fetching.Authorities.
func Attach(raw []byte, contents [][]byte) ([]byte, error) {
	if len(contents) == 0 {
		return raw, nil
	}
	root, err := loose(raw)
	if err != nil {
		return nil, err
	}
	var at any = root
	for _, key := range []string{"ignition", "security", "tls", "certificateAuthorities"} {
		o, _ := at.(map[string]any)
		at = loosely(o, key)
	}
	list, _ := at.([]any)
	if len(list) != len(contents) {
		return nil, fmt.Errorf("the config has %d certificate authorities, and there are %d", len(list), len(contents))
	}
	for i := range list {
		ca, ok := list[i].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("$.ignition.security.tls.certificateAuthorities.%d is no object", i)
		}
		for _, key := range []string{"source", "compression", "httpHeaders"} {
			without(ca, key)
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

// NewestOf returns the newest released version of the major that a version is of, and
// "" for a version that is none of the family.
func NewestOf(version string) string {
	s := specOf(version)
	if s == nil {
		return ""
	}
	newest := ""
	for i := range family {
		if family[i].major == s.major && family[i].pre == "" {
			newest = family[i].name
		}
	}
	return newest
}

// IsVersion reports whether a config can be given in a version.
func IsVersion(name string) bool { return slices.Contains(Versions(), name) }

// loose reads a config as it stands, with numbers as they are written.
func loose(raw []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var root map[string]any
	if err := decoder.Decode(&root); err != nil {
		return nil, fmt.Errorf("the config cannot be read: %w", err)
	}
	return root, nil
}

// loosely returns a member by its key in any case of letters, as Ignition reads it.
func loosely(o map[string]any, key string) any {
	for name, value := range o {
		if fold(name) == fold(key) {
			return value
		}
	}
	return nil
}

// without takes a member away, and reports whether it was there.
func without(o map[string]any, key string) bool {
	for name := range o {
		if fold(name) == fold(key) {
			delete(o, name)
			return true
		}
	}
	return false
}
