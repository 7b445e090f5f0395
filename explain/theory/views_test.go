package theory

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/explain/figure"
)

// page makes the page of options and checks what a drawer relies on.
func page(t *testing.T, o Options) *figure.Page {
	t.Helper()
	p, err := o.Page(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
	seen := map[string]bool{}
	for _, f := range p.Figures {
		if !name.MatchString(f.Name) || seen[f.Name] || f.Title == "" || f.Caption == "" || len(f.Frames) == 0 {
			t.Errorf("figure %q: found no name of its own, no title, no caption or no frame", f.Name)
		}
		seen[f.Name] = true
		for i, frame := range f.Frames {
			if len(frame.Panels) == 0 || len(frame.Panels) != len(f.Frames[0].Panels) {
				t.Errorf("%s: frame %d has %d panels", f.Name, i, len(frame.Panels))
			}
			for j, panel := range frame.Panels {
				if err := checkPanel(panel); err != nil {
					t.Errorf("%s: frame %d: panel %d: %v", f.Name, i, j, err)
				}
			}
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 8<<20 {
		t.Errorf("found a page of %d bytes", len(text))
	}
	return p
}

func checkPanel(p figure.Panel) error {
	kinds := 0
	if l := p.Lines; l != nil {
		kinds++
		for _, s := range l.Series {
			n := len(s.X)
			if len(s.Y) != n || n == 0 || len(s.Low) != len(s.High) || len(s.Low) != 0 && len(s.Low) != n {
				return fmt.Errorf("series %s: found %d x and %d y", s.Name, n, len(s.Y))
			}
			for i, y := range s.Y {
				if math.IsInf(y, 0) || math.IsNaN(s.X[i]) || p.Y.Log && y <= 0 {
					return fmt.Errorf("series %s: found the point %v, %v", s.Name, s.X[i], y)
				}
			}
		}
	}
	if m := p.Map; m != nil {
		kinds++
		if m.Rows < 1 || m.Rows*m.Cols != len(m.Values) || m.Rows > 512 || m.Cols > 512 {
			return fmt.Errorf("map: found %d values for %d × %d", len(m.Values), m.Rows, m.Cols)
		}
		if r, c := len(m.RowNames), len(m.ColNames); r != 0 && r != m.Rows || c != 0 && c != m.Cols {
			return fmt.Errorf("map: found %d and %d names for %d × %d", r, c, m.Rows, m.Cols)
		}
	}
	if b := p.Bars; b != nil {
		kinds++
		for _, s := range b.Series {
			if len(s.Y) != len(b.Names) {
				return fmt.Errorf("bars: found %d values for %d names", len(s.Y), len(b.Names))
			}
		}
	}
	if x := p.Text; x != nil {
		kinds++
		if len(x.Values) != len(x.Tokens) || x.Mark >= len(x.Tokens) {
			return fmt.Errorf("text: found %d values for %d tokens", len(x.Values), len(x.Tokens))
		}
	}
	if d := p.Diagram; d != nil {
		kinds++
		known := map[string]bool{}
		for _, n := range d.Nodes {
			known[n.ID] = true
		}
		for _, e := range d.Edges {
			if !known[e.From] || !known[e.To] {
				return fmt.Errorf("diagram: found an arrow from %s to %s", e.From, e.To)
			}
		}
	}
	if x := p.Table; x != nil {
		kinds++
		for _, row := range x.Rows {
			if len(row) != len(x.Columns) {
				return fmt.Errorf("table: found %d cells for %d columns", len(row), len(x.Columns))
			}
		}
	}
	if kinds != 1 {
		return fmt.Errorf("found %d kinds, want one", kinds)
	}
	if p.X.Max < p.X.Min || p.Y.Max < p.Y.Min {
		return fmt.Errorf("found an axis that falls")
	}
	return nil
}

func TestEveryViewMakesAPage(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range Views() {
		if seen[v.Name] || v.Short == "" || v.Long == "" || !strings.Contains(v.Example, "hippo explain ssm "+v.Name) {
			t.Errorf("%s: found no name of its own, no text or no example", v.Name)
		}
		seen[v.Name] = true
		t.Run(v.Name, func(t *testing.T) { page(t, v.New()) })
	}
}

// Every view with a signal takes one that is silent, one that is long and one of noise.
func TestViewsTakeAnySignal(t *testing.T) {
	for _, v := range Views() {
		if _, ok := v.New().(WithSignal); !ok {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			for _, change := range []func(o *SignalOptions){
				func(o *SignalOptions) { o.Signal = "0*sine" },
				func(o *SignalOptions) { o.Signal, o.Length = "noise", 8 },
				func(o *SignalOptions) { o.Length = 1000 },
				func(o *SignalOptions) { o.Signal = "1e29*step" },
			} {
				o := v.New().(WithSignal)
				change(o.Input())
				page(t, o)
			}
		})
	}
}

func TestViewsRefuse(t *testing.T) {
	signal := func(s string, l int) SignalOptions { return SignalOptions{Signal: s, Length: l, Turns: 2} }
	recorded := func(values ...float64) SignalOptions {
		return SignalOptions{Signal: "x.csv", Length: 64, Recording: &Recording{Name: "x.csv", Values: values}}
	}
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"unknown signal": {&ConvolutionOptions{SignalOptions: signal("sinus", 64), Kernel: "box"},
			`"sinus", want one of`},
		"no samples":     {&ConvolutionOptions{SignalOptions: signal("sine", 0), Kernel: "box"}, "found 0, want 8"},
		"long matrix":    {&ConvolutionOptions{SignalOptions: signal("sine", 2000), Kernel: "box"}, "at most 1024"},
		"unknown kernel": {&ConvolutionOptions{SignalOptions: signal("sine", 64), Kernel: "bix"}, `"bix", want one of`},
		"NaN in kernel":  {&ConvolutionOptions{SignalOptions: signal("sine", 64), Kernel: "1,NaN"}, `found "1,NaN"`},
		"long kernel": {&ConvolutionOptions{SignalOptions: signal("sine", 8), Kernel: "1,1,1,1,1,1,1,1,1"},
			"found 9 numbers"},
		"no die":        {&DiceOptions{Faces: "1", Dice: 2}, "found 1 numbers, want 2"},
		"negative face": {&DiceOptions{Faces: "1,-1", Dice: 2}, `faces: found "-1"`},
		"empty faces":   {&DiceOptions{Faces: "0,0", Dice: 2}, "weights of 0 alone"},
		"NaN width":     {&TransformsOptions{Widths: "1,NaN", Highest: 1}, `widths: found "NaN"`},
		"short file":    {&ShiftOptions{SignalOptions: recorded(1, 2), N: 2}, "found 2 numbers, want 8"},
		"NaN in file": {&ShiftOptions{SignalOptions: recorded(1, 2, 3, math.NaN(), 5, 6, 7, 8), N: 2},
			"found NaN at sample 4"},
		"far delay": {&ShiftOptions{SignalOptions: signal("sine", 8), N: 2, Delay: 2}, "delay: found 2, want less"},
		"odd fout": {&HiPPOOptions{SignalOptions: signal("sine", 64), Measures: []string{"fout"}, N: 3, Window: 1,
			Method: "zoh", Moments: 2}, "found 3, want an even number"},
		"unstable memory": {&HiPPOOptions{SignalOptions: signal("sine", 512), Measures: []string{"legt"}, N: 64,
			Window: 0.1, Method: "euler", Moments: 2}, "grew without bound"},
		"small window": {&HiPPOOptions{SignalOptions: signal("sine", 16), Measures: []string{"legt"}, N: 4,
			Window: 0.02, Method: "zoh", Moments: 2}, "want 2 or more"},
		"no measure": {&HiPPOOptions{SignalOptions: signal("sine", 16), N: 4, Window: 1, Method: "zoh"}, "found none"},
		"many steps": {&DiscretizeOptions{SpringOptions: SpringOptions{Mass: 1}, Dt: 0.0001, Time: 100},
			"1000000 steps"},
		"odd modes": {&DiagonalOptions{Init: "lin", N: 3, Dt: 1, Method: "zoh", Length: 8}, "want a positive even"},
		"unstable kernel": {&DiagonalOptions{Init: "inv", N: 64, Dt: 1, Method: "euler", Length: 4096},
			"grows without bound"},
		"many pieces": {&PiecesOptions{SignalOptions: signal("sine", 4096), Init: "lin", N: 2, Dt: 1, Piece: 1},
			"4096 pieces"},
		"one token":    {&RecallOptions{text: "a"}, "found 1 tokens, want 2"},
		"no UTF-8":     {&RecallOptions{text: "a \xff"}, "want UTF-8"},
		"control":      {&RecallOptions{text: "a \x1b[2J"}, "want letters that can be printed"},
		"many tokens":  {&RecallOptions{text: strings.Repeat("ab", 100)}, "found 200 tokens"},
		"many letters": {&RecallOptions{text: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ"}, "found 36 different"},
		"no number":    {&SelectiveOptions{text: "5 . x1"}, `found "x1" at token 3`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.o.Page(context.Background())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found the error %v, want one with %q", err, c.want)
			}
		})
	}
}

// A context that has ended ends what takes long.
func TestPagesCanBeInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	for _, v := range []View{hippoView, basesView} {
		if _, err := v.New().Page(ctx); err == nil {
			t.Errorf("%s: found no error after an interrupt", v.Name)
		}
	}
}
