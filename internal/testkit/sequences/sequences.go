// Package sequences generates tables of sequences, each with a known class or number, to test models that predict them.
// It imports no package of hippo.
package sequences

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// Sequences is a table of sequences.
type Sequences struct {
	Name  string
	About string // the truth, in a sentence
	Table string // CSV
	// Beyond is true if no model of simple features can express the truth, so that a network should beat them all.
	Beyond bool
}

// The columns of a table that identify a sequence and hold the value to predict.
const (
	ID     = "id"
	Target = "kind"
)

// kind describes how the sequences of a table are drawn.
type kind struct {
	name, about string
	beyond      bool
	n           int
	columns     string
	shares      []float64 // shares of the classes A, B and so on; nil for numbers
	draw        func(rng *rand.Rand, class, rows int) [][]float64
}

var kinds = []kind{
	{"level", "three classes by level and trend, as a linear model of mean and slope has it", false, 400, "x",
		[]float64{1, 1, 1}, level},
	{"rare", "one sequence in ten has a quick wave for a while, as its spectrum shows", false, 600, "x",
		[]float64{9, 1}, burst},
	{"attack", "pulses of either sign that rise at once and fade, or the reverse: only the order differs", true,
		600, "x", []float64{1, 1}, attack},
	{"echo", "pulses of x that y repeats 2 or 5 rows later: each column alone is alike in both classes", true, 600,
		"x,y", []float64{1, 1}, echo},
	{"rareecho", "as echo, but one sequence in eight has the late one", true, 800, "x,y", []float64{7, 1}, echo},
	{"cycle", "three columns pulse in turn, in one order or the other", true, 600, "a,b,c", []float64{1, 1}, cycle},
	{"amount", "a number: the level of x, in noise", false, 400, "x", nil, amount},
}

// All returns all tables, with noise drawn from a seed.
func All(seed uint64) (all []Sequences) {
	for i, k := range kinds {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		all = append(all, Sequences{Name: k.name, About: k.about, Beyond: k.beyond, Table: k.table(rng)})
	}
	return all
}

// table draws sequences of 60 to 79 rows.
func (k *kind) table(rng *rand.Rand) string {
	sum := 0.0
	for _, s := range k.shares {
		sum += s
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s,%s,%s\n", ID, k.columns, Target)
	for id := range k.n {
		class, text := rng.IntN(100), ""
		if text = fmt.Sprintf("%.1f", float64(class)/10); k.shares != nil {
			class = 0
			for at := rng.Float64()*sum - k.shares[0]; at > 0 && class < len(k.shares)-1; at -= k.shares[class] {
				class++
			}
			text = string(rune('A' + class))
		}
		x := k.draw(rng, class, 60+rng.IntN(20))
		for t := range x[0] {
			fmt.Fprintf(&b, "s%d", id)
			for _, column := range x {
				fmt.Fprintf(&b, ",%.3f", column[t])
			}
			fmt.Fprintf(&b, ",%s\n", text)
		}
	}
	return b.String()
}

// noise returns columns of white noise.
func noise(rng *rand.Rand, columns, rows int, deviation float64) [][]float64 {
	x := make([][]float64, columns)
	for k := range x {
		x[k] = make([]float64, rows)
		for t := range x[k] {
			x[k][t] = deviation * rng.NormFloat64()
		}
	}
	return x
}

// level returns noise around a line: low and flat, high and flat, or rising.
func level(rng *rand.Rand, class, rows int) [][]float64 {
	x := noise(rng, 1, rows, 1)
	at, slope := []float64{-0.3, 0.3, 0}[class]+0.15*rng.NormFloat64(), []float64{0, 0, 1}[class]
	for t := range x[0] {
		x[0][t] += at + slope*(float64(t)/float64(rows)-0.5)
	}
	return x
}

// amount returns noise around a level.
func amount(rng *rand.Rand, level, rows int) [][]float64 {
	x := noise(rng, 1, rows, 1)
	for t := range x[0] {
		x[0][t] += 0.02 * float64(level)
	}
	return x
}

// burst returns a slow wave with noise. In class B, a quick wave is added for a while.
func burst(rng *rand.Rand, class, rows int) [][]float64 {
	x := noise(rng, 1, rows, 0.5)
	phase, at := 2*math.Pi*rng.Float64(), rng.IntN(rows-20)
	for t := range x[0] {
		x[0][t] += math.Sin(2*math.Pi*float64(t)/30 + phase)
		if class == 1 && t >= at && t < at+20 {
			x[0][t] += 0.8 * math.Sin(2*math.Pi*float64(t)/3+phase)
		}
	}
	return x
}

// attack returns pulses of random signs. In class A each rises at once and then fades; in class B it is reversed in
// time. Mean, spread, spectrum and slope are alike.
func attack(rng *rand.Rand, class, rows int) [][]float64 {
	x := noise(rng, 1, rows, 0.25)
	for t := -rng.IntN(20); t < rows; t += 14 + rng.IntN(8) {
		sign := float64(2*rng.IntN(2) - 1)
		for k := range 10 {
			at := t + k
			if class == 1 {
				at = t + 9 - k
			}
			if at >= 0 && at < rows {
				x[0][at] += 2 * sign * math.Exp(-float64(k)/3)
			}
		}
	}
	return x
}

// echo returns pulses of random signs in column x, which column y repeats 2 or 5 rows later.
func echo(rng *rand.Rand, class, rows int) [][]float64 {
	x := noise(rng, 2, rows, 0.3)
	later := []int{2, 5}[class]
	for t := -rng.IntN(14); t < rows; t += 6 + rng.IntN(8) {
		pulse := 2 * float64(2*rng.IntN(2)-1)
		if t >= 0 {
			x[0][t] += pulse
		}
		if at := t + later; at >= 0 && at < rows {
			x[1][at] += pulse
		}
	}
	return x
}

// cycle returns pulses that move from column to column: a, b, c, or c, b, a.
func cycle(rng *rand.Rand, class, rows int) [][]float64 {
	x := noise(rng, 3, rows, 0.4)
	column := rng.IntN(3)
	for t := rng.IntN(6); t < rows; t += 3 + rng.IntN(2) {
		x[column][t] += 3
		column = (column + 1 + class) % 3
	}
	return x
}
