package explain

import (
	"slices"
	"strings"

	"glowplug/internal/domain/model"
)

// Elsewhere stands for the name of an object that the reader of an explanation may not read.
const Elsewhere = "one in another namespace"

// Reader is what the reader of an explanation may read of a namespace.
type Reader struct {
	// Configs reports whether he may read its configs, and All whether he may read all objects that an explanation may
	// name.
	Configs, All func(namespace string) bool
}

// Reduce leaves out of the explanation for a host what its reader may not read of other namespaces: the candidates,
// which are counted, the layers and entries of the winner, the events of other hosts, and the names of objects. The
// names of the config and of the image of the host stay: its own object, and its Boots, have them.
func (e *Explanation) Reduce(view model.View, reader Reader) {
	all := len(e.Candidates)
	e.Candidates = slices.DeleteFunc(e.Candidates, func(c Candidate) bool {
		return !reader.Configs(namespaceOf(c.Config))
	})
	e.Hidden = all - len(e.Candidates)
	if w := e.Winner; w != nil && !reader.Configs(namespaceOf(w.Config)) {
		w.Layers, w.Origins = nil, nil
	}
	if e.Host == "" {
		e.Boot = nil
	}
	n := namer{view, reader, []string{e.Named, e.Host}}
	if e.Winner != nil {
		n.known = append(n.known, e.Winner.Config)
	}
	if e.Boot != nil {
		n.known = append(n.known, e.Boot.Image)
	}
	e.Notices = slices.DeleteFunc(e.Notices, func(notice Notice) bool {
		namespace, name, _ := strings.Cut(notice.Host, "/")
		return n.hides(namespace, name)
	})
	for _, text := range e.sentences() {
		*text = n.replaced(*text)
	}
}

// sentences returns the texts of an explanation that may name any object.
func (e *Explanation) sentences() []*string {
	texts := []*string{&e.Identity, &e.Error, &e.PlainHTTP, &e.Client.Headers, &e.Facts.ImageConfig, &e.Facts.Island}
	if b := e.Boot; b != nil {
		texts = append(texts, &b.Reason, &b.Error, &b.NoConfig, &b.Skew)
	}
	for i := range e.Candidates {
		texts = append(texts, &e.Candidates[i].Reason)
	}
	for i := range e.Notices {
		texts = append(texts, &e.Notices[i].Message)
	}
	for i := range e.Others {
		o := &e.Others[i]
		texts = append(texts, &o.Client, &o.Config, &o.Error)
	}
	return texts
}

// namer knows which names a reader may not read.
type namer struct {
	view   model.View
	reader Reader
	// known are names that he knows anyway.
	known []string
}

// hides reports whether there may be an object with a name that the reader may not read.
func (n *namer) hides(namespace, name string) bool {
	ref := model.Ref{Namespace: namespace, Name: name}
	if slices.Contains(n.known, ref.String()) {
		return false
	}
	v := n.view
	exists := v.HasNamespace(namespace) || v.Host(ref) != nil || v.Config(ref) != nil || v.Image(ref) != nil
	return exists && !n.reader.All(namespace)
}

// replaced returns a text with Elsewhere in place of each name that the reader may not read.
func (n *namer) replaced(text string) string {
	var b strings.Builder
	for rest := text; ; {
		slash := strings.IndexByte(rest, '/')
		if slash < 0 {
			b.WriteString(rest)
			return b.String()
		}
		before := strings.TrimRightFunc(rest[:slash], inNamespace)
		after := strings.TrimLeftFunc(rest[slash+1:], inName)
		name := strings.TrimRight(rest[slash+1:len(rest)-len(after)], "-.") // the end of the sentence
		if namespace := rest[len(before):slash]; namespace != "" && name != "" && n.hides(namespace, name) {
			b.WriteString(before + Elsewhere)
			rest = rest[slash+1+len(name):]
			continue
		}
		b.WriteString(rest[:slash+1])
		rest = rest[slash+1:]
	}
}

// inNamespace and inName report whether the name of a namespace, or of another object, may have a character.
func inNamespace(c rune) bool { return c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' }
func inName(c rune) bool      { return c == '.' || inNamespace(c) }

func namespaceOf(name string) string {
	namespace, _, _ := strings.Cut(name, "/")
	return namespace
}
