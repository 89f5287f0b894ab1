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
	// What compiles without being stored is compared with what a create compiles, over layers as well.
	"internal/serve/api": {"internal/controller/config"},
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

// maxMethods bounds the methods of a type together with those of the types that it embeds: what a reader has to know
// of a receiver. A type that needs more is several types, which have each other as fields.
const maxMethods = 45

func TestTypesHaveFewMethods(t *testing.T) {
	for dir := range load(t) {
		methods, embedded := methodsOf(t, dir)
		var count func(typ string, seen map[string]bool) int
		count = func(typ string, seen map[string]bool) int {
			if seen[typ] {
				return 0
			}
			seen[typ] = true
			n := methods[typ]
			for _, part := range embedded[typ] {
				n += count(part, seen)
			}
			return n
		}
		for typ := range methods {
			if n := count(typ, map[string]bool{}); n > maxMethods {
				t.Errorf("%s: %s has %d methods with those of the types that it embeds; at most %d", dir, typ, n, maxMethods)
			}
		}
	}
}

// methodsOf counts the methods of each type of a package, and names the types of the package that each type embeds.
func methodsOf(t *testing.T, dir string) (methods map[string]int, embedded map[string][]string) {
	t.Helper()
	methods, embedded = map[string]int{}, map[string][]string{}
	paths, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if name := filepath.Base(path); strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					methods[nameOf(n.Recv.List[0].Type)]++
				}
			case *ast.TypeSpec:
				if structure, ok := n.Type.(*ast.StructType); ok {
					for _, field := range structure.Fields.List {
						if len(field.Names) == 0 {
							embedded[n.Name.Name] = append(embedded[n.Name.Name], nameOf(field.Type))
						}
					}
				}
			}
			return true
		})
	}
	return methods, embedded
}

// nameOf returns the name of a type of the package, "" for others.
func nameOf(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return nameOf(e.X)
	case *ast.IndexExpr:
		return nameOf(e.X)
	case *ast.IndexListExpr:
		return nameOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// goroutines are the packages that start goroutines, apart from net/http's and NATS's
// own. All others do their work in the goroutine of their caller.
var goroutines = []string{
	"internal/app", "internal/audit", "internal/backend", "internal/feed", "internal/logs", "internal/controller",
	"internal/controller/image", "internal/controller/stream",
	"internal/controller/template", "internal/remote", "internal/serve/api", "internal/serve/iscsi",
	"internal/serve/listener", "internal/serve/peer", "internal/serve/pxe", "internal/serve/tftp", "internal/store/backup",
	"internal/store/boots", "internal/store/kvstore",
	"internal/store/kvstore/kvtest", "internal/store/leading", "internal/store/ledger", "internal/store/members",
	"internal/store/natsd",
	"internal/store/question", "internal/store/rendering", "internal/store/session", "internal/store/snapshot",
}

func TestGoroutines(t *testing.T) {
	for dir, p := range load(t) {
		if len(p.starts) > 0 && !slices.Contains(goroutines, dir) {
			t.Errorf("%s: a goroutine is started here; only these packages do: %v", p.starts[0], goroutines)
		}
	}
}
