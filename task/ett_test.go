package task

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// ettText returns a file of ETDataset with the given number of hours, in which variable v of hour i is value(i, v).
func ettText(hours int, value func(i, v int) float64) []byte {
	var b strings.Builder
	b.WriteString("date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT\n")
	at := time.Date(2016, 7, 1, 0, 0, 0, 0, time.UTC)
	for i := range hours {
		b.WriteString(at.Add(time.Duration(i) * time.Hour).Format(time.DateTime))
		for v := range 7 {
			fmt.Fprintf(&b, ",%g", value(i, v))
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// daily repeats every day and is different for each variable.
func daily(i, v int) float64 { return float64((v+1)*((i*i)%24)) + float64(v) }

// ettDir returns a folder with ETTh1.csv of random numbers.
func ettDir(t *testing.T) string {
	dir := t.TempDir()
	putFile(t, dir, "ETT-small/ETTh1.csv",
		ettText(ettTest+20, func(i, v int) float64 { return math.Sin(float64(i*(v+3))) + 5*float64(v) }))
	return dir
}

func TestETTParts(t *testing.T) {
	dir := ettDir(t)
	for _, horizon := range []int{24, 168, 720} {
		set, err := openTask(t, ETTh1, dir, func(o *ETTOptions) { o.Horizon, o.Lookback = horizon, 384 })
		if err != nil {
			t.Fatal(err)
		}
		// The numbers of windows of the published loaders.
		for _, part := range []struct {
			split Split
			want  int
		}{{set.Train, 8640 - 384 - horizon + 1}, {set.Valid, 2880 - horizon + 1}, {set.Test, 2880 - horizon + 1}} {
			if part.split.Len() != part.want {
				t.Errorf("horizon %d: found %d windows, want %d", horizon, part.split.Len(), part.want)
			}
		}
		if set.MaxLength != 384+horizon || set.Channels != 2 || set.Outputs != 1 || !set.Numbers || !set.Everywhere {
			t.Errorf("horizon %d: found %+v", horizon, set)
		}
	}
}

func TestETTWindows(t *testing.T) {
	dir := ettDir(t)
	var ex, later Example
	open := func(set func(o *ETTOptions)) *Set {
		s, err := openTask(t, ETTh1, dir, func(o *ETTOptions) {
			o.Horizon, o.Lookback, o.Relative = 2, 3, false
			set(o)
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	plain := open(func(o *ETTOptions) {})
	plain.Test.Example(0, &ex)
	plain.Test.Example(2, &later)
	// Positions 1 and 2 of window 2 hold the targets of window 0.
	if len(ex.Numbers) != 2 || ex.Numbers[0] != later.Values[2] || ex.Numbers[1] != later.Values[4] {
		t.Errorf("window 0 asks %v, window 2 is %v", ex.Numbers, later.Values)
	}
	if want := []float32{0, 0, 0, 1, 1}; !sameColumn(ex.Values, 2, 1, want) || ex.Values[6] != 0 || ex.Values[8] != 0 {
		t.Errorf("found the rows %v, want the mask %v and zeros under it", ex.Values, want)
	}
	if len(ex.Targets) != 0 || len(ex.Tokens) != 0 {
		t.Errorf("found classes or tokens: %+v", ex)
	}

	var relative Example
	open(func(o *ETTOptions) { o.Relative = true }).Test.Example(0, &relative)
	for i, x := range relative.Numbers {
		if x != ex.Numbers[i]-ex.Values[4] {
			t.Errorf("relative target %d is %g, want %g", i, x, ex.Numbers[i]-ex.Values[4])
		}
	}
	if relative.Values[4] != 0 {
		t.Errorf("the last known hour is %g on its own scale, want 0", relative.Values[4])
	}

	if f := plain.Forecast; f == nil || len(f.Series) != plain.Outputs || f.Series[0] != "oil temperature" ||
		f.Unit != "standard deviations from the mean" {
		t.Errorf("found the forecast of %+v, want the oil temperature in deviations from its mean", f)
	}
	if set := open(func(o *ETTOptions) { o.Horizon = 168 }); set.Published != .104 || plain.Published != 0 {
		t.Errorf("published: found %g at 168 hours and %g at 2, want .104 and none", set.Published, plain.Published)
	}

	all := open(func(o *ETTOptions) { o.Multivariate, o.Stamps, o.Mask = true, "past", false })
	if all.Channels != 11 || all.Outputs != 7 {
		t.Fatalf("found %d channels, %d outputs; want 11 and 7", all.Channels, all.Outputs)
	}
	all.Test.Example(0, &ex)
	// The test part begins 11,520 hours, 480 days, after midnight on Friday, 1 July 2016: on Tuesday, 24 October 2017.
	// The window begins 3 hours earlier.
	for i, want := range []float32{21.0/23 - 0.5, 0 - 0.5, 22.0/30 - 0.5, 9.0/11 - 0.5} {
		if math.Abs(float64(ex.Values[7+i]-want)) > 1e-6 {
			t.Errorf("stamp %d is %g, want %g", i, ex.Values[7+i], want)
		}
		if ex.Values[3*11+7+i] != 0 {
			t.Errorf("stamp %d of an hour that is asked is %g, want 0", i, ex.Values[3*11+7+i])
		}
	}
	open(func(o *ETTOptions) { o.Stamps = "all" }).Test.Example(0, &ex)
	if ex.Values[3*6+2] != -0.5 { // midnight
		t.Errorf("the first hour that is asked has the stamp %g, want -0.5", ex.Values[3*6+2])
	}
}

// sameColumn reports whether column c of rows of width values equals want.
func sameColumn(values []float32, width, c int, want []float32) bool {
	if len(values) != width*len(want) {
		return false
	}
	for i, x := range want {
		if values[i*width+c] != x {
			return false
		}
	}
	return true
}

// TestETTForecastNames checks that each output has a name, that the temperature is last, and that the unit of relative
// windows names the last known hour.
func TestETTForecastNames(t *testing.T) {
	set, err := openTask(t, ETTh1, ettDir(t), func(o *ETTOptions) { o.Multivariate = true })
	if err != nil {
		t.Fatal(err)
	}
	f := set.Forecast
	if len(f.Series) != set.Outputs || f.Series[set.Outputs-1] != "oil temperature" ||
		f.Unit != "standard deviations from the last known hour" {
		t.Errorf("found the forecast of %+v for %d outputs", f, set.Outputs)
	}
}

func TestETTScale(t *testing.T) {
	set, err := openTask(t, ETTh1, ettDir(t), func(o *ETTOptions) {
		o.Horizon, o.Lookback, o.Relative, o.Multivariate = 1, 1, false, true
	})
	if err != nil {
		t.Fatal(err)
	}
	var ex Example
	for v := range 7 {
		var sum, square float64
		n := set.Train.Len()
		for i := range n {
			set.Train.Example(i, &ex)
			x := float64(ex.Values[v])
			sum, square = sum+x, square+x*x
		}
		if mean := sum / float64(n); math.Abs(mean) > 1e-3 || math.Abs(square/float64(n)-1) > 1e-3 {
			t.Errorf("variable %d: mean %g, mean square %g over the training part, want 0 and 1",
				v, mean, square/float64(n))
		}
	}
}

func TestETTBaselines(t *testing.T) {
	dir := t.TempDir()
	putFile(t, dir, "ETTh1.csv", ettText(ettTest, daily))
	set, err := openTask(t, ETTh1, dir, func(o *ETTOptions) { o.Horizon = 48 })
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name      string
		low, high float64
	}{{"the last hour repeated", .5, 5}, {"the last day repeated", 0, 1e-9}, {"the last week repeated", 0, 1e-9},
		{"the mean of the training part", .9999, 1.0001}} {
		if got := set.Simple[i]; got.Name != want.name || got.Loss < want.low || got.Loss > want.high {
			t.Errorf("found %+v, want %+v", got, want)
		}
	}
}

func TestETTErrors(t *testing.T) {
	good := string(ettText(4, daily))
	edit := func(old, text string) string { return strings.Replace(good, old, text, 1) }
	for name, c := range map[string]struct{ text, want string }{
		"empty":    {"", "empty file"},
		"columns":  {edit("OT", "TO"), "line 1: found the columns"},
		"cut off":  {string(ettText(3, daily)), "found 3 hours, want 4"},
		"cut line": {good[:len(good)-30], "line 5: found"},
		"date":     {edit("2016-07-01 01", "2016-07-41 01"), `line 3: found the date "2016-07-41`},
		"gap": {edit("2016-07-01 02", "2016-07-01 05"),
			"line 4: found the date 2016-07-01 05:00:00, want 2016-07-01 02:00:00"},
		"no number":  {edit(",1,", ",one,"), `found "one", want a finite number`},
		"NaN":        {edit(",1,", ",NaN,"), `line 2: column HULL: found "NaN"`},
		"infinite":   {edit(",1,", ",-Inf,"), `found "-Inf"`},
		"bare quote": {edit(",1,", ",1\",\""), "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readHourly(strings.NewReader(c.text), 4)
			wantError(t, err, c.want)
		})
	}
	dir := t.TempDir()
	putFile(t, dir, "ett/ETTh1.csv", []byte(good))
	_, err := openTask[ETTOptions](t, ETTh1, dir, nil)
	wantError(t, err, "task etth1", "ETTh1.csv", "found 4 hours, want 14400")
	_, err = openTask(t, ETTh1, dir, func(o *ETTOptions) { o.Lookback = ettTrain })
	wantError(t, err, "lookback 8640")
}

func FuzzReadHourly(f *testing.F) {
	f.Add(ettText(3, daily))
	f.Add([]byte("date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT\n2016-07-01 00:00:00,1,2,3,4,5,6"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := readHourly(strings.NewReader(string(text)), 3)
		if err == nil && len(h.raw) != 3 {
			t.Errorf("found %d hours, want 3", len(h.raw))
		}
	})
}
