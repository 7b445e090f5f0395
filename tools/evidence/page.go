package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A table of the page stands between these two lines; the first names commands whose results it has. A table of groups
// first names a word: its columns are the groups of targets that have it in their names.
var marked = regexp.MustCompile(`(?ms)^<!-- (results|groups): ([^\n]*) -->\n(.*?)^<!-- end -->\n`)

// fillPage fills the tables of a page.
func fillPage(page string, results []result) (string, error) {
	const begin, groups = "<!-- results:", "<!-- groups:"
	n, ended := strings.Count(page, begin)+strings.Count(page, groups), len(marked.FindAllString(page, -1))
	if n != ended {
		return "", fmt.Errorf("found %d tables that begin with %s or %s and %d that end, want as many of both",
			n, begin, groups, ended)
	}
	return marked.ReplaceAllStringFunc(page, func(part string) string {
		found := marked.FindStringSubmatch(part)
		kind, word := found[1], ""
		names := strings.Fields(found[2])
		if kind == "groups" && len(names) > 0 {
			word, names = names[0], names[1:]
		}
		var chosen []result
		var missing []string
		for _, name := range names {
			of := slices.DeleteFunc(slices.Clone(results), func(r result) bool { return r.Command != name })
			if len(of) == 0 {
				missing = append(missing, name)
			}
			chosen = append(chosen, of...)
		}
		body := ""
		if len(chosen) > 0 && word != "" {
			body = groupTable(chosen, word)
		} else if len(chosen) > 0 {
			body = table(chosen)
		}
		if missing != nil {
			body += fmt.Sprintf("\nNo results of %[1]s are stored: `bash docs/evidence.sh %[1]s` computes them.\n",
				strings.Join(missing, " "))
		}
		return fmt.Sprintf("<!-- %s: %s -->\n%s<!-- end -->\n", kind, strings.Join(strings.Fields(found[2]), " "), body)
	}), nil
}

// groupTable sets the scores of groups of targets beside each other, those whose names have a word. Each result is a
// row.
func groupTable(results []result, word string) string {
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
	var machines []string
	for _, r := range results {
		fmt.Fprintf(&out, "| `%s` | %d |", r.Model, r.Params)
		for _, name := range names {
			cell := " |"
			if i := slices.IndexFunc(r.Groups, func(g also) bool { return g.Name == name }); i >= 0 {
				cell = fmt.Sprintf(" %.1f %% |", r.Groups[i].Score)
			}
			out.WriteString(cell)
		}
		fmt.Fprintf(&out, " %d | %s |\n", r.Seed, origins([]result{r}))
		if !slices.Contains(machines, r.Machine) {
			machines = append(machines, r.Machine)
		}
	}
	fmt.Fprintf(&out, "\nMachine: %s.\n", strings.Join(machines, "; "))
	return out.String()
}

// table sets results below each other, those that differ in their seeds alone in one row.
func table(results []result) string {
	var rows [][]result
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
	var out strings.Builder
	var machines []string
	out.WriteString("| task | model | parameters | score | loss | also | updates | CPU time | seeds |" +
		" commit, date |\n|---|---|---:|---|---:|---|---:|---:|---|---|\n")
	for _, row := range rows {
		r := row[0]
		var seeds []string
		cpu, loss := 0.0, 0.0
		for _, x := range row {
			seeds = append(seeds, fmt.Sprint(x.Seed))
			cpu, loss = cpu+x.CPU/float64(len(row)), loss+x.Loss/float64(len(row))
			if !slices.Contains(machines, x.Machine) {
				machines = append(machines, x.Machine)
			}
		}
		var further []string
		for _, a := range r.Also {
			var all []result // with that score as theirs
			for _, x := range row {
				if i := slices.IndexFunc(x.Also, func(b also) bool { return b.Name == a.Name }); i >= 0 {
					x.Score, x.Unit = x.Also[i].Score, cmp.Or(x.Also[i].Unit, x.Unit)
					all = append(all, x)
				}
			}
			further = append(further, a.Name+": "+scores(all))
		}
		fmt.Fprintf(&out, "| `%s` | `%s` | %d | %s | %.4f | %s | %d | %s | %s | %s |\n", r.Task, r.Model, r.Params,
			scores(row), loss, strings.Join(further, "; "), r.Steps,
			(time.Duration(cpu) * time.Second).String(), strings.Join(seeds, ", "), origins(row))
	}
	fmt.Fprintf(&out, "\nMachine: %s.\n", strings.Join(machines, "; "))
	return out.String()
}

// scores is the mean of scores with their range.
func scores(row []result) string {
	format := "%.4g"
	if row[0].Unit == "%" {
		format = "%.1f"
	}
	low, high, mean := row[0].Score, row[0].Score, 0.0
	for _, r := range row {
		low, high, mean = min(low, r.Score), max(high, r.Score), mean+r.Score/float64(len(row))
	}
	text := fmt.Sprintf(format, mean) + " " + row[0].Unit
	if len(row) > 1 {
		text += fmt.Sprintf(" ("+format+" to "+format+")", low, high)
	}
	return text
}

// origins are the commits and days of a row's runs.
func origins(row []result) string {
	var all []string
	for _, r := range row {
		commit, note, _ := strings.Cut(r.Commit, " ")
		text := strings.TrimSpace(commit[:min(7, len(commit))] + " " + note)
		day, _, _ := strings.Cut(r.Date, "T")
		if text += ", " + day; !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}
