package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// logCalls are the methods and functions that take keys of a log line.
var logCalls = []string{"Debug", "Info", "Warn", "Error", "Log", "LogAttrs", "With", "Any", "String"}

// TestLogKeys: an error has the key "error" in every line of the log.
func TestLogKeys(t *testing.T) {
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(logCalls, method.Sel.Name) {
				return true
			}
			for _, arg := range call.Args {
				key, ok := arg.(*ast.BasicLit)
				if ok && (key.Value == `"err"` || key.Value == `"cause"`) {
					t.Errorf("%s: the key of an error is \"error\", not %s", files.Position(key.Pos()), key.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
