package fit

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// TestWriter checks the columns of predictions for each task, and their values as text: seven digits, times in UTC to
// the microsecond, and empty texts for unknown values.
func TestWriter(t *testing.T) {
	at := func(unit string, n int64) table.Place { return table.Place{Unit: unit, At: n} }
	q := [][]float64{{1, 2, 3, 4.00000049, 5}}
	number5 := func(task string) *Plan {
		return &Plan{Task: task, Levels: []float64{0.1, 0.25, 0.5, 0.75, 0.9}, Columns: []Column{number("x", false),
			number("y", true)}}
	}
	classes := func(n int) *Plan {
		p := &Plan{Task: Classify, Columns: []Column{category("k", true)}}
		for i := range n {
			p.Columns[0].Classes = append(p.Columns[0].Classes, string(rune('A'+i)))
		}
		return p
	}
	timed := number5(Steps)
	timed.Time, timed.Series = &table.Column{Name: "t"}, "s"
	many := make([]float64, 21)
	many[20] = 1
	for name, c := range map[string]struct {
		p    *Plan
		opt  WriteOptions
		all  []Prediction
		want string
	}{
		"quantiles": {number5(Steps), WriteOptions{}, []Prediction{{Place: at("line", 2), Quantiles: q},
			{Place: at("line", 3), Quantiles: [][]float64{{-1e-9, 0, 12345678, 1e20, 1e21}}}},
			"line,y 10%,y,y 90%\n2,1,3,5\n3,-1e-09,1.234568e+07,1e+21\n"},
		"all quantiles": {number5(Steps), WriteOptions{All: true}, []Prediction{{Place: at("line", 2), Quantiles: q}},
			"line,y 10%,y 25%,y,y 75%,y 90%\n2,1,2,3,4,5\n"},
		"times and series": {timed, WriteOptions{}, []Prediction{
			{Place: at("row", 2), Series: "a,b", Time: 1.5, Quantiles: q}, {Time: nan, Quantiles: q},
			{Time: 86399.9999997, Quantiles: q}, {Time: -1e11, Quantiles: q}, {Time: 1.01e11, Quantiles: q}},
			"series,row,time,y 10%,y,y 90%\n\"a,b\",2,1970-01-01T00:00:01.5Z,1,3,5\n,0,,1,3,5\n" +
				",0,1970-01-02T00:00:00Z,1,3,5\n,0,-1199-02-15T14:13:20Z,1,3,5\n,0,,1,3,5\n"},
		"a series of the first": {number5(Steps), WriteOptions{}, []Prediction{{Place: at("line", 2), Series: "a",
			Quantiles: q}, {Place: at("line", 3), Quantiles: q}}, "series,line,y 10%,y,y 90%\na,2,1,3,5\n,3,1,3,5\n"},
		"a series of the second": {number5(Steps), WriteOptions{}, []Prediction{{Place: at("line", 2), Quantiles: q},
			{Place: at("line", 3), Series: "a", Quantiles: q}}, "line,y 10%,y,y 90%\n2,1,3,5\n3,1,3,5\n"},
		"forecasts": {number5(Forecast), WriteOptions{}, []Prediction{{Place: at("line", 9), Step: 1, Quantiles: q}},
			"step,y 10%,y,y 90%\n1,1,3,5\n"},
		"live forecasts": {number5(Forecast), WriteOptions{Live: true}, []Prediction{{Place: at("line", 9), Step: 1,
			Quantiles: q}}, "line,step,y 10%,y,y 90%\n9,1,1,3,5\n"},
		"filled": {number5(Fill), WriteOptions{}, []Prediction{{Place: at("line", 2), Quantiles: q,
			Given: []float64{nan}}}, "line,y,y expected 10%,y expected,y expected 90%\n2,,1,3,5\n"},
		"scores": {number5(Anomaly), WriteOptions{}, []Prediction{{Place: at("line", 2), Given: []float64{7},
			Score: nan},
			{Place: at("line", 3), Quantiles: q, Given: []float64{7}, Score: 1.23456789, Unusual: true}},
			"line,score,unusual,y,y expected 10%,y expected,y expected 90%\n2,,0,7,,,\n3,1.234568,1,7,1,3,5\n"},
		"classes": {classes(2), WriteOptions{}, []Prediction{{Place: at("line", 2),
			Probabilities: []float64{0.123456789, 0.876543211}}},
			"line,class,probability,p(A),p(B)\n2,B,0.8765432,0.1234568,0.8765432\n"},
		"20 classes": {classes(20), WriteOptions{}, []Prediction{{Place: at("line", 2), Probabilities: many[:20]}},
			"line,class,probability" + letters(20) + "\n2,A,0" + strings.Repeat(",0", 20) + "\n"},
		"21 classes": {classes(21), WriteOptions{}, []Prediction{{Place: at("line", 2), Probabilities: many}},
			"line,class,probability\n2,U,1\n"},
		"all of 21 classes": {classes(21), WriteOptions{All: true}, []Prediction{{Place: at("line", 2),
			Probabilities: many}}, "line,class,probability" + letters(21) + "\n2,U,1" + strings.Repeat(",0", 20) +
			",1\n"},
		"lines of JSON": {timed, WriteOptions{As: AsJSONL}, []Prediction{{Place: at("row", 2), Series: "a\"",
			Time:      3600,
			Quantiles: q}, {Place: at("row", 3), Time: nan}},
			`{"series":"a\"","row":2,"time":"1970-01-01T01:00:00Z","y 10%":1,"y":3,"y 90%":5}` + "\n" +
				`{"series":"","row":3,"time":"","y 10%":null,"y":null,"y 90%":null}` + "\n"},
	} {
		var out bytes.Buffer
		w := NewWriter(&out, c.p, c.opt)
		for i := range c.all {
			if err := w.Write(&c.all[i]); err != nil {
				t.Fatal(name, err)
			}
			if lines := bytes.Count(out.Bytes(), []byte("\n")); c.opt.Live && lines != i+2 {
				t.Errorf("%s: %d lines after %d predictions", name, lines, i+1)
			}
		}
		if err := w.Close(); err != nil || out.String() != c.want {
			t.Errorf("%s: found %v\n%s\nwant\n%s", name, err, out.String(), c.want)
		}
	}
}

// letters returns the columns of the probabilities of n classes.
func letters(n int) (text string) {
	for i := range n {
		text += ",p(" + string(rune('A'+i)) + ")"
	}
	return text
}

// TestWriteParquet checks that predictions in a Parquet file are read back unchanged.
func TestWriteParquet(t *testing.T) {
	p := &Plan{Task: Anomaly, Levels: []float64{0.1, 0.5, 0.9}, Columns: []Column{number("y", true)}, Series: "s",
		Time: &table.Column{Name: "t"}}
	path := filepath.Join(t.TempDir(), "x.parquet")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(out, p, WriteOptions{As: AsParquet})
	for i := range 3 {
		err := w.Write(&Prediction{Place: table.Place{Unit: "row", At: int64(7 + i)}, Series: "a",
			Time:      3600 * float64(i),
			Quantiles: [][]float64{{1, nan, 3}}, Given: []float64{float64(i)}, Score: 2.5, Unusual: i == 1})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := table.Open([]string{path}, nil, table.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	err = table.Each(r, func(v *table.Values) error {
		want := []float64{nan, float64(7 + n), 3600 * float64(n), 2.5, nan, float64(n), 1, nan, 3}
		sameNumbers(t, "row", v.Numbers, want, 0)
		n++
		return nil
	})
	if n != 3 || err != nil {
		t.Errorf("found %d rows, %v", n, err)
	}
	err = NewWriter(io.Discard, p, WriteOptions{As: AsParquet}).Close()
	if err == nil || !strings.Contains(err.Error(), "found nothing to write") {
		t.Errorf("of no prediction: %v", err)
	}
}
