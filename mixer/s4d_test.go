package mixer

import (
	"fmt"
	"math"
	"math/cmplx"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
)

// TestS4DFormula checks that for every constraint of Re A, both discretizations, and B frozen or trained, the layer is
//
//	x_t = Abar x_{t-1} + Bbar u_t,   y = W gelu( 2 Re Σ_n C x + D u ) + b
//
// in float64, and Re A starts the same.
func TestS4DFormula(t *testing.T) {
	start := map[string][]float64{}
	for re, of := range map[string]func(x float64) float64{
		"exp": math.Exp, "softplus": softplus, "relu": func(x float64) float64 { return max(x, 0) + 1e-4 },
		"none": func(x float64) float64 { return x },
	} {
		for _, disc := range []string{"zoh", "bilinear"} {
			for _, trained := range []bool{false, true} {
				name := fmt.Sprintf("%s %s, B trained %v", re, disc, trained)
				m := variant{build: S4DInfo.New, cfg: Config{DState: 6, Options: Options{"real_transform": re,
					"disc": disc, "train_b": fmt.Sprint(trained), "gate": "false"}}}.mixer(t).(*S4D)
				if re == "relu" { // move one to the bound
					x := read(m.LogAReal.Tensor)
					x[1] = -0.3
					m.LogAReal.CopyFrom(x)
				}
				a, im, logDt := read(m.LogAReal.Tensor), read(m.AImag.Tensor), read(m.LogDt.Tensor)
				c, skip, n := read(m.C[0].Tensor), read(m.D[0].Tensor), 3
				b := make([]float32, len(c))
				for i := range len(b) / 2 {
					b[2*i] = 1
				}
				if trained {
					b = read(m.B.Tensor)
				}
				poles := Systems(m)[0].Poles
				checkFormula(t, m, 60, func(u matrix) matrix {
					x := make([]complex128, dModel*n)
					return u.each(func(u []float64) []float64 {
						y := make([]float64, dModel)
						for i := range x {
							h, A := i/n, complex(-of(float64(a[i])), float64(im[i]))
							if cmplx.Abs(A-poles[i]) > 1e-6*cmplx.Abs(A) {
								t.Errorf("%s: found the pole %v, want %v", name, poles[i], A)
							}
							dt := complex(math.Exp(float64(logDt[h])), 0)
							B := complex(float64(b[2*i]), float64(b[2*i+1]))
							abar, bbar := cmplx.Exp(dt*A), B*(cmplx.Exp(dt*A)-1)/A
							if disc == "bilinear" {
								abar, bbar = (1+dt*A/2)/(1-dt*A/2), B*dt/(1-dt*A/2)
							}
							x[i] = abar*x[i] + bbar*complex(u[h], 0)
							y[h] += 2 * real(complex(float64(c[2*i]), float64(c[2*i+1]))*x[i])
						}
						for h := range y {
							y[h] += float64(skip[h]) * u[h]
						}
						return affine(m.Out)(geluOf(y))
					})
				})
				var began []float64
				fresh, err := S4DInfo.New(Config{DModel: dModel, DState: 6, DtMin: 0.1, DtMax: 0.1,
					Measure: "diag-legs", Options: Options{"real_transform": re}})
				if err != nil {
					t.Fatal(err)
				}
				nn.InitAll(fresh, "", 3)
				for _, x := range read(fresh.(*S4D).LogAReal.Tensor) {
					began = append(began, of(float64(x)))
				}
				start[re] = began
			}
		}
	}
	for re, began := range start {
		golden.Close(t, "the start of "+re, narrow(began), start["exp"], 1e-6)
	}
}
