package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"glowplug/internal/store/snapshot"
)

func newValidateCommand() *cobra.Command {
	var installer, filesDir string
	cmd := &cobra.Command{
		Use:   "validate PATH…",
		Short: "Check manifests and config files, as the server would",
		Long: `Check files and folders without a server. Manifests (YAML or JSON, many objects a
file) are held against the API's rules, and the config in an IgnitionConfig is
compiled; what is found in it is shown with its place in the manifest, and which
Ignition spec versions it can be given in, with the fields that stand in the way of
the others. A template is rendered for the hosts in the files that would be given
it. Butane (.bu, .butane), Ignition (.ign) and kickstart (.ks) files are compiled as
they stand, and so is a YAML or JSON file that holds no object but a Butane or
Ignition config.

A config with layers is merged over them where the files have them, in whatever order
they come.

Folders are walked; hidden files and folders are left out.`,
		Example: `  glowplug validate examples/
  glowplug validate hosts.yaml builder.bu`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("missing argument PATH")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkKickstartVersion(installer); err != nil {
				return err
			}
			files, err := sourceFiles(args)
			if err != nil {
				return err
			}
			stderr := cmd.ErrOrStderr()
			c := checker{
				out: stderr, forms: cmd.OutOrStdout(), color: colored(stderr), installer: installer, filesDir: filesDir,
				seen: map[string]string{}, templates: map[snapshot.Ref]*checkedTemplate{},
			}
			for _, file := range files {
				if err := c.file(file); err != nil {
					return err
				}
			}
			if err := c.layers(); err != nil {
				return err
			}
			if err := c.renderAll(files); err != nil {
				return err
			}
			if c.objects == 0 && c.errors == 0 {
				return withHint(fmt.Errorf("there is nothing to check under %s", strings.Join(args, ", ")),
					"manifests end in .yaml, .yml or .json, configs in .bu, .butane, .ign or .ks")
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s in %s checked: %s, %s\n",
				count(c.objects, "config or object", "configs and objects"), count(len(files), "file", "files"),
				count(c.errors, "error", "errors"), count(c.warnings, "warning", "warnings")); err != nil {
				return err
			}
			if c.errors > 0 {
				return errSilent
			}
			return nil
		},
	}
	addKickstartVersion(cmd, &installer)
	addFilesDir(cmd, &filesDir)
	return cmd
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// checked are the extensions that count in a folder. A .cfg may be many things.
var checked = append([]string{".bu", ".butane", ".ign", ".ks"}, manifestFiles...)

// manifestFiles are those of files that hold objects.
var manifestFiles = []string{".yaml", ".yml", ".json"}

// sourceFiles lists the files under paths, each once, in the order of the paths and
// then of names.
func sourceFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return fileError(err)
			case name == path && !entry.IsDir():
				files = append(files, name)
			case name != path && strings.HasPrefix(entry.Name(), "."):
				if entry.IsDir() {
					return fs.SkipDir
				}
			case !entry.IsDir() && slices.Contains(checked, strings.ToLower(filepath.Ext(name))):
				// A link to a folder is no file, whatever it is called.
				if info, err := os.Stat(name); err != nil || info.Mode().IsRegular() || errors.Is(err, fs.ErrNotExist) {
					files = append(files, name)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(files, func(name string) bool {
		again := seen[filepath.Clean(name)]
		seen[filepath.Clean(name)] = true
		return again
	}), nil
}
