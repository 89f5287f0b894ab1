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
	completeChoices(cmd, "output", outputText, outputJSON, outputYAML)
}

func checkOutput(value string) error {
	return checkChoice("output", value, outputText, outputJSON, outputYAML)
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
