package evidence

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
)

// Report is the result of a check.
type Report struct {
	Faults []string // errors to be fixed
	Notes  []string // remarks that a reader of the pages should know
	Calls  int      // number of calls of hippo on pages and in recipes; all were parsed
}

func (r *Report) fault(format string, args ...any) {
	r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
}
func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// call parses a call of hippo that was found at the given place.
func (r *Report) call(place string, args []string, parse func([]string) error) {
	r.Calls++
	if err := parse(args); err != nil {
		r.fault("%s: hippo %s: %v", place, strings.Join(args, " "), err)
	}
}

// Check compares all pages with recipes, results and the program. parse returns an error if the arguments of a call of
// hippo are invalid. It must not run the call.
func (b *Book) Check(parse func(args []string) error) (*Report, error) {
	r := &Report{}
	changed, err := b.Fill(false)
	if err != nil {
		return nil, err
	}
	for _, page := range changed {
		r.fault("%s: its parts are not as recipes and results say: run hippo evidence table", page)
	}
	pages, err := b.pages()
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(b.root, page))
		if err != nil {
			return nil, err
		}
		for _, c := range callsOf(string(text)) {
			r.call(fmt.Sprintf("%s:%d", page, c.line), c.args, parse)
		}
		if b.ours(page) {
			b.checkFigures(r, page, string(text))
			if _, err := b.checkSystems(r, page, string(text)); err != nil {
				return nil, err
			}
		}
	}
	return r, b.checkRecipes(r, parse)
}

// checkRecipes checks the calls and folders named in recipes, and notes missing results.
func (b *Book) checkRecipes(r *Report, parse func(args []string) error) error {
	for i := range b.recipes {
		recipe := &b.recipes[i]
		for _, c := range calls(strings.Join(append(slices.Clone(recipe.Commands), recipe.One), "\n")) {
			r.call(recipesFile+": "+recipe.Name, c.args, parse)
		}
		for _, dir := range slices.Concat(b.code, recipe.Code) {
			if _, err := os.Stat(filepath.Join(b.root, dir)); errors.Is(err, fs.ErrNotExist) {
				r.fault("%s: %s: found the code %s, want a folder of the repository", recipesFile, recipe.Name, dir)
			} else if err != nil {
				return err
			}
		}
		if !b.kept(recipe) {
			r.note("%s: no result kept: hippo evidence run %[1]s computes it", recipe.Name)
			continue
		}
		few, none, rows := 0, 0, rowsOf(b.of(recipe.Name))
		for _, row := range rows {
			if len(row) < recipe.Seeds {
				few++
			}
			if len(row) < leastSeeds {
				none++
			}
		}
		if few > 0 {
			r.note("%s: %d of %d rows have fewer seeds than the %d of the recipe", recipe.Name, few, len(rows),
				recipe.Seeds)
		}
		if none > 0 && recipe.Seeds > 0 {
			r.note("%s: %d of %d rows have fewer than %d seeds, and so no range for another seed", recipe.Name, none,
				len(rows), leastSeeds)
		}
	}
	for _, row := range rowsOf(b.results) {
		if b.recipe(row[0].Command) == nil {
			r.fault("%s: found a result of %q, which no recipe computes", resultsFile, row[0].Command)
		}
	}
	return nil
}

var (
	// datedCommit matches the commit that a text gives as the source of its figures.
	datedCommit = regexp.MustCompile(`\b[0-9a-f]{7,8}\b`)
	hasDigit    = regexp.MustCompile(`[0-9]`)
	startsAs    = regexp.MustCompile(`^\**[-+.]?[0-9]`)
	fenced      = regexp.MustCompile("(?ms)^```.*?^```$")
)

// systemRow matches a row of the table of systems, with the evidence for each.
var (
	systemRow  = regexp.MustCompile(`(?m)^\| (\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
	systemTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	testFunc   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
	headings   = regexp.MustCompile(`(?m)^#+ `)
	ofSection  = regexp.MustCompile(`\(#([^)]+)\)`)
)

// checkSystems checks the table of systems of a page. It is a fault if a system has no command that can be parsed, no
// picture or result, no existing tests, or does not name the code whose removal makes the tests fail. A note names the
// systems whose evidence is a section of the page without a kept result. checkSystems returns the number of systems.
func (b *Book) checkSystems(r *Report, page, text string) (int, error) {
	rows := systemRow.FindAllStringSubmatch(text, -1)
	if len(rows) == 0 {
		return 0, nil
	}
	exist, err := b.testNames()
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		number, command, shown, tests, out := row[1], row[2], row[3], row[4], row[5]
		if len(callsOf("| "+command+" |")) != 1 {
			r.fault("%s: system %s: found the command %s, want a call of hippo", page, number, command)
		}
		if !strings.Contains(shown, "](") && shown != "the command's pictures" {
			r.fault("%s: system %s: found %s, want links to a picture or result, or the command's pictures", page,
				number, shown)
		}
		named := systemTest.FindAllStringSubmatch(tests, -1)
		if named == nil {
			r.fault("%s: system %s: found %s, want the names of tests", page, number, tests)
		}
		for _, test := range named {
			if !exist[test[1]] {
				r.fault("%s: system %s: found no test %s", page, number, test[1])
			}
		}
		if out == "none" {
			r.fault("%s: system %s: found nothing that was taken out of the code, want what its tests fail without",
				page, number)
		}
		for _, link := range ofSection.FindAllStringSubmatch(shown, -1) {
			if !strings.Contains(section(text, link[1]), "\n|") {
				r.note("%s: no result of system %s is kept", page, number)
			}
		}
	}
	return len(rows), nil
}

// testNames returns the names of all tests in the tree.
func (b *Book) testNames() (map[string]bool, error) {
	all := map[string]bool{}
	err := filepath.WalkDir(filepath.Clean(b.root), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := entry.Name(); {
		case entry.IsDir() && (name == "runs" || name == "node_modules"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, found := range testFunc.FindAllStringSubmatch(string(text), -1) {
			all[found[1]] = true
		}
		return err
	})
	return all, err
}

// section returns the text from the heading that a link names to the next heading.
func section(text, name string) string {
	for _, part := range headings.Split(text, -1) {
		title, body, _ := strings.Cut(part, "\n")
		title = strings.NewReplacer(" ", "-", ",", "", "`", "").Replace(strings.ToLower(title))
		if title == name {
			return body
		}
	}
	return ""
}

// checkFigures notes figures of a page that were typed by hand. A table of figures outside of any part is a fault.
func (b *Book) checkFigures(r *Report, page, text string) {
	for _, part := range marked.FindAllStringSubmatch(text, -1) {
		words, rows := strings.Fields(part[2]), max(1, strings.Count(part[3], "\n|")-1)
		switch {
		case part[1] == "bench" && len(words) > 0:
			of := b.recipeOf(path.Join(path.Dir(page), words[0]))
			if of != nil && !b.kept(of) && strings.Contains(part[3], "|") {
				r.note("%s: %d rows of %s are typed by hand", page, rows, of.Name)
			}
		case part[1] == "typed":
			how := ""
			if b.known(words) != nil {
				how = ", and no recipe computes them"
			}
			if names := strings.Join(words, " "); !b.anyKept(names) {
				r.note("%s: %d rows of %s are typed by hand%s", page, rows, names, how)
			}
		}
	}
	blank := func(part string) string { return strings.Repeat("\n", strings.Count(part, "\n")) }
	text = fenced.ReplaceAllStringFunc(marked.ReplaceAllStringFunc(text, blank), blank)
	var typed []string
	figures, cells, first := 0, 0, 0
	for i, line := range append(strings.Split(text, "\n"), "") {
		if strings.HasPrefix(line, "|") {
			if first == 0 {
				first = i + 1
			}
			if i < first+1 { // the table's header and the line below it
				continue
			}
			for _, cell := range strings.Split(strings.Trim(line, "|"), "|")[1:] {
				cell = strings.TrimSpace(cell)
				if cells++; startsAs.MatchString(cell) {
					figures++
				}
			}
			continue
		}
		if 2*figures > cells {
			r.fault("%s:%d: a table of figures of no recipe: let results fill it, or put it between "+
				"<!-- typed: NAME --> and <!-- end -->", page, first)
		}
		figures, cells, first = 0, 0, 0
		if c := datedCommit.FindString(line); c != "" && hasDigit.MatchString(c) {
			typed = append(typed, fmt.Sprint(i+1))
		}
	}
	if typed != nil {
		r.note("%s: figures in the text are typed by hand, from the commits that lines %s name", page,
			strings.Join(typed, ", "))
	}
}

// anyKept reports whether a result of any of the named recipes is kept.
func (b *Book) anyKept(names string) bool {
	return slices.ContainsFunc(strings.Fields(names), func(name string) bool {
		r := b.recipe(name)
		return r != nil && r.File == "" && b.kept(r)
	})
}
