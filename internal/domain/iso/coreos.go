package iso

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Where a CoreOS image says which parts of its boot configurations hold the
// kernel arguments: in a file, before that in the system area.
const (
	kargsPath   = "/coreos/kargs.json"
	kargsPath83 = "/coreos/kargs.jso"

	legacyHeader   = 32672
	legacyMagic    = "coreKarg"
	legacyMaxAreas = 6

	maxArea  = 2048
	maxAreas = 32
)

// area is a region of an image that holds kernel arguments and nothing else,
// filled up with padding.
type area struct {
	at   Extent
	path string
	pad  byte
	end  byte
}

// areas returns the karg areas of a CoreOS image, nil where it has none.
func (img *Image) areas() ([]area, error) {
	for _, name := range []string{kargsPath, kargsPath83} {
		text, err := img.tree().readFile(name)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return img.describedAreas(name, text)
	}
	return img.legacyAreas()
}

func (img *Image) describedAreas(name string, text []byte) ([]area, error) {
	var info struct {
		Size  int64 `json:"size"`
		Files []struct {
			Path   string  `json:"path"`
			Offset int64   `json:"offset"`
			Pad    *string `json:"pad"`
			End    *string `json:"end"`
		} `json:"files"`
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return nil, refuse(name, "it cannot be read: %v", err)
	}
	if info.Size <= 0 || info.Size > maxArea {
		return nil, refuse(name, "karg areas of %d bytes: they have 1 to %d", info.Size, maxArea)
	}
	if len(info.Files) == 0 || len(info.Files) > maxAreas {
		return nil, refuse(name, "%d karg areas: there are 1 to %d", len(info.Files), maxAreas)
	}
	var out []area
	for _, f := range info.Files {
		e, err := find(img.tree(), f.Path)
		if err != nil {
			return nil, refuse(name, "%v", err)
		}
		if len(e.places) != 1 || f.Offset < 0 || f.Offset > e.size-info.Size {
			return nil, refuse(e.path, "its karg area at %d does not lie within it", f.Offset)
		}
		a := area{at: Extent{e.places[0].data.Off + f.Offset, info.Size}, path: e.path}
		var ok, also bool
		a.pad, ok = oneByte(f.Pad, '#')
		a.end, also = oneByte(f.End, '\n')
		if !ok || !also {
			return nil, refuse(name, "pad and end of %s are not one character each", f.Path)
		}
		out = append(out, a)
	}
	return out, nil
}

// oneByte reads a setting of one ASCII character.
func oneByte(s *string, otherwise byte) (byte, bool) {
	if s == nil {
		return otherwise, true
	}
	if len(*s) != 1 || (*s)[0] >= utf8.RuneSelf {
		return 0, false
	}
	return (*s)[0], true
}

// legacyAreas reads the header of older images: a magic word, the size of an
// area, where the default arguments are, and up to six offsets.
func (img *Image) legacyAreas() ([]area, error) {
	h := make([]byte, 24+8*legacyMaxAreas)
	if err := img.src.read(h, legacyHeader); err != nil {
		return nil, err
	}
	if string(h[:8]) != legacyMagic {
		return nil, nil
	}
	size := binary.LittleEndian.Uint64(h[8:])
	if size == 0 || size > maxArea {
		return nil, refuse("karg header", "karg areas of %d bytes: they have 1 to %d", size, maxArea)
	}
	var out []area
	for i := range legacyMaxAreas {
		off := binary.LittleEndian.Uint64(h[24+8*i:])
		if off == 0 {
			break
		}
		if off < firstDescriptor+sector || off > uint64(img.src.size)-size {
			return nil, refuse("karg header", "a karg area at %d: it does not lie within the image", off)
		}
		out = append(out, area{
			at: Extent{int64(off), int64(size)}, path: fmt.Sprintf("karg area at %d", off), pad: '#', end: '\n',
		})
	}
	if len(out) == 0 {
		return nil, refuse("karg header", "it names no karg area")
	}
	// The header has no names; the files that the areas lie in have.
	err := walk(img.tree(), func(e *entry) error {
		for i := range out {
			if !e.dir && len(e.places) == 1 && e.places[0].data.Off <= out[i].at.Off &&
				out[i].at.end() <= e.places[0].data.end() {
				out[i].path = e.path
			}
		}
		return nil
	})
	return out, err
}

// line returns the arguments that the area holds.
func (a *area) line(content []byte) (string, error) {
	if !utf8.Valid(content) {
		return "", refuse(a.path, "its karg area holds no text")
	}
	text := strings.TrimRight(string(content), string(rune(a.pad)))
	text = strings.TrimRight(text, string(rune(a.end)))
	return strings.TrimSpace(text), nil
}

// change returns the area with its arguments changed: the arguments, the end
// character, and padding up to its size.
func (a *area) change(content []byte, e *edit) ([]byte, error) {
	text, err := a.line(content)
	if err != nil {
		return nil, err
	}
	var words []word
	encode := plain
	if languageOf(a.path) == grub {
		encode = grubQuote
		commands, err := grubCommands("linux kernel " + text)
		if err != nil || len(commands) > 1 {
			return nil, refuse(a.path, "its karg area holds more than arguments")
		}
		for _, w := range commands[0][2:] {
			w.start, w.end = w.start-len("linux kernel "), w.end-len("linux kernel ")
			words = append(words, w)
		}
	} else {
		if words, err = splitWords(text, 0, len(text)); err != nil {
			return nil, refuse(a.path, "%v", err)
		}
	}
	changes, err := e.splices(words, 0, encode)
	if err != nil {
		return nil, refuse(a.path, "%v", err)
	}
	text = strings.TrimSpace(apply(text, changes))
	if int64(len(text)) >= a.at.Len {
		return nil, refuse(a.path, "the kernel arguments take %d bytes, its karg area has room for %d", len(text),
			a.at.Len-1)
	}
	if strings.HasSuffix(text, string(rune(a.pad))) {
		return nil, refuse(a.path, "the kernel arguments end with %q, which fills its karg area", a.pad)
	}
	out := append([]byte(text), a.end)
	return append(out, bytes.Repeat([]byte{a.pad}, int(a.at.Len)-len(out))...), nil
}
