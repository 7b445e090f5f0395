package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed lists the licenses that a module in the program may have. Any other needs a person's decision.
var allowed = []string{
	"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC-BY-4.0", "FTL", "ISC", "MIT", "OFL-1.1", "Zlib",
}

// known holds facts about modules that a program cannot read from their files.
var known = map[string]struct {
	licenses []string // the license that is chosen if a module offers several
	more     []string // files that must be included although their names do not say so
	without  []string // files that need not be included
	read     []string // files whose license a person has read: a permissive one without a name
}{
	// A link to the license, whose text is in a file next to it.
	"github.com/ajstarks/svgo": {read: []string{"LICENSE-link.txt"}},
	// "Your choice of exactly one of the following two licenses": the FreeType License, and not the GPL.
	"github.com/golang/freetype": {licenses: []string{"FTL"}, without: []string{"licenses/gpl.txt"}},
	// The fonts are data in Go files; this file contains their license.
	"golang.org/x/image": {more: []string{"font/gofont/ttfs/README"}, read: []string{"font/gofont/ttfs/README"}},
	// Older permissive licenses with their own wording; the last is about test data.
	"gonum.org/v1/gonum": {read: []string{
		"THIRD_PARTY_LICENSES/Bogaert-LICENSE", "THIRD_PARTY_LICENSES/MT19937-64-LICENSE",
		"THIRD_PARTY_LICENSES/Sun-LICENSE",
		"THIRD_PARTY_LICENSES/W3C-TestSuite-LICENSE",
	}},
}

// legal matches names of files that hold licenses or notices, and of folders that hold only such files.
var legal = regexp.MustCompile(`(?i)^(third[-_]party[-_])?(licen[sc]es?|copying|copyright|notice|patents|unlicense)\b`)

// enough is the percentage of a file that must be license text, as at pkg.go.dev.
const enough = 75

// read sets licenses and texts of a module from its folder: the files of its root, and of the folders above its linked
// packages.
func (m *module) read() error {
	var dirs []string
	for _, pkg := range m.packages {
		for dir := pkg; !slices.Contains(dirs, dir); dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
			if dir == "." {
				break
			}
		}
	}
	var names []string
	for _, dir := range dirs {
		more, err := legalFiles(m.dir, dir)
		if err != nil {
			return err
		}
		names = append(names, more...)
	}
	names = append(names, known[m.path].more...)
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(known[m.path].without, name) })
	slices.Sort(names)
	m.licenses = slices.Clone(known[m.path].licenses)
	told := len(m.licenses) > 0
	for _, name := range names {
		body, err := os.ReadFile(filepath.Join(m.dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		m.texts = append(m.texts, text{name, plain(body)})
		if told || strings.HasPrefix(filepath.Base(name), "PATENTS") { // a grant in addition to the license
			continue
		}
		ids := identify(body)
		notice := strings.HasPrefix(filepath.Base(name), "NOTICE") // attributions, as in Apache's license
		if len(ids) == 0 && !notice && !slices.Contains(known[m.path].read, name) {
			return fmt.Errorf("%s %s: found no licence that is known in %s: read it, "+
				"and say in the table known what it is", m.path, m.version, name)
		}
		for _, id := range ids {
			if !slices.Contains(m.licenses, id) {
				m.licenses = append(m.licenses, id)
			}
		}
	}
	slices.Sort(m.licenses)
	return m.check()
}

// check returns an error unless the licenses of the module are known and allowed.
func (m *module) check() error {
	if len(m.licenses) == 0 {
		return fmt.Errorf("%s %s: found no licence in %s", m.path, m.version, m.dir)
	}
	for _, id := range m.licenses {
		if !slices.Contains(allowed, id) {
			return fmt.Errorf("%s %s: found the licence %s, want one of %s, or a person's decision",
				m.path, m.version, id,
				strings.Join(allowed, ", "))
		}
	}
	return nil
}

// legalFiles lists the files of a folder below root that hold licenses or notices, and all files of its folders that
// hold only such files.
func legalFiles(root, dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := filepath.ToSlash(filepath.Join(dir, e.Name()))
		switch {
		case !legal.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go":
		case !e.IsDir():
			names = append(names, name)
		default:
			inside, err := os.ReadDir(filepath.Join(root, name))
			if err != nil {
				return nil, err
			}
			for _, f := range inside {
				if !f.IsDir() && filepath.Ext(f.Name()) != ".go" {
					names = append(names, name+"/"+f.Name())
				}
			}
		}
	}
	return names, nil
}

// identify names the licenses whose text a file holds.
func identify(body []byte) []string {
	found := licensecheck.Scan(body)
	if found.Percent < enough {
		return nil
	}
	var ids []string
	for _, m := range found.Match {
		if !m.IsURL {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// plain returns a text with Unix line ends and without spaces at the ends of lines.
func plain(body []byte) string {
	lines := strings.Split(strings.ReplaceAll(string(body), "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t\f\r")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
}
