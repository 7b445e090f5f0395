package evidence

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/explain/figure"
)

// point is the number of parameters of a model and its mean score.
type point struct {
	params int
	score  float64
}

// sizesOf returns the points of each model, sorted by size.
func sizesOf(results []result) (models []string, curves map[string][]point) {
	curves = map[string][]point{}
	for _, row := range rowsOf(results) {
		m := row[0].Model
		if curves[m] == nil {
			models = append(models, m)
		}
		curves[m] = append(curves[m], point{row[0].Params, meanOf(row)})
	}
	for _, c := range curves {
		slices.SortFunc(c, func(a, b point) int { return cmp.Compare(a.params, b.params) })
	}
	return models, curves
}

// reaches returns the number of parameters at which a curve first has a score as low as the given one, interpolated
// linearly in the logarithm of the size. ok is false if the smallest size already scores lower, or no size scores as
// low.
func reaches(curve []point, score float64) (params float64, ok bool) {
	for i, p := range curve {
		if p.score > score {
			continue
		}
		if i == 0 {
			return float64(p.params), p.score == score
		}
		before := curve[i-1]
		part := (before.score - score) / (before.score - p.score)
		return float64(before.params) * math.Pow(float64(p.params)/float64(before.params), part), true
	}
	return 0, false
}

// curve draws scores by parameters into a picture beside a page. It returns a text that says how many parameters the
// other models need for the scores of the model base.
func (b *Book) curve(page, picture, base string, results []result) (string, error) {
	models, curves := sizesOf(results)
	if curves[base] == nil {
		return "", fmt.Errorf("found no results of %s, want some to compare the others with", base)
	}
	unit := results[0].Unit
	chart := figure.Chart{Title: "Score by number of parameters", Subtitle: "each after the same CPU time",
		X: "parameters", Y: unit, LogX: true}
	for _, m := range models {
		l := figure.Line{Name: m}
		for _, p := range curves[m] {
			l.X, l.Y = append(l.X, float64(p.params)), append(l.Y, p.score)
		}
		chart.Lines = append(chart.Lines, l)
	}
	if err := b.draw(chart, page, picture); err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "![%s by number of parameters](%s)\n\n| parameters of `%s` | %s |", unit, picture, base, unit)
	line := "\n|---:|---:|"
	others := slices.DeleteFunc(models, func(m string) bool { return m == base })
	for _, m := range others {
		fmt.Fprintf(&out, " `%s` has it with |", m)
		line += "---:|"
	}
	out.WriteString(line + "\n")
	for _, p := range curves[base] {
		fmt.Fprintf(&out, "| %d | %s |", p.params, number(p.score, unit))
		for _, m := range others {
			c := curves[m]
			if n, ok := reaches(c, p.score); ok {
				fmt.Fprintf(&out, " %.2g of them |", n/float64(p.params))
			} else if c[0].score < p.score {
				fmt.Fprintf(&out, " fewer than %.2g of them |", float64(c[0].params)/float64(p.params))
			} else {
				out.WriteString(" none of its sizes |")
			}
		}
		out.WriteByte('\n')
	}
	return out.String() + machines(results), nil
}

// draw writes a picture beside a page, unless the pages are only compared.
func (b *Book) draw(chart figure.Chart, page, picture string) error {
	if !b.drawing {
		return nil
	}
	return chart.WritePNG(filepath.Join(b.root, filepath.Dir(page), picture))
}
