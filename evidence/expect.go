package evidence

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// leastSeeds is the least number of seeds from which a range is computed.
	leastSeeds = 3
	// within is the percentage of further seeds that fall into the range.
	within = 95
)

// interval is a range of scores.
type interval struct{ low, high float64 }

// expected returns the range into which the score of one more seed falls with a probability of 95 %, if scores are
// normally distributed: mean ± t·s·√(1 + 1/n), with the standard deviation s of the n scores and the quantile t of
// Student's distribution with n - 1 degrees of freedom. The range is at least mean ± 1 %, or ± 1 for percentages: equal
// scores of a few seeds promise no more, and other instruction sets round differently. With fewer than leastSeeds
// scores it has no bounds.
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

// text formats the range. It returns "" if the range has no bounds.
func (i interval) text(unit string) string {
	if math.IsInf(i.high, 1) {
		return ""
	}
	return number(i.low, unit) + " to " + number(i.high, unit)
}

// any reports whether every score is in the range.
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

// worse reports whether a score is worse than another. Higher percentages are better; in all other units, lower scores
// are better.
func worse(score, than float64, unit string) bool {
	if unit == "%" {
		return score < than
	}
	return score > than
}

// simple reports whether a measurement is the score of a simple method, a baseline, on the same task.
func (a *also) simple(r *result) bool { return a.Unit != "" && a.Unit == r.Unit }

// beside returns the results to show beside a row: those listed in its recipe, and the simple methods scored by the
// runs.
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
		if a.simple(r) { // it replaces the recipe's entry for the same method
			all = slices.DeleteFunc(all, func(s Beside) bool { return s.Who == a.Name })
			all = append(all, Beside{Who: a.Name, Score: meanOf(alsoOf(row, a.Name))})
		}
	}
	return slices.Clip(all)
}
