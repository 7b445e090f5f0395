package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"

	"github.com/hippo-ssm/hippo/task"
)

// window is a range of rows of a sequence.
type window struct {
	seq    int
	lo, hi int // in the store; for a forecast, lookback and horizon
}

// windows is a task.Split of the windows of a part of the data. Examples are created on demand.
type windows struct {
	f      *frame
	parts  []segment
	ends   []int // number of windows in the segments up to each
	length int   // rows, 0 for whole sequences
	stride int
	seed   uint64
	part   int
}

// newWindows returns the windows of a part.
func (f *frame) newWindows(segments []segment, part, stride int, seed uint64) *windows {
	p := f.plan
	w := &windows{f: f, length: p.Length, stride: max(1, stride), seed: seed, part: part}
	if p.whole() && !p.Pieces {
		w.length = 0
	}
	if p.Task == Forecast {
		w.length = p.Lookback + p.Horizon
	}
	n := 0
	for _, s := range segments {
		count := w.count(&s)
		if count <= 0 {
			continue
		}
		n += count
		w.parts, w.ends = append(w.parts, s), append(w.ends, n)
	}
	return w
}

// count returns the number of windows of a segment. The rows that a forecast sees may be in the previous part.
func (w *windows) count(s *segment) int {
	p := w.f.plan
	switch rows := s.hi - s.lo; {
	case w.length == 0:
		return 1
	case p.Task == Forecast:
		s.lo = max(s.lo, w.f.seqs[s.seq].lo+p.Lookback)
		if s.hi-s.lo < p.Horizon {
			return 0
		}
		return (s.hi-s.lo-p.Horizon)/w.stride + 1
	case p.predictsNext() && rows < 2:
		return 0
	case rows <= w.length:
		return 1
	default:
		return (rows-w.length+w.stride-1)/w.stride + 1
	}
}

// Len returns the number of windows.
func (w *windows) Len() int {
	if len(w.ends) == 0 {
		return 0
	}
	return w.ends[len(w.ends)-1]
}

// segment returns the index of the segment of window i.
func (w *windows) segment(i int) int { return sort.SearchInts(w.ends, i+1) }

// at returns window i.
func (w *windows) at(i int) window {
	k := w.segment(i)
	s := w.parts[k]
	if k > 0 {
		i -= w.ends[k-1]
	}
	p := w.f.plan
	switch {
	case w.length == 0:
		return window(s)
	case p.Task == Forecast:
		lo := s.lo + i*w.stride - p.Lookback
		return window{s.seq, lo, lo + w.length}
	}
	lo := s.lo + i*w.stride
	if lo+w.length > s.hi { // the last one ends with the segment
		lo = max(s.lo, s.hi-w.length)
	}
	return window{s.seq, lo, min(s.hi, lo+w.length)}
}

// Length returns the number of positions of example i.
func (w *windows) Length(i int) int {
	at := w.at(i)
	if w.f.plan.predictsNext() {
		return at.hi - at.lo - 1
	}
	return at.hi - at.lo
}

// Example creates example i.
func (w *windows) Example(i int, ex *task.Example) {
	ex.Reset()
	f, at := w.f, w.at(i)
	e, err := newEncoder(f.plan)
	if err != nil { // the zone existed when the data was read
		panic(err)
	}
	rows := f.rows.rows(at.lo, at.hi)
	e.example(ex, rows, w.before(at), w.hides(i))
	f.rows.release(at.lo, at.hi)
}

func (w *windows) frame() *frame { return w.f }

func (w *windows) stretch(_, lo, hi int) []float32 { return w.f.rows.rows(lo, hi) }

// before returns the time of the row before a window, NaN for none.
func (w *windows) before(at window) float64 {
	if at.lo > w.f.seqs[at.seq].lo {
		return w.f.plan.time(w.f.rows.row(at.lo - 1))
	}
	return math.NaN()
}

// longest returns the largest number of windows of a segment.
func (w *windows) longest() (n int) {
	before := 0
	for _, end := range w.ends {
		n, before = max(n, end-before), end
	}
	return n
}

// hides returns, for filling, a function that reports which columns are hidden at a row of window i; else nil.
func (w *windows) hides(i int) func(row int) []bool {
	p := w.f.plan
	if p.Task != Fill {
		return nil
	}
	rng := rand.New(rand.NewPCG(w.seed^uint64(w.part), uint64(i)))
	targets := p.targets()
	hidden := make([]bool, len(p.Columns))
	left := make([]int, len(p.Columns)) // remaining rows without a change
	return func(int) []bool {
		for _, k := range targets {
			if left[k]--; left[k] < 0 { // gaps of 1 to 12 rows, with four times as many rows between them
				hidden[k] = !hidden[k]
				left[k] = rng.IntN(12)
				if !hidden[k] {
					left[k] = 4 * rng.IntN(12)
				}
			}
		}
		return hidden
	}
}

// example sets ex to the inputs and targets of the rows of a window.
func (e *encoder) example(ex *task.Example, rows []float32, before float64, hide func(row int) []bool) {
	p, width := e.p, e.p.width()
	n := len(rows) / width
	seen := n
	switch {
	case p.Task == Forecast:
		seen = n - p.Horizon
		e.from(rows[:seen*width])
	case p.predictsNext():
		n-- // the last row has no next one
	}
	targets := p.targets()
	_, classes := p.classes()
	known := make([]float64, len(p.Columns)) // last number of each target
	for i := range known {
		if known[i] = p.Columns[i].Mean; p.whole() {
			known[i] = math.NaN()
		}
	}
	for r := range n {
		row := rows[r*width : (r+1)*width]
		var hidden []bool
		if hide != nil {
			hidden = hide(r)
		}
		step := -1
		if r >= seen {
			step = r - seen
		}
		ex.Values = e.row(ex.Values, row, before, step, hidden)
		before = p.time(row)
		for _, i := range targets {
			if x := float64(row[i]); x == x {
				known[i] = x
			}
		}
		if p.whole() && r < n-1 || p.Task == Forecast && r < seen {
			continue
		}
		for k, i := range targets {
			if p.Task == Forecast {
				known[i] = e.ahead[k][r-seen]
			}
			x := row[i]
			if p.whole() {
				x = float32(known[i])
			}
			switch {
			case classes && x == x:
				ex.Targets = append(ex.Targets, int32(x))
			case classes:
				ex.Targets = append(ex.Targets, task.Ignore)
			case p.predictsNext():
				ex.Numbers = append(ex.Numbers, float32(e.target(i, float64(rows[(r+1)*width+i]), known[i])))
			case p.Task == Fill && !hidden[i]:
				ex.Numbers = append(ex.Numbers, float32(math.NaN()))
			default:
				ex.Numbers = append(ex.Numbers, float32(e.target(i, float64(x), known[i])))
			}
		}
	}
}

// stride returns the number of rows from one training window to the next.
func (c *Config) stride(p *Plan) int {
	switch {
	case c.Stride > 0:
		return c.Stride
	case p.Task == Forecast:
		return 1
	}
	return max(1, p.Length/2)
}

// set returns the data in the form for package train.
func (f *frame) set(c *Config, divided [parts][]segment) (*task.Set, error) {
	p := f.plan
	train := f.newWindows(divided[trainPart], trainPart, c.stride(p), c.Seed)
	if c.Stride == 0 {
		train = f.thinOut(train)
	}
	s := &task.Set{Channels: len(p.inputs()), Steps: p.timeSteps(), Everywhere: !p.whole(), Inputs: p.inputs(),
		About: p.about()}
	if names, ok := p.classes(); ok {
		s.Outputs, s.Classes = len(names), classNames(names)
	} else {
		s.Numbers, s.Results = true, p.results()
		for _, level := range p.Levels {
			s.Levels = append(s.Levels, float32(level))
		}
		s.Outputs = len(p.targets()) * len(p.Levels)
	}
	splits := [parts]*windows{trainPart: train}
	for i := range splits {
		step := train.stride
		if p.Task != Forecast {
			step = max(1, p.Length) // windows without common rows
		}
		if i != trainPart {
			splits[i] = f.newWindows(divided[i], i, step, c.Seed)
		}
		if splits[i].Len() == 0 {
			return nil, f.noWindows(i, divided[i])
		}
		for k := range splits[i].parts {
			s.MaxLength = max(s.MaxLength, splits[i].most(k))
		}
	}
	s.Train, s.Valid, s.Test = splits[trainPart], thin(splits[validPart]), splits[testPart]
	return s, nil
}

// mostChosen is the maximum number of training windows if the user does not set the stride, since their order is kept
// in memory.
var mostChosen = 1 << 20 // a variable for tests

// thinOut returns the windows or, if there are more than mostChosen, windows with a larger stride.
func (f *frame) thinOut(w *windows) *windows {
	n, stride := w.Len(), w.stride
	if n <= mostChosen || f.plan.whole() {
		return w
	}
	longer := stride * ((n + mostChosen - 1) / mostChosen)
	f.notes = append(f.notes, fmt.Sprintf("training windows start %d rows apart, "+
		"as there are %d at a distance of %d (--stride %d has them all)", longer, n, stride, stride))
	return f.newWindows(w.parts, w.part, longer, w.seed)
}

// evalWindows is the maximum number of windows of the validation part that are measured during training to choose the
// best state.
const evalWindows = 4000

// thinned is a selection of at most evalWindows of a Split's windows, evenly spaced.
type thinned struct {
	*windows
	count int
}

func thin(w *windows) *thinned { return &thinned{w, min(w.Len(), evalWindows)} }

// Len returns the number of windows.
func (t *thinned) Len() int { return t.count }

// place returns the index of window i among all windows.
func (t *thinned) place(i int) int { return i * t.windows.Len() / t.count }

// Length returns the number of positions of example i.
func (t *thinned) Length(i int) int { return t.windows.Length(t.place(i)) }

// Example creates example i.
func (t *thinned) Example(i int, ex *task.Example) { t.windows.Example(t.place(i), ex) }

// most returns the number of positions of the longest window of a segment.
func (w *windows) most(k int) int {
	if w.length > 0 {
		return w.length
	}
	return w.parts[k].hi - w.parts[k].lo
}

// noWindows returns the error for a part without windows.
func (f *frame) noWindows(part int, segments []segment) error {
	p, most := f.plan, 0
	for _, s := range segments {
		most = max(most, s.hi-s.lo)
	}
	if p.Task == Forecast {
		return fmt.Errorf("the %s part: found %d rows in its longest series, want the horizon, %d, "+
			"or more (--horizon, --split)", partNames[part], most, p.Horizon)
	}
	return fmt.Errorf("the %s part: found no rows to learn from (%d series, the longest of %d rows), "+
		"want more data or another --split", partNames[part], len(segments), most)
}

// interface checks
var (
	_ task.Split   = (*windows)(nil)
	_ task.Lengths = (*windows)(nil)
	_ task.Lengths = (*thinned)(nil)
)
