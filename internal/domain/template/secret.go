package template

import (
	"slices"
	"text/template/parse"
)

// maxSecrets bounds the Secrets that are recorded of one rendering.
const maxSecrets = 256

// SecretKey is a key of a Secret in the namespace of the config.
type SecretKey struct{ Name, Key string }

// secret returns what the function secret of a template is.
func (f *Facts) secret() func(name, key string) (string, error) {
	if f.Secret != nil {
		return f.Secret
	}
	return Placeholder
}

// Placeholder stands for the value of a Secret wherever a rendering is not for the machine itself.
func Placeholder(name, key string) (string, error) { return "<secret:" + name + "/" + key + ">", nil }

// Recording returns facts with placeholders for the values of Secrets, and records in named which a
// rendering asks for.
func (f *Facts) Recording(named *[]SecretKey) *Facts {
	with := *f
	with.Secret = func(name, key string) (string, error) {
		if at := (SecretKey{Name: name, Key: key}); len(*named) < maxSecrets && !slices.Contains(*named, at) {
			*named = append(*named, at)
		}
		return Placeholder(name, key)
	}
	return &with
}

// MayNameSecret reports whether a rendering may ask for a value of a Secret: where the template makes
// a name from values, it may be any.
func (t *Template) MayNameSecret(name string) (may bool) {
	if !t.named[secretName] {
		return false
	}
	parsed, err := parseSource(t.source)
	if err != nil {
		return true
	}
	written := &Template{parsed: parsed}
	written.arguments(func(command *parse.CommandNode, i int, _ bool) {
		if id, ok := command.Args[i].(*parse.IdentifierNode); !ok || id.Ident != secretName {
			return
		}
		if i != 0 || len(command.Args) < 2 { // all that it is called with is made from values
			may = true
			return
		}
		constant, ok := command.Args[1].(*parse.StringNode)
		may = may || !ok || constant.Text == name
	})
	return may
}
