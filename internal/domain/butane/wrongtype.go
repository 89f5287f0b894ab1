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

// typed is a value as a message of the YAML library about its type names it.
type typed struct {
	line          int
	kind, excerpt string
}

// columns returns the columns of the values of a source; 0: a line has several that a message
// would name alike.
func columns(source []byte) map[typed]int {
	found := map[typed]int{}
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		value := typed{n.Line, strings.TrimPrefix(n.ShortTag(), "!!"), excerptOf(n)}
		column := n.Column
		if _, twice := found[value]; twice {
			column = 0
		}
		found[value] = column
		for i, child := range n.Content {
			if isKey := n.Kind == yaml.MappingNode && i%2 == 0; !isKey {
				walk(child)
			}
		}
	}
	var root yaml.Node
	if yaml.Unmarshal(source, &root) == nil {
		walk(&root)
	}
	return found
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
