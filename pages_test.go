package hippo_test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The forms in which pages name code: a link to the file of its declaration, a code span, the name of a test, and the
// first cell of a table's row.
var (
	linkedName = regexp.MustCompile("\\[`([^`]+)`\\]\\(([^)]+)\\)")
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	dottedName = regexp.MustCompile(`^\w+(\.\w+)+$`)
	testName   = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w*`)
	firstCell  = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
)

// TestArchitecturePageIsTrue checks that every function, type and file that docs/architecture.md names exists, in the
// file that it links to, and that its table has the packages of house in the same order.
func TestArchitecturePageIsTrue(t *testing.T) {
	const page = "docs/architecture.md"
	text := readPage(t, page)
	_, files := libraries(t)
	where := declarations(files)
	links := linkedName.FindAllStringSubmatch(text, -1)
	if len(links) == 0 {
		t.Fatalf("%s links to no code", page)
	}
	for _, link := range links {
		file := path.Join(path.Dir(page), link[2])
		if !slices.Contains(where[link[1]], file) {
			t.Errorf("%s: found %s linked to %s, want a file that declares it: %v", page, link[1], file, where[link[1]])
		}
	}
	for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
		switch name := span[1]; {
		case dottedName.MatchString(name) && where[name] == nil:
			t.Errorf("%s: nothing declares %s", page, name)
		case strings.Contains(name, "/") && !strings.Contains(name, " "):
			if _, err := os.Stat(filepath.FromSlash(name)); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	var want, got []string
	for _, l := range house {
		if slices.ContainsFunc(files, func(s source) bool { return s.dir == l.dir }) {
			want = append(want, l.dir)
		}
	}
	for _, cell := range firstCell.FindAllStringSubmatch(text, -1) {
		got = append(got, cell[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: the table has the packages\n%q, want those of house in architecture_test.go:\n%q",
			page, got, want)
	}
}

// declarations returns, for each name, the files that declare it. A name is package.Name or package.Type.Method, where
// Type may be an interface.
func declarations(files []source) map[string][]string {
	where := map[string][]string{}
	for _, s := range files {
		add := func(names ...string) {
			name := s.syntax.Name.Name + "." + strings.Join(names, ".")
			where[name] = append(where[name], s.path)
		}
		for _, decl := range s.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name.Name)
				} else {
					add(receiver(d.Recv.List[0].Type), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					typ, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					add(typ.Name.Name)
					if methods, ok := typ.Type.(*ast.InterfaceType); ok {
						for _, m := range methods.Methods.List {
							for _, name := range m.Names {
								add(typ.Name.Name, name.Name)
							}
						}
					}
				}
			}
		}
	}
	return where
}

// receiver returns the name of the type in a method's receiver.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// TestPagesNameTestsThatExist checks that every test that a page names exists.
func TestPagesNameTestsThatExist(t *testing.T) {
	_, files := sources(t)
	there := map[string]bool{}
	for _, s := range files {
		for _, decl := range s.syntax.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.test && f.Recv == nil {
				there[f.Name.Name] = true
			}
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob("docs/decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range slices.Concat([]string{"CONTRIBUTING.md", "README.md"}, pages, decisions) {
		for _, name := range testName.FindAllString(readPage(t, page), -1) {
			if named++; !there[name] {
				t.Errorf("%s names %s, which is no test", page, name)
			}
		}
	}
	if named == 0 {
		t.Error("no page names a test")
	}
}

// TestDrawingOfTheRooms checks that the drawing in docs/architecture.md shows every package of house, and no package
// above one that imports it.
func TestDrawingOfTheRooms(t *testing.T) {
	const page = "docs/architecture.md"
	_, text, _ := strings.Cut(readPage(t, page), "## The rooms")
	_, text, _ = strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```")
	line := map[string]int{} // from each room to its line, counted from the top
	for i, l := range strings.Split(strings.TrimSpace(text), "\n") {
		for _, room := range strings.Fields(l[15:]) {
			line[room] = i
		}
	}
	place := func(dir string) int {
		for room := dir; ; room = path.Dir(room) {
			if i, ok := line[room]; ok && (room != "." || dir == ".") {
				return i
			}
			if room == "." {
				t.Fatalf("%s: the drawing has no place for %s", page, dir)
			}
		}
	}
	found := map[string]bool{}
	for _, l := range house {
		for room := l.dir; !found[room]; room = path.Dir(room) {
			found[room] = true
		}
		for _, below := range strings.Fields(l.ours) {
			if place(below) < place(l.dir) {
				t.Errorf("%s: the drawing has %s above %s, which imports it", page, below, l.dir)
			}
		}
	}
	for room := range line {
		if !found[room] {
			t.Errorf("%s: the drawing has the room %s, which house has not", page, room)
		}
	}
}

// TestReadmeMapsEveryRoom checks that README.md names every folder at the root that holds packages.
func TestReadmeMapsEveryRoom(t *testing.T) {
	text := readPage(t, "README.md")
	for _, l := range house {
		if room, _, _ := strings.Cut(l.dir, "/"); !strings.Contains(text, "`"+room+"`") && room != "cmd" {
			t.Errorf("README.md: the map does not name %s", room)
		}
	}
}

// The patterns of a link to a file of the repository, of a heading, and of the characters that its anchor omits.
var (
	pageLink = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noSlug   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestPagesLinkToWhatExists checks that every link of a page to a file or heading has an existing target.
func TestPagesLinkToWhatExists(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "bench/*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	if len(pages) < 50 {
		t.Errorf("found %d pages", len(pages))
	}
	for _, page := range pages {
		text := codeSpan.ReplaceAllString(readPage(t, page), "")
		for _, link := range pageLink.FindAllStringSubmatch(text, -1) {
			file := filepath.Join(filepath.Dir(page), filepath.FromSlash(link[1]))
			switch {
			case strings.Contains(link[1], "://"):
				continue
			case link[1] == "":
				file = page
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", page, link[1], err)
			} else if link[2] != "" && !slices.Contains(anchors(readPage(t, file)), link[2]) {
				t.Errorf("%s links to %s#%s: no heading has that name", page, link[1], link[2])
			}
		}
	}
}

// anchors returns the fragments with which links name the headings of a page.
func anchors(text string) []string {
	var names []string
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		names = append(names, strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return names
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
