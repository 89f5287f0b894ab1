package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

// apiReference returns a page with every kind and field of the package in dir.
func apiReference(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	types := map[string]*ast.GenDecl{}
	for _, path := range files {
		if strings.HasPrefix(filepath.Base(path), "zz_") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return "", err
		}
		for _, decl := range file.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.TYPE {
				types[gen.Specs[0].(*ast.TypeSpec).Name.Name] = gen
			}
		}
	}
	var b strings.Builder
	b.WriteString("# API reference\n\nGenerated from the types by `make generate`. All kinds are `apiVersion: v1`; " +
		"`kubectl explain KIND` shows the same.\n")
	done := map[string]bool{}
	for _, kind := range kinds.All() {
		if kind.GroupVersion == v1.SchemeGroupVersion {
			writeType(&b, types, kind.Name, done)
		}
	}
	return b.String(), nil
}

func writeType(b *strings.Builder, types map[string]*ast.GenDecl, name string, done map[string]bool) {
	gen := types[name]
	if gen == nil || done[name] {
		return
	}
	done[name] = true
	structure, ok := gen.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
	if !ok {
		return
	}
	level := "###"
	if kinds.Position(name) >= 0 {
		level = "##"
	}
	fmt.Fprintf(b, "\n%s %s\n\n%s\n", level, name, comment(gen.Doc))
	var rows strings.Builder
	var nested []string
	for _, field := range structure.Fields.List {
		json, ok := jsonName(field)
		if !ok {
			continue
		}
		text := typeName(field.Type)
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", json, text, strings.ReplaceAll(comment(field.Doc), "|", `\|`))
		nested = append(nested, strings.TrimPrefix(strings.TrimPrefix(text, "list of "), "map of string to "))
	}
	if rows.Len() > 0 {
		fmt.Fprintf(b, "\n| field | type | meaning |\n|---|---|---|\n%s", rows.String())
	}
	for _, n := range nested {
		writeType(b, types, n, done)
	}
}

// jsonName returns a field's name in JSON; false for an inline or hidden field.
func jsonName(field *ast.Field) (string, bool) {
	if field.Tag == nil {
		return "", false
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return "", false
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return name, name != "" && name != "-"
}

func typeName(expr ast.Expr) string {
	switch t := expr.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.ArrayType:
		return "list of " + typeName(t.Elt)
	case *ast.MapType:
		return "map of " + typeName(t.Key) + " to " + typeName(t.Value)
	case *ast.SelectorExpr:
		return t.Sel.Name
	}
	return ""
}

// comment returns a doc comment as one paragraph, without its +markers.
func comment(group *ast.CommentGroup) string {
	if group == nil {
		return ""
	}
	var words []string
	for line := range strings.Lines(group.Text()) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "+") {
			words = append(words, line)
		}
	}
	return strings.Join(words, " ")
}
