package explain

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSoftmax checks the norm, entropy and divergences against their definitions.
func TestSoftmax(t *testing.T) {
	a, b := []float32{1, 2, -3, 0.5}, []float32{0, 1, 1, -20}
	sa, _ := SoftmaxOf(a)
	sb, _ := SoftmaxOf(b)
	entropy, kl, js := definitions(probabilities(a), probabilities(b))
	for _, x := range []struct {
		name      string
		got, want float64
	}{{"entropy", sa.Entropy, entropy}, {"KL", Divergence(a, b, sa, sb), kl}, {"JS", JensenShannon(a, b, sa, sb), js},
		{"KL of the same", Divergence(a, a, sa, sa), 0}} {
		if math.Abs(x.got-x.want) > 1e-6 {
			t.Errorf("%s is %g, want %g", x.name, x.got, x.want)
		}
	}
	top := Likeliest([]float32{1, 3, 3, 2}, Softmax{}, 3)
	if top[0].ID != 1 || top[1].ID != 2 || top[2].ID != 3 {
		t.Errorf("the likeliest are %v", top)
	}
}

// definitions returns the entropy of p, its Kullback-Leibler divergence from q, and the Jensen-Shannon divergence of
// both.
func definitions(p, q []float64) (entropy, kl, js float64) {
	for i := range p {
		m := (p[i] + q[i]) / 2
		entropy -= p[i] * math.Log(p[i])
		kl += p[i] * math.Log(p[i]/q[i])
		js += p[i]*math.Log(p[i]/m)/2 + q[i]*math.Log(q[i]/m)/2
	}
	return entropy, kl, js
}

// TestSoftmaxOfManyScores checks the same for more scores than are processed at a time, with similar and different
// distributions.
func TestSoftmaxOfManyScores(t *testing.T) {
	a := normals(3, 2*scoresAtOnce+77)
	for i := range a {
		a[i] *= 3
	}
	for _, far := range []float32{1e-3, 0.1, 5} {
		b := slices.Clone(a)
		for i, v := range normals(4, len(a)) {
			b[i] += far * v
		}
		sa, _ := SoftmaxOf(a)
		sb, _ := SoftmaxOf(b)
		entropy, kl, js := definitions(probabilities(a), probabilities(b))
		for _, x := range []struct {
			name             string
			got, want, least float64
		}{{"entropy", sa.Entropy, entropy, 1}, {"KL", Divergence(a, b, sa, sb), kl, 1},
			{"JS", JensenShannon(a, b, sa, sb), js, 1e-8}} { // ratios of it are shown even if it is tiny
			if math.Abs(x.got-x.want) > 1e-4*max(x.want, x.least) {
				t.Errorf("%s of distributions %g apart is %g, want %g", x.name, far, x.got, x.want)
			}
		}
	}
}

func probabilities(z []float32) []float64 {
	sum, p := 0.0, make([]float64, len(z))
	for i, v := range z {
		p[i] = math.Exp(float64(v))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// normals returns n normally distributed numbers.
func normals(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}
