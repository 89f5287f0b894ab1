package cli

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// The values of --output.
const (
	outputText = "text"
	outputJSON = "json"
	outputYAML = "yaml"
)

// addOutput adds the flag that chooses between text for people and JSON or YAML for
// scripts.
func addOutput(cmd *cobra.Command, value *string) {
	cmd.Flags().StringVarP(value, "output", "o", outputText, "text, json or yaml")
	addChoices(cmd, "output", outputText, outputJSON, outputYAML)
}

// writeAs writes a value as text, which a function writes, or as JSON or YAML.
func writeAs(w io.Writer, output string, value any, text func(io.Writer) error) error {
	if output == outputText {
		return text(w)
	}
	return writeOutput(w, output, value)
}

// asText returns a function that writes a text, for writeAs.
func asText(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// writeOutput writes a value as JSON or YAML. Both have the field names of its JSON tags.
func writeOutput(w io.Writer, output string, value any) error {
	if output == outputYAML {
		content, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
