package theory

import (
	"math"
	"math/cmplx"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

// samples are those of a signal that is made.
func samples(t *testing.T, name string, l int, turns float64) []float64 {
	t.Helper()
	o := SignalOptions{Signal: name, Length: l, Turns: turns}
	u, err := o.Samples()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Each memory rebuilds what is in its span: the mean error is small, and smaller with more numbers.
func TestMemoriesRebuildThePast(t *testing.T) {
	const l = 400
	u := samples(t, "sine", l, 4)
	for measure, reach := range map[string]int{"legs": l - 1, "legt": l / 2, "lagt": l / 3, "fout": l / 2} {
		before := math.Inf(1)
		for _, n := range []int{4, 24} {
			_, rebuild, err := Memory(measure, u, n, 0.5, ssm.Bilinear)
			if err != nil {
				t.Fatal(err)
			}
			off := relative(rebuild(l-1, l-reach), u[l-reach:])
			if off >= before {
				t.Errorf("%s: found an error of %.3g with %d numbers, and one of %.3g with fewer", measure, off, n,
					before)
			}
			before = off
		}
		if before > 0.25 {
			t.Errorf("%s: found an error of %.3g with 24 numbers", measure, before)
		}
	}
}

// A constant, all of LegS's past, is held by the first number alone, up to the unit of time before the signal.
func TestLegSHoldsAConstant(t *testing.T) {
	states, rebuild, err := Memory("legs", samples(t, "2*step", 512, 1)[128:], 8, 1, ssm.ZOH)
	if err != nil {
		t.Fatal(err)
	}
	if got := states[383][0]; math.Abs(got-2*384.0/385) > 1e-9 {
		t.Errorf("found the mean %v, want 2 of 384 of 385 units of time", got)
	}
	past := rebuild(383, 0)
	if off := math.Abs(past[200] - 2); off > 0.01 {
		t.Errorf("found %v in the middle of the past, want 2", past[200])
	}
}

func TestErrorsFallByN(t *testing.T) {
	u := samples(t, "sine", 256, 3)
	for _, name := range []string{"Fourier", "Legendre", "Chebyshev", "Laguerre"} {
		all, err := Errors(name, u, 40, 40)
		if err != nil {
			t.Fatal(err)
		}
		if all[39] > 0.2 || all[0] < 0.9 {
			t.Errorf("%s: found errors from %.3g to %.3g", name, all[0], all[39])
		}
	}
	fourier, err := Errors("Fourier", u, 7, 1) // 1, cos, sin, cos 2, sin 2, cos 3, sin 3
	if err != nil {
		t.Fatal(err)
	}
	if fourier[5] < 0.99 || fourier[6] > 0.01 {
		t.Errorf("found %.3g before the sine of 3 periods and %.3g with it", fourier[5], fourier[6])
	}
	if _, err := Errors("Hermite", u, 4, 1); err == nil {
		t.Error("found no error for another basis")
	}
}

// find returns a panel of a page by its figure and place.
func find(t *testing.T, p *figure.Page, name string, panel int) figure.Panel {
	t.Helper()
	for _, f := range p.Figures {
		if f.Name == name {
			return f.Frames[0].Panels[panel]
		}
	}
	t.Fatalf("found no figure %s", name)
	return figure.Panel{}
}

// The table says which rules are stable, and zero-order hold is exact.
func TestDiscretizeSaysWhatIsStable(t *testing.T) {
	o := discretizeView.New().(*DiscretizeOptions)
	o.Dt = 1
	got := map[string][]string{}
	for _, row := range find(t, page(t, o), "poles", 2).Table.Rows {
		got[row[0]] = row
	}
	for rule, want := range map[string]string{"euler": "no", "backward_diff": "yes", "bilinear": "yes", "zoh": "yes"} {
		if got[rule][3] != want {
			t.Errorf("%s: found %q, want %q", rule, got[rule][3], want)
		}
	}
	o.Friction = 0
	for _, row := range find(t, page(t, o), "poles", 2).Table.Rows {
		if row[0] == "bilinear" && row[3] != "on the border" {
			t.Errorf("found a spring without friction %q, want it on the border", row[3])
		}
	}
}

// What the caption says of the bilinear rule: it has the response of a bent frequency.
func TestBilinearRuleBendsFrequencies(t *testing.T) {
	o := discretizeView.New().(*DiscretizeOptions)
	system := o.spring().System()
	d, err := system.Discretize(o.Dt, ssm.Bilinear)
	if err != nil {
		t.Fatal(err)
	}
	for _, omega := range []float64{0.1, 1, 2, 5, 10} {
		half := omega * o.Dt / 2
		want := cmplx.Abs(system.FrequencyResponse(2/o.Dt*math.Tan(half))) / math.Cos(half)
		if got := cmplx.Abs(d.FrequencyResponse(omega * o.Dt)); math.Abs(got-want) > 1e-12 {
			t.Errorf("at %v: found |H| = %v, want %v", omega, got, want)
		}
	}
}

// About 95 of 100 true positions are within two standard deviations, over many runs, and filtering helps.
func TestKalmanBandsHold(t *testing.T) {
	inside, all := 0, 0
	var seen, filtered, smoothed []float64
	for seed := range uint64(20) {
		o := springView.New().(*KalmanOptions)
		o.Seed = seed
		u := samples(t, "square", 200, 2)
		f, err := o.follow(u)
		if err != nil {
			t.Fatal(err)
		}
		for k, g := range f.track.Filtered {
			off := g.Mean[0] - f.truth[k][0]
			if all++; off*off <= 4*g.Cov.At(0, 0) {
				inside++
			}
			seen = append(seen, f.seen[k][0]-f.truth[k][0])
			filtered = append(filtered, off)
			smoothed = append(smoothed, f.smoothed[k].Mean[0]-f.truth[k][0])
		}
	}
	if share := float64(inside) / float64(all); share < 0.93 || share > 0.975 {
		t.Errorf("found %.3f of the positions in the band, want about 0.954", share)
	}
	if !(rms(smoothed) < rms(filtered) && rms(filtered) < rms(seen)) {
		t.Errorf("found errors of %.3g seen, %.3g filtered, %.3g smoothed, want each less than the one before",
			rms(seen), rms(filtered), rms(smoothed))
	}
}

// The page of the recall circuit says what follows a token that was seen.
func TestRecallSaysWhatFollowed(t *testing.T) {
	o := &RecallOptions{text: "a 1 b 2 ñ 3 a"}
	rows := find(t, page(t, o), "steps", 0).Table.Rows
	last := rows[len(rows)-1]
	if last[2] != "3" || last[4] != "1" {
		t.Errorf("found the last step %q, want the key 3 and 1 to be read", last)
	}
	for _, row := range rows[:6] {
		if row[4] != "" {
			t.Errorf("found %q read at a token that is new: %q", row[4], row)
		}
	}
}

// The kernel that reads the input of some samples ago is a bump there, by every measure, and all three ways agree.
func TestS4ReadsThePast(t *testing.T) {
	for _, measure := range []string{"legs", "legt", "lagt", "fout"} {
		o := &S4Options{Measure: measure, N: 32, Dt: 0.02, Age: 40, Length: 256}
		dense, s, err := o.system()
		if err != nil {
			t.Fatal(err)
		}
		d, err := dense.Discretize(o.Dt, ssm.Bilinear)
		if err != nil {
			t.Fatal(err)
		}
		kernel := d.Kernel(o.Length)
		if peak := floats.MaxIdx(kernel); peak < 35 || peak > 45 {
			t.Errorf("%s: found the largest number of the kernel at lag %d, want it at about 40", measure, peak)
		}
		if off := relative(s.Kernel(o.Length), kernel); off > 1e-9 {
			t.Errorf("%s: diagonal plus low rank is off by %.3g", measure, off)
		}
		text, err := o.kernel(dense, s)
		if err != nil {
			t.Fatal(err)
		}
		if pole := strings.Contains(text.Caption, "pole at z = 1"); pole != (measure == "fout") {
			t.Errorf("%s: found the caption %q", measure, text.Caption)
		}
		page(t, o)
	}
}

// The eigenvectors of LegS are worth nothing for large n.
func TestEigenvectorsOfLegS(t *testing.T) {
	legs, _ := ssm.LegS(16)
	skew := mat.NewDense(2, 2, []float64{0, 1, -1, 0})
	if c, ok := eigenvectorCondition(legs); !ok || c < 1e9 {
		t.Errorf("LegS: found the condition number %.3g", c)
	}
	if c, ok := eigenvectorCondition(skew); !ok || math.Abs(c-1) > 1e-9 {
		t.Errorf("a rotation: found the condition number %.3g, want 1", c)
	}
}

// Selection holds a token through noise, and one dt for all cannot.
func TestSelectionHolds(t *testing.T) {
	p := page(t, selectiveView.New())
	series := find(t, p, "outputs", 0).Lines.Series
	want, selective, same := series[0].Y, series[1].Y, series[2].Y
	if relative(selective, want) > 0.1 || relative(same, want) < 0.3 {
		t.Errorf("found errors of %.3g with selection and %.3g without", relative(selective, want), relative(same,
			want))
	}
}

func TestSignalsFromFiles(t *testing.T) {
	values := make([]float64, 100)
	for i := range values {
		values[i] = float64(i)
	}
	o := SignalOptions{Signal: "x.wav", Length: 20, Recording: &Recording{Name: "x.wav", Values: values, Rate: 1000}}
	s, err := o.take()
	if err != nil {
		t.Fatal(err)
	}
	if len(s.u) != 20 || s.u[19] != 19 || !strings.Contains(s.notes[0], "has 100 samples. The first 20 are shown") {
		t.Errorf("found %v, %q", s.u, s.notes)
	}
	o.Whole = true
	if s, err = o.take(); err != nil {
		t.Fatal(err)
	}
	if len(s.u) != 20 || s.u[19] != 97 || s.name != "x.wav, 200 samples a second" || !strings.Contains(s.notes[0],
		"mean of about 5") {
		t.Errorf("found %v of %s, %q", s.u, s.name, s.notes)
	}
}

func TestReadCSV(t *testing.T) {
	for name, c := range map[string]struct {
		text, column, name string
		want               []float64
	}{
		"plain":      {"1\n2\n3\n", "", "column 1", []float64{1, 2, 3}},
		"header":     {"date,close\n2020-01-01,5.5\n2020-01-02,6\n", "", "close", []float64{5.5, 6}},
		"by name":    {"a,b\n1,2\n3,4\n", "b", "b", []float64{2, 4}},
		"by place":   {"a,b\n1,2\n3,4\n", "2", "b", []float64{2, 4}},
		"semicolons": {"a;b\n1;2\n3;4", "b", "b", []float64{2, 4}},
		"tabs":       {"1\t2\n3\t4", "2", "column 2", []float64{2, 4}},
		"mark":       {"\ufeffa\n1\n", "a", "a", []float64{1}},
		"one line":   {"1,2", "2", "column 2", []float64{2}},
		"terminal": {"é\x1b[2J" + strings.Repeat("x", 100) + "\n1", "1", "é?[2J" + strings.Repeat("x", 55),
			[]float64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			got, values, err := ReadCSV(strings.NewReader(c.text), c.column)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.name || relative(values, c.want) != 0 || len(values) != len(c.want) {
				t.Errorf("found %q, %v, want %q, %v", got, values, c.name, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ text, column, want string }{
		"empty":       {"", "", "found an empty file"},
		"words":       {"a,b\nc,d\n", "", `line 2: found ["c" "d"], want a column of numbers`},
		"no column":   {"a,b\n1,2\n", "c", `found no column "c", want one of ["a" "b"], or a place from 1 to 2`},
		"far column":  {"a,b\n1,2\n", "3", "a place from 1 to 2"},
		"NaN":         {"a\n1\nNaN\n", "", `line 3, column 1 (a): found "NaN", want a finite number such as 1.5`},
		"comma":       {"a;b\n1;2\n1;2,5\n", "b", `found "2,5", want a finite number such as 1.5`},
		"infinite":    {"a\n1\n1e400\n", "", `found "1e400"`},
		"gap":         {"a,b\n1,2\n1,\n", "b", `line 3, column 2 (b): found ""`},
		"short line":  {"a,b\n1,2\n1\n", "b", "line 3: found 1 columns, want 2"},
		"only header": {"a\n", "a", `line 1, column 1 (column 1): found "a"`},
		"quote":       {"a\n\"1\n", "", "extraneous or missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, values, err := ReadCSV(strings.NewReader(c.text), c.column)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v and the error %v, want one with %q", values, err, c.want)
			}
		})
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add("a,b\n1,2\n3,4\n", "b")
	f.Add("1;2\n", "2")
	f.Fuzz(func(t *testing.T, text, column string) {
		_, values, err := ReadCSV(strings.NewReader(text), column)
		for _, v := range values {
			if err == nil && !(math.Abs(v) <= largest) {
				t.Errorf("found %v", v)
			}
		}
	})
}

// TestDiceTendToTheBell: two fair dice show a 7 once in six throws, two that like the 6 less often (0.04 + 2·0.05). The
// more dice, fair or not, the nearer is their sum to the normal density.
func TestDiceTendToTheBell(t *testing.T) {
	const fair, loaded = "1,1,1,1,1,1", "1,1,1,1,1,5"
	for _, faces := range []string{fair, loaded} {
		p := page(t, &DiceOptions{Faces: faces, Dice: 32})
		two := p.Figures[1].Frames[1].Panels[0].Lines.Series[0]
		if want := map[string]float64{fair: 1.0 / 6, loaded: 0.14}[faces]; math.Abs(two.Y[5]-want) > 1e-15 {
			t.Errorf("faces %s: P(%v) = %v, want %v", faces, two.X[5], two.Y[5], want)
		}
		apart := p.Figures[2].Frames[0].Panels[0].Lines.Series[0].Y
		for _, n := range []int{2, 4, 8, 16} {
			if ratio := apart[2*n-1] / apart[n-1]; ratio > 0.75 {
				t.Errorf("faces %s: %d dice are %.2g times as far off as %d", faces, 2*n, ratio, n)
			}
		}
	}
}

// TestTransformsOfPieces: the transform of a box is its width at 0, and that of a sine is largest at the tone, with
// half the width.
func TestTransformsOfPieces(t *testing.T) {
	p := page(t, &TransformsOptions{Widths: "8", Tone: 1.5, Highest: 3})
	for i, want := range []struct{ at, size float64 }{{0, 8}, {1.5, 4}} {
		s := p.Figures[i].Frames[0].Panels[0].Lines.Series[0]
		largest := slices.Max(s.Y)
		at := math.Abs(s.X[slices.Index(s.Y, largest)])
		if math.Abs(at-want.at) > 0.02 || math.Abs(largest-want.size) > 0.05 {
			t.Errorf("%s: found %v at %v, want %v at %v", p.Figures[i].Name, largest, at, want.size, want.at)
		}
	}
}
