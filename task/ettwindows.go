package task

import "slices"

// ettWindows is a Split of all windows of a part of a series: window i starts at row first + i.
type ettWindows struct {
	ETTOptions
	series   *hourly
	first, n int
}

// Len returns the number of windows.
func (w *ettWindows) Len() int { return w.n }

// width returns the number of input channels: variables, mask and stamps.
func (w *ettWindows) width() int {
	n := w.series.variables
	if w.Mask {
		n++
	}
	if w.Stamps != "none" {
		n += 4
	}
	return n
}

// results describes the variables, or with Relative their differences from the last given hour.
func (w *ettWindows) results() []Channel {
	if !w.Relative {
		return w.series.channels
	}
	var out []Channel
	for _, c := range w.series.channels {
		out = append(out, c.difference(c.Name+" less that of the last known hour"))
	}
	return out
}

// inputs describes the input channels.
func (w *ettWindows) inputs() []Channel {
	in := slices.Clone(w.results())
	if w.Mask {
		in = append(in, Channel{Name: "asked", High: 1, Deviation: 1})
	}
	if w.Stamps != "none" { // scaled as in hourly.stamp
		in = append(in, Channel{"hour", "", 0, 23, 11.5, 23}, Channel{"weekday", "0 is Monday", 0, 6, 3, 6},
			Channel{"day", "", 1, 31, 16, 30}, Channel{"month", "", 1, 12, 6.5, 11})
	}
	return in
}

// Example fills ex with window i.
func (w *ettWindows) Example(i int, ex *Example) {
	ex.Reset()
	c := w.series.variables
	from, now := w.first+i, w.first+i+w.Lookback
	last := w.series.values[(now-1)*c : now*c]
	less := func(to []float32, row int) []float32 { // appends a row
		for v, x := range w.series.values[row*c : (row+1)*c] {
			if w.Relative {
				x -= last[v]
			}
			to = append(to, x)
		}
		return to
	}
	for row := from; row < now+w.Horizon; row++ {
		var asked float32
		if row < now {
			ex.Values = less(ex.Values, row)
		} else {
			asked = 1
			ex.Values = append(ex.Values, make([]float32, c)...)
			ex.Numbers = less(ex.Numbers, row)
		}
		if w.Mask {
			ex.Values = append(ex.Values, asked)
		}
		switch {
		case w.Stamps == "none":
		case asked == 0 || w.Stamps == "all":
			ex.Values = w.series.stamp(ex.Values, row)
		default:
			ex.Values = append(ex.Values, 0, 0, 0, 0)
		}
	}
}

// ettBaselines returns the mean squared errors of simple forecasts without learning, on all windows of a part.
func ettBaselines(w *ettWindows) (all []Simple) {
	c := w.series.variables
	at := func(row, v int) float64 { return float64(w.series.values[row*c+v]) }
	back := func(period int) func(now, step, v int) float64 { // repeats the last given period
		return func(now, step, v int) float64 { return at(now-period+step%period, v) }
	}
	guesses := []struct {
		name  string
		reach int // how many past hours are needed
		guess func(now, step, v int) float64
	}{
		{"the last hour repeated", 1, back(1)},
		{"the last day repeated", 24, back(24)},
		{"the last week repeated", 7 * 24, back(7 * 24)},
		{"the mean of the training part", 0, func(_, _, _ int) float64 { return 0 }},
	}
	for _, g := range guesses {
		if g.reach > w.Lookback {
			continue
		}
		square := 0.0
		for i := range w.n {
			now := w.first + i + w.Lookback
			for step := range w.Horizon {
				for v := range c {
					e := g.guess(now, step, v) - at(now+step, v)
					square += e * e
				}
			}
		}
		all = append(all, Simple{Name: g.name, Loss: square / float64(w.n*w.Horizon*c)})
	}
	return all
}
