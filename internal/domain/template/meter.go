package template

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	text "text/template"
)

// text/template cannot be stopped. A template is therefore parsed with calls of a meter at
// the beginning of every loop's body and every definition, and before each value that is
// compared or ranged over; and every function runs by the meter: a cost is charged before
// it is spent.
const (
	// budget is what rendering for one host may cost: 500,000 steps, or 32 MB of
	// text that goes through functions.
	budget = 32 << 20
	// stepCost is what executing one node of a template costs, about 200 ns; a byte
	// that a function reads or writes costs 1.
	stepCost = 64
	// builtinCost is what a call of one of text/template's own functions costs, without
	// the texts that it compares.
	builtinCost = 8 * stepCost
	// lookCost is the cost after which the meter asks whether anybody still waits: some milliseconds.
	lookCost = 1 << 20
	// callCost is what {{template}} costs: it takes stack, and bounds the depth of a
	// template that includes itself.
	callCost = 400 * stepCost
	// floatCost is what printf costs for a float: up to 20 µs for one that is close to 0.
	floatCost = 64 * stepCost
	// searchPart is how many pairs of bytes are compared at the cost of one byte, where
	// all of a text may be looked for at each place of another.
	searchPart = 64
	// yamlFactor is how much more than others the YAML library takes for a byte.
	yamlFactor = 4
	// maxValue bounds a text or list that a function makes, in bytes.
	maxValue = 256 << 10
)

var (
	errCostly = errors.New("the template goes on for too long: it has a very long loop, loops within loops, or includes itself")
	errEnded  = errors.New("the time for the rendering is over")
	errValue  = errors.New("a function would make a value of more than 256 KiB")
)

// meter is the rest of the budget of one execution.
type meter struct {
	left int
	// ended is Facts.Ended, and look what is left when it is asked next.
	ended func() bool
	look  int
	// secret returns the value of a key of a Secret.
	secret func(name, key string) (string, error)
	// err is why it has stopped, and at the offset in the template; -1 is unknown.
	err error
	at  int
}

// spend takes from the budget.
func (m *meter) spend(cost int) error {
	if m.left -= cost; m.left < 0 || cost < 0 {
		m.left = 0
		return m.fail(errCostly, -1)
	}
	if m.ended != nil && m.left <= m.look {
		m.look = m.left - lookCost
		if m.ended() {
			m.left = 0
			return m.fail(errEnded, -1)
		}
	}
	return nil
}

func (m *meter) fail(err error, at int) error {
	if m.err == nil {
		m.err, m.at = &stopped{err, at}, at
	}
	return m.err
}

// stopped is an error of the meter at an offset in the template, -1 where it is
// that of the function that was called.
type stopped struct {
	error
	at int
}

func (s *stopped) Unwrap() error { return s.error }

// Names of the meter's own functions, which a template cannot name.
const (
	chargeName = "glowplugCharge"
	weighName  = "glowplugWeigh"
	// secretName is the one function whose result is not a matter of its arguments alone.
	secretName = "secret"
	// probeName notes a value where a rendering that has failed is repeated.
	probeName = "glowplugProbe"
)

// functions binds all functions to the meter.
func (m *meter) functions(t *Template) text.FuncMap {
	bound := text.FuncMap{
		chargeName: func(cost, at int) (string, error) {
			if err := m.spend(cost); err != nil {
				return "", &stopped{errors.Unwrap(err), at}
			}
			return "", nil
		},
		// A text is compared in full, and a map is sorted before it is ranged over.
		weighName: func(v any) (any, error) { return v, m.spend(m.size(reflect.ValueOf(v))) },
	}
	for name := range t.named {
		f, ok := functions[name]
		switch name {
		case "printf":
			f = reflect.ValueOf(m.printf)
		case secretName:
			f = reflect.ValueOf(m.secret)
		}
		if ok {
			bound[name] = m.metered(name, f)
		}
	}
	return bound
}

// metered returns a function that charges for its arguments and its result.
func (m *meter) metered(name string, f reflect.Value) any {
	typ := f.Type()
	in := make([]reflect.Type, typ.NumIn())
	for i := range in {
		in[i] = typ.In(i)
	}
	result := typ.Out(0)
	wrapped := reflect.FuncOf(in, []reflect.Type{result, errorType}, typ.IsVariadic())
	return reflect.MakeFunc(wrapped, func(args []reflect.Value) []reflect.Value {
		failed := func(err error) []reflect.Value {
			return []reflect.Value{reflect.Zero(result), reflect.ValueOf(&err).Elem()}
		}
		flat := args
		if typ.IsVariadic() {
			rest := args[len(args)-1]
			flat = slices.Clone(args[:len(args)-1])
			for _, arg := range rest.Seq2() {
				flat = append(flat, arg)
			}
		}
		cost := stepCost
		for _, a := range flat {
			cost += m.size(a)
		}
		if name == "toYaml" {
			cost *= yamlFactor
		}
		if err := m.spend(cost + search(name, flat)); err != nil {
			return failed(err)
		}
		if estimate(name, flat) > maxValue {
			return failed(m.fail(errValue, -1))
		}
		call := f.Call
		if typ.IsVariadic() {
			call = f.CallSlice
		}
		out := call(args)
		if len(out) == 2 && !out[1].IsNil() {
			return failed(out[1].Interface().(error))
		}
		size := m.size(out[0])
		if size > maxValue {
			return failed(m.fail(errValue, -1))
		}
		if err := m.spend(size); err != nil {
			return failed(err)
		}
		return []reflect.Value{out[0], reflect.Zero(errorType)}
	}).Interface()
}

var errorType = reflect.TypeFor[error]()

// size estimates the memory of a value, in bytes. It stops counting beyond the budget.
func (m *meter) size(v reflect.Value) int {
	total := 0
	sizeOf(v, &total, m.left)
	return total
}

func sizeOf(v reflect.Value, total *int, limit int) {
	if *total > limit {
		return
	}
	switch v.Kind() {
	case reflect.String:
		*total += v.Len()
	case reflect.Interface:
		sizeOf(v.Elem(), total, limit)
	case reflect.Slice:
		*total += 16 * v.Len()
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Interface, reflect.Slice, reflect.Map:
			for i := range v.Len() {
				sizeOf(v.Index(i), total, limit)
			}
		}
	case reflect.Map:
		*total += 64 * v.Len()
		for it := v.MapRange(); it.Next() && *total <= limit; {
			sizeOf(it.Key(), total, limit)
			sizeOf(it.Value(), total, limit)
		}
	}
}

// search is what a function costs over reading its arguments that looks for the
// first of them, or for each of its characters, throughout the last.
func search(name string, args []reflect.Value) int {
	switch name {
	case "contains", "replace", "splitList", "trimAll":
		return (args[0].Len() + searchPart - 1) / searchPart * args[len(args)-1].Len()
	}
	return 0
}

// estimate is the least size of what a function makes that can make much of little; 0 for the
// others.
func estimate(name string, args []reflect.Value) int {
	str := func(i int) string {
		if i < len(args) && args[i].Kind() == reflect.String {
			return args[i].String()
		}
		return ""
	}
	switch name {
	case "indent", "nindent":
		spaces := min(max(args[0].Int(), 0), maxValue+1) // the product does not overflow
		return int(spaces)*(strings.Count(str(1), "\n")+1) + len(str(1))
	case "replace":
		return strings.Count(str(2), str(0))*(len(str(1))-len(str(0))) + len(str(2))
	case "join":
		list := args[1]
		if list.Kind() == reflect.Interface {
			list = list.Elem()
		}
		if list.Kind() == reflect.Slice {
			return (list.Len() - 1) * len(str(0))
		}
	case "splitList":
		found := strings.Count(str(1), str(0))
		if str(0) == "" { // it is found at both ends, too
			found -= 2
		}
		return 16*(found+1) + len(str(1)) - found*len(str(0))
	}
	return 0
}
