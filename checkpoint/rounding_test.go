package checkpoint

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// weightsToRound returns numbers as matrices have them: from a normal distribution, from one whose deviation varies by
// a factor of e, and from Student's t distribution with two degrees of freedom, which has very large values.
func weightsToRound() map[string][]float32 {
	rng, data := rand.New(rand.NewPCG(7, 8)), map[string][]float32{}
	for _, name := range []string{"gauss", "heavy", "student"} {
		x := make([]float32, 256*512)
		for i := range x {
			v := 0.02 * rng.NormFloat64()
			switch name {
			case "heavy":
				v *= math.Exp(rng.NormFloat64())
			case "student":
				v /= math.Sqrt(rng.ExpFloat64())
			}
			x[i] = float32(v)
		}
		data[name] = x
	}
	return data
}

// rms returns the root of the mean square of the differences.
func rms(a, b []float32) float64 {
	s := 0.0
	for i := range a {
		s += math.Pow(float64(a[i])-float64(b[i]), 2)
	}
	return math.Sqrt(s / float64(len(a)))
}

// TestRoundingLikeLlama checks, for each type that is written, that numbers read back have about the errors of
// llama.cpp. Its errors are in testdata/rounding_llama.json, which states their origin.
func TestRoundingLikeLlama(t *testing.T) {
	const more = 1.02 // ties of the search are resolved differently
	var llama struct {
		RMS map[DType]map[string]float64 `json:"rms"`
	}
	text, err := os.ReadFile(filepath.Join("testdata", "rounding_llama.json"))
	if err == nil {
		err = json.Unmarshal(text, &llama)
	}
	if err != nil {
		t.Fatal(err)
	}
	data := weightsToRound()
	for kind := range packers {
		for name, x := range data {
			y, err := ConvertTensor("x", kind, []int{512, 256}, x)
			if err != nil {
				t.Fatal(err)
			}
			z, err := y.Float32()
			if err != nil {
				t.Fatal(err)
			}
			want := llama.RMS[kind][name]
			if got := rms(z, x); !(want > 0 && got <= more*want && got >= want/more) {
				t.Errorf("%s, %s: the error is %.6g, want at most %g times %.6g", kind, name, got, more, want)
			}
		}
	}
}

// TestRoundingOfExtremes checks that blocks of zeros, of one value, of one sign and of very small and large numbers are
// read back within the step of their block.
func TestRoundingOfExtremes(t *testing.T) {
	blocks := map[string]func(i int) float32{
		"zeros": func(int) float32 { return 0 }, "ones": func(int) float32 { return 1 },
		"minus":    func(int) float32 { return -3 },
		"positive": func(i int) float32 { return 1 + float32(i%17) },
		"one":      func(i int) float32 { return float32(1 / (1 + i*1000)) },
		"tiny":     func(i int) float32 { return 1e-20 * float32(i-100) },
		"large":    func(i int) float32 { return 1000 * float32(i%31-15) },
	}
	steps := map[DType]float64{Q8_0: 127, Q4_0: 8, Q5_0: 16, Q5_1: 31, Q4_K: 15, Q5_K: 31, Q6_K: 32}
	for name, f := range blocks {
		x, most := make([]float32, 256), 0.0
		for i := range x {
			x[i] = f(i)
			most = max(most, math.Abs(float64(x[i])))
		}
		for kind := range packers {
			y, err := ConvertTensor("x", kind, []int{1, 256}, x)
			if err != nil {
				t.Fatal(err)
			}
			z, err := y.Float32()
			if err != nil {
				t.Fatal(err)
			}
			for i := range x {
				// Values have both signs in a range of twice the largest. Factors of factors have 6 bits, and those
				// below 2^-24 are 0 in f16.
				if e := math.Abs(float64(z[i] - x[i])); e > most*(2/steps[kind]+1./63)+0x1p-24 {
					t.Errorf("%s, %s: element %d is %g, want %g", kind, name, i, z[i], x[i])
					break
				}
			}
		}
	}
}

// BenchmarkPack measures how fast blocks are written.
func BenchmarkPack(b *testing.B) {
	x := weightsToRound()["gauss"]
	for _, kind := range []DType{Q8_0, Q4_0, Q4_K, Q6_K} {
		b.Run(string(kind), func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				if _, err := ConvertTensor("x", kind, []int{512, 256}, x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
