package fit

import (
	"fmt"
	"math"
)

// stored returns the form in which a number is stored, on which the network's scale is based. number is its inverse.
func (c *Column) stored(x float64) float64 {
	switch {
	case !c.Log:
		return x - c.Base
	case x > 0:
		return math.Log(x)
	}
	return math.NaN()
}

func (c *Column) number(y float64) float64 {
	if c.Log {
		return math.Exp(y)
	}
	return y + c.Base
}

// deviation returns the deviation of the training set in the units of the data.
func (c *Column) deviation() float64 {
	if c.Log {
		return c.Spread
	}
	return c.Deviation
}

// chooseLog stores the logarithm of targets if this improves their linear forecast on the validation set, as when the
// season and the noise grow with the level. It applies to positive numbers, and to data that fits into memory.
func (f *frame) chooseLog(c *Config, divided [parts][]segment) error {
	p := f.plan
	if p.Task != Forecast || c.Log == "off" || f.rows.file != nil && c.Log == "auto" {
		return nil
	}
	before, err := f.linearErrors(c, divided)
	if err != nil || before == nil && c.Log == "auto" {
		return err
	}
	tried := map[int][]float32{}
	for _, i := range p.targets() {
		k := &p.Columns[i]
		if numbers := f.toLog(i); numbers != nil {
			tried[i] = numbers
		} else if c.Log == "on" {
			return fmt.Errorf("column %s: found numbers that are not positive, or too many rows; want --log off",
				k.Name)
		}
	}
	if c.Log == "on" || len(tried) == 0 {
		return nil
	}
	after, err := f.linearErrors(c, divided)
	if err != nil {
		return err
	}
	for k, i := range p.targets() {
		col := &p.Columns[i]
		switch {
		case tried[i] == nil:
		case after[k] < before[k]:
			f.notes = append(f.notes, fmt.Sprintf("column %s is forecast by its logarithm: the linear forecast is off "+
				"by %s on the validation set, %s without (--log off)", col.Name, digits(after[k]), digits(before[k])))
		default:
			col.Log, col.Spread = false, 0
			f.put(i, tried[i])
		}
	}
	return nil
}

// toLog stores the logarithm of column i, and returns what was stored before. It returns nil if a number has no
// logarithm.
func (f *frame) toLog(i int) (before []float32) {
	c := &f.plan.Columns[i]
	if f.rows.file != nil {
		return nil
	}
	var logs []float32
	for r := range f.rows.n {
		x := f.rows.row(r)[i]
		y := c.number(float64(x))
		if y <= 0 {
			return nil
		}
		before, logs = append(before, x), append(logs, float32(math.Log(y)))
	}
	c.Log, c.Spread = true, c.Deviation
	f.put(i, logs)
	return before
}

// put replaces the stored values of column i.
func (f *frame) put(i int, column []float32) {
	for r, x := range column {
		f.rows.row(r)[i] = x
	}
}

// linearErrors returns the mean absolute errors of the linear forecast of each target on the validation set, in the
// units of the data. It returns nil if there is no linear forecast.
func (f *frame) linearErrors(c *Config, divided [parts][]segment) ([]float64, error) {
	if err := f.measure(divided[trainPart]); err != nil {
		return nil, err
	}
	p := f.plan
	train := f.newWindows(divided[trainPart], trainPart, c.stride(p), c.Seed)
	valid := f.newWindows(divided[validPart], validPart, c.stride(p), c.Seed)
	l := f.fitLinear(train, valid, nil)
	if l == nil || valid.Len() == 0 {
		return nil, nil
	}
	sums, ahead := p.newSums(""), make([]float64, p.Horizon)
	q := make([]float64, len(p.Levels))
	for _, n := range some(valid.Len(), linearChecks) {
		at := valid.at(n)
		for k, past := range f.seen(at) {
			col := &p.Columns[p.targets()[k]]
			l.ahead(k, past, ahead)
			for h, x := range ahead {
				q[p.middle()] = col.number(past[len(past)-1] + x)
				sums[k].add(h, col.number(float64(f.rows.row(at.hi - p.Horizon + h)[p.targets()[k]])), q)
			}
		}
	}
	var all []float64
	for _, s := range sums {
		all = append(all, s.errors().MAE)
	}
	return all, nil
}
