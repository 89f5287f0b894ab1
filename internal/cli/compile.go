package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/kickstart"
	"glowplug/internal/domain/report"
)

func newCompileCommand() *cobra.Command {
	var format, installer, filesDir, host string
	var template bool
	cmd := &cobra.Command{
		Use:   "compile FILE|-",
		Short: "Compile a Butane, Ignition or kickstart file to what a machine is served",
		Long: `Compile a file exactly as the server does, and write the result to standard output:
Butane becomes Ignition JSON, an Ignition config and a kickstart stay byte for byte
as they are, checked. What is found goes to standard error, with the place in the
source; a Butane warning is an error. With an error nothing is written.

The format follows the extension: .bu, .butane, .yaml and .yml are Butane, .ign and
.json Ignition, .ks and .cfg kickstart. Standard input needs --format.

With --template the file is a template, which is checked, and with --host rendered
and compiled for the BareMetalHost in a manifest.

Local files and trees of a Butane config are read under --files-dir; on the server
they are an error, and glowplug apply --files-dir stores such a config compiled.`,
		Example: `  glowplug compile builder.bu > builder.ign
  glowplug compile --files-dir files builder.bu
  glowplug compile --template --host node-1.yaml worker.bu
  glowplug compile --format kickstart - < server.ks`,
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if host != "" && !template {
				return usagef("--host is for a template: give --template too")
			}
			if filesDir != "" && template {
				return usagef("--files-dir does not go with --template: the server renders, and has no local files")
			}
			if err := checkKickstartVersion(installer); err != nil {
				return err
			}
			src, err := sourceOf(args[0], format)
			if err != nil {
				return err
			}
			if installer != "" && src.Type != compile.TypeKickstart {
				return usagef("--kickstart-version: the source is %s, not kickstart", src.Format)
			}
			src.KickstartVersion = installer
			name, err := fill(&src, args[0], cmd.InOrStdin())
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
	addKickstartVersion(cmd, &installer)
	addFilesDir(cmd, &filesDir)
	cmd.Flags().BoolVar(&template, "template", false, "the file is a template")
	cmd.Flags().StringVar(&host, "host", "", "render the template for the BareMetalHost in this manifest")
	return cmd
}

// addKickstartVersion adds the flag that says which installer kickstarts are for.
func addKickstartVersion(cmd *cobra.Command, value *string) {
	cmd.Flags().StringVar(value, "kickstart-version", "", "the installer that a kickstart is checked for: "+
		strings.Join(kickstart.Versions(), ", ")+" (default: the last)")
}

func checkKickstartVersion(name string) error {
	if name == "" || slices.Contains(kickstart.Versions(), name) {
		return nil
	}
	return withHint(usagef("--kickstart-version: there is no version %q", name), "versions are "+
		strings.Join(kickstart.Versions(), ", "))
}

// sourceOf returns the source that a file holds, or stdin for "-", before it is read.
func sourceOf(file, format string) (src compile.Source, err error) {
	if format == "" {
		if format = formatOf(file); format == "" {
			return src, withHint(usagef("the format of %q is not known", file),
				"name it: --format butane, ignition or kickstart")
		}
	}
	kind, known := typeOf[format]
	if !known {
		return src, usagef("--format: %q is neither butane, ignition nor kickstart", format)
	}
	return compile.Source{Type: kind, Format: format}, nil
}

// fill reads a source from its file. The name is what to call that.
func fill(src *compile.Source, file string, stdin io.Reader) (name string, err error) {
	text, err := readSource(file, stdin)
	if err != nil {
		return "", err
	}
	src.Config = string(text)
	if file == "-" {
		return "<stdin>", nil
	}
	return file, nil
}

// compileSource compiles a source and prints what was found in it.
func compileSource(src compile.Source, name, filesDir string, stderr io.Writer) (*compile.Artifact, error) {
	artifact, found := compileLocal(src, filesDir)
	if err := report.Fprint(stderr, name, []byte(src.Config), found, colored(stderr)); err != nil {
		return nil, err
	}
	if artifact == nil {
		return nil, errSilent
	}
	return artifact, nil
}

// typeOf returns the type of config that a format is of.
var typeOf = map[string]string{
	compile.FormatButane:    compile.TypeIgnition,
	compile.FormatIgnition:  compile.TypeIgnition,
	compile.FormatKickstart: compile.TypeKickstart,
}

// formatOf returns the format that an extension stands for, "" where it stands for none.
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

// readSource reads a file, or stdin for "-". Of a source that is too large it reads
// as much as shows that.
func readSource(name string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fileError(err)
		}
		defer file.Close()
		from = file
	}
	source, err := io.ReadAll(io.LimitReader(from, compile.MaxSource+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	return source, nil
}

// fileError puts the remedy to an error of opening a file.
func fileError(err error) error {
	var at *fs.PathError
	switch {
	case errors.As(err, &at) && errors.Is(err, fs.ErrNotExist):
		return withHint(fmt.Errorf("there is no file %s", at.Path),
			"check the path; \"-\" reads standard input where a FILE is asked for")
	case errors.As(err, &at) && errors.Is(err, fs.ErrPermission):
		return withHint(fmt.Errorf("%s may not be read", at.Path), "check the file's owner and mode")
	}
	return err
}

// colored reports whether findings are printed in color: to a terminal, and unless
// NO_COLOR is set.
func colored(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
