package figure

import (
	"cmp"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawn draws a chart and returns its picture.
func drawn(t *testing.T, c Chart) image.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "chart.png")
	if err := c.WritePNG(path); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

// pixels counts the pixels of a color, and the columns that have any.
func pixels(picture image.Image, c color.RGBA) (count, columns int) {
	box := picture.Bounds()
	for x := box.Min.X; x < box.Max.X; x++ {
		before := count
		for y := box.Min.Y; y < box.Max.Y; y++ {
			if r, g, b, _ := picture.At(x, y).RGBA(); uint8(r>>8) == c.R && uint8(g>>8) == c.G && uint8(b>>8) == c.B {
				count++
			}
		}
		if count > before {
			columns++
		}
	}
	return count, columns
}

// TestWritePNG looks for the colors of the lines in the picture, for nothing drawn of a line that has no points, and
// for a gap where a point is missing.
func TestWritePNG(t *testing.T) {
	c := Chart{
		Title: "losses", X: "epoch", Y: "loss", LogY: true, Lines: []Line{
			{Name: "one", X: []float64{1, 2, 3}, Y: []float64{3, 2, 1}},
			{Name: "nothing to see", X: []float64{1, 2}, Y: []float64{math.NaN(), 0}},
			{Name: "three", X: []float64{1, 2, 3}, Y: []float64{1, math.Inf(1), 3}},
		},
	}
	picture := drawn(t, c)
	whole, wholeColumns := pixels(picture, lineColors[0])
	none, _ := pixels(picture, lineColors[1])
	_, dots := pixels(picture, lineColors[2])
	if whole < 1000 || none != 0 || wholeColumns < 600 || dots == 0 || dots > 40 {
		t.Errorf("found a line of %d pixels in %d columns, %d of a line without points, "+
			"%d columns of two dots with a gap between, "+
			"want a thousand in 600, none, some", whole, wholeColumns, none, dots)
	}
	path := filepath.Join(t.TempDir(), "none.png")
	if err := (Chart{LogY: true, Lines: c.Lines[1:2]}).WritePNG(path); err == nil {
		t.Error("a chart without lines was written")
	}
}

// TestOnePointIsAMarkerWithItsValue: it is larger than a point of a line, and its value stands with its name.
func TestOnePointIsAMarkerWithItsValue(t *testing.T) {
	_, columns := pixels(drawn(t, Chart{Lines: []Line{{Name: "x", X: []float64{1}, Y: []float64{2.3025}}}}),
		lineColors[0])
	if columns < 10 {
		t.Errorf("found a marker of %d columns, want 10 at least", columns)
	}
	for name, want := range map[string]string{"x": "x 2.303", "": "2.303"} {
		curves := Chart{Lines: []Line{{Name: name, X: []float64{1}, Y: []float64{2.3026}}}}.lines().curves
		if got := newNames(curves, 100, 100).all[0].lines; !slices.Equal(got, []string{want}) {
			t.Errorf("found the words %q beside a point named %q, want %q", got, name, want)
		}
	}
}

// TestDrawsWhatever: charts that are hard to lay out are drawn, and within the page.
func TestDrawsWhatever(t *testing.T) {
	long := strings.Repeat("a-very-long-name ", 20)
	line := func(name string, y ...float64) Line {
		l := Line{Name: name, Y: y}
		for i := range y {
			l.X = append(l.X, float64(i+1))
		}
		return l
	}
	many := Chart{Title: long, Subtitle: long, X: long, Y: long}
	for i := range 40 {
		many.Lines = append(many.Lines, line(long, 1, 2, float64(i)))
	}
	for name, c := range map[string]Chart{
		"many long names": many,
		"one word":        {Title: strings.Repeat("x", 400), Lines: []Line{line(strings.Repeat("y", 400), 1, 2)}},
		"wide":            {Lines: []Line{line("", 1e-6, 1e6)}},
		"wide, log":       {LogX: true, LogY: true, Lines: []Line{line("", 1e-99, 1e99)}},
		"huge":            {Lines: []Line{line("", -1e99, 1e99, math.MaxFloat64)}},
		"equal":           {Lines: []Line{line("", 3, 3, 3)}},
		"zero":            {Lines: []Line{line("", 0, 0)}},
		"near":            {Lines: []Line{line("", 1, math.Nextafter(1, 2))}},
		"subnormal":       {Lines: []Line{line("", 0, 5e-324)}},
	} {
		t.Run(name, func(t *testing.T) {
			picture := drawn(t, c)
			white := 0
			box := picture.Bounds()
			for y := box.Min.Y; y < box.Max.Y; y++ {
				for _, x := range []int{box.Min.X, box.Min.X + 1, box.Max.X - 2, box.Max.X - 1} {
					if r, g, b, _ := picture.At(x, y).RGBA(); r&g&b == 0xffff {
						white++
					}
				}
			}
			if want := 4 * box.Dy(); white != want {
				t.Errorf("found %d of %d pixels at the sides of the page white, want all: something hangs over",
					white, want)
			}
		})
	}
}

// TestTicksAreRound: 1, 2 or 5 times a power of ten apart on a linear axis, all inside, at most mostTicks and enough
// of them, with labels that say what they are and differ.
func TestTicksAreRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		power := math.Pow10(rapid.IntRange(-9, 9).Draw(t, "power"))
		lo := rapid.Float64Range(-1000, 1000).Draw(t, "lo") * power
		hi := lo + rapid.Float64Range(1, 3000).Draw(t, "range")*power
		vertical := rapid.Bool().Draw(t, "vertical")
		a := newAxis([]float64{lo, hi}, false, vertical)
		if len(a.ticks) < 3 || len(a.ticks) > mostTicks || a.lo > lo+1e-6*(hi-lo) || a.hi < hi-1e-6*(hi-lo) {
			t.Fatalf("found %d ticks from %g to %g, want 3 to %d for values from %g to %g", len(a.ticks), a.lo, a.hi,
				mostTicks, lo, hi)
		}
		step := a.ticks[1].Value - a.ticks[0].Value
		digit := math.Round(step / math.Pow10(int(math.Floor(math.Log10(step)+1e-9))))
		if !slices.Contains([]float64{1, 2, 5, 10}, digit) {
			t.Fatalf("found steps of %g, want 1, 2 or 5 times a power of ten", step)
		}
		for i, tick := range a.ticks {
			if slack := 1e-6 * (a.hi - a.lo); tick.Value < a.lo-slack || tick.Value > a.hi+slack {
				t.Fatalf("found the tick %g outside of %g to %g", tick.Value, a.lo, a.hi)
			}
			if n := math.Round(tick.Value / step); math.Abs(n*step-tick.Value) > 1e-6*step {
				t.Fatalf("found the tick %g, want a multiple of %g", tick.Value, step)
			}
			if got := readLabel(tick.Label); math.Abs(got-tick.Value) > 1e-3*math.Abs(tick.Value)+1e-9*step {
				t.Fatalf("found the label %q at %g", tick.Label, tick.Value)
			}
			if i > 0 && tick.Label == a.ticks[i-1].Label {
				t.Fatalf("found the label %q twice", tick.Label)
			}
		}
	})
}

// readLabel is the number that a label shows.
func readLabel(label string) float64 {
	unit := 1.0
	if i := strings.IndexAny(label, "kMGT"); i >= 0 {
		unit = math.Pow10(3 * (1 + strings.IndexByte("kMGT", label[i])))
		label = label[:i]
	}
	v, err := strconv.ParseFloat(label, 64)
	if err != nil {
		return math.NaN()
	}
	return v * unit
}

func TestTickLabels(t *testing.T) {
	for _, c := range []struct {
		values        []float64
		log, vertical bool
		want          string
	}{
		{[]float64{2, 3.6}, false, true, "2.0 2.5 3.0 3.5 4.0"},
		{[]float64{.1, 99.3}, false, true, "0 20 40 60 80 100"},
		{[]float64{0, 1e6}, false, true, "0 200k 400k 600k 800k 1M"},
		{[]float64{0, 8000}, false, true, "0 2000 4000 6000 8000"},
		{[]float64{1e-6, 3e-6}, false, true, "0 5e-7 1e-6 1.5e-6 2e-6 2.5e-6 3e-6"},
		{[]float64{-1.2, 1}, false, true, "-1.5 -1.0 -0.5 0 0.5 1.0"},
		{[]float64{17.5, 52.3}, true, true, "20 30 40 50"},
		{[]float64{1, 700}, true, true, "1 2 5 10 20 50 100 200 500"},
		{[]float64{1e-6, 1e6}, true, true, "1e-6 1e-4 0.01 1 100 10k 1M"},
		{[]float64{128, 512, 1024, 16384}, true, false, "128 256 512 1k 2k 4k 8k 16k"},
		{[]float64{256, 1 << 20}, true, false, "256 1k 4k 16k 64k 256k 1M"},
		{[]float64{3}, false, false, "3"},
	} {
		var got []string
		for _, tick := range newAxis(c.values, c.log, c.vertical).ticks {
			got = append(got, tick.Label)
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%v: found the labels %s, want %s", c.values, got, c.want)
		}
	}
}

// TestSpread: names do not overlap, keep their order, stay on the page where there is room, and do not move without
// need.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "names")
		height := rapid.SliceOfN(rapid.Float64Range(1, 8), n, n).Draw(t, "heights")
		want := rapid.SliceOfN(rapid.Float64Range(-10, 110), n, n).Draw(t, "wanted")
		slices.Sort(want)
		got := spread(want, height, 0, 100)
		for i := range got {
			if low, high := got[i]-height[i]/2, got[i]+height[i]/2; low < -1e-9 || high > 100+1e-9 {
				t.Fatalf("name %d lies from %g to %g, want it within 0 and 100", i, low, high)
			}
			if i > 0 && got[i]-got[i-1] < (height[i]+height[i-1])/2-1e-9 {
				t.Fatalf("names %d and %d overlap", i-1, i)
			}
			alone := want[i] >= height[i]/2 && want[i] <= 100-height[i]/2 &&
				(i == 0 || want[i]-want[i-1] >= 100) && (i == n-1 || want[i+1]-want[i] >= 100)
			if alone && math.Abs(got[i]-want[i]) > 1e-9 {
				t.Fatalf("name %d was moved from %g to %g", i, want[i], got[i])
			}
		}
	})
	for _, c := range []struct{ want, height, got []float64 }{
		{[]float64{20, 50}, []float64{10, 10}, []float64{20, 50}},
		{[]float64{50, 50}, []float64{10, 10}, []float64{45, 55}},
		{[]float64{0, 50}, []float64{10, 10}, []float64{5, 50}},
		{[]float64{50, 50, 100}, []float64{10, 20, 10}, []float64{42.5, 57.5, 95}},
	} {
		if got := spread(c.want, c.height, 0, 100); slices.CompareFunc(got, c.got, func(a, b float64) int {
			return cmp.Compare(math.Round(a*1e6), math.Round(b*1e6))
		}) != 0 {
			t.Errorf("names of heights %v at %v: found %v, want %v", c.height, c.want, got, c.got)
		}
	}
}

func TestWrap(t *testing.T) {
	s := letters(textSize, inkColor)
	width := s.Width("twelve words")
	for words, want := range map[string]string{
		"":                                  "",
		"twelve words":                      "twelve words",
		"twelve words in all":               "twelve words|in all",
		"one two three four five six more":  "one two|three four|five six more",
		"one two three four five six seven": "one two|three four|five six se…",
		"unbreakablenames":                  "unbreakable|names",
		"  two   words ":                    "two words",
	} {
		got := wrap(words, s, width, 3)
		if strings.Join(got, "|") != want {
			t.Errorf("%q: found the lines %q, want %q", words, got, strings.Split(want, "|"))
		}
		for _, line := range got {
			if s.Width(line) > width {
				t.Errorf("%q is wider than it may be", line)
			}
		}
	}
}

// TestSansSerif: every text of a chart is in one font without serifs.
func TestSansSerif(t *testing.T) {
	if f := letters(textSize, inkColor).Font; f.Typeface != "Liberation" || f.Variant != "Sans" {
		t.Errorf("found the font %s, want Liberation Sans", f.Name())
	}
}
