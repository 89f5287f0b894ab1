package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/kickstart"
)

func newCompileCommand() *cobra.Command {
	var format, installer, filesDir, host string
	var template bool
	cmd := &cobra.Command{
		Use:   "compile FILE|-",
		Short: "Compile a Butane, Ignition or kickstart file to what a machine is served",
		Long: `Compile a file as the server does, and write the result to standard output. Butane
becomes Ignition JSON. An Ignition config and a kickstart are checked and stay as
they are, byte for byte. Errors and warnings go to standard error, with their line and
column; a warning of the Butane library is an error. After an error nothing is written.

The format follows the extension: .bu, .butane, .yaml and .yml are Butane, .ign and
.json Ignition, .ks and .cfg kickstart. Standard input needs --format.

With --template the file is a template, which is checked, and with --host rendered
and compiled for the BareMetalHost in a manifest.

Local files and trees of a Butane config are read below --files-dir. The server
refuses them; glowplug apply --files-dir stores such a config compiled.`,
		Example: `  glowplug compile builder.bu > builder.ign
  glowplug compile --files-dir files builder.bu
  glowplug compile --template --host node-1.yaml worker.bu
  glowplug compile --format kickstart - < server.ks`,
		Args: arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if host != "" && !template {
				return usagef("--host is for a template: give --template too")
			}
			if filesDir != "" && template {
				return usagef("--files-dir and --template exclude each other: the server renders, and has no local files")
			}
			src, err := sourceOf(args[0], format)
			if err != nil {
				return err
			}
			if installer != "" && src.Type != compile.TypeKickstart {
				return usagef("--kickstart-version: the source is %s, not kickstart", src.Format)
			}
			src.KickstartVersion = installer
			name, err := readSource(&src, args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			if template {
				return compileTemplate(cmd.OutOrStdout(), cmd.ErrOrStderr(), name, host, src)
			}
			artifact, err := compileSource(src, name, filesDir, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(artifact.Bytes)
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", "",
		"format of the source: butane, ignition or kickstart (default: by extension)")
	addChoices(cmd, "format", compile.FormatButane, compile.FormatIgnition, compile.FormatKickstart)
	addKickstartVersion(cmd, &installer)
	addFilesDir(cmd, &filesDir)
	cmd.Flags().BoolVar(&template, "template", false, "the file is a template")
	cmd.Flags().StringVar(&host, "host", "", "render the template for the BareMetalHost in this manifest")
	return cmd
}

// addKickstartVersion adds the flag that names the installer of kickstarts.
func addKickstartVersion(cmd *cobra.Command, value *string) {
	cmd.Flags().StringVar(value, "kickstart-version", "", "installer that kickstarts are checked for: "+
		strings.Join(kickstart.Versions(), ", ")+" (default: that of #version= in the first line, else the last)")
	addChoices(cmd, "kickstart-version", kickstart.Versions()...)
}

// sourceOf returns the type and format of the source in a file, or in stdin for "-".
func sourceOf(file, format string) (src compile.Source, err error) {
	if format = cmp.Or(format, formatOf(file)); format == "" {
		return src, withHint(usagef("the format of %q is not known", file),
			"name it: --format butane, ignition or kickstart")
	}
	return compile.Source{Type: typeOf(format), Format: format}, nil
}

// readSource reads the text of a source, and returns the name of its file for messages.
func readSource(src *compile.Source, file string, stdin io.Reader) (name string, err error) {
	text, err := readInput(file, stdin, compile.MaxSource)
	src.Config = string(text)
	if file == "-" {
		return "<stdin>", err
	}
	return file, err
}

// compileSource compiles a source and prints the findings.
func compileSource(src compile.Source, name, filesDir string, stderr io.Writer) (*compile.Artifact, error) {
	artifact, found := compileLocal(src, filesDir)
	if err := printReport(stderr, name, []byte(src.Config), found); err != nil {
		return nil, err
	}
	if artifact == nil {
		return nil, errSilent
	}
	return artifact, nil
}

// isFile reports whether an argument is a source in a file, and not the name of a config on the server.
func isFile(arg string) bool { return arg == "-" || strings.Contains(arg, "/") || formatOf(arg) != "" }

// compileIgnition compiles an Ignition config in a file, for a command that takes the name of one on the server too.
// What the command does with it is the end of the sentence "only an Ignition config …".
func compileIgnition(cmd *cobra.Command, file, format, does string) (name string, config []byte, err error) {
	if err := checkChoice("format", format, "", compile.FormatButane, compile.FormatIgnition); err != nil {
		return "", nil, err
	}
	src, err := sourceOf(file, format)
	if err != nil {
		return "", nil, withHint(err, "name it: --format butane or ignition; a config on the server is NAME, with -n NAMESPACE")
	}
	if src.Type != compile.TypeIgnition {
		return "", nil, usagef("%s is a kickstart: only an Ignition config %s", file, does)
	}
	if name, err = readSource(&src, file, cmd.InOrStdin()); err != nil {
		return "", nil, err
	}
	artifact, err := compileSource(src, name, "", cmd.ErrOrStderr())
	if err != nil {
		return "", nil, err
	}
	return name, artifact.Bytes, nil
}

// typeOf returns the type of the configs in a format.
func typeOf(format string) string {
	if format == compile.FormatKickstart {
		return compile.TypeKickstart
	}
	return compile.TypeIgnition
}

// formatOf returns the format of a file by its extension, "" where that is unknown.
func formatOf(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".bu", ".butane", ".yaml", ".yml":
		return compile.FormatButane
	case ".ign", ".json":
		return compile.FormatIgnition
	case ".ks", ".cfg":
		return compile.FormatKickstart
	}
	return ""
}

// readInput reads a file, or stdin for "-": up to limit bytes, and one more that shows
// that the file is too large.
func readInput(name string, stdin io.Reader, limit int64) ([]byte, error) {
	from := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fileError(err)
		}
		defer file.Close()
		from = file
	}
	content, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	return content, nil
}
