package app

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"glowplug/internal/domain/model"
)

// isolation is the value of --isolate-namespaces. Earlier releases had true and false alone.
type isolation struct{ value *model.Isolation }

var isolations = []struct {
	name  string
	value model.Isolation
}{{"false", model.IsolateTenants}, {"true", model.IsolateOthers}, {"all", model.IsolateAll}}

// AddIsolation adds the flag --isolate-namespaces, which is true where it has no value.
func AddIsolation(fs *pflag.FlagSet, value *model.Isolation, usage string) {
	fs.Var(isolation{value}, "isolate-namespaces", usage)
	fs.Lookup("isolate-namespaces").NoOptDefVal = "true"
}

// Set implements pflag.Value.
func (i isolation) Set(text string) error {
	for _, one := range isolations {
		if strings.EqualFold(text, one.name) {
			*i.value = one.value
			return nil
		}
	}
	return fmt.Errorf("%q is none of all, true and false", text)
}

// String implements pflag.Value.
func (i isolation) String() string {
	for _, one := range isolations {
		if i.value != nil && *i.value == one.value {
			return one.name
		}
	}
	return ""
}

// Type implements pflag.Value.
func (isolation) Type() string { return "string" }
