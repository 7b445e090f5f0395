package figure

import (
	"math"
	"strings"
	"testing"
)

// of is a page of one figure with one panel.
func of(p Panel) *Page {
	return &Page{Figures: []*Figure{{Name: "one", Frames: []Frame{{Panels: []Panel{p}}}}}}
}

// TestCheckNamesWhatIsWrong: each mistake is an error that says where it is and what was wanted.
func TestCheckNamesWhatIsWrong(t *testing.T) {
	table := Panel{Table: &Table{Columns: []string{"a"}}}
	frame := Frame{Panels: []Panel{table}}
	two := func(second string) *Page {
		return &Page{Figures: []*Figure{{Name: "a", Frames: []Frame{frame}}, {Name: second, Frames: []Frame{frame}}}}
	}
	frames := func(all ...Frame) *Page { return &Page{Figures: []*Figure{{Name: "a", Frames: all}}} }
	series := func(s Series) *Page { return of(Panel{Lines: &Lines{Series: []Series{s}}}) }
	matrix := func(m Map) *Page { return of(Panel{Map: &m}) }
	text := func(t Text) *Page { return of(Panel{Text: &t}) }
	diagram := func(edges []Edge, nodes ...Node) *Page {
		return of(Panel{Diagram: &Diagram{Nodes: nodes, Edges: edges}})
	}
	for want, p := range map[string]*Page{
		"found no figure":       {},
		"figure 1: found nothi": {Figures: []*Figure{nil}},
		`name "../x"`:           two("../x"),
		"found the name twice":  two("a"),
		"found no frame":        frames(),
		"found 0 panels":        frames(Frame{}),
		"found 99 columns": {Figures: []*Figure{{Name: "a", Columns: 99,
			Frames: []Frame{frame}}}},
		"frame 1: panel 0: found bars, want table": frames(frame, Frame{Panels: []Panel{{Bars: &Bars{}}}}),
		`found the kinds ""`:                       of(Panel{}),
		`the kinds "bars+table"`:                   of(Panel{Bars: &Bars{}, Table: &Table{}}),
		`axis "x": found ends 2 and 1`:             of(Panel{X: Axis{Label: "x", Min: 2, Max: 1}, Table: &Table{}}),
		"found ends 0 and NaN":                     of(Panel{Y: Axis{Max: math.NaN()}, Table: &Table{}}),
		"found ends -1e+300 and 0, want":           of(Panel{X: Axis{Min: -1e300}, Table: &Table{}}),
		"series 0: found 1 y, want 2":              series(Series{X: Floats{1, 2}, Y: Floats{1}}),
		"found 0 high, want 1":                     series(Series{X: Floats{1}, Y: Floats{1}, Low: Floats{1}}),
		"at: found +Inf":                           of(Panel{Lines: &Lines{At: []float64{math.Inf(1)}}}),
		"map: found 3 values, want 4":              matrix(Map{Rows: 2, Cols: 2, Values: make(Floats, 3)}),
		"found 0 rows":                             matrix(Map{}),
		"1 row names, want 2": matrix(Map{Rows: 2, Cols: 1, Values: Floats{1, 2},
			RowNames: []string{""}}),
		"colors from 1 to 0":           matrix(Map{Rows: 1, Cols: 1, Values: Floats{1}, Min: 1}),
		"found steps of -1 and 0":      matrix(Map{Rows: 1, Cols: 1, Values: Floats{1}, RowStep: -1}),
		"bars 0: found 0 values":       of(Panel{Bars: &Bars{Names: []string{"a"}, Series: []Series{{}}}}),
		"found a mark at 1":            text(Text{Tokens: []string{"a"}, Mark: 1}),
		"text: found 2 values, want 1": text(Text{Tokens: []string{"a"}, Values: Floats{1, 2}}),
		"links: found 1 columns, want 2": text(Text{Tokens: []string{"a", "b"},
			Links: &Map{Rows: 2, Cols: 1, Values: Floats{1, 2}}}),
		`the node "a" twice`:           diagram(nil, Node{ID: "a"}, Node{ID: "a"}),
		`an arrow at the node "b"`:     diagram([]Edge{{From: "a", To: "b"}}, Node{ID: "a"}),
		"found the place NaN":          diagram(nil, Node{ID: "a", X: math.NaN()}),
		"row 0: found 2 cells, want 1": of(Panel{Table: &Table{Columns: []string{"a"}, Rows: [][]string{{"1", "2"}}}}),
	} {
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found the error %v, want %q", err, want)
		}
	}
	if err := of(table).Check(); err != nil {
		t.Errorf("a table without rows: %v", err)
	}
}
