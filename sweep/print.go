package sweep

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/train"
)

// Print writes the trials as a table: the rounds from last to first, the best trial of each first, then the failed
// trials.
func (r *Record) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "trial\tvalidation")
	if r.Plan.Halving != "" {
		fmt.Fprint(w, "\tbudget")
	}
	for _, name := range r.names() {
		fmt.Fprint(w, "\t", name)
	}
	fmt.Fprintln(w, "\tfolder")
	for round := r.Last(); round > 0; round-- {
		for _, t := range r.Ranking(round) {
			r.line(w, t, scoreText(*t.Score))
		}
	}
	for _, t := range r.Trials {
		if t.Score == nil {
			r.line(w, t, "failed: "+t.Error)
		}
	}
	return w.Flush()
}

func (r *Record) line(w io.Writer, t Trial, result string) {
	fmt.Fprintf(w, "%d\t%s", t.Number, result)
	if t.Budget != nil {
		fmt.Fprint(w, "\t", t.Budget.Value)
	}
	for _, s := range t.Settings {
		fmt.Fprint(w, "\t", s.Value)
	}
	fmt.Fprintln(w, "\t"+t.Out)
}

// names returns the names of the settings.
func (r *Record) names() (names []string) {
	for _, s := range r.Trials[0].Settings {
		names = append(names, s.Name)
	}
	return names
}

// scoreText returns the score of a trial as text.
func scoreText(s train.Score) string {
	if s.Accuracy > 0 {
		return fmt.Sprintf("%.2f %%, loss %.5g", s.Accuracy, s.Loss)
	}
	return fmt.Sprintf("loss %.5g", s.Loss)
}

// PicturePage is the name of the page of pictures in the folder of a sweep.
const PicturePage = "sweep.html"

// Draw writes the pictures of the validation score over each setting, as a page and as PNG.
func (r *Record) Draw(out string) error {
	page := r.page()
	for _, name := range []string{PicturePage, strings.TrimSuffix(PicturePage, ".html") + ".png"} {
		if _, err := page.Write(filepath.Join(out, name), 0); err != nil {
			return err
		}
	}
	return nil
}

func (r *Record) page() *figure.Page {
	score, label := func(s *train.Score) float64 { return s.Loss }, "validation loss"
	if slices.ContainsFunc(r.Trials, func(t Trial) bool { return t.Score != nil && t.Score.Accuracy > 0 }) {
		score, label = func(s *train.Score) float64 { return s.Accuracy }, "validation accuracy, %"
	}
	var panels []figure.Panel
	for i, name := range r.names() {
		axis, place := r.axis(i, name)
		p := figure.Panel{Title: name, X: axis, Y: figure.Axis{Label: label}, Lines: &figure.Lines{}}
		for round := 1; round <= r.Last(); round++ {
			s := figure.Series{Name: "round " + strconv.Itoa(round), Points: true}
			for _, t := range r.Ranking(round) {
				s.X, s.Y = append(s.X, place(t.Settings[i].Value)), append(s.Y, score(t.Score))
				s.Labels = append(s.Labels, fmt.Sprintf("trial %d: %s", t.Number, t.Settings[i].Value))
			}
			if len(s.X) > 0 {
				p.Lines.Series = append(p.Lines.Series, s)
			}
		}
		panels = append(panels, p)
	}
	return &figure.Page{Title: "Sweep", Subtitle: "hippo " + strings.Join(r.Plan.Command, " "),
		Figures: []*figure.Figure{{
			Name: "settings", Title: "Score on validation data by setting", Columns: 2,
			Caption: "Each point is a trial. A setting that matters has its good trials in one place.",
			Frames:  []figure.Frame{{Panels: panels}},
		}}}
}

// axis returns the axis of a setting, and a function that returns the position of a value on it. Values that are not
// numbers are placed in alphabetical order, and the label of the axis lists them.
func (r *Record) axis(i int, name string) (a figure.Axis, place func(value string) float64) {
	a.Label = name
	if g, err := ParseRange(r.Plan.Over[i]); err == nil && len(g.Values) == 0 {
		a.Log = g.Log
		return a, func(value string) float64 { x, _ := strconv.ParseFloat(value, 64); return x }
	}
	var values []string
	for _, t := range r.Trials {
		values = append(values, t.Settings[i].Value)
	}
	slices.Sort(values)
	values = slices.Compact(values)
	for k, v := range values {
		a.Label += fmt.Sprintf(" · %d: %s", k, v)
	}
	return a, func(value string) float64 { return float64(slices.Index(values, value)) }
}
