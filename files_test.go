package hippo_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"unicode/utf8"
)

// TestFilesAreShort checks that no file written by hand is longer than maxLines.
func TestFilesAreShort(t *testing.T) {
	_, files := sources(t)
	for _, s := range files {
		if s.lines > maxLines && s.written {
			t.Errorf("%s has %d lines, want at most %d: divide it by ideas", s.path, s.lines, maxLines)
		}
	}
}

// TestLinesAreNarrow checks that no line written by hand is longer than maxColumns.
func TestLinesAreNarrow(t *testing.T) {
	_, files := sources(t)
	for _, s := range files {
		if s.written && len(s.wide) > 0 {
			t.Errorf("%s: lines %v are longer than %d columns, a tab counted as %d",
				s.path, s.wide, maxColumns, tabColumns)
		}
	}
}

// oneMachine matches paths that exist only on some machine. The brackets keep the pattern from matching itself.
var oneMachine = regexp.MustCompile(`/w[o]rk/[a-z.]|\.\./s[h]ared\b`)

// TestNamesNoMachine checks that no text file names a path of one machine. The scripts of the benchmarks' peers may
// have such paths as defaults.
func TestNamesNoMachine(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == ".git" || name == "runs" { // runs holds the output of training
				return filepath.SkipDir
			}
			return nil
		}
		script := filepath.Dir(name) == "bench" && filepath.Ext(name) != ".go"
		if !entry.Type().IsRegular() || entry.Name() == ".git" || script {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !utf8.Valid(text) {
			return nil
		}
		checked++
		for i, line := range bytes.Split(text, []byte{'\n'}) {
			if found := oneMachine.Find(line); found != nil {
				t.Errorf("%s:%d names %q, a path of one machine", filepath.ToSlash(name), i+1, found)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked == 0 {
		t.Error("no text file found")
	}
}
