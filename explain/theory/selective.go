package theory

import (
	"context"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var selectiveView = View{
	Name:  "selective",
	Short: "Mamba's selection: a step that depends on the token decides what is kept",
	Long: `Shows one channel of a selective state-space model on a text in which some tokens count and the others, dots,
are noise to be skipped:

  x_k = exp(dt_k A) x_{k-1} + dt_k B u_k,  y_k = C x_k

B is such that a large dt_k takes the whole input, dt B = 1 - exp(-dt) for A = -1. A large dt_k forgets the past and
takes the token in; dt_k near 0 keeps the state as it is. With one dt for all tokens the state fades while it waits;
with a dt of --take at tokens that count and of --skip at dots it holds the last one. The model is a matrix, too, y = M
u with M_kj = C exp(A (dt_{j+1} + ... + dt_k)) dt_j B: an attention with decays (Mamba-2, arXiv:2405.21060, §3). The
tokens are numbers or letters; a letter counts by its place in the alphabet.

Mamba, arXiv:2312.00752, §3.1 and figure 2: selective copying.`,
	Example: `  hippo explain ssm selective
  hippo explain ssm selective "7 . . . . 3 . . . . ."
  hippo explain ssm selective b....f......a... --skip 0.02`,
	New: func() Options {
		return &SelectiveOptions{Take: 3, Skip: 0.002, Same: 0.3, text: "5 . . . . . 2 . . . . 8 . . ."}
	},
}

// SelectiveOptions holds the options of the view selective.
type SelectiveOptions struct {
	Take float64 `json:"take" min:"0" max:"100" help:"dt at tokens that count"`
	Skip float64 `json:"skip" min:"0" max:"100" help:"dt at dots"`
	Same float64 `json:"same" min:"0" max:"100" help:"dt of the model without selection"`
	text string
}

// SetText sets the text that is read.
func (o *SelectiveOptions) SetText(text string) { o.text = text }

// inputs converts a text of numbers, letters and dots to a signal. counts is false for dots.
func inputs(text string) (u []float64, counts []bool, shown []string, err error) {
	shown = strings.Fields(text)
	if len(shown) == 1 {
		shown = strings.Split(shown[0], "")
	}
	if len(shown) < 2 || len(shown) > mostRecalled {
		return nil, nil, nil, fmt.Errorf("text: found %d tokens, want 2 to %d: numbers or letters, and dots for noise",
			len(shown), mostRecalled)
	}
	for i, s := range shown {
		v, letter := 0.0, []rune(strings.ToLower(s))
		switch {
		case s == ".":
		case len(letter) == 1 && letter[0] >= 'a' && letter[0] <= 'z':
			v = float64(letter[0]-'a') + 1
		default:
			if v, err = number(s); err != nil {
				return nil, nil, nil, fmt.Errorf(
					"text: found %.40q at token %d, want a number, a letter from a to z or a dot", s, i+1)
			}
		}
		u, counts = append(u, v), append(counts, s != ".")
	}
	return u, counts, shown, nil
}

// model returns a model with one mode A = -1 and C = 1. Bbar is 1 - exp(-dt), so a large dt takes the whole input.
func (o *SelectiveOptions) model(counts []bool, take, skip float64) *ssm.Selective {
	s := &ssm.Selective{A: []complex128{-1}}
	for _, c := range counts {
		dt := skip
		if c {
			dt = take
		}
		b := 1.0
		if dt > 0 {
			b = -math.Expm1(-dt) / dt
		}
		s.Dt = append(s.Dt, dt)
		s.B, s.C = append(s.B, []complex128{complex(b, 0)}), append(s.C, []complex128{1})
	}
	return s
}

// Page returns the page with the model with and without selection.
func (o *SelectiveOptions) Page(context.Context) (*figure.Page, error) {
	u, counts, shown, err := inputs(o.text)
	if err != nil {
		return nil, err
	}
	selective, same := o.model(counts, o.Take, o.Skip), o.model(counts, o.Same, o.Same)
	want := make([]float64, len(u))
	for k, v := range u {
		switch {
		case counts[k]:
			want[k] = v
		case k > 0:
			want[k] = want[k-1]
		}
	}
	y, fixed := selective.Scan(nil, u), same.Scan(nil, u)
	m, _ := matrixMap(selective.Matrix())
	n, _ := matrixMap(same.Matrix())
	for _, shownMap := range []*figure.Map{m, n} {
		shownMap.RowNames, shownMap.ColNames = shown, shown
	}
	var product mat.VecDense
	product.MulVec(selective.Matrix(), mat.NewVecDense(len(u), u))
	apart := floats.Distance(product.RawVector().Data, y, math.Inf(1))
	dt := figure.Panel{Title: "dt", Bars: &figure.Bars{Names: shown,
		Series: []figure.Series{{Name: "selective", Y: selective.Dt}, {Name: "same for all", Y: same.Dt}}}}
	return &figure.Page{
		Title: "Selection",
		Subtitle: fmt.Sprintf("%s; dt %g at tokens that count, %g at dots; %g without selection", strings.Join(shown,
			" "), o.Take, o.Skip, o.Same),
		Figures: []*figure.Figure{
			still("outputs", "Holding a token through noise", fmt.Sprintf("Wanted is the last token that was no dot. "+
				"With selection the error is %.3g of the signal, without it %.3g: "+
				"one dt either forgets while it waits or never takes a token in.", relative(y, want),
				relative(fixed, want)), "Mamba, arXiv:2312.00752, §3.1",
				lines("outputs", "token", "", stepped(line("wanted", want)), stepped(line("selective", y)),
					stepped(line("same dt for all", fixed))), dt),
			still("matrix", "The model as a matrix",
				fmt.Sprintf("y = M u with M_kj = C exp(A (dt_{j+1} + ... + dt_k)) dt_j B; "+
					"product and recurrence differ by at most %.1e. "+
					"A token that counts begins a column that goes down to the next one, which wipes the state.",
					apart), "Mamba-2, arXiv:2405.21060, §3", mapPanel("selective", "input", "output", m),
				mapPanel("same dt for all", "input", "output", n)),
		},
	}, nil
}
