package iso

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// commandLine is the length of a kernel's command line, its final zero byte included. A
// kernel cuts a longer one off silently.
const commandLine = 2048

// argument is one kernel argument: a flag, or key=value. A value with blanks is in
// double quotes.
type argument string

// key returns the text before the first equals sign.
func (a argument) key() string {
	key, _, _ := strings.Cut(string(a), "=")
	return strings.TrimPrefix(key, `"`)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// parseArguments parses the arguments to set. It refuses text that a kernel or a boot
// loader would understand as something else.
func parseArguments(texts []string, baseURL string) ([]argument, error) {
	var out []argument
	for _, text := range texts {
		if strings.Contains(text, "${glowplug}") {
			if baseURL == "" {
				return nil, fmt.Errorf("kernel argument %q: %w", text, ErrNoBaseURL)
			}
			text = strings.ReplaceAll(text, "${glowplug}", strings.TrimSuffix(baseURL, "/"))
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }) {
			return nil, fmt.Errorf("kernel argument %q: control characters cannot be written", text)
		}
		split, err := splitWords(text, 0, len(text))
		if err != nil {
			return nil, fmt.Errorf("kernel argument %q: %w", text, err)
		}
		for _, w := range split {
			switch a := argument(w.text); {
			case a.key() == "":
				return nil, fmt.Errorf("kernel argument %q: it has no name", text)
			case isSeparator(w.text):
				return nil, fmt.Errorf("kernel argument %q: what follows it would be for init, not for the kernel", text)
			case a.key() == mediaCheck:
				return nil, fmt.Errorf("kernel argument %q: the check fails on an image whose arguments are set", text)
			case a.key() == "initrd":
				return nil, fmt.Errorf("kernel argument %q: leave it out: the boot loader of the image names the initial RAM disk"+
					" itself, and a second one would replace that", text)
			case !slices.Contains(out, a):
				out = append(out, a)
			}
		}
	}
	return out, nil
}

// CheckArguments reports why arguments can be set in no image, whatever its boot entries are.
func CheckArguments(texts []string) error {
	_, err := parseArguments(texts, "http://192.0.2.1")
	return err
}

// mediaCheck makes dracut compare the image with the MD5 implanted in it.
const mediaCheck = "rd.live.check"

// isSeparator reports whether the arguments after a word are for init, or are kept for
// the installed system.
func isSeparator(word string) bool { return word == "--" || word == "---" }

// edit is a change of each kernel command line.
type edit struct {
	set  []argument
	drop []string // keys of arguments to remove
	// kept are the arguments that stay, of any command line.
	kept map[string]bool
}

// replaces reports whether the change removes an argument that is there.
func (e *edit) replaces(a argument) bool {
	key := a.key()
	return slices.Contains(e.drop, key) || slices.ContainsFunc(e.set, func(s argument) bool { return s.key() == key })
}

// removal returns the change that only removes what this one replaces, for a command line
// whose other part has the new arguments.
func (e *edit) removal() *edit {
	removal := &edit{drop: slices.Clone(e.drop), kept: e.kept}
	for _, a := range e.set {
		removal.drop = append(removal.drop, a.key())
	}
	return removal
}

// word is an argument in a file.
type word struct {
	start, end int
	text       string // without the quotes of the file's own language
}

var errUnclosed = errors.New("a quote is not closed")

// splitWords returns the arguments of text[start:end]: it is split at its blanks,
// except in double quotes, as a kernel does.
func splitWords(text string, start, end int) ([]word, error) {
	var out []word
	at, quoted := -1, false
	for i := start; i < end; i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
			if at < 0 {
				at = i
			}
		case isBlank(c) && !quoted:
			if at >= 0 {
				out = append(out, word{at, i, text[at:i]})
				at = -1
			}
		case at < 0:
			at = i
		}
	}
	if quoted {
		return nil, errUnclosed
	}
	if at >= 0 {
		out = append(out, word{at, end, text[at:end]})
	}
	return out, nil
}

// splice is a replacement of text[start:end].
type splice struct {
	start, end int
	text       string
}

// bootImage begins what GRUB and isolinux put before the arguments of a kernel: its file as the
// configuration has it, and a blank.
const bootImage = "BOOT_IMAGE="

// splices returns the changes to one command line: words are its arguments, and
// from is the offset at which the first one would follow. encode writes an argument in the
// language of the file. file is the kernel where the boot loader puts that before the arguments, else "".
// There are no changes to a line that has the arguments already.
func (e *edit) splices(words []word, from int, encode func(argument) (string, error), file string) ([]splice, error) {
	var (
		out    []splice
		insert = from
		length int
		// last are the removed arguments at the place where the new ones are inserted.
		last []string
	)
	before := ""
	if file != "" {
		length = len(bootImage) + len(file) + 1
		before = " with the " + bootImage + file + " of the boot loader"
	}
	open := true
	for _, w := range words {
		open = open && !isSeparator(w.text)
		if e.replaces(argument(w.text)) {
			// With the blanks before it, so that a second time finds the same.
			out = append(out, splice{from, w.end, ""})
			if open {
				last = append(last, w.text)
			}
		} else {
			length += len(w.text) + 1
			if open {
				insert, last = w.end, last[:0]
				e.keep(w.text)
			}
		}
		from = w.end
	}
	var text string
	var same []string
	for _, a := range e.set {
		length += len(a) + 1
		encoded, err := encode(a)
		if err != nil {
			return nil, err
		}
		text += " " + encoded
		same = append(same, string(a))
	}
	if len(e.set) > 0 && length > commandLine {
		return nil, fmt.Errorf("the kernel arguments take %d bytes%s, a kernel has room for %d", length-1, before,
			commandLine-1)
	}
	if len(out) == len(last) && slices.Equal(same, last) {
		return nil, nil
	}
	if text != "" {
		out = append(out, splice{insert, insert, text})
	}
	return out, nil
}

// maxArguments bounds the arguments of an image that are kept in mind.
const maxArguments = 200

// keep notes an argument that stays in a command line. What a boot loader puts into it is no argument.
func (e *edit) keep(text string) {
	if e.kept != nil && len(e.kept) < maxArguments && len(text) < commandLine && !strings.ContainsAny(text, "$#") &&
		!strings.HasPrefix(text, "initrd=") {
		e.kept[text] = true
	}
}

// apply makes the changes. Removals at the place of an insertion come after it.
func apply(text string, changes []splice) string {
	slices.SortStableFunc(changes, func(a, b splice) int { return cmp.Or(a.start-b.start, a.end-b.end) })
	var out strings.Builder
	at := 0
	for _, c := range changes {
		out.WriteString(text[at:c.start] + c.text)
		at = c.end
	}
	return out.String() + text[at:]
}

// unquoted writes an argument unchanged, for files without a language of their own.
func unquoted(a argument) (string, error) { return string(a), nil }
