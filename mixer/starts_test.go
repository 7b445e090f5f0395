package mixer

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/nn"
)

// startsTable has the shape of every parameter of every mixer and what it starts from, for a model of 256 channels in 8
// layers, with states of 16 numbers, 4 heads and steps from 0.001 to 0.1.
//
//go:embed testdata/starts.txt
var startsTable string

// TestStartsTable checks that parameters have the names and shapes of the table and start by its rules: normal with a
// standard deviation, uniform between a number and its negative, constant, or such that its exponential (or softplus)
// is between bounds. A model of unknown depth starts like one with a single layer.
func TestStartsTable(t *testing.T) {
	infos := map[string]Info{}
	for _, info := range []Info{H3Info, S4Info, S4DInfo, DSSInfo, GSSInfo, MambaInfo, Mamba2Info, GatedConvInfo,
		RGLRUInfo, RNNInfo, LMUInfo, HyenaInfo, GAUInfo, GMLPInfo, BlockRecurrentInfo, SpAttenInfo, BucketAttentionInfo,
		BigBirdInfo, WindowAttentionInfo, AttentionInfo, LinearAttentionInfo, RetentionInfo} {
		infos[info.Name] = info
	}
	build := func(entry string, layers int) map[string]*nn.Param {
		t.Helper()
		name, options, _ := strings.Cut(strings.TrimSuffix(entry, ")"), "(")
		o := Options{}
		for _, pair := range strings.FieldsFunc(options, func(r rune) bool { return r == ',' }) {
			key, value, _ := strings.Cut(pair, "=")
			o[key] = value
		}
		m, err := infos[name].New(Config{DModel: 256, NLayer: layers, DState: 16, NumHeads: 4, HeadDim: 1, DtMin: 1e-3,
			DtMax: 0.1, Measure: "diag-lin", Options: o})
		if err != nil {
			t.Fatalf("%s: %v", entry, err)
		}
		nn.InitAll(m, "", 17)
		return named(m)
	}
	params, unknownDepth, single := map[string]*nn.Param{}, map[string]*nn.Param{}, map[string]*nn.Param{}
	entry := ""
	end := func() {
		for name := range params {
			t.Errorf("%s: %s is not in the table", entry, name)
		}
	}
	for line := range strings.Lines(startsTable) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if f[0] != entry {
			end()
			entry = f[0]
			params, unknownDepth, single = build(entry, 8), build(entry, 0), build(entry, 1)
		}
		what, p := f[0]+" "+f[1], params[f[1]]
		delete(params, f[1])
		if p == nil {
			t.Errorf("%s: there is no such parameter", what)
			continue
		}
		if shape := strings.ReplaceAll(strings.Trim(fmt.Sprint(p.Shape()), "[]"), " ", "x"); shape != f[2] {
			t.Errorf("%s has the shape %s, want %s", what, shape, f[2])
		}
		if !slices.Equal(unknownDepth[f[1]].Elements(), single[f[1]].Elements()) {
			t.Errorf("%s of a model of unknown depth starts otherwise than in one of one layer", what)
		}
		checkStart(t, what, p.Elements(), f[3], f[4:])
	}
	end()
}

// checkStart checks that values start by a rule.
func checkStart(t *testing.T, what string, x []float32, rule string, numbers []string) {
	t.Helper()
	at := func(i int) float64 {
		v, err := strconv.ParseFloat(numbers[i], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	least, most, square, n := math.Inf(1), math.Inf(-1), 0.0, float64(len(x))
	for _, v := range wide(x) {
		switch rule {
		case "log":
			v = math.Exp(v)
		case "softplus":
			v = math.Log1p(math.Exp(v))
		}
		least, most, square = min(least, v), max(most, v), square+v*v/n
	}
	switch rule {
	case "constant":
		if least != at(0) || most != at(0) {
			t.Errorf("%s starts with %v to %v, want %v", what, least, most, at(0))
		}
	case "normal":
		if d := math.Sqrt(square); math.Abs(d/at(0)-1) > 4/math.Sqrt(2*n) {
			t.Errorf("%s starts with the deviation %v, want %v", what, d, at(0))
		}
		if most < 2*at(0) || least > -2*at(0) {
			t.Errorf("%s starts with %v to %v, which is not normal", what, least, most)
		}
	case "uniform":
		if b := at(0); most > b*1.00001 || least < -b*1.00001 || most < b*(1-16/n) || least > -b*(1-16/n) {
			t.Errorf("%s starts with %v to %v, want ±%v", what, least, most, b)
		}
	case "unit": // rows equal to the first unit vector
		for i, v := range x {
			if first := i%16 == 0; first != (v == 1) || !first && v != 0 {
				t.Fatalf("%s starts with %v at %d, want 1 at the first of 16 and zeros", what, v, i)
			}
		}
	case "log", "softplus": // uniform in the logarithm
		lo, hi := math.Log(at(0)), math.Log(at(1))
		if slack := 16 / n * (hi - lo); math.Log(least) < lo-1e-4 || math.Log(most) > hi+1e-4 ||
			math.Log(least) > lo+slack || math.Log(most) < hi-slack {
			t.Errorf("%s starts with steps from %v to %v, want %v to %v", what, least, most, at(0), at(1))
		}
	case "see": // checked by another test
	default:
		t.Errorf("%s: there is no rule %s", what, rule)
	}
}

// TestGSSForgets checks that GSS's initial kernels end after a hundred positions, unlike those of HiPPO's modes.
func TestGSSForgets(t *testing.T) {
	for measure, most := range map[string]float64{"": 3e-3, "diag-lin": 1} {
		o := Options{}
		if measure != "" {
			o["measure"] = measure
		}
		m, err := GSSInfo.New(Config{DModel: 128, NLayer: 1, DState: 64, DtMin: 1e-3, DtMax: 0.1, Measure: "diag-lin",
			Options: o})
		if err != nil {
			t.Fatal(err)
		}
		nn.InitAll(m, "", 1)
		taps := Responses(newTape(), m, 1024)[0].Taps
		all, late := 0.0, 0.0
		for i, k := range taps.Floats() {
			all += float64(k) * float64(k)
			if i >= 128*taps.Dim(-1) {
				late += float64(k) * float64(k)
			}
		}
		if part := late / all; part > most || measure != "" && part < 0.02 {
			t.Errorf("measure %q: %g of the kernels' energy comes after 128 taps", measure, part)
		}
	}
}
