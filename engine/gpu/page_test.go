//go:build gpu

package gpu

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
)

// TestPageListsKernels checks that the table of docs/gpu.md lists the operations that the engine does not merely
// compose.
func TestPageListsKernels(t *testing.T) {
	operations := reflect.TypeFor[engine.Engine]()
	var ours []string
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				_, known := operations.MethodByName(f.Name.Name)
				if known && f.Name.Name != "ReleaseSince" && isEngine(f.Recv.List[0].Type) {
					ours = append(ours, f.Name.Name)
				}
			}
		}
	}
	page, err := os.ReadFile("../../docs/gpu.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, line := range regexp.MustCompile("(?m)^\\| (`[A-Z].*?) \\|").FindAllSubmatch(page, -1) {
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllSubmatch(line[1], -1) {
			listed = append(listed, string(name[1]))
		}
	}
	slices.Sort(ours)
	slices.Sort(listed)
	if len(ours) == 0 || !slices.Equal(ours, listed) {
		t.Errorf("docs/gpu.md lists %v, want %v", listed, ours)
	}
}

func isEngine(x ast.Expr) bool {
	star, ok := x.(*ast.StarExpr)
	if !ok {
		return false
	}
	name, ok := star.X.(*ast.Ident)
	return ok && name.Name == "Engine"
}
