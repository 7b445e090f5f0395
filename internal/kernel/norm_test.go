package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// reporter is a *testing.T or a *rapid.T.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// within compares got with want. It allows errors up to tol times the largest element, or times 1, which is about the
// size of the terms of the sums.
func within(t reporter, what string, got []float32, want []float64, tol float64) {
	t.Helper()
	size := 1.0
	for _, w := range want {
		size = max(size, math.Abs(w))
	}
	for i, w := range want {
		if e := math.Abs(float64(got[i]) - w); !(e <= tol*size) {
			t.Errorf("%s: element %d is %v, want %v: error %.2g, want at most %.2g", what, i, got[i], w, e, tol*size)
			return
		}
	}
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

const normEps = 1e-5

// normalized returns the x̂ and the rstd of a row in float64.
func normalized(x []float32) (hat []float64, rstd float64) {
	n := float64(len(x))
	var mean, sq float64
	for _, v := range x {
		mean += float64(v) / n
	}
	for _, v := range x {
		sq += (float64(v) - mean) * (float64(v) - mean) / n
	}
	rstd = 1 / math.Sqrt(sq+normEps)
	for _, v := range x {
		hat = append(hat, (float64(v)-mean)*rstd)
	}
	return hat, rstd
}

func TestLayerNorm(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	const rows, d = 3, 50
	for _, c := range []struct {
		name            string
		offset, spread  float32
		tol, tolOfGrads float64
	}{
		{"plain", 0, 1, 1e-6, 1e-6},
		{"small", 0, 1e-3, 1e-6, 1e-6},
		{"far from zero", 100, 1, 1e-5, 1e-5}, // includes the rounding of x and its mean, 4e-6 each
	} {
		x, w, b, dy := normals(rng, rows*d), normals(rng, d), normals(rng, d), normals(rng, rows*d)
		for i := range x {
			x[i] = x[i]*c.spread + c.offset
		}
		y, mean, rstd := make([]float32, rows*d), make([]float32, rows), make([]float32, rows)
		LayerNorm(y, mean, rstd, x, w, b, d, normEps)
		dx, dw, db := normals(rng, rows*d), normals(rng, d), normals(rng, d)
		wantX, wantW, wantB := wide(dx), wide(dw), wide(db) // the gradients are added to the previous values
		LayerNormGrad(dx, dy, x, w, mean, rstd, d)
		LayerNormParamGrad(dw, db, dy, x, mean, rstd, d)
		var wantY []float64
		for r := range rows {
			hat, s := normalized(x[r*d:][:d])
			var g, gx float64
			for i, h := range hat {
				wantY = append(wantY, h*float64(w[i])+float64(b[i]))
				v := float64(dy[r*d+i])
				g += v * float64(w[i]) / d
				gx += v * float64(w[i]) * h / d
				wantW[i] += v * h
				wantB[i] += v
			}
			for i, h := range hat {
				wantX[r*d+i] += s * (float64(dy[r*d+i])*float64(w[i]) - g - h*gx)
			}
		}
		within(t, c.name+": y", y, wantY, c.tol)
		within(t, c.name+": dx", dx, wantX, c.tolOfGrads)
		within(t, c.name+": dw", dw, wantW, c.tolOfGrads)
		within(t, c.name+": db", db, wantB, c.tolOfGrads)
	}
}

// TestLayerNormOfGroups checks that the groups of a row are normalized like rows with weights of their own.
func TestLayerNormOfGroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	const rows, groups, d = 3, 2, 20
	const n = groups * d
	x, w, b, dy := normals(rng, rows*n), normals(rng, n), normals(rng, n), normals(rng, rows*n)
	y, mean, rstd := make([]float32, rows*n), make([]float32, rows*groups), make([]float32, rows*groups)
	LayerNorm(y, mean, rstd, x, w, b, d, normEps)
	dx, dw, db := make([]float32, rows*n), make([]float32, n), make([]float32, n)
	LayerNormGrad(dx, dy, x, w, mean, rstd, d)
	LayerNormParamGrad(dw, db, dy, x, mean, rstd, d)
	oneY, oneX, oneW, oneB := make([]float32, rows*n), make([]float32, rows*n), make([]float32, n), make([]float32, n)
	for r := range rows * groups {
		x, dy, w := x[r*d:][:d], dy[r*d:][:d], w[r%groups*d:][:d]
		mean, rstd := make([]float32, 1), make([]float32, 1)
		LayerNorm(oneY[r*d:][:d], mean, rstd, x, w, b[r%groups*d:][:d], d, normEps)
		LayerNormGrad(oneX[r*d:][:d], dy, x, w, mean, rstd, d)
		LayerNormParamGrad(oneW[r%groups*d:][:d], oneB[r%groups*d:][:d], dy, x, mean, rstd, d)
	}
	for name, pair := range map[string][2][]float32{"y": {y, oneY}, "dx": {dx, oneX}, "dw": {dw, oneW},
		"db": {db, oneB}} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("%s: got %v, want %v", name, pair[0], pair[1])
		}
	}
}

// TestLayerNormOfConstant checks that a row without variance gives the bias, and that rows are independent.
func TestLayerNormOfConstant(t *testing.T) {
	const d = 4
	w, b := []float32{1, 2, 3, 4}, []float32{5, 6, 7, 8}
	x := []float32{3, 3, 3, 3, 1, -2, 0, 9}
	y, stats := make([]float32, 2*d), make([]float32, 4)
	LayerNorm(y, stats[:2], stats[2:], x, w, b, d, normEps)
	if !slices.Equal(y[:d], b) {
		t.Errorf("got %v, want %v", y[:d], b)
	}
	alone := make([]float32, d)
	LayerNorm(alone, stats[:1], stats[1:2], x[d:], w, b, d, normEps)
	if !slices.Equal(y[d:], alone) {
		t.Errorf("a row gives %v in company and %v alone", y[d:], alone)
	}
}
