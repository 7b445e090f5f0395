package evidence

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// leastSeeds are the fewest seeds from which a range is computed.
	leastSeeds = 3
	// within is how many percent of further seeds are in the range.
	within = 95
)

// interval is a range of scores.
type interval struct{ low, high float64 }

// expected is the range that the score of one more seed falls into with 95 %, if scores are normally distributed:
// mean ± t·s·√(1 + 1/n), with the deviation s of n scores and the quantile t of Student's distribution with n - 1
// degrees of freedom. It is at least mean ± 1 %, for percents ± 1: a few seeds that agree promise no more, and another
// level of the processor rounds otherwise. It has no bounds for fewer than leastSeeds scores.
func expected(row []result) interval {
	if len(row) < leastSeeds {
		return interval{math.Inf(-1), math.Inf(1)}
	}
	n := float64(len(row))
	mean, s := stat.MeanStdDev(scoresIn(row), nil)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(.5 + within/200.)
	half := t * s * math.Sqrt(1+1/n)
	if row[0].Unit == "%" {
		half = max(half, 1)
		return interval{max(0, mean-half), min(100, mean+half)}
	}
	half = max(half, mean/100)
	return interval{max(0, mean-half), mean + half}
}

// text writes the range, "" if it has no bounds.
func (i interval) text(unit string) string {
	if math.IsInf(i.high, 1) {
		return ""
	}
	return number(i.low, unit) + " to " + number(i.high, unit)
}

// any reports whether no score is outside of the range.
func (i interval) any(unit string) bool {
	return math.IsInf(i.high, 1) || unit == "%" && i.low == 0 && i.high == 100
}

func scoresIn(row []result) (all []float64) {
	for _, r := range row {
		all = append(all, r.Score)
	}
	return all
}

func meanOf(row []result) float64 { return stat.Mean(scoresIn(row), nil) }

// worse reports whether a score is worse than another: percents are better the more there are, all other units the
// fewer.
func worse(score, than float64, unit string) bool {
	if unit == "%" {
		return score < than
	}
	return score > than
}

// simple reports whether a further measurement is that of a simple method on the same task: a baseline.
func (a *also) simple(r *result) bool { return a.Unit != "" && a.Unit == r.Unit }

// beside is what stands beside a row: what its recipe says, and simple methods that the runs have scored.
func (b *Book) beside(row []result) (all []Beside) {
	r := &row[0]
	if recipe := b.recipe(r.Command); recipe != nil {
		for _, s := range recipe.Beside {
			if s.Task == r.Task && cmp.Or(s.Model, r.Model) == r.Model {
				all = append(all, s)
			}
		}
	}
	for _, a := range r.Also {
		if a.simple(r) { // in the place of what the recipe says of it
			all = slices.DeleteFunc(all, func(s Beside) bool { return s.Who == a.Name })
			all = append(all, Beside{Who: a.Name, Score: meanOf(alsoOf(row, a.Name))})
		}
	}
	return slices.Clip(all)
}
