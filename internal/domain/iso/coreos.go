package iso

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A CoreOS image names the parts of its boot configurations with the kernel arguments
// in a file; older images in a header in the system area. The format is that of
// coreos-installer.
const (
	kargsPath   = "/coreos/kargs.json"
	kargsPath83 = "/coreos/kargs.jso"

	legacyHeader   = 32672
	legacyMagic    = "coreKarg"
	legacyMaxAreas = 6

	maxArea  = 2048
	maxAreas = 32
)

// area is a region of an image that holds kernel arguments and nothing else: the
// arguments, the character end, and the character pad up to its length.
type area struct {
	at       Extent
	path     string
	pad, end string
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
		Size  int64
		Files []struct {
			Path, Pad, End string
			Offset         int64
		}
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
		pad, end := cmp.Or(f.Pad, "#"), cmp.Or(f.End, "\n")
		if len(pad) != 1 || len(end) != 1 {
			return nil, refuse(name, "pad and end of %s are not one character each", f.Path)
		}
		out = append(out, area{Extent{e.places[0].data.Off + f.Offset, info.Size}, e.path, pad, end})
	}
	return out, nil
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
		out = append(out, area{Extent{int64(off), int64(size)}, fmt.Sprintf("karg area at %d", off), "#", "\n"})
	}
	if len(out) == 0 {
		return nil, refuse("karg header", "it names no karg area")
	}
	// The header has no names: find the files with the areas.
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

// change returns the area with its arguments changed.
func (a *area) change(content []byte, e *edit) ([]byte, error) {
	if !utf8.Valid(content) {
		return nil, refuse(a.path, "its karg area holds no text")
	}
	text := strings.TrimSpace(strings.TrimRight(strings.TrimRight(string(content), a.pad), a.end))
	words, err := splitWords(text, 0, len(text))
	encode := unquoted
	if languageOf(a.path) == grub {
		encode = grubQuote
		commands, err := grubCommands("linux kernel " + text)
		if err != nil || len(commands) > 1 {
			return nil, refuse(a.path, "its karg area holds more than arguments")
		}
		words = commands[0][2:]
		for i := range words {
			words[i].start -= len("linux kernel ")
			words[i].end -= len("linux kernel ")
		}
	} else if err != nil {
		return nil, refuse(a.path, "%v", err)
	}
	changes, err := e.splices(words, 0, encode, "")
	if err != nil {
		return nil, refuse(a.path, "%v", err)
	}
	text = strings.TrimSpace(apply(text, changes))
	if int64(len(text)) >= a.at.Len {
		return nil, refuse(a.path, "the kernel arguments take %d bytes, its karg area has room for %d", len(text),
			a.at.Len-1)
	}
	if strings.HasSuffix(text, a.pad) {
		return nil, refuse(a.path, "the kernel arguments end with %q, which fills its karg area", a.pad[0])
	}
	text += a.end
	return []byte(text + strings.Repeat(a.pad, int(a.at.Len)-len(text))), nil
}
