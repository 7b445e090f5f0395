package fit

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// number returns a column of numbers.
func number(name string, target bool) Column {
	return Column{Column: table.Column{Name: name, Kind: table.Number}, In: true, Target: target, Deviation: 1,
		Change: 1}
}

// category returns a column of classes.
func category(name string, target bool, classes ...string) Column {
	return Column{Column: table.Column{Name: name, Kind: table.Category}, In: true, Target: target, Classes: classes}
}

// made returns a frame of series. Each is a list of rows with the columns of the plan.
func made(t testing.TB, p *Plan, series ...[][]float32) *frame {
	t.Helper()
	f := &frame{plan: p, rows: newStore(t.TempDir(), p.width())}
	for i, rows := range series {
		s := sequence{name: string(rune('a' + i)), group: i, lo: f.rows.n}
		for _, row := range rows {
			if err := f.rows.add(row); err != nil {
				t.Fatal(err)
			}
		}
		s.hi = f.rows.n
		f.seqs = append(f.seqs, s)
	}
	f.groups = len(series)
	if err := f.rows.finish(); err != nil {
		t.Fatal(err)
	}
	return f
}

// wholeSeries returns segments of all rows.
func (f *frame) wholeSeries() (all []segment) {
	for i, s := range f.seqs {
		all = append(all, segment{i, s.lo, s.hi})
	}
	return all
}

// column returns a series with one column.
func column(x ...float64) (rows [][]float32) {
	for _, v := range x {
		rows = append(rows, []float32{float32(v)})
	}
	return rows
}

var nan = math.NaN()

// sameNumbers compares numbers.
func sameNumbers(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: found %v, want %v", what, got, want)
		return
	}
	for i, w := range want {
		if !(math.Abs(got[i]-w) <= tol) && !(got[i] != got[i] && w != w) && got[i] != w {
			t.Errorf("%s: found %v, want %v", what, got, want)
			return
		}
	}
}
