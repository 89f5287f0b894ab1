package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rules are imports that must not be, by the first part of both paths.
var rules = []struct{ from, to, why string }{
	{"internal/serve/", "internal/controller", "a server serves what controllers have written; app hands it the rest"},
	{"internal/controller", "internal/serve/", "a controller serves nobody"},
	{"internal/store/", "internal/serve/", "the store knows nobody who uses it"},
	{"internal/store/", "internal/controller", "the store knows nobody who uses it"},
	{"internal/image", "internal/serve/", "an open file knows nobody who reads it"},
	{"internal/serve/machine", "internal/store/kvstore", "machines are answered from the snapshot"},
	{"internal/serve/portal", "internal/store/kvstore", "machines are answered from the snapshot"},
	{"internal/serve/machine", "internal/serve/api", "servers do not import each other"},
	{"internal/serve/api", "internal/serve/machine", "servers do not import each other"},
	{"internal/serve/iscsi", "internal/store/", "the protocol knows no objects"},
	{"internal/client", "internal/serve/", "a client knows the API alone"},
}

// testsMayImport are the imports that the rules forbid, and that the tests of a package need.
var testsMayImport = map[string][]string{
	// These controllers are tested with what clients of the API do: patches, server-side apply, watches.
	"internal/controller/stream":   {"internal/serve/api"},
	"internal/controller/template": {"internal/serve/api"},
	// These tests fill the snapshot with stored items, and count the events.
	"internal/serve/machine": {"internal/store/kvstore", "internal/controller/events"},
}

func TestRules(t *testing.T) {
	for dir, p := range load(t) {
		for imp, file := range p.imports {
			checkRules(t, dir, imp, file)
		}
		for imp, file := range p.tests {
			if !slices.Contains(testsMayImport[dir], strings.TrimPrefix(imp, "glowplug/")) {
				checkRules(t, dir, imp, file)
			}
		}
	}
}

// checkRules reports an import in a file of the package dir that the rules forbid.
func checkRules(t *testing.T, dir, imp, file string) {
	t.Helper()
	local, ok := strings.CutPrefix(imp, "glowplug/")
	for _, r := range rules {
		if ok && strings.HasPrefix(dir, r.from) && strings.HasPrefix(local, r.to) {
			t.Errorf("%s imports %s: %s", file, local, r.why)
		}
	}
}

// maxFilesOfAType bounds the files that the methods of one type are spread over: a type
// that needs more is several types.
const maxFilesOfAType = 5

func TestTypesAreNotSpread(t *testing.T) {
	for dir := range load(t) {
		files := map[string]map[string]bool{}
		paths, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			name := filepath.Base(path)
			if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range file.Decls {
				if typ := receiver(decl); typ != "" {
					if files[typ] == nil {
						files[typ] = map[string]bool{}
					}
					files[typ][name] = true
				}
			}
		}
		for typ, in := range files {
			if len(in) > maxFilesOfAType {
				t.Errorf("%s: the methods of %s are in %d files; at most %d", dir, typ, len(in), maxFilesOfAType)
			}
		}
	}
}

// receiver returns the name of the type that a declaration is a method of, or "".
func receiver(decl ast.Decl) string {
	f, ok := decl.(*ast.FuncDecl)
	if !ok || f.Recv == nil {
		return ""
	}
	expr := f.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	switch e := expr.(type) {
	case *ast.IndexExpr:
		expr = e.X
	case *ast.IndexListExpr:
		expr = e.X
	}
	if id, ok := expr.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// goroutines are the packages that start goroutines, apart from net/http's and NATS's
// own. All others do their work in the goroutine of their caller.
var goroutines = []string{
	"internal/app", "internal/audit", "internal/feed", "internal/logs", "internal/controller", "internal/controller/image",
	"internal/controller/stream",
	"internal/controller/template", "internal/remote", "internal/serve/api", "internal/serve/iscsi",
	"internal/serve/listener", "internal/serve/peer", "internal/store/bootlog", "internal/store/kvstore",
	"internal/store/kvstore/kvtest", "internal/store/ledger", "internal/store/natsd", "internal/store/progress",
	"internal/store/question", "internal/store/rendering", "internal/store/session", "internal/store/snapshot",
}

func TestGoroutines(t *testing.T) {
	for dir, p := range load(t) {
		if len(p.starts) > 0 && !slices.Contains(goroutines, dir) {
			t.Errorf("%s: a goroutine is started here; only these packages do: %v", p.starts[0], goroutines)
		}
	}
}
