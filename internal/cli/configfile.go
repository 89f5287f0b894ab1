package cli

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"glowplug/internal/domain/butane"
	"glowplug/internal/domain/report"
	"glowplug/internal/keyfile"
	"glowplug/internal/option"
)

const (
	// configFlag is the flag that names the config file of serve, which no config file can set.
	configFlag = "config"
	// maxConfigFile bounds a config file, in bytes.
	maxConfigFile = 1 << 20
)

// configFile is a YAML file whose keys are the names of flags.
type configFile struct {
	path     string
	source   []byte
	settings []setting
	// found are the mistakes of the file.
	found report.Report
}

// setting is a key of a config file with its value, as the command line would have it.
type setting struct {
	name, value string
	at          *yaml.Node
}

// readConfigFile reads a file with settings of the flags. Its error is that of reading; what is
// wrong in the file is in found.
func readConfigFile(path string, flags *pflag.FlagSet) (*configFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c := &configFile{path: path}
	if c.source, err = io.ReadAll(io.LimitReader(file, maxConfigFile+1)); err != nil {
		return nil, err
	}
	if len(c.source) > maxConfigFile {
		return nil, fmt.Errorf("%s is larger than %d bytes: it is no config file", path, maxConfigFile)
	}
	if c.found = butane.Syntax(c.source); c.found.HasError() {
		return c, nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(c.source))
	var document, further yaml.Node
	if decoder.Decode(&document) != nil || document.Kind != yaml.DocumentNode {
		return c, nil // an empty file, or one of comments alone
	}
	c.read(document.Content[0], flags)
	if decoder.Decode(&further) == nil {
		c.refuse(&further, "a config file is one document", "remove the line --- above it")
	}
	return c, nil
}

// refuse adds a mistake at a place of the file.
func (c *configFile) refuse(at *yaml.Node, message, hint string) {
	c.found = append(c.found, report.Finding{Severity: report.Error, Line: at.Line, Column: at.Column, Message: message,
		Hint: hint})
}

// read reads the settings of the top of a file.
func (c *configFile) read(top *yaml.Node, flags *pflag.FlagSet) {
	if top.Tag == "!!null" {
		return
	}
	if top.Kind != yaml.MappingNode {
		c.refuse(top, "a config file has lines such as \"data-dir: /var/lib/glowplug\"", "")
		return
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		flag := flags.Lookup(key.Value)
		switch {
		case key.Value == configFlag:
			c.refuse(key, "a config file names no other one", "remove the line")
		case flag == nil || flag.Name == "help":
			hint := "glowplug serve --help lists the settings, as flags"
			if near := nearestFlag(flags, key.Value); near != "" {
				hint = "did you mean " + near + "?"
			}
			c.refuse(key, fmt.Sprintf("there is no setting %q", key.Value), hint)
		default:
			c.readValue(flag, key, value)
		}
	}
}

// readValue reads the value of a setting. Scalars are taken as they are written: to YAML, 08 and
// 1_0 are numbers.
func (c *configFile) readValue(flag *pflag.Flag, key, value *yaml.Node) {
	_, repeatable := flag.Value.(pflag.SliceValue)
	text := value.Value
	switch {
	case value.Kind == yaml.ScalarNode && value.Tag != "!!null":
	case value.Kind == yaml.ScalarNode:
		c.refuse(key, key.Value+" has no value", "remove the line for the default, or write \"\" for none")
		return
	case value.Kind == yaml.SequenceNode && repeatable:
		var ok bool
		if text, ok = c.readList(key.Value, value); !ok {
			return
		}
	case repeatable:
		c.refuse(value, key.Value+" is a value or a list of values", "")
		return
	default:
		c.refuse(value, key.Value+" has one value", "")
		return
	}
	c.settings = append(c.settings, setting{name: flag.Name, value: text, at: value})
}

// readList returns the items of a list as a repeatable flag takes them: separated by commas.
func (c *configFile) readList(name string, list *yaml.Node) (text string, ok bool) {
	if len(list.Content) == 0 {
		return "", true
	}
	var items []string
	for _, item := range list.Content {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			c.refuse(item, "each item of "+name+" is one value", "")
			return "", false
		}
		items = append(items, item.Value)
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(items) // into memory
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n"), true
}

// set sets each flag of the file that neither the command line nor the environment has set.
func (c *configFile) set(flags *pflag.FlagSet) {
	for _, s := range c.settings {
		if flags.Changed(s.name) {
			continue
		}
		if err := flags.Set(s.name, s.value); err != nil {
			c.refuse(s.at, fmt.Sprintf("%s is %s, not %q", s.name, typeOfFlag(flags.Lookup(s.name)), s.value), "")
			continue
		}
		_ = flags.SetAnnotation(s.name, origin, []string{fmt.Sprintf("line %d of %s", s.at.Line, c.path)})
	}
}

// typeOfFlag says what the value of a flag is.
func typeOfFlag(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "duration":
		return "a duration such as 90s or 30m"
	case "int", "int64":
		return "a number"
	}
	return "a " + f.Value.Type()
}

// userOfURL is the user and the password in a URL.
var userOfURL = regexp.MustCompile(`://\S*@`)

// shown is the source as it may be shown beside a mistake, for a log keeps it: without what is secret in a URL.
func (c *configFile) shown() []byte {
	return userOfURL.ReplaceAllFunc(c.source, func(user []byte) []byte {
		return slices.Concat([]byte("://"), bytes.Repeat([]byte("x"), len(user)-len("://@")), []byte("@"))
	})
}

// setFromFile sets flags of serve from the file of --config. It prints the mistakes of the file,
// each at its line.
func setFromFile(flags *pflag.FlagSet, path string, stderr io.Writer) error {
	if path == "" {
		return nil
	}
	// Whoever writes it says who is believed, as with the files that it names.
	if _, err := keyfile.Check(keyfile.Trusted, path); err != nil {
		return option.Bad(configFlag, "%v", err)
	}
	c, err := readConfigFile(path, flags)
	if err != nil {
		return option.Bad(configFlag, "%v", fileError(err))
	}
	if c.set(flags); !c.found.HasError() {
		return nil
	}
	if err := printReport(stderr, path, c.shown(), c.found.Tidy()); err != nil {
		return err
	}
	return usageError{errSilent}
}

// nearestFlag returns the name of the flag that was most likely meant; "" for none.
func nearestFlag(flags *pflag.FlagSet, name string) string {
	name = strings.TrimPrefix(strings.ToLower(name), strings.ToLower(variablePrefix))
	name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
	known := &cobra.Command{}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != configFlag && f.Name != "help" {
			known.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	const shortest, farthest = 3, 3 // letters of a name, and those that may differ
	if len(name) < shortest {
		return ""
	}
	for distance := range farthest + 1 {
		known.SuggestionsMinimumDistance = distance
		if near := known.SuggestionsFor(name); len(near) > 0 {
			return near[0]
		}
	}
	return ""
}
