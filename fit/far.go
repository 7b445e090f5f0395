package fit

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/table"
)

// largestNumber is the largest number for which 32-bit sums do not overflow.
const largestNumber = math.MaxFloat32 / 1e6

// mostDeviations is the maximum distance of a number from those of training, in deviations. The squares of larger ones
// are infinite in 32 bits.
const mostDeviations = 1e12

// farthest is the number of a column with the largest distance from its base.
type farthest struct {
	x     float64 // minus the base
	place table.Place
}

// lookFar returns an error for a number that is too large, and records the number farthest from the base of each
// column.
func (f *frame) lookFar(row []float32, v *table.Values) error {
	if f.far == nil {
		f.far = make([]farthest, len(f.plan.Columns))
	}
	for i := range f.plan.Columns {
		c := &f.plan.Columns[i]
		x := math.Abs(float64(row[i]))
		if c.Kind != table.Number || !(x > f.far[i].x) {
			continue
		}
		if f.far[i] = (farthest{x, v.Place}); x > largestNumber {
			found := fmt.Sprintf("%.3g", float64(row[i])+c.Base)
			if math.IsInf(x, 0) {
				found = "a number that is too large for 32 bits"
			}
			return &table.RowError{Place: v.Place, Column: c.Name,
				Text: fmt.Sprintf("found %s, want numbers of at most %.3g", found, largestNumber)}
		}
	}
	return nil
}

// usual holds the median of the first numbers of a column, relative to the base, and their interquartile range.
type usual struct{ middle, spread float64 }

// outliers returns notes about numbers that are very far from most. Some devices write such numbers for missing values.
func (f *frame) outliers(usual []usual) (notes []string) {
	const many = 1e5 // interquartile ranges
	for i, far := range f.far {
		if c, u := &f.plan.Columns[i], usual[i]; c.Kind == table.Number && u.spread > 0 &&
			far.x-u.middle > many*u.spread {
			e := table.RowError{Place: far.place, Column: c.Name, Text: fmt.Sprintf("the number there is %.0e times "+
				"as far away as most are from each other: if it stands for a missing value, --missing names it",
				(far.x-u.middle)/u.spread)}
			notes = append(notes, e.Error())
		}
	}
	return notes
}

// checkFar returns an error for a number so far from those of training that the network's output is not finite.
func (f *frame) checkFar() error {
	for i, far := range f.far {
		c := &f.plan.Columns[i]
		if c.Kind != table.Number || c.Log || far.x-math.Abs(c.Mean) <= mostDeviations*c.Deviation {
			continue
		}
		return &table.RowError{Place: far.place, Column: c.Name, Text: fmt.Sprintf(
			"found %.3g, which is %.0e deviations of the training part away: is the row damaged?", far.x+c.Base,
			far.x/c.Deviation)}
	}
	return nil
}
