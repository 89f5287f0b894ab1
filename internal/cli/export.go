package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/ledger"
)

const (
	// exportList is the file in the folder of an export with the names of the files that export has written.
	exportList = ".glowplug-export"
	// clusterFolder has the objects without a namespace. No namespace can have this name.
	clusterFolder = "_cluster"
	// exportPage is how many objects are asked for at a time.
	exportPage = "500"
)

func newExportCommand() *cobra.Command {
	var (
		options clientOptions
		secrets bool
	)
	cmd := &cobra.Command{
		Use: "export DIR", Short: "Write the objects as YAML files, for git",
		Long: `Write the objects that people write into a folder, each in a file NAMESPACE/KIND/NAME.yaml, without
what the server adds: no status, no UID, no revision. glowplug apply -f DIR writes them to a server.
Files of an earlier export whose objects are gone are removed.

Secrets are left out without --secrets. An export is no backup: it has no states of machines and no
tokens, see glowplug backup.`,
		Example: `  glowplug export rack && git -C rack diff`,
		Args:    arguments("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e := &exporter{dir: args[0], secrets: secrets, options: &options}
			if err := e.begin(); err != nil {
				return err
			}
			defer e.root.Close()
			if err := e.run(cmd.Context()); err != nil {
				return err
			}
			removed, err := e.end()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d objects, %d files removed\n", e.dir, len(e.written), removed)
			return err
		},
	}
	options.addFlags(cmd)
	cmd.Flags().BoolVar(&secrets, "secrets", false, "write Secrets, with their values")
	return cmd
}

// exporter writes objects into a folder.
type exporter struct {
	dir     string
	root    *os.Root // of dir: a link in a repository of somebody else leads nowhere else
	secrets bool
	options *clientOptions
	former  []string // the files of the export before
	written []string
}

// begin refuses a folder with files that are not of an export.
func (e *exporter) begin() (err error) {
	if err := os.MkdirAll(e.dir, 0o777); err != nil {
		return err
	}
	if e.root, err = os.OpenRoot(e.dir); err != nil {
		return err
	}
	content, err := e.root.ReadFile(exportList)
	switch {
	case err == nil:
		e.former = strings.Split(strings.TrimSuffix(string(content), "\n"), "\n") // a name of a role may have spaces
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	entries, err := os.ReadDir(e.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != ".git" {
			return withHint(fmt.Errorf("%s has files that are not of an export, such as %s", e.dir, entry.Name()),
				"name an empty folder, or one that does not exist")
		}
	}
	return e.root.WriteFile(exportList, nil, 0o666) // an export that is broken off is one
}

// run writes the objects of all kinds.
func (e *exporter) run(ctx context.Context) error {
	for _, kind := range kinds.All() {
		if !kind.InManifests || kind.Resource == kinds.Secrets && !e.secrets {
			continue
		}
		request := client.Request{Resource: kind.Resource, Query: map[string][]string{"limit": {exportPage}}}
		if kind.Group != "" {
			request.Root = "/apis/" + kind.GroupVersion.String()
		}
		for more := true; more; {
			var list struct {
				Metadata metav1.ListMeta  `json:"metadata"`
				Items    []map[string]any `json:"items"`
			}
			if err := e.options.do(ctx, request, &list); err != nil {
				return fmt.Errorf("reading the %s: %w", kind.Resource, err)
			}
			for _, item := range list.Items {
				if err := e.write(kind, &unstructured.Unstructured{Object: item}); err != nil {
					return err
				}
			}
			more = list.Metadata.Continue != ""
			request.Query["continue"] = []string{list.Metadata.Continue}
		}
	}
	return nil
}

// write writes one object.
func (e *exporter) write(kind *kinds.Kind, obj *unstructured.Unstructured) error {
	if obj.GetLabels()["kubernetes.io/bootstrapping"] != "" || obj.GetDeletionTimestamp() != nil {
		return nil // each server makes it by itself; or it is going away
	}
	obj.SetAPIVersion(kind.GroupVersion.String())
	obj.SetKind(kind.Name)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(obj.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	if len(obj.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(obj.Object, "metadata", "annotations")
	}
	delete(obj.Object, "status")
	content, err := yaml.Marshal(obj.Object)
	if err != nil {
		return err
	}
	folder := cmp.Or(obj.GetNamespace(), clusterFolder)
	name := filepath.Join(folder, kind.Singular, fileOf(obj.GetName()))
	if !filepath.IsLocal(name) || strings.ContainsAny(name, "\r\n") {
		return fmt.Errorf("the server has the object %q, which is no name of a file", name)
	}
	if err := e.root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	mode := os.FileMode(0o666)
	if kind.Resource == kinds.Secrets {
		mode = 0o600
		if err := e.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be one that others can read
			return err
		}
	}
	e.written = append(e.written, name)
	return e.root.WriteFile(name, content, mode)
}

// maxFileName bounds the name of a file, in bytes: that of file systems.
const maxFileName = 255

// fileOf names the file of an object. The name of a long one is cut, and tells it from others by its hash.
func fileOf(object string) string {
	const ending = ".yaml"
	if len(object)+len(ending) <= maxFileName {
		return object + ending
	}
	sum := sha256.Sum256([]byte(object))
	end := "-" + hex.EncodeToString(sum[:4]) + ending
	return object[:maxFileName-len(end)] + end
}

// end removes the files of the former export that this one has not written.
func (e *exporter) end() (removed int, err error) {
	slices.Sort(e.written)
	for _, name := range e.former {
		if _, still := slices.BinarySearch(e.written, name); still || !filepath.IsLocal(name) {
			continue
		}
		if err := e.root.Remove(name); err == nil {
			removed++
		} else if !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
	}
	return removed, ledger.ReplaceFile(filepath.Join(e.dir, exportList), []byte(strings.Join(e.written, "\n")+"\n"))
}
