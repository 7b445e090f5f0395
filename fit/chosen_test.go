package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// TestChosenWeights checks that the weights of the decision, on random examples, follow the rule: the power of balanced
// weights with the highest macro F1, among those that raise the balanced accuracy by more than 1.645 of its deviations.
func TestChosenWeights(t *testing.T) {
	p := classPlan()
	rng := rand.New(rand.NewPCG(3, 1))
	taken := map[string]int{}
	for trial := range 600 {
		counts, n := []int{1 + rng.IntN(400), 1 + rng.IntN(20), rng.IntN(4)}, 12+rng.IntN(40)
		says := math.Exp(-4 * rng.Float64()) // probabilities of rare classes
		var all [][]float64
		var truths []int
		for range n {
			truth := max(0, rng.IntN(6)-3)
			x := []float64{1, says * rng.Float64(), says * rng.Float64()}
			if truth > 0 {
				x[truth] += 0.5 * says * rng.Float64()
			}
			sum := x[0] + x[1] + x[2]
			all, truths = append(all, []float64{x[0] / sum, x[1] / sum, x[2] / sum}), append(truths, truth)
		}
		of := func(w []float64) (f1 float64, right []bool) { // macro F1 over the classes with examples
			var is, told, both [3]float64
			for i, x := range all {
				best := 0
				for k := range x {
					if x[k]*w[k] > x[best]*w[best] {
						best = k
					}
				}
				is[truths[i]]++
				told[best]++
				both[best] += float64(bit(best == truths[i]))
				right = append(right, best == truths[i])
			}
			classes := 0.0
			for k, m := range is {
				if m > 0 {
					f1, classes = f1+2*both[k]/(m+told[k]), classes+1
				}
			}
			return f1 / classes, right
		}
		alike, before := of([]float64{1, 1, 1})
		want, best, how := []float64(nil), alike, ""
		for _, power := range []float64{0.25, 0.5, 0.75, 1} {
			sum, w := 0.0, make([]float64, 3)
			for _, m := range counts {
				sum += math.Max(1, float64(m))
			}
			for k, m := range counts {
				w[k] = math.Pow(sum/3/math.Max(1, float64(m)), power)
			}
			f1, now := of(w)
			rise, variance := 0.0, 0.0
			for i, truth := range truths {
				count := 0.0
				for _, other := range truths {
					count += float64(bit(other == truth))
				}
				d := float64(bit(now[i])-bit(before[i])) / count
				rise, variance = rise+d, variance+d*d
			}
			if f1 > best && rise > 1.645*math.Sqrt(variance) {
				want, best = w, f1
				how = fmt.Sprintf("one)^%g to tell the class: macro F1 %.3g on the validation part, %.3g without",
					power, f1,
					alike)
			}
		}
		got, note := p.chooseWeights(all, truths, counts)
		sameNumbers(t, fmt.Sprint("trial ", trial), got, want, 1e-12)
		if !strings.Contains(note, how) || (note == "") != (how == "") {
			t.Errorf("trial %d: told %q, want %q", trial, note, how)
		}
		taken[how[:min(len(how), 10)]]++
	}
	if len(taken) != 5 {
		t.Errorf("found the powers %v, want each of them", taken)
	}
}

// TestFloorOfClasses checks that chance, and the deviation of the balanced accuracy, are computed over the classes with
// examples.
func TestFloorOfClasses(t *testing.T) {
	score := func(confusion ...[]int) *ClassScore {
		s := newClassScore([]string{"a", "b", "c"}[:len(confusion)])
		s.Confusion = confusion
		for _, row := range confusion {
			for _, n := range row {
				s.Count += n
			}
		}
		s.finish()
		s.Majority = 99
		return s
	}
	// Recalls of 0.58, of 100 each, are 0.08 above chance: the deviation is √(2·0.2436/100)/2 = 0.0349. It is the same
	// with a class without examples. Recalls of 0.57 are less than twice the deviation, 0.0350, above it.
	for want, all := range map[string][]*ClassScore{
		"finds the others: balanced accuracy 58 %, not 50 %": {score([]int{58, 42}, []int{42, 58}),
			score([]int{58, 42, 0},
				[]int{42, 58, 0}, []int{0, 0, 0})},
		"nor by balanced accuracy: 57 %, and 50 % by chance": {score([]int{57, 43}, []int{43, 57}),
			score([]int{57, 43, 0},
				[]int{43, 57, 0}, []int{0, 0, 0})},
	} {
		for _, s := range all {
			if got := s.floor("a"); !strings.Contains(got, want) {
				t.Errorf("found %q, want %q", got, want)
			}
		}
	}
	s := score([]int{1, 0}, []int{0, 0})
	if s.Majority = 100; !strings.Contains(s.floor("a"), "nor by balanced accuracy: 100 %, and 100 % by chance") {
		t.Errorf("of one example: found %q", s.floor("a"))
	}
}

// TestUseOfPlans checks that without contenders the network predicts, as in earlier versions, and otherwise the choice
// of the run.
func TestUseOfPlans(t *testing.T) {
	for _, c := range []struct {
		use        string
		contenders int
		name       string
		want       string // the rival, or an error
	}{
		{"", 0, "", ""}, {"", 0, "best", ""}, {"", 0, "network", ""},
		{"", 0, "last", `use: found "last", want best or one`},
		{"", 2, "", ""}, {"last", 2, "", "last"}, {"last", 2, "network", ""}, {"network", 2, "best", "last"},
		{"last", 2, "linear", `use: found "linear", want best or one of network, last`},
	} {
		p := &Plan{Use: c.use, Contenders: []*Contender{{Name: useNetwork, Error: 2},
			{Name: "last", Error: 1}}[:c.contenders]}
		m, err := (&Model{plan: p}).Use(c.name)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case m.rival != nil:
			got = m.rival.Name
		}
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%+v: found %q", c, got)
		}
	}
}

// TestFinalIntervals checks that a network that was trained on all rows has intervals as wide as its last forecasts or
// as the validation part requires, whichever is wider. Another network has those of its last forecasts if there are
// any.
func TestFinalIntervals(t *testing.T) {
	p := banded(2, 0, 0.1, 0.3, 0.5, 0.7, 0.9)
	p.Widen = [][][]float64{{{1}, {0.2, 0.5}}}
	e, err := newEncoder(p)
	if err != nil {
		t.Fatal(err)
	}
	e.from([]float32{100})
	m := &Model{plan: p, enc: e}
	y := []float32{-2, -1, 0, 3, 4}
	wide := [][][]float64{{{0.5, 2}, {0.25, -9}}} // by pair and group; here each step is a group
	for _, c := range []struct {
		final bool
		step  int
		wide  [][][]float64
		want  []float64
	}{
		{false, 0, nil, []float64{97, 98.8, 100, 103.2, 105}}, {false, 1, nil, []float64{97, 98.5, 100, 103.5, 105}},
		{false, 0, wide, []float64{97.5, 98.75, 100, 103.25, 104.5}}, {false, 1, wide,
			[]float64{96, 100, 100, 100, 106}},
		{true, 0, wide, []float64{97, 98.75, 100, 103.25, 105}}, {true, 1, wide, []float64{96, 98.5, 100, 103.5, 106}},
		{true, 0, nil, []float64{97, 98.8, 100, 103.2, 105}},
	} {
		p.Final = c.final
		sameNumbers(t, fmt.Sprintf("%+v", c), m.calibrated(e, y, 0, c.step, 0, c.wide), c.want, 1e-9)
	}
	r := &recent{p: banded(4, 100, 0.1, 0.5, 0.9)}
	for at := range 300 {
		if r.p.asked(at) {
			r.add(at, []float64{float64(at), float64(at), float64(at), float64(at)})
		}
	}
	// Every second of 100 rows is used: for 50 forecasts in 4 groups of one step, the widths are the 41st.
	if got := r.widths(200); fmt.Sprint(got) != "[[[178 178 178 178]]]" || r.p.every() != 2 || r.p.groups() != 4 {
		t.Errorf("found the widths %v of every %d rows in %d groups", got, r.p.every(), r.p.groups())
	}
	if got := r.widths(201); fmt.Sprint(got) != "[[[178 178 178 178]]]" {
		t.Errorf("a row later the same forecasts give %v", got)
	}
	if got := r.widths(202); fmt.Sprint(got) != "[[[180 180 180 180]]]" {
		t.Errorf("two rows later: found %v", got)
	}
	few := slices.Clone(r.at)
	for now, keeps := range map[int]int{203: 150, 295: 150, 297: 53} {
		s := &recent{p: r.p, at: slices.Clone(few), off: slices.Clone(r.off)}
		if s.drop(now); len(s.at) != keeps || len(s.off) != keeps {
			t.Errorf("before row %d: %d forecasts are kept, want %d", now, len(s.at), keeps)
		}
	}
	var none *recent
	if none.widths(9) != nil || r.widths(3) != nil {
		t.Errorf("of no forecast: found %v and %v", none.widths(9), r.widths(3))
	}
}

// TestImportanceOfTimes checks that times, if they are inputs, count as a column, and that a note tells if windows are
// too long for permutations of so many columns.
func TestImportanceOfTimes(t *testing.T) {
	p := &Plan{Task: Regress, Levels: []float64{0.5}, Step: 1, Time: &table.Column{Name: "when"}, Columns: []Column{
		number("a", false), number("y", true)}}
	p.Columns[1].In = false
	var series [][][]float32
	for i := range 10 {
		series = append(series, [][]float32{{float32(i), float32(i), float32(i), 0}, {0, float32(i), 50, 0}})
	}
	f := made(t, p, series...)
	w := f.newWindows(f.wholeSeries(), validPart, 1, 2)
	var notes []string
	for _, c := range []struct {
		name   string
		change func(p *Plan)
		want   string
	}{
		{"none", func(*Plan) {}, ""}, {"an input", func(p *Plan) { p.Irregular = true }, "when a"},
		{"steps", func(p *Plan) { p.Dt = DtSteps }, "when a"},
		{"the calendar", func(p *Plan) { p.Calendar = []string{"hour"} }, "when a"},
	} {
		q := *p
		c.change(&q)
		f.plan = &q
		m := by(t, &q, func(_ *encoder, rows []float32, _ int, dst []float64) { dst[0] = float64(rows[2]) })
		im, err := m.importance(background(), w, 6, &notes)
		got := ""
		if im != nil {
			for _, c := range im.Columns {
				got += " " + c.Column
			}
		}
		if err != nil || strings.TrimSpace(got) != c.want || len(notes) > 0 || im != nil && (im.Windows != 6 ||
			im.Columns[1].Rise != 0 || im.Columns[0].Rise <= 0) {
			t.Errorf("%s: found %q, %+v, %v", c.name, got, im, err)
		}
	}
	p.Columns = append(p.Columns, number("b", false))
	series = nil
	for i := range 8 {
		series = append(series, slices.Repeat([][]float32{{float32(i), float32(2 * i), 0, 0, 0}}, 4700))
	}
	f = made(t, p, series...)
	once, err := by(t, p,
		func(_ *encoder, rows []float32, _ int, dst []float64) { dst[0] = float64(rows[0]) }).importance(
		background(), f.newWindows(f.wholeSeries(), validPart, 1, 0), 50, &notes)
	if err != nil || once.Repeats != 1 || once.Windows != 8 || once.Columns[0].Deviation != 0 ||
		once.Columns[0].Rise <= 0 {
		t.Errorf("of long windows: found %+v, %v", once, err)
	}
	long := &frame{plan: p, seqs: []sequence{{hi: 700_000}, {lo: 700_000, hi: 1_600_000}}}
	m := by(t, p, func(*encoder, []float32, int, []float64) {})
	im, err := m.importance(background(), long.newWindows(long.wholeSeries(), validPart, 1, 0), 5, &notes)
	if want := "which column matters is not measured: windows of 800000 rows are too long for 2 columns"; im != nil ||
		err != nil || !slices.Equal(notes, []string{want}) {
		t.Errorf("found %v, %v, told %q, want %q", im, err, notes, want)
	}
}
