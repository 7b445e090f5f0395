package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// folderSuffixes lists the suffixes of the files that a folder contributes: prose, markup, tables, JSONL, sequences and
// source code, each also followed by .gz or .zst. Case does not matter. A glob accepts any name, so folder/**/*.log
// reads log files.
var folderSuffixes = []string{
	".txt", ".text", ".md", ".markdown", ".rst", ".org", ".adoc", ".tex",
	".html", ".htm", ".xml", ".csv", ".tsv", ".jsonl", ".ndjson",
	".fa", ".fasta", ".fna",
	".go", ".py", ".c", ".h", ".cc", ".cpp", ".hpp", ".rs", ".js", ".ts", ".java", ".rb", ".sh", ".sql",
}

// findSources returns the files that a spec names. Those of a folder or glob are sorted bytewise by their
// slash-separated path below the folder. Folders and wildcards skip names that begin with a dot, as in a shell. Links
// to files are followed. Links to folders below a folder or ** are not, because they may loop.
func findSources(spec string, opt SourceOptions) ([]source, error) {
	if spec == "-" {
		s, err := stdinSource(opt)
		return []source{s}, err
	}
	info, err := os.Stat(spec)
	switch {
	case err == nil && info.IsDir():
		return folderSources(spec, opt)
	case err == nil:
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("data: %s is %s, want a file, a folder or \"-\"", spec, info.Mode().Type())
		}
		return []source{newSource(filepath.Base(spec), spec, opt.Format, false)}, nil
	case hasMeta(spec):
		return globSources(spec, opt)
	case errors.Is(err, fs.ErrNotExist):
		return nil, &notFoundError{spec}
	}
	return nil, fmt.Errorf("data: %w", err)
}

// notFoundError reports that a named file does not exist.
type notFoundError struct{ spec string }

func (e *notFoundError) Error() string {
	return fmt.Sprintf("data: %s does not exist (want a file, a folder, a glob or \"-\")", e.spec)
}

// Unwrap returns fs.ErrNotExist.
func (e *notFoundError) Unwrap() error { return fs.ErrNotExist }

func folderSources(dir string, opt SourceOptions) ([]source, error) {
	var rels []string
	if err := walk(dir, "", &rels); err != nil {
		return nil, err
	}
	if len(rels) == 0 {
		return nil, fmt.Errorf("data: folder %s has no text file (want names ending in %s, also with .gz or .zst; "+
			"a glob such as %s takes other names)", dir, strings.Join(folderSuffixes, " "),
			filepath.Join(dir, "**", "*.log"))
	}
	return below(dir, rels, opt), nil
}

// below returns sources for the files rels of the folder root, sorted and without duplicates.
func below(root string, rels []string, opt SourceOptions) []source {
	slices.Sort(rels)
	var list []source
	for _, rel := range slices.Compact(rels) { // a/**/b/**/c can find a file in more than one way
		list = append(list, newSource(rel, join(root, rel), opt.Format, true))
	}
	return list
}

// walk appends to found the slash-separated path below root of every text-like file in the folder root/rel and the
// folders below it.
func walk(root, rel string, found *[]string) error {
	entries, err := os.ReadDir(join(root, rel))
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	for _, e := range entries {
		at := path.Join(rel, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			if err := walk(root, at, found); err != nil {
				return err
			}
		case textLike(e.Name()):
			info, err := os.Stat(join(root, at))
			if err != nil {
				return fmt.Errorf("data: %w", err) // most likely a broken link
			}
			if info.Mode().IsRegular() {
				*found = append(*found, at)
			}
		}
	}
	return nil
}

// join returns the path of the slash-separated rel below root.
func join(root, rel string) string { return filepath.Join(root, filepath.FromSlash(rel)) }

func textLike(name string) bool {
	name = strings.ToLower(name)
	for _, z := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, z)
	}
	return slices.Contains(folderSuffixes, path.Ext(name))
}

func hasMeta(spec string) bool { return strings.ContainsAny(spec, "*?[") }

// globSources expands a glob: path.Match applies within a path element, and the element ** matches any number of
// folders, including none.
func globSources(spec string, opt SourceOptions) ([]source, error) {
	elems := strings.Split(filepath.ToSlash(spec), "/")
	first := slices.IndexFunc(elems, hasMeta)
	root := strings.Join(elems[:first], "/")
	pattern := slices.DeleteFunc(elems[first:], func(e string) bool { return e == "" })
	switch {
	case first == 0:
		root = "."
	case root == "" || strings.HasSuffix(root, ":"): // /*.txt or C:/*.txt
		root += "/"
	}
	for i, p := range pattern {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("data: glob %s: %q: %w", spec, p, err)
		}
		pattern[i] = withoutBraces(p)
	}
	root = filepath.FromSlash(root)
	rels, err := glob(root, pattern)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if len(rels) == 0 {
		return nil, fmt.Errorf("data: glob %s matches no file", spec)
	}
	return below(root, rels, opt), nil
}

// glob returns the files below root that match the elements of a pattern. Links to folders are followed only before the
// first **.
func glob(root string, pattern []string) (rels []string, err error) {
	options := []doublestar.GlobOption{doublestar.WithFailOnIOErrors(), doublestar.WithNoHidden()}
	folders := []string{"."}
	first := max(0, slices.Index(pattern, "**"))
	if first > 0 {
		above := strings.Join(pattern[:first], "/") + "/" // matches folders only
		if folders, err = doublestar.Glob(os.DirFS(root), above, options...); err != nil {
			return nil, fmt.Errorf("%s: %w", root, err)
		}
	}
	rest := strings.Join(pattern[first:], "/")
	if strings.HasPrefix(rest, "**") {
		options = append(options, doublestar.WithNoFollow())
	}
	for _, folder := range folders {
		within := join(root, folder)
		found, err := doublestar.Glob(os.DirFS(within), rest, options...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", within, err)
		}
		for _, name := range found {
			rel := path.Join(folder, name)
			info, err := os.Stat(join(root, rel))
			if err != nil {
				return nil, err // most likely a broken link
			}
			if info.Mode().IsRegular() {
				rels = append(rels, rel)
			}
		}
	}
	return rels, nil
}

// bracesOrEscaped matches braces, and also escaped characters, so that escaped braces are not matched as braces.
var bracesOrEscaped = regexp.MustCompile(`\\.|[{}]`)

// withoutBraces escapes the braces of an element, which doublestar would treat as alternatives.
func withoutBraces(elem string) string {
	return bracesOrEscaped.ReplaceAllStringFunc(elem, func(s string) string {
		if s == "{" || s == "}" {
			return `\` + s
		}
		return s
	})
}
