package template

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

var errAddress = errors.New("%p writes an address in memory, which is another one each time")

// formatting is a call of printf. It writes what fmt.Sprintf writes, but verb by verb: a width
// or a precision, which an argument can have too (%[2]*[1]d), makes a long text of a
// short format, and so each one is read before its verb is written.
type formatting struct {
	meter *meter
	// format is the part that is not written yet.
	format string
	args   []any
	// next is the argument of the next verb; reordered is true once an index chose one.
	next      int
	reordered bool
	out       []byte
}

// verb is one verb of a format.
type verb struct {
	// text is the verb without indexes of arguments, from % up to the letter; stars are
	// the arguments of its asterisks.
	text  string
	stars []any
	// width and precision are numbers, 0 where there is none.
	width, precision int
	letter           rune
	// badIndex is true where an index chose no argument.
	badIndex bool
}

// printf is fmt.Sprintf within the limits.
func (m *meter) printf(format string, args ...any) (string, error) {
	f := &formatting{meter: m, format: format, args: args}
	for f.format != "" {
		before, _, found := strings.Cut(f.format, "%")
		f.out = append(f.out, before...)
		f.format = f.format[len(before):]
		if found {
			f.format = f.format[1:]
			if err := f.write(f.verb()); err != nil {
				return "", err
			}
		}
		if len(f.out) > maxValue {
			return "", m.fail(errValue, -1)
		}
	}
	if !f.reordered && f.next < len(args) {
		f.out = fmt.Appendf(f.out, f.format, args[f.next:]...) // nothing is left of the format, which names them
	}
	return string(f.out), nil
}

// write writes a verb with its argument, if that is not too long.
func (f *formatting) write(v verb) error {
	if v.letter < 0 || v.letter == '%' || v.badIndex || f.next >= len(f.args) {
		f.out = fmt.Appendf(f.out, v.text+"%", v.stars...)
		switch {
		case v.letter < 0:
			f.out = append(f.out, "!(NOVERB)"...)
		case v.letter == '%':
		case v.badIndex:
			f.out = fmt.Appendf(f.out, "!%c(BADINDEX)", v.letter)
		default:
			f.out = fmt.Appendf(f.out, "!%c(MISSING)", v.letter)
		}
		return f.meter.spend(stepCost)
	}
	arg := f.args[f.next]
	f.next++
	value := reflect.ValueOf(arg)
	if v.letter == 'p' && (value.Kind() == reflect.Map || value.Kind() == reflect.Slice) {
		return errAddress
	}
	if err := f.meter.spend(stepCost + f.meter.size(value)); err != nil {
		return err
	}
	n := v.count(value)
	if n.padded*v.width > maxValue || n.extended*v.precision > maxValue {
		return f.meter.fail(errValue, -1)
	}
	if err := f.meter.spend(n.floats * floatCost); err != nil {
		return err
	}
	// The index keeps apart what is before the letter, which may be a flag without it.
	text := fmt.Sprintf("%s[%d]%c", v.text, len(v.stars)+1, v.letter)
	f.out = fmt.Appendf(f.out, text, append(v.stars, arg)...)
	return nil
}

// verb reads a verb behind its %, as package fmt does.
func (f *formatting) verb() (v verb) {
	rest := strings.TrimLeft(f.format, "#0+- ")
	v.text = "%" + f.format[:len(f.format)-len(rest)]
	f.format = rest
	isChosen := f.index(&v)
	width, isNumber := f.amount(&v, math.MinInt)
	if v.width = max(width, -width); isNumber && isChosen {
		v.badIndex = true // the index is before a number
	} else if len(v.stars) > 0 {
		isChosen = false
	}
	if len(f.format) > 1 && f.format[0] == '.' {
		f.format, v.text = f.format[1:], v.text+"."
		v.badIndex = v.badIndex || isChosen
		isChosen = f.index(&v)
		stars := len(v.stars)
		v.precision, _ = f.amount(&v, 0)
		isChosen = isChosen && stars == len(v.stars)
	}
	if !isChosen {
		f.index(&v)
	}
	if f.format == "" {
		v.letter = -1
		return v
	}
	letter, size := utf8.DecodeRuneInString(f.format)
	v.letter, f.format = letter, f.format[size:]
	return v
}

// index reads the index of an argument, such as [2], and reports whether one is read.
func (f *formatting) index(v *verb) bool {
	if !strings.HasPrefix(f.format, "[") {
		return false
	}
	f.reordered = true
	inside, rest, isClosed := strings.Cut(f.format[1:], "]")
	if !isClosed || len(f.format) < len("[1]") {
		f.format, v.badIndex = f.format[1:], true
		return false
	}
	f.format = rest
	n, after := number(inside)
	if inside == "" || after != "" || n < 0 {
		v.badIndex = true
		return false
	}
	if n == 0 || n > len(f.args) {
		v.badIndex = true
		return true
	}
	f.next = n - 1
	return true
}

// maxAmount is the largest width or precision that package fmt takes from an argument.
const maxAmount = 1_000_000

// amount reads a width or precision: a number, or an asterisk for an argument of at least
// least.
func (f *formatting) amount(v *verb, least int) (n int, isNumber bool) {
	if !strings.HasPrefix(f.format, "*") {
		n, rest := number(f.format)
		if n < 0 { // package fmt finds no verb behind such a number
			f.format = ""
			return 0, false
		}
		digits := f.format[:len(f.format)-len(rest)]
		f.format, v.text = rest, v.text+digits
		return n, digits != ""
	}
	f.format, v.text = f.format[1:], v.text+"*"
	if f.next >= len(f.args) {
		v.stars = append(v.stars, nil)
		return 0, false
	}
	arg := f.args[f.next]
	v.stars = append(v.stars, arg)
	f.next++
	if value := reflect.ValueOf(arg); value.IsValid() && value.CanInt() {
		n = int(value.Int())
	} else if value.IsValid() && value.CanUint() {
		n = int(min(value.Uint(), math.MaxInt))
	}
	if n < max(least, -maxAmount) || n > maxAmount {
		return 0, false
	}
	return n, false
}

// number reads the digits at the beginning of a text; -1 is a number that is too large for
// package fmt.
func number(text string) (n int, rest string) {
	rest = strings.TrimLeft(text, "0123456789")
	digits := text[:len(text)-len(rest)]
	if digits == "" {
		return 0, rest
	}
	if n, err := strconv.Atoi(digits); err == nil && n/10 <= maxAmount {
		return n, rest
	}
	return -1, ""
}

// counts are numbers of the values in an argument: of those that have at least the width in
// bytes, of those that have at least the precision, and of the floats.
type counts struct{ padded, extended, floats int }

// count counts the values in an argument.
func (v *verb) count(value reflect.Value) (n counts) {
	if v.letter == 'T' || v.letter == 'p' || !value.IsValid() && v.letter == 'v' {
		return counts{padded: 1}
	}
	var count func(reflect.Value)
	count = func(value reflect.Value) {
		switch value.Kind() {
		case reflect.Invalid: // nil in a list has no width
		case reflect.Interface:
			count(value.Elem())
		case reflect.Slice:
			for _, element := range value.Seq2() {
				count(element)
			}
		case reflect.Map:
			for key, element := range value.Seq2() {
				count(key)
				count(element)
			}
		default:
			n.padded++
			if v.extends(value) {
				n.extended++
			}
			if value.CanFloat() || value.CanComplex() {
				n.floats++
			}
		}
	}
	count(value)
	return n
}

// extends reports whether the precision is the least number of digits of a value.
func (v *verb) extends(value reflect.Value) bool {
	switch {
	case value.CanInt(), value.CanUint():
		return v.letter != 'c' && v.letter != 'q'
	case value.CanFloat(), value.CanComplex():
		sharp := strings.Contains(v.text, "#") && !strings.ContainsRune("bvw", v.letter)
		return sharp || strings.ContainsRune("eEfFxX", v.letter)
	}
	return false
}
