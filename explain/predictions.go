package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// nextTop is the number of tokens shown for each of several predictions.
const nextTop = 10

// Beside returns panels with several predictions of one token side by side, as bars and as a table: the most probable
// tokens of each, and those that are watched.
func Beside(tok tokenizer.Tokenizer, names []string, watched []int32, scores ...[]float32) []figure.Panel {
	of, ids := make([]Softmax, len(scores)), slices.Compact(slices.Sorted(slices.Values(watched)))
	for i, z := range scores {
		of[i], _ = SoftmaxOf(z)
		for _, x := range Likeliest(z, of[i], nextTop) {
			if !slices.Contains(ids, x.ID) {
				ids = append(ids, x.ID)
			}
		}
	}
	p := func(i int, id int32) float64 { return math.Exp(float64(scores[i][id]) - of[i].Norm) }
	most := func(id int32) (top float64) {
		for i := range scores {
			top = max(top, p(i, id))
		}
		return top
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return cmp.Compare(most(b), most(a)) })
	bars := &figure.Bars{Across: true}
	table := &figure.Table{Columns: append([]string{"token"}, names...)}
	for i, name := range names {
		s := figure.Series{Name: name}
		for _, id := range ids {
			s.Y = append(s.Y, p(i, id))
		}
		bars.Series = append(bars.Series, s)
	}
	for _, id := range ids {
		bars.Names = append(bars.Names, Quoted(tok, id))
		row := []string{Quoted(tok, id)}
		for i := range scores {
			row = append(row, figure.Share(p(i, id)))
		}
		table.Rows = append(table.Rows, row)
	}
	row := []string{"entropy, nats"}
	for _, s := range of {
		row = append(row, figure.Number(s.Entropy))
	}
	table.Rows = append(table.Rows, row)
	return []figure.Panel{{X: figure.Axis{Label: "probability"}, Bars: bars}, {Table: table}}
}

// MostShown is the maximum number of tokens of a text that are shown.
const MostShown = 2048

// ChangedText returns a text colored by the changes of the log-probabilities of its tokens. more describes what is not
// shown.
func ChangedText(tok tokenizer.Tokenizer, ids []int32, a, b []float64, nameA, nameB string) (text *figure.Text,
	more string) {
	if len(ids) > MostShown {
		more = fmt.Sprintf(" Of %d tokens the first %d are shown.", len(ids), MostShown)
		ids = ids[:MostShown]
	}
	text = &figure.Text{Tokens: TokenTexts(tok, ids), Values: figure.Floats{math.NaN()}, Notes: []string{""},
		Diverging: true, Unit: "nats", Mark: -1}
	for i := range len(ids) - 1 {
		text.Values = append(text.Values, b[i]-a[i])
		text.Notes = append(text.Notes, fmt.Sprintf("%s %s, %s %s", nameA, Percent(math.Exp(a[i])), nameB,
			Percent(math.Exp(b[i]))))
	}
	return text, more
}
