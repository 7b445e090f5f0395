package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// correlationOf returns the correlation of one column of numbers.
func correlationOf(t *testing.T, x []float64) (r []float64, n float64) {
	t.Helper()
	f := &frame{plan: &Plan{Columns: []Column{{Column: table.Column{Kind: table.Number}}}}, rows: newStore("", 1)}
	for _, v := range x {
		if err := f.rows.add([]float32{float32(v)}); err != nil {
			t.Fatal(err)
		}
	}
	return f.correlation([]segment{{0, 0, len(x)}}, []int{0}, false)
}

// TestCorrelationIsTheDefinition checks the sums over pairs of rows with values, written as in the formula.
func TestCorrelationIsTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 50)
	for i := range x {
		if x[i] = 3 + rng.NormFloat64(); i%7 == 3 {
			x[i] = math.NaN()
		}
	}
	got, numbers := correlationOf(t, x)
	if len(got) != 26 || math.Round(numbers) != 43 {
		t.Fatalf("found %d lags of %g numbers, want those up to 25, of 43", len(got), numbers)
	}
	mean, n := 0.0, 0.0
	for _, v := range x {
		if v == v {
			mean, n = mean+v, n+1
		}
	}
	mean /= n
	at := func(k int) float64 {
		sum, pairs := 0.0, 0.0
		for i := range len(x) - k {
			if a, b := x[i], x[i+k]; a == a && b == b {
				sum, pairs = sum+(a-mean)*(b-mean), pairs+1
			}
		}
		return sum / pairs
	}
	for k, r := range got {
		if want := at(k) / at(0); math.Abs(r-want) > 1e-5 { // numbers are stored in 32 bits
			t.Errorf("lag %d: found %g, want %g", k, r, want)
		}
	}
}

// TestPeriods checks that a day and a week in hourly data with noise and a trend are found, that a single wave is found
// once, and that nothing is found in noise, in a random walk, or in constant data.
func TestPeriods(t *testing.T) {
	const n = 24 * 7 * 12
	wave := func(i int, period float64) float64 { return math.Sin(2 * math.Pi * float64(i) / period) }
	level := 0.0
	for name, c := range map[string]struct {
		at   func(i int, noise float64) float64
		want []int
	}{
		"a day and a week": {func(i int, noise float64) float64 {
			weekend := 0.0
			if i/24%7 > 4 {
				weekend = 2
			}
			return float64(i)/n + wave(i, 24) + weekend + 0.5*noise
		}, []int{24, 168}},
		"a wave":        {func(i int, noise float64) float64 { return wave(i, 31.4) + 0.3*noise }, []int{31}},
		"noise":         {func(_ int, noise float64) float64 { return noise }, nil},
		"a random walk": {func(_ int, noise float64) float64 { level += noise; return level }, nil},
		"one number":    {func(int, float64) float64 { return 7 }, nil},
	} {
		rng := rand.New(rand.NewPCG(3, 4))
		x := make([]float64, n)
		for i := range x {
			x[i] = c.at(i, rng.NormFloat64())
		}
		if got := periods(correlationOf(t, x)); !slices.Equal(got, c.want) {
			t.Errorf("%s: found the periods %v, want %v", name, got, c.want)
		}
	}
}

// TestPeriodsOfChanges checks that a day hidden by a slow random walk is found in the changes from hour to hour.
func TestPeriodsOfChanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	f := &frame{rows: newStore("", 1), plan: &Plan{Task: Next, Columns: []Column{{
		Column: table.Column{Name: "x", Kind: table.Number}, Target: true, In: true}}}}
	const n = 2000
	level := 0.0
	for i := range n {
		level += 0.1 * rng.NormFloat64()
		if err := f.rows.add([]float32{float32(level + 0.3*math.Sin(2*math.Pi*float64(i)/24))}); err != nil {
			t.Fatal(err)
		}
	}
	f.seqs = []sequence{{hi: n}}
	if got := f.period(); got != 24 {
		t.Errorf("found a season of %d rows, want 24", got)
	}
	s := TimeScales{Window: 2}
	s.ofData(f, []segment{{0, 0, n}})
	last := s.Data[len(s.Data)-1]
	if !last.Repeats || last.Rows != 24 || s.Of != "the changes of x" {
		t.Errorf("found %+v of %s, want that it repeats after 24 rows", s.Data, s.Of)
	}
}

// TestCorrelationOfLetters checks that a category repeats as its classes do.
func TestCorrelationOfLetters(t *testing.T) {
	f := &frame{rows: newStore("", 1), plan: &Plan{Columns: []Column{{Column: table.Column{Kind: table.Category},
		Classes: []string{"A", "C", "G"}}}}}
	for i := range 120 {
		if err := f.rows.add([]float32{float32(i % 3)}); err != nil {
			t.Fatal(err)
		}
	}
	r, n := f.correlation([]segment{{0, 0, 120}}, []int{0}, false)
	if got := periods(r, n); !slices.Equal(got, []int{3}) || math.Abs(r[3]-1) > 1e-6 || math.Abs(r[1]+0.5) > 0.02 {
		t.Errorf("found the periods %v of the correlation %v", got, r[:4])
	}
}
