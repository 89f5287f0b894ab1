package butane

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// Local is a part of a config that the source names by a path on the operator's
// disk.
type Local struct {
	// File is the path in the source, relative to the files directory even with a leading
	// slash. Tree is true of a folder.
	File string
	Tree bool
	// Path is the place in the document, such as "$.storage.trees.0.local", at Line
	// and Column.
	Path         string
	Line, Column int
}

// Locals lists the local parts of a source: contents, trees, units and keys. A
// source that is out of bounds or no YAML has none; Translate says why.
func Locals(source []byte) []Local {
	d, r := parse(source)
	if r.HasError() {
		return nil
	}
	var found []Local
	add := func(n *yaml.Node, path string, tree bool) {
		if n = resolve(n); n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
			found = append(found, Local{read(n), tree, path, n.Line, n.Column})
		}
	}
	trees := (*mapping)(d.root.value("storage")).value("trees")
	var walk func(n *yaml.Node, path string, tree bool)
	walk = func(n *yaml.Node, path string, tree bool) {
		switch n.Kind {
		case yaml.SequenceNode:
			for i, item := range n.Content {
				walk(item, fmt.Sprintf("%s.%d", path, i), n == trees)
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				key, value := read(n.Content[i]), n.Content[i+1]
				there := path + "." + key
				switch key {
				case "local", "contents_local":
					add(value, there, tree)
				case "ssh_authorized_keys_local":
					for j, item := range resolve(value).Content {
						add(item, fmt.Sprintf("%s.%d", there, j), false)
					}
				}
				walk(value, there, false)
			}
		}
	}
	walk((*yaml.Node)(d.root), "$", false)
	return found
}

// read returns a scalar as Butane reads it: that of a tag !!binary is not what is
// written there.
func read(n *yaml.Node) string {
	var s string
	if n.Decode(&s) != nil {
		return n.Value
	}
	return s
}
