package ssm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// measures holds the HiPPO systems by the names of the S4 repository, with its time scale and its parameters.
var measures = map[string]func(n int) (*mat.Dense, []float64){
	"legs":          LegS,
	"legsd":         LegSD,
	"legt":          window2(LegT),
	"lmu":           LMU,
	"lagt":          func(n int) (*mat.Dense, []float64) { return LagT(n, 1) },
	"tlagt":         func(n int) (*mat.Dense, []float64) { return TiltedLagT(n, 1) },
	"glagt":         func(n int) (*mat.Dense, []float64) { return GeneralizedLagT(n, 0, 0.01) },
	"fout":          window2(FouT),
	"fourier2":      FouT,
	"fourier_decay": window2(FouTDecay),
	"foud":          FouTD,
}

// HiPPO returns x' = Ax + Bu, A (n, n), B (n), for a name and with the time scale of the S4 repository
// (src/models/hippo/hippo.py):
//
//	legs           [LegS]                          legsd          [LegSD]
//	legt           [LegT], window 2: A/2, B/2      lmu            [LMU]
//	lagt           [LagT], beta 1                  tlagt          [TiltedLagT], beta 1
//	glagt          [GeneralizedLagT], 0 and 0.01   foud           [FouTD]
//	fout           [FouT], window 2                fourier2       [FouT]
//	fourier_decay  [FouTDecay], window 2
//
// It returns an error for an unknown name, an n below 1, and an odd n for a Fourier measure.
func HiPPO(measure string, n int) (a *mat.Dense, b []float64, err error) {
	build, known := measures[measure]
	if !known {
		names := slices.Sorted(maps.Keys(measures))
		return nil, nil, fmt.Errorf("ssm: HiPPO measure %q: want one of %s", measure, strings.Join(names, ", "))
	}
	if n < 1 {
		return nil, nil, fmt.Errorf("ssm: HiPPO measure %s: d_state is %d, want a positive number", measure, n)
	}
	if strings.HasPrefix(measure, "fou") && n%2 != 0 {
		return nil, nil, fmt.Errorf("ssm: HiPPO measure %s: d_state is %d, want an even number", measure, n)
	}
	a, b = build(n)
	return a, b, nil
}

// window2 stretches a window of one unit of time to two.
func window2(build func(int) (*mat.Dense, []float64)) func(int) (*mat.Dense, []float64) {
	return func(n int) (*mat.Dense, []float64) {
		a, b := build(n)
		a.Scale(0.5, a)
		floats.Scale(0.5, b)
		return a, b
	}
}
