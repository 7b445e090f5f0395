package hippo_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// source is one Go file of this module.
type source struct {
	path    string // from the root, with slashes
	dir     string
	lines   int
	wide    []int // numbers of the lines longer than maxColumns
	syntax  *ast.File
	test    bool
	tagged  bool // excluded from every build by the tag "ignore": a generator
	written bool // by hand
}

// position returns the file and line of a syntax node.
func (s *source) position(fset *token.FileSet, n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, fset.Position(n.Pos()).Line)
}

// sources parses every Go file of the module. It omits nested modules and the files that the go command ignores.
func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	fset := token.NewFileSet()
	var all []source
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, noModule := os.Stat(filepath.Join(name, "go.mod"))
			hidden := strings.ContainsAny(entry.Name()[:1], "._")
			if name != "." && (noModule == nil || hidden || entry.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		syntax, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{
			path: name, dir: path.Dir(name), lines: bytes.Count(text, []byte{'\n'}), wide: wideLines(text),
			syntax: syntax, test: strings.HasSuffix(name, "_test.go"), tagged: isTagged(syntax),
			written: !ast.IsGenerated(syntax),
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fset, all
}

// wideLines returns the numbers of the lines longer than maxColumns.
func wideLines(text []byte) (numbers []int) {
	for i, line := range bytes.Split(text, []byte{'\n'}) {
		if utf8.RuneCount(line)+(tabColumns-1)*bytes.Count(line, []byte{'\t'}) > maxColumns {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// isTagged reports whether a file is built only under the tag "ignore".
func isTagged(f *ast.File) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil && c.Pos() < f.Package {
				return !expr.Eval(func(tag string) bool { return tag != "ignore" })
			}
		}
	}
	return false
}
