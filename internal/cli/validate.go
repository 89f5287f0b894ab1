package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/wording"
	"glowplug/internal/offline"
)

func newValidateCommand() *cobra.Command {
	var installer, filesDir string
	var disks diskOptions
	var plans bool
	cmd := &cobra.Command{
		Use:   "validate PATH…",
		Short: "Check manifests and config files, as the server would",
		Long: `Check files and folders without a server. Manifests (YAML or JSON, with one or more
objects) are checked by the rules of the API, and the config in an IgnitionConfig is
compiled. Errors and warnings have their line in the manifest, and the column where it
is known; for a file that is no YAML the line is that of the mistake where it is
recognised, else the one where the YAML library failed, and for an object in a List the
line of the List.
For each config the command shows the Ignition versions in which it can be served, and
the fields that prevent the others. A template is rendered for the hosts in the files
that would receive it. Butane (.bu, .butane), Ignition (.ign) and kickstart (.ks, .cfg)
files, and YAML or JSON files with a plain Butane or Ignition config, are compiled.

Warnings are also about objects that do not fit together: hosts that share an address, a
host that no machine can be recognised as or whose image is not among the images in the
files (where the files have images), configs that match a machine equally, and a config
with a selector that no host in the files receives (where the files have hosts; for a
template the output says so, without a warning).

A config with layers is merged over them where the files have them, in any order.

With --plan each Ignition config is also planned on the disks of --disks or --blank, as
glowplug plan does it: data that would be lost and what the facts do not say are
warnings, and what would make Ignition fail on these disks is an error. Templates are
not planned.

Folders are searched, without hidden files, hidden folders and .cfg files.`,
		Example: `  glowplug validate examples/
  glowplug validate hosts.yaml builder.bu
  glowplug validate --plan --blank /dev/sda=500GB examples/`,
		Args: arguments("PATH…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			facts, err := disks.planned(plans, cmd.InOrStdin())
			if err != nil {
				return err
			}
			files, err := sourceFiles(args)
			if err != nil {
				return err
			}
			c := newChecker(cmd.ErrOrStderr(), cmd.OutOrStdout(), installer, filesDir)
			c.disks, c.offline = facts, offline.New(model.IsolateTenants)
			for _, file := range files {
				if err := c.file(file); err != nil {
					return err
				}
			}
			for _, check := range []func() error{c.layers, c.planAll, c.renderAll, c.advise} {
				if err := check(); err != nil {
					return err
				}
			}
			if c.objects == 0 && c.errors == 0 {
				return withHint(fmt.Errorf("there is nothing to check under %s", strings.Join(args, ", ")),
					"manifests end in .yaml, .yml or .json, configs in .bu, .butane, .ign or .ks; an empty file has no object")
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s in %s checked: %s, %s\n",
				wording.Count(c.objects, "config or object", "configs and objects"), wording.Count(len(files), "file", "files"),
				wording.Count(c.errors, "error", "errors"), wording.Count(c.warnings, "warning", "warnings")); err != nil {
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
	cmd.Flags().BoolVar(&plans, "plan", false, "plan each Ignition config on the disks of --disks or --blank")
	disks.addFlags(cmd.Flags())
	return cmd
}

// manifestFiles are the extensions of files with objects.
var manifestFiles = []string{".yaml", ".yml", ".json"}

// checkedFiles are the extensions of the files that are checked in a folder. A .cfg may
// be many things.
var checkedFiles = append([]string{".bu", ".butane", ".ign", ".ks"}, manifestFiles...)

func hasExtension(name string, extensions ...string) bool {
	return slices.Contains(extensions, strings.ToLower(filepath.Ext(name)))
}

// sourceFiles lists the files under paths, each once, in the order of the paths and
// then of names.
func sourceFiles(paths []string) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	for _, path := range paths {
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return fileError(err)
			case name != path && strings.HasPrefix(entry.Name(), "."):
				if entry.IsDir() {
					return fs.SkipDir
				}
			case entry.IsDir() || seen[filepath.Clean(name)]:
			case name == path || hasExtension(name, checkedFiles...) && !isSpecial(name):
				seen[filepath.Clean(name)] = true
				files = append(files, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// isSpecial reports whether a name in a folder is neither a file nor a dangling link: a
// pipe, or a link to a folder.
func isSpecial(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.Mode().IsRegular()
}

// fieldOrReason names the field of a loss; the loss of the whole config has only its reason.
func fieldOrReason(l ignition.Loss) string {
	if l.Path == "$" {
		return l.Reason
	}
	return l.Path
}

// describeForms lists the Ignition versions in which a config can be served, and the
// fields that prevent the others; "" for a kickstart.
func describeForms(artifact *compile.Artifact) string {
	if artifact == nil || len(artifact.Forms) == 0 {
		return ""
	}
	var servable []string
	var others strings.Builder
	for _, group := range ignition.Groups(artifact.Forms) {
		if len(group.Losses) == 0 {
			servable = append(servable, group.String())
			continue
		}
		fields := ignition.Listed(group.Losses, fieldOrReason)
		fmt.Fprintf(&others, "  not as %s: %s\n", group, strings.Join(fields, ", "))
	}
	return fmt.Sprintf("spec %s, can be given as %s\n%s", artifact.IgnitionVersion, strings.Join(servable, ", "), &others)
}
