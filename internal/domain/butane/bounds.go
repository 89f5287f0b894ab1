package butane

import (
	"bytes"
	"fmt"

	"gopkg.in/yaml.v3"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/report"
)

// Bounds of a YAML document, with every alias written out. The library reads the
// source several times and keeps a path for every value.
const (
	// MaxDepth bounds how deep mappings and lists may nest.
	MaxDepth = 32
	// MaxNodes bounds keys and values together: 5,000 small files and some.
	MaxNodes = 60_000
	// MaxMappings bounds the mappings among them.
	MaxMappings = 15_000
	// MaxTexts bounds the inline texts, for each of which the library sets up a
	// compressor.
	MaxTexts = 5_200
	// MaxKeys bounds the keys of one mapping: the YAML library compares each with each.
	MaxKeys = 512
	// MaxExpanded bounds the bytes of all scalars together.
	MaxExpanded = 4 << 20
	// MaxTags bounds the %TAG directives, of which Butane has no use: the YAML
	// library compares each with each.
	MaxTags = 16
)

// split is the remedy for a config that is too large.
const split = "split the config: ignition.config.merge fetches further ones"

// boundChildren checks the bounds of the children: newer specs validate them too.
func (d *document) boundChildren() report.Report {
	values := 0
	for _, text := range d.children {
		n, excess := ignition.Excess([]byte(text.Value))
		if values += n; excess == nil && values > ignition.MaxNodes {
			excess = &report.Finding{Message: fmt.Sprintf("the configs in here have more than %d values", ignition.MaxNodes),
				Hint: split}
		}
		if excess != nil {
			f := d.finding(text, "in the inline config: "+excess.String())
			f.Hint = excess.Hint
			return report.Report{f}
		}
	}
	return nil
}

// tags counts what may be a %TAG directive: the word at the start of a line, after
// any of YAML's line breaks or a byte order mark.
func tags(source []byte) (n int) {
	word := []byte("%TAG")
	for at := 0; ; at += len(word) {
		next := bytes.Index(source[at:], word)
		if next < 0 {
			return n
		}
		at += next
		if at == 0 || bytes.IndexByte([]byte("\n\r\x85\xa8\xa9\xbf"), source[at-1]) >= 0 {
			n++
		}
	}
}

// bounds walks a document with its aliases written out.
type bounds struct {
	nodes, mappings, texts, bytes int
	failure                       *report.Finding
}

func (b *bounds) walk(n *yaml.Node, depth int) {
	b.nodes++
	b.bytes += len(n.Value)
	if n.Kind == yaml.MappingNode {
		b.mappings++
		b.texts += texts(n)
	}
	switch {
	case b.nodes > MaxNodes:
		b.fail(n, "the config has more than %d keys and values", MaxNodes)
	case b.mappings > MaxMappings:
		b.fail(n, "the config has more than %d mappings", MaxMappings)
	case b.texts > MaxTexts:
		b.fail(n, "the config has more than %d inline texts", MaxTexts)
	case b.bytes > MaxExpanded:
		b.fail(n, "the config has more than %d MiB of text with its aliases written out", MaxExpanded>>20)
	case depth > MaxDepth:
		b.fail(n, "mappings and lists are nested more than %d deep", MaxDepth)
	case n.Kind == yaml.MappingNode && len(n.Content) > 2*MaxKeys:
		b.fail(n, "a mapping has more than %d keys", MaxKeys)
	case n.Kind == yaml.AliasNode:
		b.walk(n.Alias, depth+1)
	}
	for _, child := range n.Content {
		if b.failure != nil {
			return
		}
		b.walk(child, depth+1)
	}
}

func (b *bounds) fail(n *yaml.Node, format string, limit int) {
	b.failure = &report.Finding{
		Severity: report.Error, Line: n.Line, Column: n.Column,
		Message: fmt.Sprintf(format, limit), Hint: split,
	}
}

// texts counts the texts of a mapping that the library puts into data URLs.
func texts(n *yaml.Node) (count int) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch n.Content[i].Value {
		case "inline", "contents":
			if resolve(n.Content[i+1]).Kind == yaml.ScalarNode {
				count++
			}
		}
	}
	return count
}
