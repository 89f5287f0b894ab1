// Package jsonscan finds the place of every value in a JSON text, and the keys that
// JSON decoders take for the same.
package jsonscan

import (
	"bytes"
	"iter"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// Value is one value of a text.
type Value struct {
	// Start is the offset of the value, KeyStart that of its key in an object.
	Start, KeyStart int
	// End is the offset after the value; of an object or list, after its bracket.
	End int
	// Key is the name of an object's member; empty in a list.
	Key string
	// Parent is the number of the object or list that holds it, counted from 0 in the
	// order of Values; -1 for the outermost value.
	Parent int
	// Index counts the values of a list from 0; -1 in an object.
	Index int
	// Depth counts the objects and lists around it.
	Depth int
	// Repeated reports whether its object has an earlier member with the same key, in
	// any case of letters.
	Repeated bool
}

// Values returns the values of a valid JSON text in its order: an object or list
// comes before its contents.
func Values(raw []byte) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		decoder := jsontext.NewDecoder(bytes.NewBuffer(raw),
			jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		type member struct {
			parent int
			key    string
		}
		seen := map[member]bool{}
		around := []int{-1} // the object or list at each depth
		var key Value
		for count := 0; ; {
			depth := decoder.StackDepth()
			container, length := decoder.StackIndex(depth)
			size := 1
			switch decoder.PeekKind() {
			case '}', ']':
				_, _ = decoder.ReadToken() // of a valid text
				continue
			case '{', '[':
				_, _ = decoder.ReadToken()
				around = append(around[:depth+1], count)
			default:
				text, err := decoder.ReadValue()
				if err != nil {
					return // the end of the text
				}
				size = len(text)
			}
			v := Value{End: int(decoder.InputOffset()), Parent: around[depth], Index: -1, Depth: depth}
			v.Start = v.End - size
			switch {
			case container == '{' && length%2 == 0:
				name := Unquote(raw[v.Start:v.End])
				m := member{v.Parent, Fold(name)}
				key = Value{Key: name, KeyStart: v.Start, Repeated: seen[m]}
				seen[m] = true
				continue
			case container == '{':
				v.Key, v.KeyStart, v.Repeated = key.Key, key.KeyStart, key.Repeated
			case container == '[':
				v.Index = int(length)
			}
			if !yield(v) {
				return
			}
			count++
		}
	}
}

// Unquote returns the text of a JSON string.
func Unquote(quoted []byte) string {
	text, _ := jsontext.AppendUnquote(nil, quoted) // invalid UTF-8 is replaced
	return string(text)
}

// Fold returns one spelling of all keys that Go's decoders take for the same: they
// compare without regard to the case of letters.
func Fold(key string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || c < 'A' {
			return c
		}
		least := c
		for next := unicode.SimpleFold(c); next != c; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return unicode.ToLower(least)
	}, key)
}
