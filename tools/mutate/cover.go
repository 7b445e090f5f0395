package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// covered records which mutants one test reaches. It is saved beside the results for the next call.
type covered struct {
	Key     string        `json:"key"` // hash of the package with its mutants and of the test's code
	CPU     time.Duration `json:"cpu"`
	Wall    time.Duration `json:"wall"`
	Stopped bool          `json:"stopped,omitempty"` // at the time limit
	Failed  bool          `json:"failed,omitempty"`
	Mutants []int         `json:"mutants,omitempty"`
	Parts   []string      `json:"parts,omitempty"` // subtests
}

// cover runs every test alone and returns, for each mutant, the tests that reach it. It uses the saved result of an
// earlier call if neither the package nor the test's code has changed.
func (s *subject) cover(ctx context.Context, folder string, st *store, o options) (reach map[int][]*test, err error) {
	wanted, err := regexp.Compile(o.run)
	if err != nil {
		return nil, fmt.Errorf("--run: %w", err)
	}
	splits, err := regexp.Compile(cmp.Or(o.split, "^$"))
	if err != nil {
		return nil, fmt.Errorf("--split: %w", err)
	}
	mutants, err := s.build(filepath.Join(folder, "mutants"), false, o)
	if err != nil {
		return nil, err
	}
	var code []byte
	for _, f := range s.files {
		text, _ := f.instrumented(s.sites)
		code = append(code, text...)
	}
	path := strings.TrimSuffix(st.path, ".jsonl") + ".cover"
	known, err := readCovered(path)
	if err != nil {
		return nil, err
	}
	most := limits{time.Hour, time.Hour}
	if o.quick > 0 {
		most.cpu = time.Duration(o.quick * float64(time.Second))
	}
	var covering []binary // built when a test has to run
	reach = map[int][]*test{}
	for i, b := range mutants {
		names, err := exec.CommandContext(ctx, b.path, "-test.list", "^(Test|Fuzz|Example)").Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.tests[i], err)
		}
		queue := slices.DeleteFunc(strings.Fields(string(names)), func(name string) bool {
			return !wanted.MatchString(name)
		})
		for len(queue) > 0 {
			name := queue[0]
			queue = queue[1:]
			whole, _, isPart := strings.Cut(name, "/")
			split, most := !isPart && splits.MatchString(name), most
			if split { // run to the end, to find all parts
				most.cpu = most.wall
			}
			key := hash(code, fmt.Append(nil, o.tests[i], name, b.short), []byte(st.texts[i][whole]))
			c, ok := known[key]
			if !ok || c.Stopped && c.CPU < most.cpu {
				if covering == nil {
					if covering, err = s.build(filepath.Join(folder, "cover"), true, o); err != nil {
						return nil, err
					}
				}
				if c, err = covering[i].reached(ctx, name, filepath.Join(folder, "hits"), most); err != nil {
					return nil, err
				}
				c.Key = key
				if err := appendLine(path, c); err != nil {
					return nil, err
				}
			}
			if split && len(c.Parts) > 0 {
				for _, part := range c.Parts {
					queue = append(queue, name+"/"+part)
				}
				continue
			}
			if c.Failed && !c.Stopped {
				say("%s: %s fails without a mutant and is left out", o.tests[i], name)
			}
			if c.Failed || c.Stopped || o.quick > 0 && c.CPU > most.cpu {
				continue
			}
			t := &test{binary: b, name: name, cpu: c.CPU, wall: c.Wall}
			for _, n := range c.Mutants {
				reach[n] = append(reach[n], t)
			}
		}
	}
	return reach, nil
}

// reached runs one test of a binary that writes which mutants it reaches into the file hits.
func (b binary) reached(ctx context.Context, name, hits string, most limits) (c covered, err error) {
	os.Remove(hits)
	start := time.Now()
	ok, cpu, out := b.run(ctx, patternOf(name), "HIPPO_MUTANT_HITS="+hits, most)
	if err := ctx.Err(); err != nil {
		return c, err
	}
	c = covered{CPU: cpu, Wall: time.Since(start), Failed: !ok, Stopped: !ok && cpu >= most.cpu}
	if c.Failed {
		if !c.Stopped {
			say("%s", out[max(0, len(out)-500):])
		}
		return c, nil
	}
	parts := regexp.MustCompile(`(?m)^=== RUN +` + regexp.QuoteMeta(name) + `/([^/\n]+)`)
	for _, found := range parts.FindAllSubmatch(out, -1) {
		if part := string(found[1]); !slices.Contains(c.Parts, part) {
			c.Parts = append(c.Parts, part)
		}
	}
	lines, _ := os.ReadFile(hits) // there is no file if no mutant was reached
	for _, line := range strings.Fields(string(lines)) {
		n, err := strconv.Atoi(line)
		if err != nil {
			return c, err
		}
		c.Mutants = append(c.Mutants, n)
	}
	return c, nil
}

// patternOf returns the regular expression that matches one test or subtest.
func patternOf(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// readCovered reads the saved results of tests.
func readCovered(path string) (known map[string]covered, err error) {
	known = map[string]covered{}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return known, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var c covered
		if json.Unmarshal(lines.Bytes(), &c) == nil { // the last line may be incomplete
			known[c.Key] = c
		}
	}
	return known, lines.Err()
}

// appendLine appends a value to a file of JSON lines.
func appendLine(path string, v any) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	line, _ := json.Marshal(v)
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// textsOf returns the code of each test in some files: the texts of its function and of all declarations in the files
// whose names it uses, directly or indirectly. A type's methods belong to the type.
func textsOf(files map[string][]byte) (texts map[string]string, err error) {
	type declared struct {
		text  string
		names []string // the names that it uses
	}
	all := map[string][]*declared{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, path, files[path], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range syntax.Decls {
			d := &declared{text: string(files[path][fset.Position(decl.Pos()).Offset:fset.Position(decl.End()).Offset])}
			ast.Inspect(decl, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					d.names = append(d.names, id.Name)
				}
				return true
			})
			for _, name := range declares(decl) {
				all[name] = append(all[name], d)
			}
		}
	}
	texts = map[string]string{}
	for name := range all {
		if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") && !strings.HasPrefix(name, "Example") {
			continue
		}
		seen, queue := map[string]bool{name: true}, []string{name, "TestMain", "init"}
		var text []string
		for len(queue) > 0 {
			for _, d := range all[queue[0]] {
				text = append(text, d.text)
				for _, n := range d.names {
					if !seen[n] {
						seen[n] = true
						queue = append(queue, n)
					}
				}
			}
			queue = queue[1:]
		}
		slices.Sort(text)
		texts[name] = strings.Join(text, "\n")
	}
	return texts, nil
}

// declares returns the names that a declaration declares. For a method, they include those of its receiver's type.
func declares(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		names = append(names, d.Name.Name)
		if d.Recv != nil {
			ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					names = append(names, id.Name)
				}
				return true
			})
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					names = append(names, id.Name)
				}
			}
		}
	}
	return names
}
