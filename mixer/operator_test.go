package mixer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestOperatorIsTheMixer checks that y[t] = b + Σ_h Σ_s W_h[t,s] · O_h v_h[s] are the outputs of attention in every
// form, of MLA and of H3 with both orders of channels, and that Written is the product of directions with O_h.
func TestOperatorIsTheMixer(t *testing.T) {
	const l = 21 // not a multiple of a head's channels
	for _, v := range variants() {
		m := v.mixer(t)
		u := sequences(6, 1, l)
		o, ok := OperatorOf(newTape(), m, u)
		a, attends := m.(*Attention)
		_, latent := m.(*MLA)
		if want := attends && !a.gated || // no matrix of a head can express a gate
			latent || strings.HasPrefix(v.name, "h3"); ok != want {
			t.Errorf("%s: has an operator: %v, want %v", v.name, ok, want)
		}
		if !ok {
			continue
		}
		if o.Length != l {
			t.Errorf("%s: the operator is of %d positions, want %d", v.name, o.Length, l)
		}
		directions := make([]float64, dModel*dModel) // the axes of the stream
		for i := range dModel {
			directions[i*dModel+i] = 1
		}
		y := make([]float64, l*dModel)
		if p := m.(projected); true {
			out, _ := p.last()
			if (*out).Bias != nil {
				for i := range y {
					y[i] = float64(read((*out).Bias.Tensor)[i%dModel])
				}
			}
		}
		for h := range o.Heads {
			w, columns := make([]float64, l*l), make([]float64, dModel*o.HeadDim)
			for i := range w {
				w[i] = 7 // Weights overwrites
			}
			o.Weights(h, w)
			o.Written(h, directions, columns)
			for i := range l {
				for s := range l {
					if s > i && w[i*l+s] != 0 {
						t.Fatalf("%s: position %d sees position %d", v.name, i, s)
					}
					for c := range dModel {
						for j, x := range o.Value(h, s) {
							y[i*dModel+c] += w[i*l+s] * columns[c*o.HeadDim+j] * float64(x)
						}
					}
				}
			}
		}
		golden.Close(t, v.name, read(m.Forward(newTape(), u, equalRows(1, l))), y, formulaTol)
	}
}

// TestInside checks that an edit of the last projection's input that changes nothing leaves the outputs unchanged. If
// the channels of one head are zeroed, the output is that of the other heads. Parts of a sum are edited separately,
// with factors, and the original mixer does not change.
func TestInside(t *testing.T) {
	const l = 9
	for _, v := range variants() {
		m := v.mixer(t)
		u, rows := sequences(8, 1, l), equalRows(1, l)
		plain := read(m.Forward(newTape(), u, rows))
		switch m.(type) {
		case later: // the mixer itself is another variant
			continue
		case *ChannelMix: // a feed-forward part
			continue
		}
		if v.name == "several" || v.name == "slstm_no_out" {
			if _, _, ok := Inside(m, "", nil); ok {
				t.Errorf("%s has one last projection", v.name)
			}
			continue
		}
		if names := Parts(m); names != nil {
			t.Errorf("%s is the sum of %v", v.name, names)
		}
		var kept [][]float32
		keep := func(_ *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
			kept = append(kept, read(x))
			return x
		}
		same, in, ok := Inside(m, "", keep)
		if !ok {
			t.Fatalf("%s: there is no inside", v.name)
		}
		if got := read(same.Forward(newTape(), u, rows)); !slices.Equal(got, plain) || len(kept) != 1 {
			t.Fatalf("%s: edited %d times, and nothing changed: %v", v.name, len(kept), slices.Equal(got, plain))
		}
		if want := len(kept[0]) / l; in.Channels != want {
			t.Errorf("%s: %d channels inside, want %d", v.name, in.Channels, want)
		}
		if in.Heads == 0 {
			continue
		}
		all := map[int]bool{}
		for h := range in.Heads {
			channels := in.Of(h)
			if len(channels) != in.Channels/in.Heads {
				t.Errorf("%s: head %d has the channels %v of %d", v.name, h, channels, in.Channels)
			}
			for _, c := range channels {
				all[c] = true
			}
		}
		if len(all) != in.Channels {
			t.Errorf("%s: %d of %d channels belong to heads", v.name, len(all), in.Channels)
		}
	}
}

// TestInsideHeads checks that the channels of a head are those that the head's values affect: with the values of all
// other heads zero, the other channels are zero.
func TestInsideHeads(t *testing.T) {
	const l = 7
	for _, v := range variants() {
		m := v.mixer(t)
		var values *tensor.Tensor // rows of the values
		first := 0
		switch m := m.(type) {
		case *H3:
			values = m.V.Weight.Tensor
		case *Attention:
			if m.opt.KeyHeads() != m.opt.Heads {
				continue
			}
			values, first = m.Wqkv.Weight.Tensor, 2*m.opt.Heads*m.headDim
		case *LinearAttention:
			values = m.V.Weight.Tensor
		case *Retention:
			values, first = m.In.Weight.Tensor, m.wide
		default:
			continue
		}
		var inside []float32
		m, in, _ := Inside(m, "", func(_ *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
			inside = read(x)
			return x
		})
		weights := read(values)
		for h := range in.Heads {
			w := slices.Clone(weights)
			hd := in.Channels / in.Heads
			for c := range in.Channels {
				if c/hd != h {
					clear(w[(first+c)*dModel:][:dModel])
				}
			}
			values.CopyFrom(w)
			m.Params("", func(name string, p *nn.Param) {
				if p.Role == nn.Bias && !strings.HasPrefix(name, "out") {
					p.Tensor.CopyFrom(make([]float32, p.Len()))
				}
			})
			m.Forward(newTape(), sequences(8, 1, l), equalRows(1, l))
			for c := range in.Channels {
				if own := in.Head(c) == h; own != (inside[(l-1)*in.Channels+c] != 0) {
					t.Errorf("%s: channel %d is of head %d: %v; its value is %v", v.name, c, h, own,
						inside[(l-1)*in.Channels+c])
				}
			}
		}
	}
}

// TestInsideAPart checks that in a scaled sum, zeroing one part removes its contribution.
func TestInsideAPart(t *testing.T) {
	const l = 9
	v := variants()[slices.IndexFunc(variants(), func(v variant) bool { return v.name == "several" })]
	whole := v.mixer(t).(scaled).Mixer.(*parallel)
	for i := range whole.parts { // factors inside, too
		whole.parts[i] = Scaled(whole.parts[i], 2, 0.25)
	}
	if !slices.Equal(Parts(whole), []string{"a", "b"}) {
		t.Errorf("the parts are %v", Parts(whole))
	}
	u, rows := sequences(8, 1, l), equalRows(1, l)
	plain := read(whole.Forward(newTape(), u, rows))
	none := func(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor { return t.Scale(x, 0) }
	for i, part := range whole.names {
		m, in, ok := Inside(whole, part, none)
		out, _ := whole.parts[i].(scaled).Mixer.(projected).last()
		if !ok || in.Channels != (*out).Weight.Dim(1) {
			t.Fatalf("part %s: %v, %d channels", part, ok, in.Channels)
		}
		want := read(whole.parts[1-i].Forward(newTape(), u, rows))
		bias := read((*out).Bias.Tensor)
		for j := range want {
			want[j] += 0.25 * bias[j%dModel]
		}
		near(t, "the sum without "+part, read(m.Forward(newTape(), u, rows)), want, 1e-6)
		if got := read(whole.Forward(newTape(), u, rows)); !slices.Equal(got, plain) {
			t.Errorf("part %s: editing a copy has changed the mixer", part)
		}
	}
	if _, _, ok := Inside(whole, "c", none); ok {
		t.Error("there is a part c")
	}
	if _, in, ok := Inside(alone{}, "", none); ok || in.Channels != 0 {
		t.Error("a feed-forward part has a last projection")
	}
}

// TestWrittenOfSeveralDirections checks that each direction has its own row, for every head.
func TestWrittenOfSeveralDirections(t *testing.T) {
	m := variant{build: H3Info.New, cfg: Config{DState: 6, HeadDim: 2, HeadOrder: "dh"}}.mixer(t).(*H3)
	o, _ := OperatorOf(newTape(), m, sequences(1, 1, 3))
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 3
	rows := make([]float64, n*dModel)
	for i := range rows {
		rows[i] = rng.NormFloat64()
	}
	out := rowsFrom(read(m.Out.Weight.Tensor), dModel)
	for h := range o.Heads {
		got := make([]float64, n*o.HeadDim)
		o.Written(h, rows, got)
		for r := range n {
			for j := range o.HeadDim {
				want := 0.0
				for i := range dModel { // channel j of head h is at j·heads + h: dh
					want += rows[r*dModel+i] * out[i][j*o.Heads+h]
				}
				golden.Close(t, "written", got[r*o.HeadDim+j:][:1], []float64{want}, 1e-12)
			}
		}
	}
}
