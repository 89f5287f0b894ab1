package ignition

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Loss is a field that a conversion cannot keep.
type Loss struct {
	// Path is the field's place in the source, such as "$.storage.luks".
	Path string
	// Reason says why the version cannot have it, in a sentence without a full stop. It does
	// not name the version, so that it is the same for all versions with this reason.
	Reason string
}

func (l Loss) String() string { return l.Path + ": " + l.Reason }

// maxListed bounds the losses that Listed names.
const maxListed = 5

// Listed lists the first losses, each as text says it, and how many more there are.
func Listed(losses []Loss, text func(Loss) string) []string {
	var all []string
	for i, l := range losses {
		if i == maxListed {
			return append(all, fmt.Sprintf("and %d more fields", len(losses)-i))
		}
		all = append(all, text(l))
	}
	return all
}

// MaxConverted bounds the configs that are converted, in values. A larger one is
// given in its own version alone.
const MaxConverted = 10_000

// maxLosses bounds how many fields a refusal lists.
const maxLosses = 50

// Convert returns a config in another spec version, such as "3.2.0". The result means the
// same to a client of that version; where that is impossible, it is nil and the losses
// name the fields. The same source always gives the same bytes; a source of that version
// is returned unchanged. An error: the source is not valid, or there is no such version.
func Convert(raw []byte, to string) ([]byte, []Loss, error) {
	target := specOf(to)
	if target == nil {
		return nil, nil, fmt.Errorf("there is no spec version %q", clip(to))
	}
	d, from, err := valid(raw)
	if err != nil {
		return nil, nil, err
	}
	out, losses := newConversion(from, target, true).run(d)
	return out, losses, nil
}

// Form is one version that a config can be given in, or cannot.
type Form struct {
	Version string
	// Losses say why not; empty where it can.
	Losses []Loss
}

// Bounds of the configs of which each form is validated by its spec, see Servable.
const (
	maxVerifiedBytes  = 256 << 10
	maxVerifiedValues = 2_500
)

// Servable lists every released spec version, and the config's own, the oldest first, with
// the fields that prevent each. The error: the source is not valid. Of a large config,
// whose validation takes long, the fields alone are judged; Convert then finds values that
// a version does not allow, such as the scheme of a URL.
func Servable(raw []byte) ([]Form, error) {
	d, from, err := valid(raw)
	if err != nil {
		return nil, err
	}
	verified := len(raw) <= maxVerifiedBytes && len(d.nodes) <= maxVerifiedValues && d.isLight()
	var forms []Form
	for i := range family {
		target := &family[i]
		if target.pre != "" && target != from {
			continue
		}
		_, losses := newConversion(from, target, verified).run(d)
		forms = append(forms, Form{Version: target.name, Losses: losses})
	}
	return forms, nil
}

// valid reads a config for a conversion.
func valid(raw []byte) (*document, *spec, error) {
	if !utf8.Valid(raw) {
		return nil, nil, errors.New("the config is not UTF-8")
	}
	d, s, failure := read(raw)
	if failure != nil {
		return nil, nil, errors.New(failure.String())
	}
	if r := d.validate(s); r.HasError() {
		return nil, nil, errors.New(r.Summary())
	}
	return d, s, nil
}

// conversion is one config on its way from one version to another.
type conversion struct {
	from, to *spec
	// verified conversions hold what goes in and what comes out against its spec.
	verified bool
	// depth counts the configs around this one, see children, and left is how much
	// all of them may still have in them.
	depth  int
	left   *room
	losses []Loss
	// declared has the entries of the config and those written into it; nil within a major.
	declared *declared
	// source is the config that is converted.
	source *document
}

// room is how many values and bytes of further configs there may be, and how many bytes of
// unpacked contents.
type room struct {
	values, bytes, unpacked int
}

func newConversion(from, to *spec, verified bool) *conversion {
	return &conversion{from: from, to: to, verified: verified, left: &room{MaxConverted, maxChildBytes, maxUnpackedBytes}}
}

// The pivots: within a major every version is reached by way of the newest, and
// from one major to the other these two meet.
var (
	newest2 = specOf("2.4.0")
	newest3 = specOf("3.6.0")
	first21 = specOf("2.1.0")
	first22 = specOf("2.2.0")
	first23 = specOf("2.3.0")
	first31 = specOf("3.1.0")
)

// run returns a valid document in another version.
func (c *conversion) run(d *document) ([]byte, []Loss) {
	from, to := c.from, c.to
	if from == to {
		return d.raw, nil
	}
	if c.left.values -= len(d.nodes); c.left.values < 0 {
		c.lose("$", "the config has more than %d values and is given in its own version, %s, alone", MaxConverted, from.name)
		return nil, c.losses
	}
	root := c.decode(d.raw)
	c.source = d
	if to.before(first31) {
		c.unpack(root)
	}
	c.modes(root)
	switch {
	case from.major == 2 && to.major == 2:
		c.within2(root, from, to)
	case from.major == 2:
		c.within2(root, from, newest2)
		(&upConversion{c}).convert(root)
		c.declare(root)
	case to.major == 2:
		c.declare(root)
		(&downConversion{c}).convert(root)
		c.within2(root, newest2, to)
	}
	c.children(root)
	ensure(root, "ignition")["version"] = to.name
	prune(root)
	dropEmpty(to.config, root)
	c.restrict(to.config, root, "$", root)
	if len(c.losses) > 0 {
		return nil, c.sorted()
	}
	out := encode(root)
	if c.verified {
		c.verify(out, root)
	}
	if len(c.losses) > 0 {
		return nil, c.sorted()
	}
	return out, nil
}

func (c *conversion) lose(path, format string, args ...any) {
	c.losses = append(c.losses, Loss{Path: path, Reason: fmt.Sprintf(format, args...)})
}

// sorted returns the losses, each field once, in an order that is always the same.
func (c *conversion) sorted() []Loss {
	slices.SortFunc(c.losses, func(a, b Loss) int {
		return cmp.Or(comparePaths(a.Path, b.Path), strings.Compare(a.Reason, b.Reason))
	})
	out := slices.CompactFunc(c.losses, func(a, b Loss) bool { return a.Path == b.Path })
	if len(out) > maxLosses {
		more := fmt.Sprintf("and %d more fields are in the way", len(out)-maxLosses)
		out = append(out[:maxLosses:maxLosses], Loss{Path: "$", Reason: more})
	}
	return out
}

// comparePaths orders paths, with numbers as numbers.
func comparePaths(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		if len(x) != len(y) && isNumber(x) && isNumber(y) {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// restrict refuses the fields that the version does not have.
func (c *conversion) restrict(t reflect.Type, value any, path string, root object) {
	t = bare(t)
	switch value := value.(type) {
	case object:
		for _, key := range sortedKeys(value) {
			there := path + "." + key
			if ft, name, ok := field(t, key); ok && name == key {
				c.restrict(ft, value[key], there, root)
				continue
			}
			from := source(root, there)
			if o, ok := value[key].(object); ok {
				from = text(o, origin)
			}
			spans := versionsWith(from)
			place := c.source.nearest(from)
			switch {
			case spans == "":
				c.lose(place, "this version has no field %s", key)
			case place != from:
				c.lose(place, "this version has nothing with the same meaning: it would take %s, a field of spec %s", key, spans)
			default:
				c.lose(place, "it is a field of spec %s", spans)
			}
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return
		}
		for i, item := range value {
			c.restrict(t.Elem(), item, fmt.Sprintf("%s.%d", path, i), root)
		}
	}
}

// dropEmpty deletes the fields that a version does not have, and whose empty value is the
// same as none: Ignition takes compression "" for no compression (validateCompression of
// resource.go), and advertisement "" for no advertisement (validateTangAdvertisement of
// tang.go).
func dropEmpty(t reflect.Type, value any) {
	switch t = bare(t); value := value.(type) {
	case object:
		for _, key := range sortedKeys(value) {
			ft, _, ok := field(t, key)
			switch {
			case ok:
				dropEmpty(ft, value[key])
			case value[key] == "" && (key == "compression" || key == "advertisement"):
				delete(value, key)
			}
		}
	case []any:
		if t.Kind() == reflect.Slice {
			for _, item := range value {
				dropEmpty(t.Elem(), item)
			}
		}
	}
}

// verify holds the result against its spec. What it finds is a value that the
// version does not allow, such as a scheme of a URL.
func (c *conversion) verify(out []byte, root object) {
	d, s, failure := read(out)
	if failure != nil {
		c.lose("$", "%s", failure.Message)
		return
	}
	for _, f := range s.check(d, false).Errors() {
		c.lose(c.source.nearest(source(root, cmp.Or(f.Path, "$"))), "this version refuses it: %s", f.Message)
	}
}

// modes refuses set-uid, set-gid and sticky bits across the border of 3.6.0: the
// versions before it read them and do not set them.
func (c *conversion) modes(root object) {
	if c.from.before(newest3) == c.to.before(newest3) {
		return
	}
	storage := sub(root, "storage")
	for _, kind := range []string{"files", "directories"} {
		for _, node := range objects(storage, kind) {
			if mode, ok := integer(node, "mode"); ok && mode&0o7000 != 0 {
				c.lose(pathOf(node, "mode"),
					"spec 3.6.0 sets the special bits (set-uid, set-gid, sticky) and the versions before it do not")
			}
		}
	}
}

// proxy refuses one beside configs that are merged: in spec 2 such a config without
// a proxy takes it away, in spec 3 it stays.
func (c *conversion) proxy(ignition object, merges bool) {
	if !merges {
		return
	}
	proxy := sub(ignition, "proxy")
	for _, key := range sortedKeys(proxy) {
		c.lose(pathOf(proxy, key), "beside further configs it means different things: spec 2 drops it where one of them has "+
			"none, spec 3 keeps it")
	}
}

// bareHeaders refuses the headers without a value: in spec 3 they take away one of
// a config that this one is merged into, in spec 2 they have an empty value.
func (c *conversion) bareHeaders(value any) {
	switch value := value.(type) {
	case object:
		for _, header := range objects(value, "httpHeaders") {
			if _, ok := header["value"]; !ok {
				c.lose(text(header, origin), "without a value it removes a header in spec 3, and not in spec 2")
			}
		}
		for _, key := range sortedKeys(value) {
			c.bareHeaders(value[key])
		}
	case []any:
		for _, item := range value {
			c.bareHeaders(item)
		}
	}
}
