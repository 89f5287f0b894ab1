package butane

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// wrongType is how the YAML library says that a value is of a wrong type.
var wrongType = regexp.MustCompile("^cannot unmarshal !!(\\w+)( `[^`]*`)? into (.+)$")

// columnOfValue returns the column of the value on a line that has the type and the excerpt
// of a message of the YAML library; 0: no value of the line has them, or several have.
func columnOfValue(source []byte, line int, kind, excerpt string) (column int) {
	var root yaml.Node
	if yaml.Unmarshal(source, &root) != nil {
		return 0
	}
	count := 0
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if n.Line == line && n.ShortTag() == "!!"+kind && excerptOf(n) == excerpt {
			count, column = count+1, n.Column
		}
		for i, child := range n.Content {
			if isKey := n.Kind == yaml.MappingNode && i%2 == 0; !isKey {
				walk(child)
			}
		}
	}
	walk(&root)
	if count != 1 {
		return 0
	}
	return column
}

// excerptOf returns what the YAML library quotes of a value in a message about its type.
func excerptOf(n *yaml.Node) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		return ""
	case len(n.Value) > 10:
		return " `" + n.Value[:7] + "...`"
	}
	return " `" + n.Value + "`"
}

// stringType finds the types of Butane that are strings.
var stringType = regexp.MustCompile(`\.(Device|Group|KernelArgument|SSHAuthorizedKey)$`)

// definedTwice is how it says that a mapping has a key twice.
var definedTwice = regexp.MustCompile(`^mapping key (".*") already defined at line (\d+)$`)

// kinds are the names of YAML's types.
var kinds = map[string]string{
	"str": "a string", "int": "a number", "float": "a number", "bool": "a boolean",
	"map": "a mapping", "seq": "a list", "timestamp": "a date", "null": "null",
}

// reworded puts the words of a config for the library's words of Go.
func reworded(message string) string {
	if m := definedTwice.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("key %s is defined twice: first on line %s", m[1], m[2])
	}
	m := wrongType.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	found := cmp.Or(kinds[m[1]], "a value of type "+m[1])
	expected := "a mapping"
	switch t := strings.TrimLeft(m[3], "*"); {
	case strings.HasPrefix(t, "[]"):
		expected = "a list"
	case t == "string" || stringType.MatchString(t):
		expected = "a string"
	case t == "bool":
		expected = "true or false"
	case strings.HasPrefix(t, "int"):
		expected = "a whole number"
	}
	return "expected " + expected + ", found " + found + m[2]
}
