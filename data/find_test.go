package data

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFoldersAndGlobs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"b.txt", "a.md", "c.png", "noext", "UPPER.TXT", "z.jsonl.gz", "z.tar.gz", ".hidden.txt", ".git/x.txt",
		"a/d.txt", "a/b/e.txt", "a/b/f.log", "a.dir/g.txt", "[x].txt", "empty.txt", "c{1,2}.log", "a/.b/h.txt",
	} {
		content := []byte(`{"text": "` + name + `"}`)
		if strings.HasSuffix(name, ".gz") {
			content = gzipBytes(t, content)
		}
		if name == "empty.txt" {
			content = nil
		}
		write(t, filepath.Join(dir, name), content)
	}
	outside := write(t, t.TempDir()+"/linked.txt", []byte("linked"))
	for from, to := range map[string]string{"link.txt": outside, "loop": dir} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, tc := range []struct {
		specs []string
		want  string
	}{
		{[]string{"."}, "UPPER.TXT [x].txt a.dir/g.txt a.md a/b/e.txt a/d.txt b.txt link.txt z.jsonl.gz"},
		{[]string{"a"}, "b/e.txt d.txt"},
		{[]string{"*.txt"}, "[x].txt b.txt link.txt"},
		{[]string{"./*.txt"}, "[x].txt b.txt link.txt"},
		{[]string{"[x].txt"}, "[x].txt"}, // a file of that name takes precedence over the pattern
		{[]string{"a*/*.txt"}, "a.dir/g.txt a/d.txt"},
		{[]string{"a/**"}, "b/e.txt b/f.log d.txt"},
		{[]string{"a/**/"}, "b/e.txt b/f.log d.txt"},
		{[]string{"**/*.txt"}, "[x].txt a.dir/g.txt a/b/e.txt a/d.txt b.txt link.txt"},
		{[]string{"**/**//b/**/e.txt"}, "a/b/e.txt"},
		{[]string{"a/**/d.txt"}, "d.txt"}, // ** may match no folder
		{[]string{".git/*"}, "x.txt"},
		{[]string{"c{1,?}.log"}, "c{1,2}.log"},    // braces are not wildcards
		{[]string{"lo*/a/d.txt"}, "loop/a/d.txt"}, // a link to a folder is followed before any **
		{[]string{"lo*/a/**/d.txt"}, "loop/a/d.txt"},
		{[]string{"l*/*/.b/*"}, "loop/a/.b/h.txt"},
		{[]string{".h*"}, ".hidden.txt"},
		{[]string{"b.txt", "a.md"}, "b.txt a.md"}, // the user's order
		{[]string{filepath.Join(dir, "a", "*", "?.log")}, "b/f.log"},
		{[]string{"noext"}, "noext"},
	} {
		c, err := Open(tc.specs, noCache)
		if err != nil {
			t.Errorf("%q: %v", tc.specs, err)
			continue
		}
		var names []string
		for _, s := range c.Sources() {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("%q:\n got %s\nwant %s", tc.specs, got, tc.want)
		}
		if left := slices.ContainsFunc(c.Notes(), func(n string) bool {
			return strings.Contains(n, "empty.txt")
		}); left != slices.Contains([]string{".", "*.txt", "./*.txt", "**/*.txt"}, tc.specs[0]) {
			t.Errorf("%q: notes %q", tc.specs, c.Notes())
		}
	}
}
