package evidence

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// marked matches a part of a page that is written from recipes and results. It stands between two lines. The first
// names its content:
//
//	<!-- commands: NAME... -->      the commands of recipes
//	<!-- results: NAME... -->       their results, all seeds in one row
//	<!-- groups: WORD NAME... -->   the scores of groups of targets that have the word in their names
//	<!-- curve: FILE MODEL NAME... -->  a picture of scores by parameters, and how many fewer match MODEL's scores
//	<!-- learning: FILE TASK NAME... -->  a picture of a task's scores by epochs, and the changes at the end
//	<!-- bench: FILE COLUMN... -->  rows of a file with their origin, typed by hand without a file: see benchRows
//	<!-- rows: FILE COLUMN... -->   rows of a file
//	<!-- typed: NAME... -->         text typed by hand, as long as no result of these recipes is kept
//	<!-- test: NAME -->             text that a test of that name compares with the program
//	<!-- facts: WORD... -->         facts that follow from formats and definitions and are not measured
//	<!-- end -->
var marked = regexp.MustCompile(`(?ms)^<!-- (\w+): ([^\n]*) -->\n(.*?)^<!-- end -->\n`)

// kinds lists the kinds of parts that a page may have.
var kinds = []string{"commands", "results", "groups", "curve", "learning", "bench", "rows", "typed", "test", "facts"}

// begins matches the first line of a part.
var begins = regexp.MustCompile(`(?m)^<!-- (` + strings.Join(kinds, "|") + `):`)

// fillPage fills the parts of a page.
func (b *Book) fillPage(text, page string) (string, error) {
	if n, ended := len(begins.FindAllString(text, -1)), len(marked.FindAllString(text, -1)); n != ended {
		return "", fmt.Errorf("found %d parts that begin with <!-- and one of %s, and %d that end with <!-- end -->, "+
			"want as many of both", n, strings.Join(kinds, ", "), ended)
	}
	var failed error
	filled := marked.ReplaceAllStringFunc(text, func(part string) string {
		found := marked.FindStringSubmatch(part)
		kind, words := found[1], strings.Fields(found[2])
		body, err := b.part(kind, words, found[3], page)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", kind, err))
			return part
		}
		return fmt.Sprintf("<!-- %s: %s -->\n%s<!-- end -->\n", kind, strings.Join(words, " "), body)
	})
	return filled, failed
}

// part returns the new body of a part of a page. old is the present body.
func (b *Book) part(kind string, words []string, old, page string) (string, error) {
	if len(words) == 0 {
		return "", errors.New("found no name, want at least one")
	}
	switch kind {
	case "test", "facts":
		return old, nil
	case "bench", "rows":
		recipe := b.recipeOf(path.Join(path.Dir(page), words[0]))
		if !path.IsAbs(page) && recipe == nil && b.ours(page) {
			return "", fmt.Errorf("found the file %s, want that of a recipe of %s", words[0], recipesFile)
		}
		file := filepath.Join(b.root, filepath.FromSlash(path.Dir(page)), words[0])
		switch {
		case recipe == nil || b.kept(recipe):
		case strings.Contains(old, "|"):
			return old, nil // typed by hand, until the recipe has run
		default:
			return notStored([]string{recipe.Name}), nil
		}
		return benchRows(file, words[1:], kind == "bench")
	}
	word, base := "", ""
	switch {
	case kind == "groups":
		word, words = words[0], words[1:]
	case kind == "curve" && len(words) < 3:
		return "", fmt.Errorf("found %q, want a picture, a model, and recipes", words)
	case kind == "learning" && len(words) < 3:
		return "", fmt.Errorf("found %q, want a picture, a task, and recipes", words)
	case kind == "curve", kind == "learning":
		word, base, words = words[0], words[1], words[2:]
	}
	if err := b.known(words); err != nil && kind != "typed" {
		return "", err
	}
	if kind == "commands" {
		return b.commands(words), nil
	}
	var chosen []result
	var missing []string
	for _, name := range words {
		of := b.of(name)
		if len(of) == 0 {
			missing = append(missing, name)
		}
		chosen = append(chosen, of...)
	}
	body := ""
	switch {
	case len(chosen) == 0 && kind == "typed":
		return old, nil
	case len(chosen) > 0 && kind == "groups":
		body = groupTable(chosen, word)
	case len(chosen) > 0 && (kind == "curve" || kind == "learning"):
		drawn := b.curve
		if kind == "learning" {
			drawn = b.learning
		}
		var err error
		if body, err = drawn(page, word, base, chosen); err != nil {
			return "", err
		}
	case len(chosen) > 0:
		body = b.table(chosen)
	}
	if missing != nil {
		body += notStored(missing)
	}
	return body, nil
}

// notStored returns a text saying that recipes have no stored results.
func notStored(recipes []string) string {
	return fmt.Sprintf("\nNo results of %[1]s are stored: `hippo evidence run %[1]s` computes them.\n",
		strings.Join(recipes, " "))
}

// ours reports whether the tables of figures on a page must come from recipes.
func (b *Book) ours(page string) bool {
	return slices.Contains([]string{"docs/evidence.md", "docs/mixers.md", "docs/models.md", "bench/README.md"}, page)
}

// recipeOf returns the recipe that writes a file, or nil if there is none.
func (b *Book) recipeOf(file string) *Recipe {
	if i := slices.IndexFunc(b.recipes, func(r Recipe) bool { return r.File == file }); i >= 0 {
		return &b.recipes[i]
	}
	return nil
}

// commands returns a code block with the commands of recipes.
func (b *Book) commands(names []string) string {
	var out strings.Builder
	out.WriteString("```sh\n")
	for _, name := range names {
		for _, command := range b.recipe(name).Commands {
			fmt.Fprintln(&out, strings.TrimSpace(command))
		}
	}
	out.WriteString("```\n")
	return out.String()
}

// groupTable returns a table with the scores of the groups of targets whose names contain word, in which _ stands for a
// space. It has a column for each group and a row for each result with such a group.
func groupTable(results []result, word string) string {
	word = strings.ReplaceAll(word, "_", " ")
	var names []string
	for _, r := range results {
		for _, g := range r.Groups {
			if strings.Contains(g.Name, word) && !slices.Contains(names, g.Name) {
				names = append(names, g.Name)
			}
		}
	}
	var out strings.Builder
	head, line := "| model | parameters |", "|---|---:|"
	for _, name := range names {
		head += " " + strings.TrimSpace(strings.Replace(name, word, "", 1)) + " |"
		line += "---:|"
	}
	fmt.Fprintf(&out, "%s seed | commit, date |\n%s---:|---|\n", head, line)
	for _, r := range results {
		if !slices.ContainsFunc(r.Groups, func(g also) bool { return slices.Contains(names, g.Name) }) {
			continue
		}
		fmt.Fprintf(&out, "| `%s` | %d |", r.Model, r.Params)
		for _, name := range names {
			cell := " |"
			if i := slices.IndexFunc(r.Groups, func(g also) bool { return g.Name == name }); i >= 0 {
				cell = fmt.Sprintf(" %.1f %% |", r.Groups[i].Score)
			}
			out.WriteString(cell)
		}
		fmt.Fprintf(&out, " %d | %s |\n", r.Seed, origins([]result{r}))
	}
	return out.String() + machines(results)
}

// rowsOf puts results that differ only in their seeds into one row, sorted by seed.
func rowsOf(results []result) (rows [][]result) {
	for _, r := range results {
		same := func(row []result) bool {
			return row[0].Command == r.Command && row[0].Task == r.Task && row[0].Model == r.Model
		}
		if i := slices.IndexFunc(rows, same); i >= 0 {
			rows[i] = append(rows[i], r)
		} else {
			rows = append(rows, []result{r})
		}
	}
	for _, row := range rows {
		slices.SortStableFunc(row, func(a, b result) int { return cmp.Compare(a.Seed, b.Seed) })
	}
	return rows
}

// table returns a table of results, with the expected range of a new seed and the results to show beside each row. The
// text below it names the rows that are worse than a result beside them.
func (b *Book) table(results []result) string {
	rows := rowsOf(results)
	others := func(row []result) bool {
		return row[0].Unit != "nats" && row[0].Unit != bitsPerByte || row[0].Task != rows[0][0].Task
	}
	if !slices.ContainsFunc(rows, others) { // losses of one task: the lowest first
		slices.SortStableFunc(rows, func(a, b []result) int { return cmp.Compare(meanOf(a), meanOf(b)) })
	}
	ranges := slices.ContainsFunc(rows, func(row []result) bool { return len(row) >= leastSeeds })
	besides := slices.ContainsFunc(rows, func(row []result) bool { return len(b.beside(row)) > 0 })
	head, line := "| task | model | parameters | score |", "|---|---|---:|---|"
	if ranges {
		head, line = head+" another seed |", line+"---|"
	}
	if besides {
		head, line = head+" beside it |", line+"---|"
	}
	var out, behind strings.Builder
	fmt.Fprintf(&out, "%s loss | also | updates | CPU time | seeds | commit, date |\n%s---:|---|---:|---:|---|---|\n",
		head, line)
	lost := 0
	for _, row := range rows {
		r := row[0]
		var seeds, middle, stands []string
		cpu, loss := 0.0, 0.0
		for _, x := range row {
			seeds = append(seeds, fmt.Sprint(x.Seed))
			cpu, loss = cpu+x.CPU/float64(len(row)), loss+x.Loss/float64(len(row))
		}
		if ranges {
			middle = append(middle, expected(row).text(r.Unit))
		}
		mean := meanOf(row)
		var better []string
		for _, s := range b.beside(row) {
			text := s.Who + " " + number(s.Score, r.Unit)
			stands = append(stands, text)
			if worse(mean, s.Score, r.Unit) {
				better = append(better, text)
			}
		}
		if besides {
			middle = append(middle, strings.Join(stands, "; "))
		}
		if better != nil {
			lost++
			fmt.Fprintf(&behind, "- `%s`, `%s` has %s: behind %s\n", r.Task, r.Model, number(mean, r.Unit)+" "+r.Unit,
				strings.Join(better, ", "))
		}
		fmt.Fprintf(&out, "| %s | %.4f | %s | %d | %s | %s | %s |\n", strings.Join(append([]string{"`" + r.Task + "`",
			"`" + r.Model + "`", fmt.Sprint(r.Params), scores(row)}, middle...), " | "), loss, measured(row),
			r.Steps, (time.Duration(cpu) * time.Second).String(), strings.Join(seeds, ", "), origins(row))
	}
	if lost > 0 {
		fmt.Fprintf(&out, "\nWorse than what stands beside it, in %d of %d rows:\n\n%s", lost, len(rows),
			behind.String())
	}
	return out.String() + machines(results)
}

// measured returns the further measurements of a row that are not shown beside it.
func measured(row []result) string {
	var further []string
	for _, a := range row[0].Also {
		if text := scores(alsoOf(row, a.Name)); a.Unit == a.Name {
			further = append(further, text)
		} else if !a.simple(&row[0]) {
			further = append(further, a.Name+": "+text)
		}
	}
	return strings.Join(further, "; ")
}

// alsoOf returns results whose score is the named further measurement.
func alsoOf(row []result, name string) (all []result) {
	for _, x := range row {
		if i := slices.IndexFunc(x.Also, func(a also) bool { return a.Name == name }); i >= 0 {
			if x.Score = x.Also[i].Score; x.Also[i].Unit != "" {
				x.Unit = x.Also[i].Unit
			}
			all = append(all, x)
		}
	}
	return all
}

// machines returns the line that lists the machines of the measurements.
func machines(results []result) string {
	var all []string
	for _, r := range results {
		if !slices.Contains(all, r.Machine) {
			all = append(all, r.Machine)
		}
	}
	return fmt.Sprintf("\nMachine: %s.\n", strings.Join(all, "; "))
}

// number formats a score or a loss of the given unit.
func number(x float64, unit string) string {
	switch {
	case unit == "%":
		return fmt.Sprintf("%.1f", x)
	case math.Abs(x) >= 1e4: // in digits
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// scores formats the mean of scores with their range.
func scores(row []result) string {
	unit := row[0].Unit
	low, high := row[0].Score, row[0].Score
	for _, r := range row {
		low, high = min(low, r.Score), max(high, r.Score)
	}
	text := number(meanOf(row), unit) + " " + unit
	if len(row) > 1 && low != high {
		text += fmt.Sprintf(" (%s to %s)", number(low, unit), number(high, unit))
	}
	return text
}

// origins lists the commits and dates of a row's runs.
func origins(row []result) string {
	var all []string
	for _, r := range row {
		commit, note, _ := strings.Cut(r.Commit, " ")
		text := strings.TrimSpace(short(commit) + " " + note)
		day, _, _ := strings.Cut(r.Date, "T")
		if text += ", " + day; !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}
