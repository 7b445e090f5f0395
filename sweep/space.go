package sweep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Range is a setting and its possible values: a list of values, or the numbers between two ends.
type Range struct {
	Setting string
	Values  []string // empty for numbers
	Lo, Hi  float64
	Int     bool // whole numbers, including both ends
	Log     bool // drawn on a logarithmic scale
}

// logarithmic is the ratio of the two ends from which a range is drawn on a logarithmic scale.
const logarithmic = 10

// ParseRange parses SETTING=A|B|C or SETTING=LO..HI. If the ends have no point and no exponent, the values are whole
// numbers. A range of positive numbers whose end is at least ten times its start is drawn on a logarithmic scale, so
// that 1e-4..1e-2 gives as many values below 1e-3 as above.
func ParseRange(text string) (Range, error) {
	wrong := func(found string) (Range, error) {
		return Range{}, fmt.Errorf("over: found %s, want SETTING=A|B|C, or SETTING=LOW..HIGH with two numbers", found)
	}
	name, given, ok := strings.Cut(text, "=")
	name = strings.TrimLeft(strings.TrimSpace(name), "-")
	if !ok || name == "" {
		return wrong(strconv.Quote(text))
	}
	r := Range{Setting: name}
	lo, hi, ok := strings.Cut(given, "..")
	if !ok {
		r.Values = strings.Split(given, "|")
		if len(r.Values) < 2 {
			return wrong(strconv.Quote(text) + " with one value")
		}
		return r, nil
	}
	var err, also error
	r.Lo, err = strconv.ParseFloat(lo, 64)
	r.Hi, also = strconv.ParseFloat(hi, 64)
	if err != nil || also != nil || !(r.Lo < r.Hi) || math.IsInf(r.Hi-r.Lo, 0) {
		return wrong(strconv.Quote(text))
	}
	r.Int = !strings.ContainsAny(lo+hi, ".eE")
	r.Log = r.Lo > 0 && r.Hi >= logarithmic*r.Lo
	return r, nil
}

// draw returns a random value of the setting.
func (r *Range) draw(rng *rand.Rand) string {
	if len(r.Values) > 0 {
		return r.Values[rng.IntN(len(r.Values))]
	}
	lo, hi := r.Lo, r.Hi
	if r.Int {
		lo, hi = lo-0.5, hi+0.5 // so that both ends are as probable as the numbers between
	}
	x := lo + rng.Float64()*(hi-lo)
	if r.Log {
		x = math.Exp(math.Log(lo) + rng.Float64()*math.Log(hi/lo))
	}
	if r.Int {
		return strconv.FormatFloat(min(r.Hi, max(r.Lo, math.Round(x))), 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64) // a search cannot distinguish more digits
}

// Setting is a setting with its value in a trial.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// draws returns n different trials of a space, drawn by a seed. They are the first ones of any longer list. There are
// fewer if the space has no more.
func draws(space []Range, n int, seed uint64) (all [][]Setting) {
	rng := rand.New(rand.NewPCG(seed, 0x7377656570))
	const tries = 1000 // draws in a row that find nothing new
	seen := map[string]bool{}
	for failed := 0; len(all) < n && failed < tries; failed++ {
		var one []Setting
		for i := range space {
			one = append(one, Setting{space[i].Setting, space[i].draw(rng)})
		}
		if key := fmt.Sprint(one); !seen[key] {
			seen[key], failed = true, -1
			all = append(all, one)
		}
	}
	return all
}
