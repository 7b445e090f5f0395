package mixer

import (
	"testing"
)

// TestBidirectionalSeesBothEnds checks that the last position of a bidirectional layer sees the first one, and vice
// versa. A golden file of such a layer checks the values.
func TestBidirectionalSeesBothEnds(t *testing.T) {
	const l = 40
	for _, v := range []variant{
		{"s4", S4Info.New, Config{DState: 6, Options: Options{"bidirectional": "true", "l_max": "16"}}, true},
		{"attention", AttentionInfo.New,
			Config{NumHeads: 2, Options: Options{"bidirectional": "true", "rotary_emb_dim": "2"}}, true},
		{"s4d", S4DInfo.New, Config{DState: 6, Options: Options{"bidirectional": "true", "channels": "2"}}, true},
	} {
		t.Run(v.name, func(t *testing.T) {
			m := v.mixer(t)
			if !m.Traits().LooksAhead {
				t.Error("it says that it does not look ahead")
			}
			run := func(at int) []float32 {
				u := sequences(5, 1, l)
				if at >= 0 {
					u.Data()[at*dModel]++
				}
				return read(m.Forward(newTape(), u, equalRows(1, l)))
			}
			plain := run(-1)
			for _, at := range []int{0, l / 2, l - 1} {
				moved := run(at)
				for _, row := range []int{0, l - 1} {
					same := true
					for i := range dModel {
						same = same && moved[row*dModel+i] == plain[row*dModel+i]
					}
					if same {
						t.Errorf("y at %d does not see u at %d", row, at)
					}
				}
			}
		})
	}
	one, err := S4Info.New(Config{DModel: dModel, DState: 6, DtMin: 0.1, DtMax: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	if one.Traits().LooksAhead {
		t.Error("a causal layer says that it looks ahead")
	}
}
