package theory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var diceView = View{
	Name:  "dice",
	Short: "The density of a sum of dice as a convolution, and the bell that it tends to",
	Long: `Shows how probable each sum of n dice is. If p_i is the probability that a die shows i, that of the sum of
two is a convolution, since the dice know nothing of each other:

  P(s) = Σ_i p_i p_{s-i},   p * p,   and of n dice  p * p * ... * p

The mean is n times that of a die, and so is the variance. The more dice, the nearer is the density of the sum to the
normal density with this mean and this variance, whatever the die: the central limit theorem.`,
	Example: `  hippo explain ssm dice
  hippo explain ssm dice --faces 1,1,1,1,1,5 --dice 32 --out loaded.svg
  hippo explain ssm dice --faces 1,0,0,0,0,1`,
	New: func() Options { return &DiceOptions{Faces: "1,1,1,1,1,1", Dice: 12} },
}

// DiceOptions holds the options of the view dice.
type DiceOptions struct {
	Faces string `json:"faces" help:"weights of the faces 1, 2, 3, ...: 1,1,1,1,1,5 is a die that likes the 6"`
	Dice  int    `json:"dice" min:"1" max:"64" help:"the most dice that are thrown at once"`
}

// mostFaces is the maximum number of faces of a die.
const mostFaces = 32

// density returns the probabilities of the faces.
func (o *DiceOptions) density() ([]float64, error) {
	p, err := numbers("faces", o.Faces, 2, mostFaces, 0, largest)
	if err != nil {
		return nil, err
	}
	sum := floats.Sum(p)
	if sum == 0 {
		return nil, fmt.Errorf("faces: found weights of 0 alone, want one above 0")
	}
	floats.Scale(1/sum, p)
	return p, nil
}

// numbers parses the list of numbers of an option: least to most numbers, from lo to hi.
func numbers(option, list string, least, most int, lo, hi float64) ([]float64, error) {
	parts := strings.Split(list, ",")
	if len(parts) < least || len(parts) > most {
		return nil, fmt.Errorf("%s: found %d numbers, want %d to %d", option, len(parts), least, most)
	}
	x := make([]float64, len(parts))
	for i, text := range parts {
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(v >= lo) || v > hi {
			return nil, fmt.Errorf("%s: found %.20q, want numbers from %g to %g with commas", option, text, lo, hi)
		}
		x[i] = v
	}
	return x, nil
}

// Page returns the page with the sums.
func (o *DiceOptions) Page(context.Context) (*figure.Page, error) {
	die, err := o.density()
	if err != nil {
		return nil, err
	}
	sums := &figure.Figure{Name: "sums", Title: "How probable each sum is",
		Caption: "n dice together: the density of one convolved with itself, n factors. The dashed line is the " +
			"normal density with the same mean and variance.", Source: "Laplace 1812"}
	var apart []float64
	ofOne, spread := stat.PopMeanVariance(upTo(len(die), 1), die) // for a die that shows 0, 1, ...
	for n := 1; n <= o.Dice; n++ {
		p := ssm.ConvolvePower(die, n)
		mean, variance := float64(n)*(1+ofOne), float64(n)*spread
		name := fmt.Sprintf("%d dice", n)
		if n == 1 {
			name = "1 die"
		}
		sum, worst := figure.Series{Name: name, Points: true}, 0.0
		bell := func(x float64) float64 {
			return math.Exp(-(x-mean)*(x-mean)/(2*variance)) / math.Sqrt(2*math.Pi*variance)
		}
		for i, v := range p {
			x := float64(n + i)
			sum.X, sum.Y = append(sum.X, x), append(sum.Y, v)
			if variance > 0 { // it is 0 for a die that always shows the same
				worst = max(worst, math.Abs(bell(x)-v)*math.Sqrt(variance))
			}
		}
		shown := []figure.Series{sum}
		top := slices.Max(p)
		if variance > 0 {
			normal := dashed(figure.Series{Name: "normal density"})
			for i := range mostPoints + 1 {
				x := float64(n) + float64(len(p)-1)*float64(i)/mostPoints
				normal.X, normal.Y = append(normal.X, x), append(normal.Y, bell(x))
			}
			shown, top = append(shown, normal), max(top, bell(mean))
		}
		apart = append(apart, worst)
		panel := lines(fmt.Sprintf("%s: mean %.4g, variance %.4g", name, mean, variance), "sum", "probability",
			shown...)
		panel.Y.Min, panel.Y.Max = 0, 1.05*top
		sums.Frames = append(sums.Frames, figure.Frame{Label: name, Panels: []figure.Panel{panel}})
	}
	few := still("few", "A few dice, and many", sums.Caption, sums.Source)
	few.Columns = 2
	for n := 1; n <= o.Dice; n++ {
		if n < 4 || n == o.Dice {
			few.Frames[0].Panels = append(few.Frames[0].Panels, sums.Frames[n-1].Panels[0])
		}
	}
	gap := lines("largest distance to the normal density, in units of one over the standard deviation", "dice", "",
		figure.Series{Name: "distance", X: upTo(len(apart), 1), Y: onLog(apart)})
	for i := range gap.Lines.Series[0].X {
		gap.Lines.Series[0].X[i]++
	}
	gap.Y.Log = true
	return &figure.Page{
		Title:    "Sums of dice",
		Subtitle: fmt.Sprintf("up to %d dice with the weights %s", o.Dice, o.Faces),
		Figures: []*figure.Figure{few, sums, still("distance", "How near the bell is",
			"A fair die is near it after a few throws; one that is lopsided, or has gaps, takes longer.", "", gap)},
	}, nil
}
