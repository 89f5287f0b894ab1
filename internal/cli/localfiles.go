package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"glowplug/internal/domain/butane"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
)

// Bounds of the local files of one config. The result has to fit into
// compile.MaxSource, compressed.
const (
	maxLocalBytes = 32 << 20
	maxLocalFiles = 5_000
)

func addFilesDir(cmd *cobra.Command, value *string) {
	cmd.Flags().StringVar(value, "files-dir", "",
		"folder of the files and trees that Butane configs name as local")
}

// compileLocal compiles a source with its local parts below filesDir. A template is
// compiled on the server, and has none.
func compileLocal(src compile.Source, filesDir string) (*compile.Artifact, report.Report) {
	if filesDir == "" || src.Format != compile.FormatButane || src.Template {
		return compile.Compile(src)
	}
	if found := checkLocals(filesDir, butane.Locals([]byte(src.Config))); found.HasError() {
		return nil, found.Tidy()
	}
	return compile.CompileLocal(src, filesDir)
}

// checkLocals finds local parts that are not below dir, are of the wrong type, or are too
// large. A symbolic link may replace a file if it points to one below dir.
func checkLocals(dir string, locals []butane.Local) report.Report {
	if len(locals) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return report.Errorf("--files-dir: %v", fileError(err))
	}
	defer root.Close()
	c := localChecker{root: root, dir: dir}
	for _, local := range locals {
		c.check(local)
	}
	return c.found
}

type localChecker struct {
	root  *os.Root
	dir   string
	files int
	bytes int64
	found report.Report
}

func (c *localChecker) fail(local butane.Local, hint, format string, args ...any) {
	c.found = append(c.found, report.Finding{
		Severity: report.Error, Path: local.Path, Line: local.Line, Column: local.Column,
		Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

func (c *localChecker) check(local butane.Local) {
	// Butane accepts a path with a slash in front as one below the folder, too.
	name, shown := strings.TrimLeft(path.Clean("./"+local.File), "/"), clipped(local.File)
	info, err := c.root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.fail(local, "paths are relative to --files-dir", "there is no %q under %s", shown, c.dir)
	case errors.Is(err, fs.ErrPermission):
		c.fail(local, "check its owner and mode", "%q may not be read", shown)
	case err != nil && strings.Contains(err.Error(), "escapes from parent"): // os.Root has no error value for it
		c.fail(local, "local files and the targets of symbolic links have to be below --files-dir",
			"%q leaves the folder %s", shown, c.dir)
	case err != nil:
		c.fail(local, "", "%q cannot be read: %v", shown, cause(err))
	case local.Tree && !info.IsDir():
		c.fail(local, "a tree is a folder; a file goes into storage.files with contents.local", "%q is no folder", shown)
	case local.Tree:
		c.tree(local, name)
	case info.IsDir():
		c.fail(local, "a folder goes into storage.trees", "%q is a folder", shown)
	default:
		c.file(local, name, info)
	}
}

// tree counts the files of a folder. A symbolic link in it becomes a link on the
// machine, and is not followed here.
func (c *localChecker) tree(local butane.Local, name string) {
	before := len(c.found)
	err := fs.WalkDir(c.root.FS(), name, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if c.file(local, at, info); len(c.found) > before {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		c.fail(local, "", "%q cannot be read: %v", clipped(local.File), cause(err))
	}
}

func (c *localChecker) file(local butane.Local, name string, info fs.FileInfo) {
	c.files++
	c.bytes += info.Size()
	const remedy = "let the machine fetch files by URL (contents.source), the large ones first"
	switch {
	case !info.Mode().IsRegular():
		c.fail(local, "only regular files, folders and symbolic links are allowed", "%q is no file", clipped(name))
	case c.files > maxLocalFiles:
		c.fail(local, remedy, "there are more than %d local files", maxLocalFiles)
	case c.bytes > maxLocalBytes:
		c.fail(local, remedy, "the local files have more than %d MiB", maxLocalBytes>>20)
	}
}

// cause returns an error without the name of the operation and the path.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

func clipped(s string) string {
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
