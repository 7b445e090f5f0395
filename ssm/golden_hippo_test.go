package ssm

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

const (
	tolHiPPO     = 1e-12
	tolMemory    = 1e-9
	tolLegSExact = 1e-6 // the reference solves with A, which is badly conditioned; zeroOrderHold does not
)

func TestGoldenHiPPOMatrices(t *testing.T) {
	type arguments struct {
		Args struct {
			LagT, TLagT struct{ Beta float64 }
			GLagT       struct{ Alpha, Beta float64 }
		}
	}
	golden.Run(t, "01_hippo_matrices", func(t *testing.T, c golden.Case) {
		var config arguments
		c.Config(&config)
		build := func(repository, measure string, n int) (*mat.Dense, []float64, error) {
			var a *mat.Dense
			var b []float64
			switch args := config.Args; {
			case measure == "lagt":
				a, b = LagT(n, args.LagT.Beta)
			case measure == "tlagt":
				a, b = TiltedLagT(n, args.TLagT.Beta)
			case measure == "glagt":
				a, b = GeneralizedLagT(n, args.GLagT.Alpha, args.GLagT.Beta)
			case measure == "legt" && repository == "hippo-code":
				a, b = LegT(n) // the older repository has a window of 1
			default:
				return HiPPO(measure, n)
			}
			return a, b, nil
		}
		compared := 0
		for _, name := range c.Names() { // repository/measure/n/A
			base, found := strings.CutSuffix(name, "/A")
			if !found {
				continue
			}
			path := strings.Split(base, "/")
			n, err := strconv.Atoi(path[2])
			check(t, err)
			a, b, err := build(path[0], path[1], n)
			check(t, err)
			golden.Close(t, name, a.RawMatrix().Data, c.F64(name), tolHiPPO)
			golden.Close(t, base+"/B", b, c.F64(base+"/B"), tolHiPPO)
			compared++
		}
		if compared == 0 {
			t.Error("no tensor is named repository/measure/n/A")
		}
	})
}

func TestGoldenMemory(t *testing.T) {
	methods := map[string]Method{"forward": Euler, "backward": BackwardEuler, "bilinear": Bilinear, "zoh": ZOH}
	golden.Run(t, "02_hippo_memory", func(t *testing.T, c golden.Case) {
		f := c.F64("in/f")
		l := len(f)
		n := c.Shape("legs/eval_matrix")[1]
		shares, steps := make([]float64, l), make([]float64, l) // linspace(0, 1, l) and k/l
		for k := range l {
			shares[k], steps[k] = float64(k)/float64(l-1), float64(k)/float64(l)
		}
		compared := 0
		for _, name := range c.Names() { // measure/method/c
			base, found := strings.CutSuffix(name, "/c")
			if !found {
				continue
			}
			measure, method, _ := strings.Cut(base, "/")
			m, known := methods[method]
			if !known {
				t.Fatalf("%s: unknown method %q", name, method)
			}
			var coefficients [][]float64
			var recon []float64
			var err error
			tol := tolMemory
			switch measure {
			case "legs":
				if m == ZOH {
					tol = tolLegSExact
				}
				coefficients, err = MemorizeLegS(n, f, m)
				check(t, err)
				recon = Reconstruct(Legendre, coefficients[l-1], shares)
			case "legt": // in LMU form, with a window as long as the signal
				a, b := LMU(n)
				coefficients, err = Memorize(a, b, f, 1/float64(l), m)
				check(t, err)
				recon = Reconstruct(Legendre, FromLMU(coefficients[l-1]), steps)
			case "lagt", "glagt":
				dt := -2 * math.Log(c.F64("lagt/eval_matrix")[n]) // exp(-dt/2) L_0 at the second point
				a, b, err := HiPPO(measure, n)
				check(t, err)
				coefficients, err = Memorize(a, b, f, dt, m)
				check(t, err)
			default:
				t.Fatalf("%s: unknown measure %q", name, measure)
			}
			golden.Close(t, name, flat(coefficients), c.F64(name), tol)
			if recon != nil {
				golden.Close(t, base+"/recon", recon, c.F64(base+"/recon"), tol)
			}
			compared++
		}
		if compared == 0 {
			t.Error("no tensor is named measure/method/c")
		}
		var legs, lagt []float64
		dt := -2 * math.Log(c.F64("lagt/eval_matrix")[n])
		for k := range l {
			legs = append(legs, Legendre(n, shares[k])...)
			lagt = append(lagt, Laguerre(n, float64(k)*dt)...)
		}
		golden.Close(t, "legs/eval_matrix", legs, c.F64("legs/eval_matrix"), tolMemory)
		golden.Close(t, "lagt/eval_matrix", lagt, c.F64("lagt/eval_matrix"), tolMemory)
	})
}

// flat returns the elements of the rows one after another.
func flat[T any](rows [][]T) []T {
	var all []T
	for _, r := range rows {
		all = append(all, r...)
	}
	return all
}
