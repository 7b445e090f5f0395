package toyfigure

import (
	"testing"

	"github.com/hippo-ssm/hippo/explain/figure"
)

// Check checks what every page must satisfy: unique names, panels of one kind, matching sizes.
func Check(t *testing.T, figures []*figure.Figure) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range figures {
		if f.Name == "" || f.Title == "" || seen[f.Name] || len(f.Frames) != 1 || len(f.Frames[0].Panels) == 0 {
			t.Fatalf("figure %q (%q), %d frames", f.Name, f.Title, len(f.Frames))
		}
		seen[f.Name] = true
		for _, p := range f.Frames[0].Panels {
			kinds := 0
			if m := p.Map; m != nil {
				kinds++
				if m.Rows > 512 || m.Cols > 512 || len(m.Values) != m.Rows*m.Cols ||
					len(m.RowNames) != m.Rows || len(m.ColNames) != m.Cols ||
					m.Notes != nil && len(m.Notes) != len(m.Values) {
					t.Errorf("%s: map %d×%d of %d values, %d and %d names, %d notes", f.Name, m.Rows, m.Cols,
						len(m.Values), len(m.RowNames), len(m.ColNames), len(m.Notes))
				}
			}
			if l := p.Lines; l != nil {
				kinds++
				for _, s := range l.Series {
					if len(s.X) != len(s.Y) || s.Labels != nil && len(s.Labels) != len(s.X) || len(s.X) == 0 {
						t.Errorf("%s: series %q of %d, %d points, %d labels", f.Name, s.Name, len(s.X), len(s.Y),
							len(s.Labels))
					}
				}
			}
			if b := p.Bars; b != nil {
				kinds++
				for _, s := range b.Series {
					if len(s.Y) != len(b.Names) || len(s.Y) == 0 {
						t.Errorf("%s: %d bars of %d names", f.Name, len(s.Y), len(b.Names))
					}
				}
			}
			if x := p.Text; x != nil {
				kinds++
				if len(x.Tokens) != len(x.Values) || x.Notes != nil && len(x.Notes) != len(x.Tokens) {
					t.Errorf("%s: %d tokens, %d values, %d notes", f.Name, len(x.Tokens), len(x.Values), len(x.Notes))
				}
			}
			if x := p.Table; x != nil {
				kinds++
				for _, row := range x.Rows {
					if len(row) != len(x.Columns) {
						t.Errorf("%s: a row %q of %d columns", f.Name, row, len(x.Columns))
					}
				}
			}
			if kinds != 1 {
				t.Errorf("%s: a panel of %d kinds", f.Name, kinds)
			}
		}
	}
}
