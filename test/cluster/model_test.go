package cluster

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

type operation int

const (
	read operation = iota
	create
	replace // PUT with the resource version that the client has seen
	put     // PUT without one
	remove
)

func (o operation) String() string {
	return [...]string{"read", "create", "replace", "put", "delete"}[o]
}

type outcome int

const (
	done     outcome = iota // 200, 201
	conflict                // 409
	missing                 // 404
	unknown                 // 504, or no answer: it may have been done, or may yet be
)

func (o outcome) String() string { return [...]string{"done", "409", "404", "unknown"}[o] }

// call is what a client asks of one object, and answer what it is told.
type call struct {
	operation operation
	object    string
	server    string
	value     string // to be stored; each is used once
	version   string // that replace expects
}

type answer struct {
	outcome outcome
	value   string
	version string
}

// register is an object as a single copy of it would be. The version is "?" while
// nobody has been told it.
type register struct {
	exists  bool
	value   string
	version string
}

const untold = "?"

// model says which answers a single copy could have given.
var model = porcupine.Model{
	Partition: byObject,
	Init:      func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		return step(state.(register), input.(call), output.(answer))
	},
	DescribeOperation: func(input, output any) string { return describe(input.(call), output.(answer)) },
	DescribeState: func(state any) string {
		if r := state.(register); r.exists {
			return fmt.Sprintf("%s @%s", r.value, r.version)
		}
		return "none"
	},
}

func step(r register, c call, a answer) (bool, register) {
	// would reports whether the call does something to the object as it is.
	var would bool
	switch c.operation {
	case read:
		return stepRead(r, a)
	case create:
		would = !r.exists
	case replace:
		// A version that a client expects was told to somebody before.
		would = r.exists && r.version == c.version
	case put, remove:
		would = r.exists
	}
	after := register{exists: true, value: c.value, version: untold}
	if c.operation == remove {
		after = register{}
	}
	switch a.outcome {
	case done:
		if c.operation != remove {
			after.version = a.version
		}
		return would, after
	case conflict:
		refusable := c.operation == create && r.exists || c.operation == replace && r.exists && r.version != c.version
		return refusable, r
	case missing:
		return c.operation != create && !r.exists, r
	}
	// It never ended, so it may also come after everything that was observed.
	if would {
		return true, after
	}
	return true, r
}

func stepRead(r register, a answer) (bool, register) {
	if a.outcome == missing {
		return !r.exists, r
	}
	if !r.exists || r.value != a.value || r.version != untold && r.version != a.version {
		return false, r
	}
	r.version = a.version
	return true, r
}

func byObject(history []porcupine.Operation) [][]porcupine.Operation {
	index := map[string]int{}
	var parts [][]porcupine.Operation
	for _, o := range history {
		name := o.Input.(call).object
		i, ok := index[name]
		if !ok {
			i = len(parts)
			index[name] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], o)
	}
	return parts
}

func describe(c call, a answer) string {
	text := fmt.Sprintf("%s: %s", c.server, c.operation)
	if c.version != "" {
		text += " @" + c.version
	}
	if c.value != "" {
		text += " " + c.value
	}
	text += " -> " + a.outcome.String()
	if a.value != "" && c.operation == read {
		text += " " + a.value
	}
	if a.version != "" {
		text += " @" + a.version
	}
	return text
}
