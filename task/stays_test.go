package task

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/wav"
)

// digest returns a hash of the first examples of every split of a set, including the division into fields.
func digest(set *Set, n int) string {
	h := sha256.New()
	put := func(v any) { binary.Write(h, binary.LittleEndian, v) }
	splits := []Split{set.Train, set.Valid, set.Test}
	for _, e := range set.Extra {
		splits = append(splits, e.Split)
	}
	var ex Example
	for _, s := range splits {
		if s == nil {
			continue
		}
		put(int64(s.Len()))
		for i := range min(n, s.Len()) {
			s.Example(i, &ex)
			for _, x := range [][]int32{ex.Tokens, ex.Second, ex.Targets, ex.Tags} {
				put(int64(len(x)))
				put(x)
			}
			for _, x := range [][]float32{ex.Values, ex.Numbers} {
				put(int64(len(x)))
				put(x)
			}
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6])
}

// TestMadeDataStays checks that generated data is the same for the same options on every machine and in every version,
// because published results name it only by task and seed.
func TestMadeDataStays(t *testing.T) {
	paths := func(side int) *Set {
		return somePathsDrawn(t, side, func(o *PathfinderOptions) { o.Train, o.Test, o.Seed = 12, 12, 7 })
	}
	sets := map[string]func() *Set{
		"pathfinder of 32":  func() *Set { return paths(32) },
		"pathfinder of 64":  func() *Set { return paths(64) },
		"pathfinder of 128": func() *Set { return paths(128) },
		"digits": func() *Set {
			dir := t.TempDir()
			for name, data := range takes() {
				putFile(t, dir, "recordings/"+name, data)
			}
			set, err := openTask(t, Digits, dir, func(o *DigitsOptions) { o.Copies, o.Seed, o.Valid = 6, 3, 0 })
			if err != nil {
				t.Fatal(err)
			}
			return set
		},
	}
	for _, made := range All() {
		if made.Files != "" {
			continue
		}
		sets[made.Name] = func() *Set {
			set, err := made.Open(t.Context(), "", made.Options())
			if err != nil {
				t.Fatal(err)
			}
			return set
		}
	}
	for name, want := range map[string]string{
		"induction": "662e5a122ccc", "recall": "a126ac855225", "recall-large": "07fb8f6c685e", "mqar": "1e4882ec2577",
		"selective-copying": "28c960696e62", "pathfinder of 32": "7e028790d9a0", "pathfinder of 64": "743a09ce749a",
		"pathfinder of 128": "6c22c1bb1856", "digits": "67ebe6703868", "frequency": "1fed0a998196",
	} {
		open := sets[name]
		delete(sets, name)
		ofFractions := name == "digits" || name == "frequency" || strings.HasPrefix(name, "pathfinder")
		if runtime.GOARCH != "amd64" && ofFractions {
			continue // some processors add to a product without rounding it
		}
		if got := digest(open(), 12); got != want {
			t.Errorf("%s: found the digest %s, want %s", name, got, want)
		}
	}
	for name, open := range sets {
		t.Errorf("%s: no digest, want %q", name, digest(open(), 12))
	}
}

// TestScramble compares with the published generator SplitMix64 started at 0 and 1234567 (prng.di.unimi.it,
// splitmix64.c).
func TestScramble(t *testing.T) {
	const step = 0x9e3779b97f4a7c15
	for seed, outputs := range map[uint64][]uint64{
		0:       {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f},
		1234567: {6457827717110365317, 3203168211198807973, 9817491932198370423},
	} {
		for i, want := range outputs {
			if got := scramble(seed + uint64(i)*step); got != want {
				t.Errorf("seed %d: output %d is %d, want %d", seed, i, got, want)
			}
		}
	}
}

// TestAsked checks that quantiles are several outputs of one number.
func TestAsked(t *testing.T) {
	for _, c := range []struct{ outputs, levels, want int }{{6, 0, 6}, {6, 1, 6}, {6, 3, 2}} {
		if got := (&Set{Outputs: c.outputs, Levels: make([]float32, c.levels)}).Asked(); got != c.want {
			t.Errorf("%d outputs of %d levels: found %d numbers, want %d", c.outputs, c.levels, got, c.want)
		}
	}
}

// TestGeometryOfPaths compares end points of lines and squared distances with values computed by hand.
func TestGeometryOfPaths(t *testing.T) {
	if p := (pathPoint{1, 2}).add(5, math.Atan2(4, 3)); math.Hypot(p.x-4, p.y-6) > 1e-12 {
		t.Errorf("five from (1, 2) along (3, 4) is %v, want (4, 6)", p)
	}
	line := stroke{a: pathPoint{1, 1}, b: pathPoint{4, 5}} // has length 5
	for p, want := range map[pathPoint]float64{
		{1, 1}: 0, {4, 5}: 0, {2.5, 3}: 0, // on the line
		{-2, -3}: 25, {7, 9}: 25, // before and after it
		{1 - 4, 1 + 3}: 25, {2.5 + 0.8, 3 - 0.6}: 1, // next to it
	} {
		if got := squaredDistance(line, stroke{a: p, b: p}); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v is at the squared distance %v, want %v", p, got, want)
		}
	}
	from := func(x, y, u, v float64) stroke { return stroke{a: pathPoint{x, y}, b: pathPoint{u, v}} }
	for _, c := range []struct {
		a, b stroke
		want float64
	}{
		{from(0, 0, 4, 4), from(0, 4, 4, 0), 0},  // crossing
		{from(0, 0, 4, 0), from(1, 2, 3, 2), 4},  // parallel
		{from(0, 0, 4, 0), from(2, 1, 2, 5), 1},  // one ends above the other
		{from(0, 0, 4, 0), from(7, 4, 9, 9), 25}, // beyond its end
	} {
		if ab, ba := squaredDistance(c.a, c.b), squaredDistance(c.b, c.a); ab != c.want || ba != c.want {
			t.Errorf("%v and %v: found %v and %v, want %v", c.a, c.b, ab, ba, c.want)
		}
	}
	dot := stroke{a: pathPoint{2, 3}, b: pathPoint{2, 3}}
	if got := squaredDistance(dot, stroke{a: pathPoint{5, 7}, b: pathPoint{5, 7}}); got != 25 {
		t.Errorf("a dot is at the squared distance %v, want 25", got)
	}
}

// TestMarkovAccuracy checks that the best base is the most frequent one, and that the accuracy is a percentage.
func TestMarkovAccuracy(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 4000)
	for i := range text {
		text[i] = "CCCCCCAGTG"[rng.IntN(10)]
	}
	if _, got := newMarkov([][]byte{text}, 0).score([][]byte{[]byte(strings.Repeat("CCCA", 25))}, 0); got != 75 {
		t.Errorf("found %v %%, want 75", got)
	}
}

// TestCopiesOfExamples checks that an example in memory is copied with all its fields.
func TestCopiesOfExamples(t *testing.T) {
	want := Example{Tokens: []int32{1}, Second: []int32{2}, Values: []float32{3}, Targets: []int32{4},
		Numbers: []float32{5}, Tags: []int32{6}}
	got := Example{Tokens: []int32{9, 9}}
	if (Examples{{}, want}).Example(1, &got); !reflect.DeepEqual(got, want) {
		t.Errorf("found %+v, want %+v", got, want)
	}
}

// TestGray checks Pillow's rule: 0.299 R + 0.587 G + 0.114 B in units of 1/65536, rounded to nearest, half up.
func TestGray(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	const n = 1 << 20
	planes := make([]byte, 3*n)
	for i := range planes {
		planes[i] = byte(rng.IntN(256))
	}
	for i, got := range appendGray(nil, planes) {
		exact := 19595*float64(planes[i]) + 38470*float64(planes[n+i]) + 7471*float64(planes[2*n+i])
		if want := math.Floor(exact/65536 + 0.5); float64(got) != want {
			t.Fatalf("the gray of %d, %d, %d is %d, want %v", planes[i], planes[n+i], planes[2*n+i], got, want)
		}
	}
}

// TestBases checks that the bases before each base are passed, two bits each, and the number of them since the last
// unknown one.
func TestBases(t *testing.T) {
	var got [][3]int
	eachBase([]byte("TGNCAT"), func(past, known, base int) { got = append(got, [3]int{past, known, base}) })
	want := [][3]int{{0, 0, 3}, {3, 1, 2}, {0, 0, 1}, {1, 1, 0}, {1 * 4, 2, 3}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// TestBaselinesByHand compares errors of repeating the last hour and of the mean, which is 0, with values computed by
// hand, for two variables in three windows.
func TestBaselinesByHand(t *testing.T) {
	w := &ettWindows{ETTOptions: ETTOptions{Lookback: 2, Horizon: 2}, first: 1, n: 3,
		series: &hourly{variables: 2, values: []float32{9, 9, 1, 0, 2, 0, 4, 1, 7, 1, 11, 0, 0, 2}}}
	// Windows begin at rows 1 to 3, so their targets are rows 3 and 4, 4 and 5, 5 and 6 after rows 2, 3 and 4. Last
	// hour: differences 2 1, 5 1; 3 0, 7 -1; 4 -1, -7 1. Mean: 4 1, 7 1; 7 1, 11 0; 11 0, 0 2.
	want := []Simple{{Name: "the last hour repeated", Loss: (4 + 1 + 25 + 1 + 9 + 49 + 1 + 16 + 1 + 49 + 1) / 12.0},
		{Name: "the mean of the training part", Loss: (16 + 1 + 49 + 1 + 49 + 1 + 121 + 121 + 4) / 12.0}}
	if got := ettBaselines(w); !slices.Equal(got, want) {
		t.Errorf("found %+v, want %+v", got, want)
	}
}

// TestMoments compares moments with values computed by hand, including those of a constant.
func TestMoments(t *testing.T) {
	for _, c := range []struct {
		x               []float64
		mean, deviation float64
	}{{[]float64{1, 3, 5, 7}, 4, math.Sqrt(5)}, {[]float64{-2, -2}, -2, 1}} {
		if mean, deviation := moments(c.x); mean != c.mean || math.Abs(deviation-c.deviation) > 1e-15 {
			t.Errorf("%v: found %v and %v, want %v and %v", c.x, mean, deviation, c.mean, c.deviation)
		}
	}
}

// TestForecastOfASine checks that the linear forecast of a sine is exact, as it is a linear function of its last two
// samples. The mean squared error of the repeated last sample is (2 sin ½ω)²/2 on average, twice that in units of the
// variance ½.
func TestForecastOfASine(t *testing.T) {
	const omega = 0.25
	var floats []byte
	for i := range 4000 {
		floats = binary.LittleEndian.AppendUint32(floats, math.Float32bits(3+float32(math.Sin(omega*float64(i)))))
	}
	dir := t.TempDir()
	putFile(t, dir, "ecg/ecg_mV_float32.raw.gz", floats)
	set, err := openTask(t, ECG, dir, func(o *ecgOptions) { o.Length = 50 })
	if err != nil {
		t.Fatal(err)
	}
	var variance float64
	if _, err := fmt.Sscanf(set.Notes[0], "errors are in units of the variance, %g mV²", &variance); err != nil {
		t.Fatal(set.Notes, err)
	}
	last, linear := set.Simple[0].Loss, set.Simple[1].Loss
	repeated := 4 * math.Pow(math.Sin(omega/2), 2)
	if math.Abs(variance-0.5) > 0.005 || math.Abs(last/repeated-1) > 0.02 || linear > 1e-5 {
		t.Errorf("found the variance %v and the errors %v and %v, want 0.5, %v and 0", variance, last, linear, repeated)
	}
	var ex Example
	set.Train.Example(0, &ex) // in units of the deviation, relative to the mean
	if low, high := slices.Min(ex.Values), slices.Max(ex.Values); math.Abs(float64(low)+math.Sqrt2) > 0.05 ||
		math.Abs(float64(high)-math.Sqrt2) > 0.05 {
		t.Errorf("found numbers from %v to %v, want those of a wave of variance 1", low, high)
	}

	// A converter's step is 1/200 mV, so 200 sin is a wave of 1 mV.
	archive := t.TempDir()
	putFile(t, archive, "ecg.dat", npz(t, "ecg.npy", npy("(2000,)", "<u2", steps(2000))))
	if set, err = openTask(t, ECG, archive, func(o *ecgOptions) { o.Length = 50 }); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(set.Notes[0], "errors are in units of the variance, %g mV²", &variance); err != nil ||
		math.Abs(variance-0.5) > 0.01 {
		t.Errorf("found the variance %v, %v, want 0.5 mV²", variance, err)
	}
}

// TestWhatDataIsRefused checks that settings and files just outside of the allowed range are errors.
func TestWhatDataIsRefused(t *testing.T) {
	_, err := openTask(t, SMNIST, mnistDir(t), func(o *mnistOptions) { o.Valid = -1 })
	wantError(t, err, "valid")
	dir := ettDir(t)
	for _, change := range []func(o *ETTOptions){
		func(o *ETTOptions) { o.Lookback = 0 },
		func(o *ETTOptions) { o.Horizon = 0 },
		func(o *ETTOptions) { o.Horizon = 4*ettMonth + 1 },
	} {
		if _, err := openTask(t, ETTh1, dir, change); err == nil {
			t.Error("found no error of a window without length or longer than a part")
		}
	}
	good := wav.Format{Kind: wav.PCM, Channels: 1, Rate: 8000, Bits: 16}
	if err := checkWAV(&good, 8000); err != nil {
		t.Error(err)
	}
	for _, change := range []func(f *wav.Format){
		func(f *wav.Format) { f.Kind = wav.Float }, func(f *wav.Format) { f.Channels = 2 },
		func(f *wav.Format) { f.Rate = 8001 }, func(f *wav.Format) { f.Bits = 8 },
	} {
		bad := good
		change(&bad)
		if checkWAV(&bad, 8000) == nil {
			t.Errorf("found no error of %+v", bad)
		}
	}
	reader := &cifarReader{}
	err = reader.add(cifarFiles[0], strings.NewReader(cifarRecords(2, 9, 1, 2, 3)+cifarRecords(1, 10, 1, 2, 3)))
	wantError(t, err, fmt.Sprintf("picture 2, at byte %d, has class 10, want 0 to 9", 2*cifarRecord))
	err = reader.add(cifarFiles[0], strings.NewReader(cifarRecords(3, 9, 1, 2, 3)+"x"))
	wantError(t, err, fmt.Sprintf("picture 3, at byte %d, is cut short", 3*cifarRecord))
}
