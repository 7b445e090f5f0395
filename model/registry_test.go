package model

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryMixerIsChecked checks that each mixer of the registry has a test that compares it with an oracle and
// declares this by golden.Of, a row in the property tests, and a page. A new mixer takes a file, a line and a golden
// test; this test demands the last.
func TestEveryMixerIsChecked(t *testing.T) {
	oracles := map[string]string{} // name of a test, by the mixer that it compares
	for _, dir := range []string{"../mixer", "../release"} {
		functions := testFunctions(t, dir)
		for name, f := range functions {
			for _, mixer := range comparedBy(f) {
				if compares(functions, f, map[string]bool{}) {
					oracles[mixer] = name
				} else {
					t.Errorf("%s: %s says that it compares %s, but calls neither golden.Run nor golden.Close", dir,
						name, mixer)
				}
			}
		}
	}
	rows := functionText(t, "../mixer/property_test.go", "variants")
	source, err := os.ReadFile("registry.go")
	if err != nil {
		t.Fatal(err)
	}
	variables := regexp.MustCompile(`(?m)^\tmixer\.(\w+),$`).FindAllSubmatch(source, -1)
	table, err := os.ReadFile("../docs/mixers.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, info := range Mixers() {
		if oracles[info.Name] == "" {
			t.Errorf("%s: found no golden test, want one in package mixer that calls golden.Of(t, %q) and compares it "+
				"with the official implementation or with its definition", info.Name, info.Name)
		}
		delete(oracles, info.Name)
		of := string(variables[i][1])
		if !regexp.MustCompile(`\b` + of + `\b`).MatchString(rows) {
			t.Errorf("%s: found no row with %s in variants of mixer/property_test.go", info.Name, of)
		}
		row := regexp.MustCompile(fmt.Sprintf("(?m)^%s.* \\| %s\\((mixers/[^)]*\\.md)\\) \\|$",
			regexp.QuoteMeta(fmt.Sprintf("| `%s` | %s | %s | ", info.Name, info.Time, info.State)),
			regexp.QuoteMeta("["+info.Paper+"]"))).FindSubmatch(table)
		if row == nil {
			t.Errorf("%s: found no row with its time, state, title and page in the table of docs/mixers.md", info.Name)
			continue
		}
		page, err := os.ReadFile(filepath.Join("../docs", string(row[1])))
		if err != nil || !strings.Contains(strings.ToLower(string(page)), info.Name) {
			t.Errorf("%s: docs/%s does not name it (%v)", info.Name, row[1], err)
		}
	}
	for name, test := range oracles {
		t.Errorf("%s says that it compares %q, which is no mixer of the registry", test, name)
	}
}

// testFunctions returns the functions in the tests of a package.
func testFunctions(t *testing.T, dir string) map[string]*ast.FuncDecl {
	t.Helper()
	files, err := filepath.Glob(dir + "/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: found no tests (%v)", dir, err)
	}
	all := map[string]*ast.FuncDecl{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				all[f.Name.Name] = f
			}
		}
	}
	return all
}

// goldenCall returns the name of the called function of package golden, or "" for any other call.
func goldenCall(n ast.Node) (name string, args []ast.Expr) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", nil
	}
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "golden" {
			return sel.Sel.Name, call.Args
		}
	}
	return "", nil
}

// comparedBy returns the mixers that a test says it compares with an oracle.
func comparedBy(f *ast.FuncDecl) (mixers []string) {
	if !strings.HasPrefix(f.Name.Name, "Test") {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if name, args := goldenCall(n); name == "Of" {
			for _, x := range args[1:] {
				if text, ok := x.(*ast.BasicLit); ok {
					mixers = append(mixers, strings.Trim(text.Value, `"`))
				}
			}
		}
		return true
	})
	return mixers
}

// compares reports whether a function, or one that it names, compares something with golden numbers.
func compares(functions map[string]*ast.FuncDecl, f *ast.FuncDecl, seen map[string]bool) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if name, _ := goldenCall(n); name == "Run" || strings.HasPrefix(name, "Close") {
			found = true
		}
		if id, ok := n.(*ast.Ident); ok && functions[id.Name] != nil && !seen[id.Name] {
			seen[id.Name] = true
			found = found || compares(functions, functions[id.Name], seen)
		}
		return !found
	})
	return found
}

// functionText returns the source of a function.
func functionText(t *testing.T, path, name string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Name.Name == name {
			return string(text[fset.Position(d.Pos()).Offset:fset.Position(d.End()).Offset])
		}
	}
	t.Fatalf("%s: found no function %s", path, name)
	return ""
}
