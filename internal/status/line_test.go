package status

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
)

var full = Training{Step: 1200, Steps: 5000, Loss: 1.8862, ValLoss: 2.01,
	TokensPerSec: 12345, GradNorm: 0.713, LR: 5.4e-4,
	ETA: 92 * time.Second, Mem: 482 << 20}

func TestTrainingLine(t *testing.T) {
	for want, s := range map[string]Training{
		"step 1200/5000  loss 1.8862  val_loss 2.0100  tok/s 12.3K  grad_norm 0.71  lr 5.40e-04  eta 1m32s  mem 482 " +
			"MiB": full,
		"step 0":                           {ValLoss: math.NaN()},
		"step 3  loss NaN  grad_norm +Inf": {Step: 3, Loss: math.NaN(), GradNorm: math.Inf(1)},
	} {
		if got := s.Line().String(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

func TestFitDropsTheLeastImportant(t *testing.T) {
	for width, want := range map[int]string{
		200: full.Line().String(),
		100: "step 1200/5000  loss 1.8862  val_loss 2.0100  tok/s 12.3K  grad_norm 0.71  lr 5.40e-04  eta 1m32s",
		90:  "step 1200/5000  loss 1.8862  val_loss 2.0100  tok/s 12.3K  grad_norm 0.71  eta 1m32s",
		79:  "step 1200/5000  loss 1.8862  val_loss 2.0100  tok/s 12.3K  eta 1m32s",
		60:  "step 1200/5000  loss 1.8862  val_loss 2.0100  eta 1m32s",
		40:  "step 1200/5000  loss 1.8862  eta 1m32s",
		30:  "step 1200/5000  loss 1.8862",
		20:  "step 1200/5000",
		8:   "step 120",
		0:   "",
		-1:  "",
	} {
		if got := full.Line().Fit(width); got != want {
			t.Errorf("%d: got %q, wanted %q", width, got, want)
		}
	}
}

func TestFitIsNeverTooWide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Line(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Field {
			return Field{rapid.String().Draw(t, "key"), rapid.String().Draw(t, "value"),
				rapid.IntRange(0, 3).Draw(t, "drop")}
		}), 0, 6).Draw(t, "line"))
		before := l.String()
		width := rapid.IntRange(0, 60).Draw(t, "width")
		got := l.Fit(width)
		if utf8.RuneCountInString(got) > width {
			t.Fatalf("%q is wider than %d", got, width)
		}
		if utf8.RuneCountInString(before) <= width && got != before {
			t.Fatalf("%q was cut to %q", before, got)
		}
		if l.String() != before {
			t.Fatalf("Fit changed the line")
		}
	})
}

func TestCount(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 0.54: "0.5", 3: "3", 9.96: "10", 999: "999", 999.6: "1.0K",
		1000: "1.0K", 1234567: "1.2M",
		126387456: "126M", 99949: "99.9K", 99951: "100K", 999499: "999K", 999501: "1.0M",
		2.7e9: "2.7B", 3e11: "300B", 1.5e12: "1.5T",
		1.5e16: "15000T", -1234: "-1.2K"} {
		if got := Count(n); got != want {
			t.Errorf("%v: got %s, wanted %s", n, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB",
		1536: "1.5 KiB", 482 << 20: "482 MiB",
		1023<<10 + 800: "1.0 MiB", 1 << 30: "1.0 GiB", 5 << 40: "5.0 TiB", math.MaxUint64: "16.0 EiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: got %s, wanted %s", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0ms", 850 * time.Millisecond: "850ms",
		999600 * time.Microsecond: "1.0s",
		9300 * time.Millisecond:   "9.3s", 9960 * time.Millisecond: "10s", 32 * time.Second: "32s",
		59600 * time.Millisecond: "1m00s",
		92 * time.Second:         "1m32s", 59*time.Minute + 59*time.Second + 600*time.Millisecond: "1h00m",
		125 * time.Minute: "2h05m",
		23*time.Hour + 59*time.Minute + 40*time.Second: "1d00h", 76 * time.Hour: "3d04h", -92 * time.Second: "-1m32s",
		math.MinInt64: "-106751d23h"} {
		if got := Duration(d); got != want {
			t.Errorf("%v: got %s, wanted %s", d, got, want)
		}
	}
}

func TestRSSSeesMemoryInUse(t *testing.T) {
	before := RSS()
	block := make([]byte, 64<<20)
	for i := range block {
		block[i] = byte(i) // resident once written
	}
	after := RSS()
	if before == 0 || after < before+32<<20 || after > before+1<<30 {
		t.Errorf("%d bytes before, %d with %d more", before, after, len(block))
	}
	runtime.KeepAlive(block)
}

func TestCPUTimeIsUsedByWork(t *testing.T) {
	before, sum := CPUTime(), 0
	for start := time.Now(); CPUTime()-before < 20*time.Millisecond; { // the coarsest clock ticks every 16 ms
		for i := range 1000 {
			sum += i
		}
		if time.Since(start) > 30*time.Second {
			t.Fatalf("%v of CPU time in 30 s of work", CPUTime()-before)
		}
	}
	runtime.KeepAlive(sum)
}

func TestCurve(t *testing.T) {
	var falling []float64
	for i := range 100 {
		falling = append(falling, 1+4*math.Exp(-float64(i)/20))
	}
	falling[50] = math.NaN()
	want := strings.TrimPrefix(`
   5 |*
     | **
     |   ****
     |       *******
1.03 |              *******************
     +---------------------------------
`, "\n")
	if got := Curve(falling, 39, 6); got != want {
		t.Errorf("got\n%s\nwanted\n%s", got, want)
	}
	flat := "2 |\n  |***\n2 |\n  +---\n"
	if got := Curve([]float64{2, 2, 2}, 20, 4); got != flat {
		t.Errorf("flat: got\n%s", got)
	}
	gap := "2 |  *\n1 |*\n  +---\n"
	if got := Curve([]float64{1, math.Inf(1), 2}, 20, 3); got != gap {
		t.Errorf("gap: got\n%s", got)
	}
	for _, c := range [][3]any{{[]float64{}, 40, 5}, {[]float64{math.NaN()}, 40, 5},
		{falling, 15, 5}, {falling, 40, 2}} {
		if got := Curve(c[0].([]float64), c[1].(int), c[2].(int)); got != "" {
			t.Errorf("%v: got\n%s", c, got)
		}
	}
}

func TestCurveKeepsItsSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64().Filter(finite), 1, 50).Draw(t, "values")
		width, height := rapid.IntRange(16, 90).Draw(t, "width"), rapid.IntRange(3, 12).Draw(t, "height")
		lines := strings.Split(strings.TrimSuffix(Curve(values, width, height), "\n"), "\n")
		if len(lines) != height {
			t.Fatalf("%d lines, wanted %d", len(lines), height)
		}
		for _, l := range lines {
			if len(l) > width {
				t.Fatalf("%q is wider than %d", l, width)
			}
		}
	})
}

func TestBar(t *testing.T) {
	for _, x := range []struct {
		done, total int64
		want        string
	}{
		{0, 10, "[>       ]"}, {5, 10, "[====>   ]"}, {10, 10, "[========]"}, {20, 10, "[========]"},
		{-1, 10, "[>       ]"},
		{9_999, 10_000, "[=======>]"}, {0, 0, "[========]"}, {math.MaxInt64 / 2, math.MaxInt64, "[====>   ]"},
	} {
		if got := Bar(x.done, x.total, 10); got != x.want {
			t.Errorf("%d of %d: got %s, wanted %s", x.done, x.total, got, x.want)
		}
	}
}
