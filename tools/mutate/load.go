package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	_ "embed"
)

// source is a file of the package.
type source struct {
	path, name string
	text       []byte
	syntax     *ast.File
}

// subject is a package with its mutants.
type subject struct {
	path, name, dir string // of the package
	module          string // folder of the module
	files           []*source
	sites           []*site
	count           int // number of mutants
}

//go:embed helpers.go.txt
var helpers string

// list runs go list with the arguments and decodes its output into values of type T.
func list[T any](args ...string) (all []T, err error) {
	var stderr bytes.Buffer
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var v T
		if err := dec.Decode(&v); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
}

// load reads a package and finds the mutants that compile.
func load(pattern string) (*subject, error) {
	type listed struct {
		ImportPath, Name, Dir, Export string
		GoFiles                       []string
		DepOnly                       bool
		Module                        *struct{ Dir string }
	}
	all, err := list[listed]("-json=ImportPath,Name,Dir,Export,GoFiles,DepOnly,Module", "-export", "-deps", pattern,
		"os", "strconv", "sync") // imports of the helpers
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	var s *subject
	for _, p := range all {
		exports[p.ImportPath] = p.Export
		if p.DepOnly || p.Module == nil {
			continue
		}
		if s != nil {
			return nil, fmt.Errorf("%s: found %s and %s, want one package", pattern, s.path, p.ImportPath)
		}
		s = &subject{path: p.ImportPath, name: p.Name, dir: p.Dir, module: p.Module.Dir}
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			s.files = append(s.files, &source{path: path, name: name, text: text})
		}
	}
	if s == nil {
		return nil, fmt.Errorf("%s: found no package of this module", pattern)
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	if err := s.find(lookup); err != nil {
		return nil, err
	}
	return s, s.drop(lookup)
}

// find collects the sites of all files.
func (s *subject) find(lookup importer.Lookup) error {
	fset := token.NewFileSet()
	var syntax []*ast.File
	for _, f := range s.files {
		var err error
		if f.syntax, err = parser.ParseFile(fset, f.path, f.text, parser.SkipObjectResolution); err != nil {
			return err
		}
		syntax = append(syntax, f.syntax)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}).Check(s.path, fset, syntax, info)
	if err != nil {
		return err
	}
	for _, f := range s.files {
		w := &finder{fset: fset, info: info, pkg: pkg, file: f}
		w.walk(f.syntax)
		s.sites = append(s.sites, w.sites...)
	}
	s.number()
	return nil
}

// number gives each mutant its number.
func (s *subject) number() {
	s.count = 0
	for _, at := range s.sites {
		at.first = s.count
		s.count += len(at.texts)
	}
}

// drop removes the innermost site around each type error until the instrumented package type-checks.
func (s *subject) drop(lookup importer.Lookup) error {
	for {
		fset := token.NewFileSet()
		help, err := parser.ParseFile(fset, "", s.helper(false), parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		syntax, pieces := []*ast.File{help}, map[*token.File][]piece{}
		sources := map[*token.File]*source{}
		for _, f := range s.files {
			text, from := f.instrumented(s.sites)
			file, err := parser.ParseFile(fset, f.path, text, parser.SkipObjectResolution)
			if err != nil {
				return fmt.Errorf("instrumented: %w", err)
			}
			at := fset.File(file.Package)
			syntax, pieces[at], sources[at] = append(syntax, file), from, f
		}
		bad := map[*site]bool{}
		var first error
		c := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup), Error: func(err error) {
			first = cmp.Or(first, err)
			e := err.(types.Error)
			at := fset.File(e.Pos)
			if f := sources[at]; f != nil {
				if in := f.innermost(s.sites, pieces[at], at.Offset(e.Pos)); in != nil {
					bad[in] = true
				}
			}
		}}
		c.Check(s.path, fset, syntax, nil)
		if first == nil {
			return nil
		}
		if len(bad) == 0 {
			return fmt.Errorf("no mutant explains: %w", first)
		}
		s.sites = slices.DeleteFunc(s.sites, func(at *site) bool { return bad[at] })
		s.number()
	}
}

// helper returns the file that is added to the instrumented package. With covering, no mutant runs, and the helpers
// write the numbers of the mutants that are reached to a file.
func (s *subject) helper(covering bool) string {
	return strings.NewReplacer("PACKAGE", s.name, "COVERING", fmt.Sprint(covering), "COUNT", fmt.Sprint(s.count)).
		Replace(helpers)
}
