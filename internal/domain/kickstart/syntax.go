package kickstart

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed arguments.txt
var arguments string

// syntax is what a command or a section takes.
type syntax struct {
	options []option
	rules   []rule
	// least and most bound the number of arguments that are no options; most is -1 for
	// any number. argument names one of them in a message.
	least, most int
	argument    string
}

// option is an option of a command.
type option struct {
	// names are what it may be called, the usual name first.
	names    []string
	value    value
	required bool
	versions scope
}

// value is what an option takes.
type value struct {
	// kind is "" for an option without a value, or text, list, number, boolean, choice,
	// or "?" for any text or none.
	kind string
	// choices are the texts of a choice; anyCase says that case does not matter.
	choices []string
	anyCase bool
	// least and most bound a number, if they are not nil.
	least, most *int
}

// rule is a rule about which options are given together.
type rule struct {
	verb     string
	operands []string
	versions scope
}

// scope is where an option or a rule applies: the beginnings of the names of versions.
// None is everywhere.
type scope []string

func (s scope) has(version string) bool {
	return len(s) == 0 || slices.ContainsFunc(s, func(p string) bool { return strings.HasPrefix(version, p) })
}

// syntaxes has the syntax of each command and section that is in the table.
var syntaxes = sync.OnceValue(func() map[string]*syntax {
	all := map[string]*syntax{}
	var now *syntax
	for line := range strings.Lines(arguments) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0][0] == '#':
		case line[0] != '\t':
			now = &syntax{}
			for _, name := range fields {
				all[name] = now
			}
		default:
			now.line(fields)
		}
	}
	return all
})

// line adds a line of the table.
func (s *syntax) line(fields []string) {
	switch fields[0] {
	case ":":
		s.least, s.most = number(fields[1]), -1
		if fields[2] != "*" {
			s.most = number(fields[2])
		}
		s.argument = strings.Join(fields[3:], " ")
	case "some", "one", "either", "needs", "never":
		r := rule{verb: fields[0], operands: fields[1:]}
		if last, ok := strings.CutPrefix(fields[len(fields)-1], "@"); ok {
			r.operands, r.versions = fields[1:len(fields)-1], strings.Split(last, ",")
		}
		s.rules = append(s.rules, r)
	default:
		for _, field := range fields {
			s.options = append(s.options, parseOption(field))
		}
	}
}

func parseOption(field string) option {
	var o option
	field, versions, ok := strings.Cut(field, "@")
	if ok {
		o.versions = strings.Split(versions, ",")
	}
	field, o.required = strings.CutSuffix(field, "!")
	names := field
	if i := strings.IndexAny(field, "=~"); i >= 0 {
		names, o.value = field[:i], parseValue(field[i+1:])
		o.value.anyCase = field[i] == '~'
	}
	o.names = strings.Split(names, "/")
	return o
}

func parseValue(s string) value {
	least, most, isRange := strings.Cut(s, "..")
	switch {
	case isRange:
		v := value{kind: "number", least: new(int)}
		*v.least = number(least)
		if most != "" {
			v.most = new(int)
			*v.most = number(most)
		}
		return v
	case slices.Contains([]string{"text", "list", "number", "boolean", "?"}, s):
		return value{kind: s}
	}
	return value{kind: "choice", choices: strings.Split(s, "|")}
}

// number reads a number of the table, which is part of this program.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(fmt.Sprintf("arguments.txt: %v", err))
	}
	return n
}
