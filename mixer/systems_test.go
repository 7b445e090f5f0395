package mixer

import (
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// named returns the parameters of a mixer by name.
func named(m nn.Module) map[string]*nn.Param {
	all := map[string]*nn.Param{}
	m.Params("", func(name string, p *nn.Param) { all[name] = p })
	return all
}

// TestSystems checks that poles and steps are those of the papers' parameters, -exp(log) + i·imaginary part, and
// exp(log dt) or softplus of a bias, with their names in the official layers.
func TestSystems(t *testing.T) {
	softplus := func(x float64) float64 { return math.Log(1 + math.Exp(x)) }
	for _, c := range []struct {
		variant            // by name
		system             string
		re, im, dt         string
		step               func(float64) float64
		rows, poles, steps int
	}{
		{variant{name: "h3"}, "kernel.kernel", "inv_A_real", "A_imag", "log_dt", math.Exp, 8, 24, 8},
		{variant{name: "gss"}, "kernel.kernel", "inv_A_real", "A_imag", "log_dt", math.Exp, 2, 6, 2},
		{variant{name: "s4d"}, "kernel", "log_A_real", "A_imag", "log_dt", math.Exp, 8, 24, 8},
		{variant{name: "s4d_real"}, "kernel", "log_A_real", "", "log_dt", math.Exp, 8, 32, 8},
		{variant{name: "s4"}, "kernel.kernel", "inv_w_real", "w_imag", "log_dt", math.Exp, 8, 24, 8},
		{variant{name: "dss"}, "kernel", "Lambda_log_neg_re", "Lambda_im", "log_dt", math.Exp, 1, 4, 16},
		{variant{name: "mamba"}, "", "A_log", "", "dt_proj.bias", softplus, 16, 80, 16},
		{variant{name: "mamba2"}, "", "A_log", "", "dt_bias", softplus, 4, 4, 4},
	} {
		v := variants()[slices.IndexFunc(variants(), func(v variant) bool { return v.name == c.name })]
		m := v.mixer(t)
		p, at := named(m), ""
		if c.system != "" {
			at = c.system + "."
		}
		systems := Systems(m)
		if len(systems) != 1 || systems[0].Name != c.system || systems[0].Rows != c.rows {
			t.Fatalf("%s: found the systems %v, want one, %q, of %d rows", c.name, systems, c.system, c.rows)
		}
		s := systems[0]
		var poles, dt []float64
		for i, x := range p[at+c.re].Elements() {
			im := 0.0
			if c.im != "" {
				im = float64(p[at+c.im].Elements()[i])
			}
			poles = append(poles, -math.Exp(float64(x)), im)
		}
		for _, x := range p[at+c.dt].Elements() {
			dt = append(dt, c.step(float64(x)))
		}
		var got []float64
		for _, z := range s.Poles {
			got = append(got, real(z), imag(z))
		}
		if len(s.Poles) != c.poles || len(s.Dt) != c.steps {
			t.Fatalf("%s: %d poles and %d steps, want %d and %d", c.name, len(s.Poles), len(s.Dt), c.poles, c.steps)
		}
		golden.Close(t, c.name+": poles", got, poles, 1e-12)
		golden.Close(t, c.name+": steps", s.Dt, dt, 1e-12)
		if low := p[at+"P"]; low != nil {
			golden.Close(t, c.name+": P", s.LowRank, wide(low.Elements()), 0)
		} else if s.LowRank != nil {
			t.Errorf("%s has P of %d numbers", c.name, len(s.LowRank))
		}
	}
	// Griffin (arXiv:2402.19427, eq. 3): a = exp(-8 softplus(Λ) r): the step is the gate, which is not a parameter.
	m := variant{build: RGLRUInfo.New, cfg: Config{NumHeads: 2}}.mixer(t)
	s := Systems(Parallel([]string{"b", "a"}, []Mixer{m, Scaled(m, 2, 1)}))
	if len(s) != 2 || s[0].Name != "a.rg_lru" || s[1].Name != "b.rg_lru" || s[0].Rows != 1 || s[0].Dt != nil {
		t.Fatalf("found the systems %v, want those of a and b", s)
	}
	for i, x := range named(m)["rg_lru.recurrent_param"].Elements() {
		if want := -8 * softplus(float64(x)); math.Abs(real(s[0].Poles[i])-want) > 1e-9 || imag(s[0].Poles[i]) != 0 {
			t.Errorf("pole %d is %v, want %v", i, s[0].Poles[i], want)
		}
	}
	if s := Systems(variant{build: AttentionInfo.New, cfg: Config{NumHeads: 2}}.mixer(t)); s != nil {
		t.Errorf("attention has the systems %v", s)
	}
}

// TestTimeConstants checks that after the time constant, e^(dt·A·t) of the slowest mode is 1/e and that of others less.
// Channels have their own modes or share them. If the assignment is not known, there are no constants.
func TestTimeConstants(t *testing.T) {
	poles := []complex128{-0.5 + 3i, -2, -0.25 + 1i, -0.125, -8, -1 + 9i}
	for _, c := range []struct {
		s    System
		want []float64
	}{
		{System{Poles: poles, Rows: 2, Dt: []float64{0.1, 0.5}}, []float64{1 / (0.1 * 0.25), 1 / (0.5 * 0.125)}},
		{System{Poles: poles, Rows: 3, Dt: []float64{1, 1, 2}}, []float64{2, 8, 0.5}},
		{System{Poles: poles, Rows: 1, Dt: []float64{0.1, 0.5}}, []float64{1 / (0.1 * 0.125), 1 / (0.5 * 0.125)}},
		{System{Poles: poles, Rows: 2, Dt: []float64{1}}, nil},
		{System{Poles: poles, Rows: 2}, nil},
		{System{Rows: 1, Dt: []float64{1}}, nil},
	} {
		got := c.s.TimeConstants()
		if len(got) != len(c.want) {
			t.Fatalf("%d rows, dt %v: found %v, want %v", c.s.Rows, c.s.Dt, got, c.want)
		}
		for i, w := range c.want {
			if math.Abs(got[i]-w) > 1e-12*w {
				t.Errorf("%d rows, dt %v: channel %d has %v, want %v", c.s.Rows, c.s.Dt, i, got[i], w)
			}
		}
	}
}

// TestStateRules checks the rules against the mixers: the inputs of the tanh in two states after the same input differ
// by the transition of the states' difference, gates are those of the formula, and nonlinear parts are reported.
func TestStateRules(t *testing.T) {
	rng := sequences(5, 1, 4).Data()
	for _, v := range variants() {
		m := v.mixer(t)
		for name, rule := range StateRules(newTape(), Parallel([]string{"x"}, []Mixer{Scaled(m, 1, 2)})) {
			if v.name != "several" && name[:2] != "x." {
				t.Fatalf("%s: there is a rule of %q, want those of x", v.name, name)
			}
			if v.name == "several" || rule.Transition == nil {
				continue
			}
			name = name[2:]
			n := rule.Transition.Dim(0)
			after := func(s []float32) []float64 {
				state := begin(m, 1)
				if err := state.states[0].Restore(name, []int{n}, s); err != nil {
					t.Fatal(err)
				}
				state.forward(newTape(), sequences(2, 1, 1))
				out := wide(parts(state.states[0])[name])
				for i := range rule.Tanhs {
					out[i] = math.Atanh(out[i])
				}
				return out
			}
			s := make([]float32, n)
			for i := range s {
				s[i] = rng[i] / 4
			}
			from, to := after(make([]float32, n)), after(s)
			r := rowsFrom(read(rule.Transition), n)
			want := make([]float64, n)
			for i := range want {
				to[i] -= from[i]
				want[i] = dotOf(r[i], wide(s))
			}
			golden.Close(t, v.name+": difference", to, want, 1e-5)
		}
	}
	tape := newTape()
	if rules := StateRules(tape, variant{build: RNNInfo.New,
		cfg: Config{Options: Options{"hidden": "5"}}}.mixer(t)); len(
		rules) != 1 || rules["h"].Tanhs != 5 {
		t.Errorf("an RNN has the rules %v", rules)
	}
	lmu := variant{build: LMUInfo.New, cfg: Config{Options: Options{"hidden": "4", "order": "3", "theta": "9"}}}
	if rules := StateRules(tape, lmu.mixer(t)); len(rules) != 1 || rules["h_m"].Tanhs != 4 ||
		rules["h_m"].Transition.Dim(0) != 7 {
		t.Errorf("an LMU has the rules %v", rules)
	}
	o := Options{"block": "9", "rows": "3"}
	m := variant{build: BlockRecurrentInfo.New, cfg: Config{NumHeads: 2, Options: o}}.mixer(t)
	gates := StateRules(tape, m)["rows"].Gates
	if len(gates) != 3*dModel {
		t.Fatalf("found %d gates, want one for each of 3·%d", len(gates), dModel)
	}
	for i, g := range gates {
		x := float64(named(m)["state_gate"].Elements()[i%dModel])
		if want := 1 / (1 + math.Exp(-x)); math.Abs(g-want) > 1e-12 {
			t.Errorf("gate %d is %v, want %v", i, g, want)
		}
	}
	spatten := variant{build: SpAttenInfo.New, cfg: Config{NumHeads: 2}}.mixer(t)
	if rules := StateRules(tape, spatten); !rules["k"].NotLinear || !rules["v"].NotLinear || len(rules) != 2 {
		t.Errorf("SpAtten has the rules %v", rules)
	}
}

// TestKindsOfParts checks the kinds of each state's parts. Parts that are not listed are Numbers.
func TestKindsOfParts(t *testing.T) {
	want := map[string]PartKind{
		"mamba conv": PositionRows, "mamba2 conv": PositionRows, "gated_conv conv": PositionRows,
		"rg_lru conv": PositionRows, "gau k": PositionRows, "gau v": PositionRows, "gmlp z": PositionRows,
		"bucket_attention q": PositionRows, "bucket_attention kv": PositionRows,
		"sparse_sinkhorn kv": PositionRows, "sparse_sinkhorn scores": Scores,
		"hyena short": PositionRows, "hyena long0": PositionRows,
		"block_recurrent qkv": Copied, "block_recurrent block": BlockRows, "block_recurrent position": Position,
		"spatten importance": Scores, "spatten heads": Scores, "spatten position": Position,
		"spatten_low importance": Scores, "spatten_low heads": Scores, "spatten_low position": Position,
		"spatten_low k_low": Copied,
	}
	found := map[string]bool{}
	all := append(variants(), variant{"spatten_low", SpAttenInfo.New, Config{NumHeads: 2, Options: Options{"block": "8",
		"keep": "20", "progressive": "0.1"}}, true})
	for _, v := range all {
		_, s := chunked(v.mixer(t), sequences(1, 1, 12), []int{12}, never)
		for _, p := range StateParts(s.states[0]) {
			at := v.name + " " + p.Name
			found[at] = true
			if w, ok := want[at]; ok && p.Kind != w {
				t.Errorf("%s is of kind %v, want %v", at, p.Kind, w)
			} else if !ok && p.Kind != Numbers && v.name == "attention" {
				t.Errorf("%s is of kind %v, want numbers", at, p.Kind)
			}
			if book := p.Kind == Scores || p.Kind == Position; p.Kind.Bookkeeping() != book {
				t.Errorf("%s is bookkeeping: %v", at, !book)
			}
			shape, values := p.Values()
			if !slices.Equal(shape, p.Shape()) || len(values) != tensor.Shaped(shape...).Len() {
				t.Errorf("%s has the shape %v and %d values of shape %v", at, p.Shape(), len(values), shape)
			}
		}
	}
	for at := range want {
		if !found[at] {
			t.Errorf("there is no part %s", at)
		}
	}
}

// TestPartsOfShortStates checks that a state of one position, and one of a window that sees only the last position, has
// the parts of its tensors.
func TestPartsOfShortStates(t *testing.T) {
	for _, window := range []string{"1", "2", "3"} {
		for l := range 4 {
			m := variant{build: WindowAttentionInfo.New, cfg: Config{NumHeads: 2,
				Options: Options{"window": window}}}.mixer(t)
			s := begin(m, 1)
			if l > 0 {
				s.forward(newTape(), sequences(1, 1, l))
			}
			var want, got []string
			s.states[0].Tensors(func(name string, _ *tensor.Tensor) { want = append(want, name) })
			for _, p := range StateParts(s.states[0]) {
				got = append(got, p.Name)
			}
			if !slices.Equal(got, want) || (len(got) == 2) != (l > 0 && window != "1") {
				t.Errorf("window %s after %d positions: found the parts %v, the tensors are %v", window, l, got, want)
			}
		}
	}
}

// TestLengthsOfKernels checks that a kernel has the requested number of taps, the shift's at most the size of its
// state.
func TestLengthsOfKernels(t *testing.T) {
	m := variant{build: H3Info.New, cfg: Config{DState: 6, HeadDim: 1}}.mixer(t)
	for _, l := range []int{3, 6, 9} {
		for _, k := range Responses(newTape(), m, l) {
			want := l
			if k.Name == "shift" {
				want = min(l, 6)
			}
			if k.Taps.Dim(0) != want {
				t.Errorf("%s has %d taps of %d, want %d", k.Name, k.Taps.Dim(0), l, want)
			}
		}
	}
}

// TestS4WithoutLowRank checks that a measure whose matrix is normal has no P.
func TestS4WithoutLowRank(t *testing.T) {
	for measure, want := range map[string]int{"legs": 1, "legt": 2, "fourier": 1, "foud": 0} {
		m, err := S4Info.New(Config{DModel: dModel, DState: 6, DtMin: 0.1, DtMax: 0.1,
			Options: Options{"measure": measure}})
		if err != nil {
			t.Errorf("%s: %v", measure, err)
			continue
		}
		p := named(m)["kernel.kernel.P"]
		if (p != nil) != (want > 0) || p != nil && p.Dim(0) != want {
			t.Errorf("%s: found P %v, want rank %d", measure, p, want)
		}
	}
}

// TestFineWeights checks that the weights from which Mamba's steps are computed remain precise when others are rounded.
func TestFineWeights(t *testing.T) {
	m := variant{build: MambaInfo.New}.mixer(t)
	for name, p := range named(m) {
		if want := name == "x_proj.weight" || name == "dt_proj.weight"; p.Fine != want {
			t.Errorf("%s is fine: %v, want %v", name, p.Fine, want)
		}
	}
}
