package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is one change and its result.
type mutant struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
	Mutant   string `json:"mutant"`        // old text → new text
	Nth      int    `json:"nth,omitempty"` // index among equal changes in a function, from 0
	Code     string `json:"code"`          // hash of the function
	Status   string `json:"status,omitempty"`
	By       string `json:"by,omitempty"`    // the test that killed it
	Tests    string `json:"tests,omitempty"` // hash of the tests that it survived
	Why      string `json:"why,omitempty"`   // reason why it is equivalent, or ""

	number int
}

// mutants returns the mutants of all sites.
func (s *subject) mutants() (all []*mutant) {
	seen := map[string]int{}
	for _, at := range s.sites {
		for i, text := range at.texts {
			m := &mutant{File: s.rel(at.file.name), Line: at.line, Function: at.function, Mutant: text, Code: at.code,
				number: at.first + i}
			m.Nth = seen[m.key()]
			seen[m.key()]++
			all = append(all, m)
		}
	}
	return all
}

func (m *mutant) key() string { return m.File + "|" + m.Function + "|" + m.Mutant }

// rel returns the path of a file of the package, relative to the module's folder.
func (s *subject) rel(file string) string {
	rel, err := filepath.Rel(s.module, filepath.Join(s.dir, file))
	if err != nil {
		return file
	}
	return filepath.ToSlash(rel)
}

func (m *mutant) print(asJSON bool) {
	if asJSON {
		line, _ := json.Marshal(m)
		fmt.Println(string(line))
		return
	}
	fmt.Printf("%s:%d: %s: %s", m.File, m.Line, m.Function, m.Mutant)
	if m.Status == "uncovered" {
		fmt.Print(" (no test reaches it)")
	}
	fmt.Println()
}

func hash(data ...[]byte) string {
	h := sha256.New()
	for _, d := range data {
		h.Write(d)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6])
}

// store is the file of results.
type store struct {
	path  string
	tests string              // hash of all tests
	texts []map[string]string // code of the tests of each package: see textsOf
	known map[string]*mutant
}

// openStore reads earlier results. packages lists the packages whose tests run.
func openStore(file string, packages []string) (*store, error) {
	s := &store{path: file, known: map[string]*mutant{}}
	var tests [][]byte
	for _, p := range packages {
		found, err := list[struct {
			Dir                       string
			TestGoFiles, XTestGoFiles []string
		}]("-json=Dir,TestGoFiles,XTestGoFiles", p)
		if err != nil {
			return nil, err
		}
		files := map[string][]byte{}
		for _, name := range append(found[0].TestGoFiles, found[0].XTestGoFiles...) {
			text, err := os.ReadFile(filepath.Join(found[0].Dir, name))
			if err != nil {
				return nil, err
			}
			tests, files[name] = append(tests, text), text
		}
		texts, err := textsOf(files)
		if err != nil {
			return nil, err
		}
		s.texts = append(s.texts, texts)
	}
	s.tests = hash(tests...)
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		return s, os.MkdirAll(filepath.Dir(file), 0o777)
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var m mutant
		if json.Unmarshal(lines.Bytes(), &m) == nil { // the last line may be incomplete
			s.known[fmt.Sprint(m.key(), m.Nth)] = &m
		}
	}
	return s, lines.Err()
}

// recall fills in the saved result of a mutant, and reports whether that is still valid.
func (s *store) recall(m *mutant) bool {
	old := s.known[fmt.Sprint(m.key(), m.Nth)]
	if old == nil || old.Code != m.Code {
		return false
	}
	if old.Status != "killed" && old.Tests != s.tests {
		m.Status, m.Tests = old.Status, old.Tests // until the mutant runs again
		return false
	}
	m.Status, m.By, m.Tests = old.Status, old.By, old.Tests
	return true
}

// save appends a result.
func (s *store) save(m *mutant) error {
	m.Tests = s.tests
	return appendLine(s.path, m)
}

// equivalents lists known mutants that change nothing that a test could or should detect. Each has a pattern of its
// file, function and change, and the reason.
type equivalents []struct {
	pattern *regexp.Regexp
	why     string
}

// readEquivalent reads lines of FILE, FUNCTION, MUTANT and REASON, separated by tabs. A * stands for any text.
func readEquivalent(file string) (all equivalents, err error) {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 || f[3] == "" {
			return nil, fmt.Errorf("%s:%d: found %q, want FILE, FUNCTION, MUTANT and REASON with tabs between", file,
				i+1, line)
		}
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(strings.Join(f[:3], "\t")), `\*`, ".*") + "$"
		all = append(all, struct {
			pattern *regexp.Regexp
			why     string
		}{regexp.MustCompile(pattern), f[3]})
	}
	return all, nil
}

// why returns the reason why a mutant is equivalent, or "" if it is not known to be.
func (e equivalents) why(m *mutant) string {
	for _, one := range e {
		if one.pattern.MatchString(m.File + "\t" + m.Function + "\t" + m.Mutant) {
			return one.why
		}
	}
	return ""
}
