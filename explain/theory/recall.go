package theory

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"gonum.org/v1/gonum/floats"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var recallView = View{
	Name:  "recall",
	Short: "H3's circuit for associative recall, step by step on a small text",
	Long: `Shows how one head of H3 recalls. Its tokens are its channels (one-hot), and at each position

  shift      k_t = SSM_shift(K)_t                   the token before this one: the key
  write      k_t v_tᵀ                               key and value at right angles: one entry of a table
  remember   m_t = SSM_diag(k vᵀ)_t                 the table of all pairs so far; with --decay old ones fade
  read       y_t = m_tᵀ q_t                         the row of the present token: what has followed it

So after "a 1 b 2 a" it says 1. A model learns projections that do this; here they are written down. The text is
divided at spaces, or into letters if it has none. H3, arXiv:2212.14052, §3.1 and figure 1.`,
	Example: `  hippo explain ssm recall
  hippo explain ssm recall "a 1 b 2 c 3 a"
  hippo explain ssm recall abcabdab --decay 0.3`,
	New: func() Options { return &RecallOptions{text: "a 2 c 4 b 3 d 1 a"} },
}

// RecallOptions holds the options of the view recall.
type RecallOptions struct {
	Decay float64 `json:"decay" min:"0" max:"10" help:"how fast pairs fade: one of a steps ago counts exp(-decay a)"`
	text  string
}

// SetText sets the text that is read.
func (o *RecallOptions) SetText(text string) { o.text = text }

// The maximum length of a text, and the maximum number of distinct tokens: the memory has the square of that size.
const (
	mostRecalled = 96
	mostTokens   = 32
)

// tokens splits a text at spaces, or into letters if there are none. It returns a number for each token, and the names
// of the numbers.
func tokens(text string) (ids []int, names []string, err error) {
	if !utf8.ValidString(text) {
		return nil, nil, fmt.Errorf("text: found %.60q, want UTF-8", text)
	}
	parts := strings.Fields(text)
	if len(parts) == 1 {
		parts = strings.Split(parts[0], "")
	}
	if len(parts) < 2 || len(parts) > mostRecalled {
		return nil, nil, fmt.Errorf("text: found %d tokens, want 2 to %d: words with spaces between them, or letters",
			len(parts), mostRecalled)
	}
	known := map[string]int{}
	for i, part := range parts {
		if strings.ContainsFunc(part, unicode.IsControl) {
			return nil, nil, fmt.Errorf("text: found %.40q at token %d, want letters that can be printed", part, i+1)
		}
		if _, seen := known[part]; !seen {
			known[part] = len(names)
			names = append(names, part)
		}
		ids = append(ids, known[part])
	}
	if len(names) > mostTokens {
		return nil, nil, fmt.Errorf("text: found %d different tokens, want at most %d", len(names), mostTokens)
	}
	return ids, names, nil
}

// Page returns the page with the circuit at each token.
func (o *RecallOptions) Page(context.Context) (*figure.Page, error) {
	ids, names, err := tokens(o.text)
	if err != nil {
		return nil, err
	}
	p := len(names)
	x := make([][]float64, len(ids))
	shown, spaced := make([]string, len(ids)), make([]string, len(ids))
	for t, id := range ids {
		x[t], shown[t] = ssm.Delta(id, p), names[id]
		spaced[t] = names[id] + " "
	}
	head := ssm.Recaller(p, o.Decay)
	steps := head.Steps(x, x, x)
	fading := head.Diag.Kernel(head.Method, len(ids))
	top := 1.0
	for _, s := range steps {
		for _, row := range s.Memory {
			top = max(top, floats.Max(row))
		}
	}
	circuit := &figure.Figure{Name: "circuit", Title: "The circuit, token by token",
		Caption: "The text is marked by how much each token counts in what is read now. The key is the token before, " +
			"the pair of key and token is written into the table, and the row of the present token is read from it.",
		Source: "H3, arXiv:2212.14052, §3.1"}
	table := &figure.Table{Columns: []string{"position", "token", "key", "written", "read", "next", "right"}}
	right, compared := 0, 0
	for t, s := range steps {
		read := figure.Text{Tokens: spaced, Values: make(figure.Floats, len(ids)), Mark: t, Max: top, Unit: "weight"}
		for before := range t + 1 {
			read.Values[before] = fading[t-before] * floats.Dot(x[t], steps[before].Key)
		}
		memory := &figure.Map{Rows: p, Cols: p, RowNames: names, ColNames: names, Max: top}
		for _, row := range s.Memory {
			memory.Values = append(memory.Values, row...)
		}
		now := figure.Bars{Names: names, Series: []figure.Series{
			{Name: "key: shift of K", Y: s.Key}, {Name: "value: V", Y: x[t]}, {Name: "query: Q", Y: x[t]},
			{Name: "output y", Y: s.Y},
		}}
		row := recallRow(t, s, shown, names)
		if row[6] != "" {
			compared++
			if row[6] == "yes" {
				right++
			}
		}
		table.Rows = append(table.Rows, row)
		label := fmt.Sprintf("token %d · %s", t+1, shown[t])
		if row[4] != "" {
			label += " → " + row[4]
		}
		circuit.Frames = append(circuit.Frames, figure.Frame{Label: label, Panels: []figure.Panel{
			{Title: "what is read", Text: &read},
			{Title: "key, value, query, output", Bars: &now, Y: figure.Axis{Max: top}},
			mapPanel("memory: value by key", "value", "key", memory),
		}})
	}
	said := "What is read is what followed the present token before."
	if compared > 0 {
		said += fmt.Sprintf(" Where there is a next token to compare it with, %d of %d are right.", right, compared)
	}
	page := &figure.Page{
		Title:    "H3's recall",
		Subtitle: fmt.Sprintf("%s; %d tokens, %d different", strings.Join(shown, " "), len(ids), p),
		Figures: []*figure.Figure{circuit,
			still("steps", "All steps", said, "", figure.Panel{Table: table}),
			kernelOfRecall(fading, o.Decay)},
	}
	return page, nil
}

// recallRow describes what happens at position t. The token that is read is the one with the largest weight, empty if
// there is none.
func recallRow(t int, s ssm.H3Step, shown, names []string) []string {
	key, written := "", ""
	if t > 0 {
		key = shown[t-1]
		written = key + " → " + shown[t]
	}
	row := []string{fmt.Sprint(t + 1), shown[t], key, written, "", "", ""}
	if t+1 < len(shown) {
		row[5] = shown[t+1]
	}
	if best := floats.MaxIdx(s.Y); s.Y[best] > 0 {
		row[4] = names[best]
		if row[5] != "" {
			row[6] = map[bool]string{true: "yes", false: "no"}[row[4] == row[5]]
		}
	}
	return row
}

// kernelOfRecall returns a figure of the weight of a pair by its age.
func kernelOfRecall(fading []float64, decay float64) *figure.Figure {
	p := lines("kernel of the diagonal SSM", "steps ago", "weight", line("K", fading))
	p.Y.Min, p.Y.Max = 0, 1.05
	about := "The diagonal SSM here is one mode A = 0, whose kernel is 1 at every age: nothing fades, " +
		"and the table counts."
	if decay > 0 {
		about = fmt.Sprintf("The diagonal SSM here is one mode A = -%g, whose kernel is exp(-%g a) at age a: "+
			"a pair that was written later counts more.", decay, decay)
	}
	return still("memory", "How long a pair is remembered", about, "", p)
}
