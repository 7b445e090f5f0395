package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A table of the page stands between these two lines; the first names commands whose results it has.
var marked = regexp.MustCompile(`(?ms)^<!-- results: ([^\n]*) -->\n(.*?)^<!-- end -->\n`)

// fillPage fills the tables of a page.
func fillPage(page string, results []result) (string, error) {
	const begin = "<!-- results:"
	if n, ended := strings.Count(page, begin), len(marked.FindAllString(page, -1)); n != ended {
		return "", fmt.Errorf("found %d tables that begin with %s and %d that end, want as many of both",
			n, begin, ended)
	}
	return marked.ReplaceAllStringFunc(page, func(part string) string {
		names := strings.Fields(marked.FindStringSubmatch(part)[1])
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
		if len(chosen) > 0 {
			body = table(chosen)
		}
		if missing != nil {
			body += fmt.Sprintf("\nNo results of %[1]s are stored: `bash docs/evidence.sh %[1]s` computes them.\n",
				strings.Join(missing, " "))
		}
		return fmt.Sprintf("<!-- results: %s -->\n%s<!-- end -->\n", strings.Join(names, " "), body)
	}), nil
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
