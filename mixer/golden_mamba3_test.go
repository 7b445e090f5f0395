package mixer

import (
	"fmt"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// TestGoldenMamba3 compares with the official Mamba-3 layers, with one and several inputs and outputs, with and without
// the norm, and with the earlier form of A. The official state has S as (headdim, d_state), ranks within heads, and the
// last x before multiplication by mimo_x.
func TestGoldenMamba3(t *testing.T) {
	golden.Of(t, "mamba3")
	golden.Run(t, "14_mamba3", func(t *testing.T, c golden.Case) {
		cfg := struct {
			DModel  int     `json:"d_model"`
			DState  int     `json:"d_state"`
			Expand  int     `json:"expand"`
			HeadDim int     `json:"headdim"`
			Groups  int     `json:"ngroups"`
			Rope    float64 `json:"rope_fraction"`
			AFloor  float64 `json:"A_floor"`
			OutNorm bool    `json:"is_outproj_norm"`
			MIMO    bool    `json:"is_mimo"`
			Rank    int     `json:"mimo_rank"`
		}{Rank: 1}
		c.Config(&cfg)
		of := Config{DModel: cfg.DModel, DtMin: 1e-3, DtMax: 0.1, Options: Options{
			"d_state": fmt.Sprint(cfg.DState), "expand": fmt.Sprint(cfg.Expand), "headdim": fmt.Sprint(cfg.HeadDim),
			"ngroups": fmt.Sprint(cfg.Groups), "rope_fraction": fmt.Sprint(cfg.Rope), "A_floor": fmt.Sprint(cfg.AFloor),
			"is_outproj_norm": fmt.Sprint(cfg.OutNorm), "is_mimo": fmt.Sprint(cfg.MIMO),
			"mimo_rank": fmt.Sprint(cfg.Rank)}}
		mix, err := Mamba3Info.New(of)
		if err != nil {
			t.Fatal(err)
		}
		m := mix.(*Mamba3)
		n, p := cfg.DState, cfg.HeadDim
		like := func(name string, x []float64) (y []float64) {
			switch name {
			case "ssm":
				for ; len(x) > 0; x = x[p*n:] {
					for i := range n {
						for j := range p {
							y = append(y, x[j*n+i])
						}
					}
				}
			case "k":
				for ; len(x) > 0; x = x[m.heads*m.ranks*n:] {
					for i := range m.ranks * m.heads {
						y = append(y, x[(i%m.heads*m.ranks+i/m.heads)*n:][:n]...)
					}
				}
			case "v":
				for ; len(x) > 0; x = x[m.d:] {
					for i := range m.ranks * m.d {
						v, head := x[i%m.d], i%m.d/p
						if m.MimoX != nil {
							v *= float64(read(m.MimoX.Tensor)[(head*m.ranks+i/m.d)*p+i%p])
						}
						y = append(y, v)
					}
				}
			default:
				return x
			}
			return y
		}
		eachEngine(t, goldenBlock{Case: c, m: m, like: like})
		if name := "out/y_softplus_A"; c.Has(name) {
			of.Options["softplus_A"] = "true"
			old, err := Mamba3Info.New(of)
			if err != nil {
				t.Fatal(err)
			}
			fillGolden(t, c, old)
			s := c.Shape("in/x")
			x := leaf(c.F32("in/x"), s[0]*s[1], s[2])
			golden.Close(t, name, read(old.Forward(newTape(), x, equalRows(s[0], s[1]))), c.F64(name), mambaTol)
		}
	})
}
