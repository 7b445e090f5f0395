package figure

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
)

// fileName matches valid names of figures, which are part of file names on every system.
var fileName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,99}$`)

// Check returns an error if a page cannot be drawn: names are repeated or invalid, panels have no kind or several,
// values do not match their sizes. All writers call it first, so that they need no checks of their own.
func (p *Page) Check() error {
	if len(p.Figures) == 0 {
		return errors.New("page: found no figure, want at least one")
	}
	seen := map[string]bool{}
	for i, f := range p.Figures {
		switch {
		case f == nil:
			return fmt.Errorf("figure %d: found nothing", i+1)
		case !fileName.MatchString(f.Name):
			return fmt.Errorf("figure %d: found the name %.100q, want lower-case letters, digits and hyphens, "+
				"at most 100 of them", i+1, f.Name)
		case seen[f.Name]:
			return fmt.Errorf("figure %s: found the name twice, want one that is unique", f.Name)
		}
		seen[f.Name] = true
		if err := f.check(); err != nil {
			return fmt.Errorf("figure %s: %w", f.Name, err)
		}
	}
	return nil
}

// check checks the frames. Their panels must have the same kinds.
func (f *Figure) check() error {
	if len(f.Frames) == 0 {
		return errors.New("found no frame, want at least one")
	}
	if f.Columns < 0 || f.Columns > 12 {
		return fmt.Errorf("found %d columns, want 0 to 12", f.Columns)
	}
	for i := range f.Frames {
		panels, first := f.Frames[i].Panels, f.Frames[0].Panels
		if len(panels) == 0 || len(panels) != len(first) {
			return fmt.Errorf("frame %d: found %d panels, want %d as in the first, and at least one", i, len(panels),
				len(first))
		}
		for j := range panels {
			if err := panels[j].check(); err != nil {
				return fmt.Errorf("frame %d: panel %d: %w", i, j, err)
			}
			if kind, want := panels[j].Kind(), first[j].Kind(); kind != want {
				return fmt.Errorf("frame %d: panel %d: found %s, want %s as in the first frame", i, j, kind, want)
			}
		}
	}
	return nil
}

// Kind returns the kind of a panel, which is the name of its field in JSON: "lines", "map", "bars", "text", "diagram"
// or "table". It is empty if the panel shows nothing, and contains + if it shows several things.
func (p *Panel) Kind() string {
	var kinds []string
	for _, k := range []struct {
		name string
		is   bool
	}{{"lines", p.Lines != nil}, {"map", p.Map != nil}, {"bars", p.Bars != nil}, {"text", p.Text != nil},
		{"diagram", p.Diagram != nil}, {"table", p.Table != nil}} {
		if k.is {
			kinds = append(kinds, k.name)
		}
	}
	return strings.Join(kinds, "+")
}

func (p *Panel) check() error {
	for _, a := range []Axis{p.X, p.Y} {
		if !fits(a.Min) || !fits(a.Max) || a.Max < a.Min {
			return fmt.Errorf("axis %.100q: found ends %g and %g, want finite ones that grow, below %g", a.Label, a.Min,
				a.Max, largest)
		}
	}
	switch kind := p.Kind(); kind {
	case "lines":
		return p.Lines.check()
	case "map":
		return p.Map.check()
	case "bars":
		return p.Bars.check()
	case "text":
		return p.Text.check()
	case "diagram":
		return p.Diagram.check()
	case "table":
		return p.Table.check()
	default:
		return fmt.Errorf("found the kinds %q, want exactly one", kind)
	}
}

// fits reports whether a number can be an end of a scale or a position.
func fits(x float64) bool { return math.Abs(x) < largest }

// sizes is the actual and the required length of a list.
type sizes struct {
	name       string
	found      int
	want       int
	emptyIsAll bool // an empty list is also valid
}

func checkSizes(of string, all ...sizes) error {
	for _, s := range all {
		if s.found != s.want && !(s.emptyIsAll && s.found == 0) {
			return fmt.Errorf("%s: found %d %s, want %d", of, s.found, s.name, s.want)
		}
	}
	return nil
}

func (l *Lines) check() error {
	for i, s := range l.Series {
		n := len(s.X)
		err := checkSizes(fmt.Sprintf("series %d", i), sizes{"y", len(s.Y), n, false},
			sizes{"low", len(s.Low), n, true}, sizes{"high", len(s.High), len(s.Low), false},
			sizes{"labels", len(s.Labels), n, true})
		if err != nil {
			return err
		}
	}
	for _, x := range l.At {
		if !fits(x) {
			return fmt.Errorf("at: found %g, want finite places below %g", x, largest)
		}
	}
	return nil
}

func (m *Map) check() error {
	if m.Rows < 1 || m.Cols < 1 || m.Rows > math.MaxInt32 || m.Cols > math.MaxInt32 {
		return fmt.Errorf("map: found %d rows and %d columns, want at least one of each", m.Rows, m.Cols)
	}
	if m.RowStep < 0 || m.ColStep < 0 {
		return fmt.Errorf("map: found steps of %d and %d, want 0 or more", m.RowStep, m.ColStep)
	}
	if err := checkEnds(m.Min, m.Max); err != nil {
		return fmt.Errorf("map: %w", err)
	}
	return checkSizes("map", sizes{"values", len(m.Values), m.Rows * m.Cols, false},
		sizes{"row names", len(m.RowNames), m.Rows, true}, sizes{"column names", len(m.ColNames), m.Cols, true},
		sizes{"notes", len(m.Notes), m.Rows * m.Cols, true})
}

// checkEnds checks the ends of a color scale.
func checkEnds(lo, hi float64) error {
	if !fits(lo) || !fits(hi) || hi < lo {
		return fmt.Errorf("found colors from %g to %g, want finite ends that grow, below %g", lo, hi, largest)
	}
	return nil
}

func (b *Bars) check() error {
	for i, s := range b.Series {
		if err := checkSizes(fmt.Sprintf("bars %d", i), sizes{"values", len(s.Y), len(b.Names), false}); err != nil {
			return err
		}
	}
	return nil
}

func (t *Text) check() error {
	n := len(t.Tokens)
	if err := checkEnds(t.Min, t.Max); err != nil {
		return fmt.Errorf("text: %w", err)
	}
	if t.Mark < -1 || t.Mark >= max(n, 1) {
		return fmt.Errorf("text: found a mark at %d, want a token from 0 to %d, or -1", t.Mark, n-1)
	}
	err := checkSizes("text", sizes{"values", len(t.Values), n, true}, sizes{"notes", len(t.Notes), n, true})
	if err != nil {
		return err
	}
	if t.Links == nil {
		return nil
	}
	if err := t.Links.check(); err != nil {
		return fmt.Errorf("links: %w", err)
	}
	of := func(step int) int { return (n + max(step, 1) - 1) / max(step, 1) }
	return checkSizes("links", sizes{"rows", t.Links.Rows, of(t.Links.RowStep), false},
		sizes{"columns", t.Links.Cols, of(t.Links.ColStep), false})
}

func (d *Diagram) check() error {
	ids := map[string]bool{}
	for _, n := range d.Nodes {
		if ids[n.ID] {
			return fmt.Errorf("diagram: found the node %.100q twice", n.ID)
		}
		const most = 1e5 // boxes
		if ids[n.ID] = true; !(math.Abs(n.X) < most && math.Abs(n.Y) < most) {
			return fmt.Errorf("diagram: node %.100q: found the place %g, %g, want numbers below %g", n.ID, n.X, n.Y,
				most)
		}
	}
	for _, e := range d.Edges {
		for _, id := range []string{e.From, e.To} {
			if !ids[id] {
				return fmt.Errorf("diagram: found an arrow at the node %.100q, which is not there", id)
			}
		}
	}
	return nil
}

func (t *Table) check() error {
	for i, row := range t.Rows {
		if err := checkSizes(fmt.Sprintf("row %d", i), sizes{"cells", len(row), len(t.Columns), false}); err != nil {
			return err
		}
	}
	return nil
}
