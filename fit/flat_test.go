package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
	"github.com/hippo-ssm/hippo/task"
)

// readText reads a table like a run.
func readText(t *testing.T, text string, change func(c *Config)) *frame {
	t.Helper()
	f, err := tryText(t, text, change)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// tryText is like readText, but returns the error, without the file's folder. It fails if a file is left behind.
func tryText(t *testing.T, text string, change func(c *Config)) (*frame, error) {
	t.Helper()
	c := DefaultConfig()
	dir := t.TempDir()
	c.Data, c.Out = []string{filepath.Join(dir, "x.csv")}, filepath.Join(dir, "run")
	if err := os.WriteFile(c.Data[0], []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	change(&c)
	f, err := read(context.Background(), &c, nil)
	t.Cleanup(func() {
		if f != nil {
			if err := f.rows.close(); err != nil {
				t.Error(err)
			}
		}
		if files, _ := os.ReadDir(c.Out); len(files) > 0 {
			t.Errorf("%d files are left", len(files))
		}
	})
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""))
	}
	return f, err
}

// TestMixedSeries checks that interleaved rows of several series are stored one series after another, each in its
// order, whether rows fit into memory or not, and with any number of rows collected before they are written.
func TestMixedSeries(t *testing.T) {
	defer func(a, b int) { mostInMemory, regroupBytes = a, b }(mostInMemory, regroupBytes)
	rng := rand.New(rand.NewPCG(5, 6))
	var text strings.Builder
	text.WriteString("series,x,y\n")
	names, rows := []string{}, map[string][]float32{}
	for i := range 4000 {
		name := fmt.Sprint("s", rng.IntN(37))
		if rows[name] == nil {
			names = append(names, name)
		}
		rows[name] = append(rows[name], float32(i))
		fmt.Fprintf(&text, "%s,%d,0.5\n", name, i)
	}
	for _, memory := range []struct{ rows, bytes int }{{1 << 20, 1 << 20}, {100, 1 << 20}, {100, 1}} {
		mostInMemory, regroupBytes = memory.rows, memory.bytes
		f := readText(t, text.String(), func(c *Config) { c.Task, c.Series, c.Target = Next, "series", []string{"x"} })
		if len(f.seqs) != len(names) || f.rows.n != 4000 {
			t.Fatalf("found %d series and %d rows", len(f.seqs), f.rows.n)
		}
		for i, s := range f.seqs {
			var got []float32
			for at := s.lo; at < s.hi; at++ {
				got = append(got, f.rows.row(at)[0]+float32(f.plan.Columns[0].Base))
			}
			if s.name != names[i] || s.group != i || !slices.Equal(got, rows[s.name]) {
				t.Fatalf("series %s, group %d: found %v, want %s: %v", s.name, s.group, got, names[i], rows[names[i]])
			}
		}
	}
}

// TestScalesOfOnePass checks the means, deviations, changes and bounds of all columns. A change is not computed across
// segments.
func TestScalesOfOnePass(t *testing.T) {
	text := "a,b\n1,10\n2,\n4,30\n8,10\n100,0\n101,0\n"
	f := readText(t, text, func(c *Config) { c.Task, c.Target = Next, []string{"a", "b"} })
	if err := f.measure([]segment{{0, 0, 3}, {0, 4, 6}}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []Column{
		{Mean: 208.0 / 5, Change: math.Sqrt((1 + 4 + 1) / 3.0), Low: 1, High: 101},
		{Mean: 10, Change: math.Sqrt((400 + 0) / 2.0), Low: 0, High: 30, Gaps: true},
	} {
		c := f.plan.Columns[i]
		numbers := [][]float64{{1, 2, 4, 100, 101}, {10, 30, 0, 0}}[i]
		square := 0.0
		for _, x := range numbers {
			square += (x - want.Mean) * (x - want.Mean)
		}
		want.Deviation = math.Sqrt(square / float64(len(numbers)))
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
		if !near(c.Mean, want.Mean) || !near(c.Deviation, want.Deviation) || !near(c.Change, want.Change) ||
			c.Low != want.Low || c.High != want.High || c.Gaps != want.Gaps {
			t.Errorf("column %d: found %+v, want %+v", i, c, want)
		}
	}
}

// TestManyWindows checks that only some windows, evenly spaced, are evaluated if there are too many, and that training
// windows are then farther apart, with a note.
func TestManyWindows(t *testing.T) {
	defer func(n int) { mostChosen = n }(mostChosen)
	mostChosen = 1000
	rows := newStore(t.TempDir(), 1)
	const n = 30_000
	for i := range n {
		if err := rows.add([]float32{float32(i)}); err != nil {
			t.Fatal(err)
		}
	}
	p := &Plan{Task: Forecast, Horizon: 1, Lookback: 1, Levels: []float64{0.5}, Columns: []Column{{
		Column: table.Column{Name: "x", Kind: table.Number}, In: true, Target: true, Deviation: 1, Change: 1}}}
	f := &frame{plan: p, rows: rows, seqs: []sequence{{lo: 0, hi: n}}}
	all := segment{0, 0, n}
	c := DefaultConfig()
	set, err := f.set(&c, [parts][]segment{{all}, {all}, {all}})
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Train.Len(); got > 1000 || got < 900 || len(f.notes) != 1 ||
		!strings.Contains(f.notes[0], "--stride 1 ") {
		t.Errorf("found %d windows, told %q", got, f.notes)
	}
	c.Stride = 1
	if set, err = f.set(&c, [parts][]segment{{all}, {all}, {all}}); err != nil {
		t.Fatal(err)
	}
	watched, held := set.Valid.(*thinned), set.Valid.(*thinned).windows
	if watched.Len() != evalWindows || held.Len() != n-1 {
		t.Fatalf("found %d of %d windows", watched.Len(), held.Len())
	}
	for _, i := range []int{0, 1, evalWindows - 1} {
		var got, want task.Example
		watched.Example(i, &got)
		held.Example(i*held.Len()/evalWindows, &want)
		if !slices.Equal(got.Numbers, want.Numbers) || watched.Length(i) != held.Length(0) {
			t.Errorf("window %d: found %v, want %v", i, got.Numbers, want.Numbers)
		}
	}
}
