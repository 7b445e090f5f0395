package mixer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/nn"
)

// reachable collects the parameters that are reachable from a value.
func reachable(v reflect.Value, seen map[any]bool, found map[*nn.Param]string, at string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return
		}
		seen[v.Pointer()] = true
		if v.Type() == reflect.TypeFor[*nn.Param]() {
			found[(*nn.Param)(v.UnsafePointer())] = at
			return
		}
		reachable(v.Elem(), seen, found, at)
	case reflect.Interface:
		if !v.IsNil() {
			reachable(v.Elem(), seen, found, at)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			reachable(v.Field(i), seen, found, at+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			reachable(v.Index(i), seen, found, at)
		}
	}
}

// TestParamsVisitsAll checks that every parameter of a mixer is visited exactly once, so that it is trained and saved.
// The window of a block recurrence uses only the products of attention, and its parameters have no values.
func TestParamsVisitsAll(t *testing.T) {
	for _, v := range variants() {
		m := v.mixer(t)
		found, visited := map[*nn.Param]string{}, map[*nn.Param]string{}
		reachable(reflect.ValueOf(m), map[any]bool{}, found, "")
		names := map[string]bool{}
		m.Params("", func(name string, p *nn.Param) {
			if visited[p] != "" || names[name] {
				t.Errorf("%s: %s is visited twice", v.name, name)
			}
			visited[p], names[name] = name, true
			if found[p] == "" {
				t.Errorf("%s: %s is no field of the mixer", v.name, name)
			}
		})
		for p, at := range found {
			if visited[p] == "" && (p.Bytes() > 0 || !strings.HasPrefix(at, ".window.")) {
				t.Errorf("%s%s %v is not visited", v.name, at, p.Shape())
			}
		}
	}
}

// deviation returns the root mean square of a parameter's values.
func deviation(p *nn.Param) float64 {
	sum := 0.0
	for _, v := range p.Elements() {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum / float64(p.Len()))
}

// TestStartOfProjections checks that projections of H3 and attention start with the standard deviation 0.02, and
// attention's last one with 0.02/√(2·layers), as in H3's release; an unknown depth counts as one layer.
func TestStartOfProjections(t *testing.T) {
	for _, layers := range []int{0, 1, 8} {
		cfg := Config{DModel: 128, NLayer: layers, NumHeads: 4, DState: 8, HeadDim: 1, DtMin: 1e-3, DtMax: 0.1,
			Measure: "diag-lin", HeadOrder: "dh"}
		for _, build := range []func(Config) (Mixer, error){AttentionInfo.New, H3Info.New, BigBirdInfo.New} {
			m, err := build(cfg)
			if err != nil {
				t.Fatal(err)
			}
			nn.InitAll(m, "", 7)
			m.Params("", func(name string, p *nn.Param) {
				if p.Role != nn.Weight {
					return
				}
				want := 0.02
				if name == "out_proj.weight" {
					want = 0.02 / math.Sqrt(2*math.Max(1, float64(layers)))
				}
				if got := deviation(p); math.Abs(got/want-1) > 5/math.Sqrt(2*float64(p.Len())) {
					t.Errorf("%T of %d layers: %s starts with the deviation %.4g, want %.4g", m, layers, name, got,
						want)
				}
			})
		}
	}
}

// TestOptionsOfAttention checks that there are no biases if they are turned off, and that both ways of looking ahead
// are reported.
func TestOptionsOfAttention(t *testing.T) {
	for options, want := range map[string]map[string]bool{
		"":         {"Wqkv.weight": true, "Wqkv.bias": true, "out_proj.weight": true, "out_proj.bias": true},
		"bias":     {"Wqkv.weight": true, "out_proj.weight": true, "out_proj.bias": true},
		"out_bias": {"Wqkv.weight": true, "Wqkv.bias": true, "out_proj.weight": true},
	} {
		cfg := Config{NumHeads: 2, Options: Options{}}
		if options != "" {
			cfg.Options[options] = "false"
			if options == "bias" {
				cfg.Options["out_bias"] = "true"
			}
		}
		got := map[string]bool{}
		m := variant{build: AttentionInfo.New, cfg: cfg}.mixer(t)
		m.Params("", func(name string, _ *nn.Param) { got[name] = true })
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s=false: found %v, want %v", options, got, want)
		}
	}
	for _, c := range []struct {
		build func(Config) (Mixer, error)
		ahead string
	}{
		{AttentionInfo.New, "true"}, {AttentionInfo.New, "false"},
		{BigBirdInfo.New, "true"}, {BigBirdInfo.New, "false"},
	} {
		m := variant{build: c.build, cfg: Config{NumHeads: 2, Options: Options{"bidirectional": c.ahead}}}.mixer(t)
		if got := m.Traits().LooksAhead; got != (c.ahead == "true") {
			t.Errorf("%T with bidirectional=%s: LooksAhead is %v", m, c.ahead, got)
		}
	}
}

// TestWindowBoundsTheState checks that the size counts the positions that can still be seen, though more may be stored.
func TestWindowBoundsTheState(t *testing.T) {
	m := variant{build: WindowAttentionInfo.New,
		cfg: Config{NumHeads: 2, Options: Options{"window": "9", "kv_heads": "1"}}}.mixer(t)
	row := 2 * dModel / 2 * 4 // bytes of a key and a value of one head of two
	for _, l := range []int{3, 8, 9, 30} {
		for _, record := range []func(int) bool{never, always} {
			_, s := chunked(m, sequences(1, 1, l), []int{l}, record)
			if got, want := s.size(), min(l, 8)*row; got != want {
				t.Errorf("after %d positions the state has %d bytes, want %d, of at most 8 positions", l, got, want)
			}
		}
	}
}

// TestSeveralFormula checks that parallel mixers are added, and that both factors of Scaled are applied.
func TestSeveralFormula(t *testing.T) {
	v := variant{build: severalMixers, cfg: Config{DState: 6, HeadDim: 1, HeadOrder: "dh"}}
	m := v.mixer(t).(scaled)
	parts := m.Mixer.(*parallel).parts
	u, half := sequences(3, 1, 20), sequences(3, 1, 20)
	for i := range half.Data() {
		half.Data()[i] /= 2
	}
	rows := equalRows(1, 20)
	want := read(parts[0].Forward(newTape(), half, rows))
	for i, y := range read(parts[1].Forward(newTape(), half, rows)) {
		want[i] = 3 * (want[i] + y)
	}
	near(t, "y", read(m.Forward(newTape(), u, rows)), want, 1e-6)
	for in, out := range map[float64]float64{1: 2, 2: 1} {
		if _, ok := Scaled(parts[0], in, out).(scaled); !ok {
			t.Errorf("%g and %g scale nothing", in, out)
		}
	}
	if Scaled(parts[0], 1, 1) != parts[0] {
		t.Error("multiplied by 1 it is another mixer")
	}
}

// TestTraitsOfSeveral checks that the combination has the limitations of every part.
func TestTraitsOfSeveral(t *testing.T) {
	none := Traits{}
	for _, c := range []struct{ a, b, want Traits }{
		{none, none, none},
		{Traits{LooksAhead: true}, none, Traits{LooksAhead: true}},
		{Traits{Convolves: true}, none, Traits{Convolves: true}},
		{Traits{Steps: true}, none, Traits{Steps: true}},
		{Traits{ByPosition: true}, none, Traits{ByPosition: true}},
		{Traits{Growth: 3}, Traits{Growth: 4}, Traits{Growth: 7}},
		{Traits{MaxLength: 5}, none, Traits{MaxLength: 5}},
		{Traits{MaxLength: 5}, Traits{MaxLength: 9}, Traits{MaxLength: 5}},
		{Traits{MaxLength: 5}, Traits{MaxLength: 1}, Traits{MaxLength: 1}},
		{Traits{Multiple: 4}, none, Traits{Multiple: 4}},
		{Traits{Multiple: 4}, Traits{Multiple: 6}, Traits{Multiple: 24}},
	} {
		if ab, ba := c.a.And(c.b), c.b.And(c.a); ab != c.want || ba != c.want {
			t.Errorf("%+v and %+v: found %+v and %+v, want %+v", c.a, c.b, ab, ba, c.want)
		}
	}
}

// TestStartOfRandomModes checks that A of diag-rand is -u + i·(N/2)·g, u uniform in (0, 1), g normal, and C complex
// normal.
func TestStartOfRandomModes(t *testing.T) {
	m, err := S4DInfo.New(Config{DModel: 512, DState: 256, DtMin: 1e-3, DtMax: 0.1, Measure: "diag-rand"})
	if err != nil {
		t.Fatal(err)
	}
	nn.InitAll(m, "", 5)
	m.Params("", func(name string, p *nn.Param) {
		n, mean := float64(p.Len()), 0.0
		switch {
		case strings.HasSuffix(name, "log_A_real"):
			for _, v := range p.Elements() {
				if u := math.Exp(float64(v)); u > 0 && u <= 1 {
					mean += u / n
				}
			}
			if math.Abs(mean-0.5) > 5/math.Sqrt(12*n) {
				t.Errorf("-Re A has the mean %v, want 1/2", mean)
			}
		case strings.HasSuffix(name, "A_imag"):
			if d := deviation(p); math.Abs(d/128-1) > 5/math.Sqrt(2*n) {
				t.Errorf("Im A has the deviation %v, want 128", d)
			}
		case strings.HasSuffix(name, "C"):
			if d := deviation(p); math.Abs(d*math.Sqrt2-1) > 5/math.Sqrt(2*n) {
				t.Errorf("the parts of C have the deviation %v, want √½", d)
			}
		}
	})
}

// TestDefaults checks that the sizes of a layer without options are those of the papers or releases.
func TestDefaults(t *testing.T) {
	cfg := Config{DModel: 64, DState: 16, NumHeads: 4, HeadDim: 1, DtMin: 1e-3, DtMax: 0.1, Measure: "diag-lin"}
	for want, info := range map[string]Info{
		"num_heads=4 bias=true out_bias=true norm_eps=1e-05":                                    AttentionInfo,
		"num_heads=4 qk_norm=true bias=false norm_eps=1e-06":                                    GatedAttentionInfo,
		"num_heads=4 q_lora_rank=0 kv_lora_rank=0 rotary_emb_dim=0 norm_eps=1e-06":              MLAInfo,
		"block=64 window=1 global=1 random=3":                                                   BigBirdInfo,
		"block=128 rows=32":                                                                     BlockRecurrentInfo,
		"version=softmax l_max=1024":                                                            DSSInfo,
		"d_conv=3":                                                                              GatedConvInfo,
		"expand=2 query_dim=128 max_distance=128":                                               GAUInfo,
		"expand=4 split=true l_max=1024":                                                        GMLPInfo,
		"dt_min=1 dt_max=1 bottleneck=4 gate=4":                                                 GSSInfo,
		"order=2 l_max=1024 filter_order=64 emb_dim=33 num_inner_mlps=2 w=14":                   HyenaInfo,
		"short_filter_order=3 fast_decay_pct=0.3 slow_decay_pct=1.5 target=0.01":                HyenaInfo,
		"feature_map=elu1":                                                                      LinearAttentionInfo,
		"num_k_heads=4 num_v_heads=0 head_k_dim=0 d_conv=4 norm_eps=1e-05":                      DeltaNetInfo,
		"dt_min=0.001 dt_max=0.1 allow_neg_eigval=false":                                        GatedDeltaNetInfo,
		"rank=0 lower_bound=0 gate_bias=true":                                                   KDAInfo,
		"order=16 theta=256":                                                                    LMUInfo,
		"d_state=16 d_conv=4 expand=2 conv_bias=true":                                           MambaInfo,
		"d_state=128 ngroups=1 rmsnorm=true z_scale=1 x_scale=1 b_scale=1 c_scale=1 dt_scale=1": Mamba2Info,
		"gate_soft_cap=15 eps=1e-06 norm_eps=1e-06":                                             MLSTMInfo,
		"d_conv=4": RGLRUInfo,
		"measure=legs l_max=1024 channels=1 gate=true":                   S4Info,
		"disc=zoh channels=1 gate=true":                                  S4DInfo,
		"bucket=64 top=2 temperature=0.75 sort_net=attention l_max=8192": BucketAttentionInfo,
		"block=64 keep=192":                                              SpAttenInfo,
		"out_proj=true norm_eps=1e-05":                                   SLSTMInfo,
		"window=256":                                                     WindowAttentionInfo,

		"d_state=128 expand=2 ngroups=1 rope_fraction=0.5 A_floor=0.0001 mimo_rank=4 is_mimo=false": Mamba3Info,
	} {
		data, err := json.Marshal(info.Options(cfg))
		var got map[string]any
		if err := errors.Join(err, json.Unmarshal(data, &got)); err != nil {
			t.Fatal(err)
		}
		for _, pair := range strings.Fields(want) {
			key, value, _ := strings.Cut(pair, "=")
			if found := fmt.Sprint(got[key]); found != value {
				t.Errorf("%s: %s is %s, want %s", info.Name, key, found, value)
			}
		}
	}
}

// TestStarts checks that layers start as in the papers and releases: the rows of Mamba's A are 1 to N, Mamba-2's A is
// uniform in (1, 16), both skips are 1, softplus of the steps' biases and exponentials of others' logarithms are
// between the bounds, and matrices without their own rule have GPT-2's standard deviation.
func TestStarts(t *testing.T) {
	cfg := Config{DModel: 256, NLayer: 1, DState: 8, NumHeads: 4, HeadDim: 1, DtMin: 1e-3, DtMax: 0.1,
		Measure: "diag-lin"}
	start := func(info Info, options Options) map[string]*nn.Param {
		c := cfg
		c.Options = options
		m, err := info.New(c)
		if err != nil {
			t.Fatal(err)
		}
		nn.InitAll(m, "", 11)
		named := map[string]*nn.Param{}
		m.Params("", func(name string, p *nn.Param) { named[name] = p })
		return named
	}
	within := func(what string, p *nn.Param, f func(float64) float64, lo, hi float64) {
		t.Helper()
		least, most := math.Inf(1), math.Inf(-1)
		for _, v := range p.Elements() {
			least, most = min(least, f(float64(v))), max(most, f(float64(v)))
		}
		if slack := (hi - lo) / 50; least < lo*(1-1e-5) || most > hi*(1+1e-5) || lo < hi && (least > lo+5*slack ||
			most < hi-5*slack) {
			t.Errorf("%s is from %v to %v, want %v to %v", what, least, most, lo, hi)
		}
	}
	same := func(x float64) float64 { return x }
	softplusOf := func(x float64) float64 { return math.Log1p(math.Exp(x)) }

	mamba := start(MambaInfo, Options{"dt_min": "0.01", "dt_max": "0.2"})
	for i, v := range mamba["A_log"].Elements() {
		if math.Abs(math.Exp(float64(v))-float64(i%16+1)) > 1e-4 {
			t.Fatalf("Mamba's A is -%v at %d, want -%d", math.Exp(float64(v)), i, i%16+1)
		}
	}
	within("Mamba's D", mamba["D"], same, 1, 1)
	within("Mamba's dt", mamba["dt_proj.bias"], softplusOf, 0.01, 0.2)
	least := start(MambaInfo, Options{"dt_min": "1e-6", "dt_max": "1e-6"})
	within("the least dt of Mamba", least["dt_proj.bias"], softplusOf, 1e-4, 1e-4)
	mamba2 := start(Mamba2Info, Options{"headdim": "1"})
	within("Mamba-2's A", mamba2["A_log"], math.Exp, 1, 16)
	if least := math.Exp(float64(slices.Min(mamba2["A_log"].Elements()))); least > 1.15 {
		t.Errorf("the least of 512 numbers in (1, 16) is %v", least)
	}
	// Griffin, arXiv:2402.19427, §2.4: a^c is uniform in (0.9, 0.999), where c = 8.
	for name, p := range start(RGLRUInfo, nil) {
		if p.Role == nn.SSMSystem {
			within("RG-LRU's "+name, p, func(x float64) float64 { return math.Exp(-8 * softplusOf(x)) }, 0.9, 0.999)
		}
	}
	within("Mamba-2's D", mamba2["D"], same, 1, 1)
	within("Mamba-2's dt", mamba2["dt_bias"], softplusOf, 1e-3, 0.1)
	for option, biased := range map[string]string{"bias": "in_proj out_proj", "in_bias": "in_proj",
		"out_bias": "out_proj"} {
		named := start(Mamba2Info, Options{"headdim": "1", option: "true"})
		for _, part := range []string{"in_proj", "out_proj"} {
			if got := named[part+".bias"] != nil; got != strings.Contains(biased, part) {
				t.Errorf("Mamba-2 with %s: a bias of %s: %v", option, part, got)
			}
		}
	}
	dss := start(DSSInfo, Options{"d_state": "4", "dt_min": "0.02", "dt_max": "0.3"})
	within("the dt of DSS", dss["kernel.log_dt"], math.Exp, 0.02, 0.3)
	for name, p := range start(GAUInfo, nil) {
		off := math.Abs(deviation(p)/0.02 - 1)
		if strings.HasSuffix(name, "weight") && off > 5/math.Sqrt(2*float64(p.Len())) {
			t.Errorf("GAU's %s starts with the deviation %v, want 0.02", name, deviation(p))
		}
	}
	for hidden, want := range map[string]int{"": 256, "12": 12} {
		o := Options{}
		if hidden != "" {
			o["hidden"] = hidden
		}
		found := false
		for _, p := range start(RNNInfo, o) {
			found = found || p.Dims() == 2 && p.Dim(0) == want && p.Dim(1) == want
		}
		if !found {
			t.Errorf("an RNN with hidden=%s has no matrix of %d by %d", hidden, want, want)
		}
	}
	if _, err := AttentionInfo.New(Config{DModel: 8, NumHeads: 2, Options: Options{"qk_norm": "true",
		"norm_eps": "0"}}); err == nil || !strings.Contains(err.Error(), "norm_eps: found 0") {
		t.Errorf("a norm_eps of 0: found the error %v", err)
	}
	if _, err := RetentionInfo.New(Config{DModel: 9, NLayer: 1, NumHeads: 3}); err != nil {
		t.Errorf("heads of odd width: %v", err)
	}
}

// TestStartOfFilters checks that Hyena's last projection starts as attention's, and all of an RNN's as GPT-2's.
func TestStartOfFilters(t *testing.T) {
	near := func(what string, p *nn.Param, want float64) {
		t.Helper()
		if got := deviation(p); math.Abs(got/want-1) > 5/math.Sqrt(2*float64(p.Len())) {
			t.Errorf("%s starts with the deviation %v, want %v", what, got, want)
		}
	}
	for _, layers := range []int{0, 1, 8} {
		m, err := HyenaInfo.New(Config{DModel: 128, NLayer: layers})
		if err != nil {
			t.Fatal(err)
		}
		nn.InitAll(m, "", 3)
		near("Hyena's output", m.(*Hyena).Out.Weight, 0.02/math.Sqrt(2*math.Max(1, float64(layers))))
		near("Hyena's input", m.(*Hyena).In.Weight, 0.02)
	}
	m, err := RNNInfo.New(Config{DModel: 128})
	if err != nil {
		t.Fatal(err)
	}
	nn.InitAll(m, "", 3)
	near("an RNN's input", m.(*RNN).In.Weight, 0.02)
	near("an RNN's output", m.(*RNN).Out.Weight, 0.02)
	near("an RNN's recurrence", m.(*RNN).H, 1/math.Sqrt(3*128))
}

// TestSoftplus compares with log(1 + e^x), also where e^x overflows.
func TestSoftplus(t *testing.T) {
	for x, want := range map[float64]float64{0: math.Ln2, 1: math.Log(1 + math.E), -2: math.Log(1 + math.Exp(-2)),
		900: 900, -900: 0} {
		if got := softplus(x); math.Abs(got-want) > 1e-15*max(1, want) {
			t.Errorf("softplus of %v is %v, want %v", x, got, want)
		}
	}
}

// TestSizesOfStates checks that every state-space layer refuses a state of an odd or huge size.
func TestSizesOfStates(t *testing.T) {
	for _, n := range []string{"0", "3", "-2", strconv.Itoa(maxState + 2)} {
		for _, info := range []Info{S4DInfo, S4Info, H3Info} {
			_, err := info.New(Config{DModel: 8, NLayer: 1, HeadDim: 1, HeadOrder: "dh", DtMin: 1e-3, DtMax: 0.1,
				Measure: "diag-lin", Options: Options{"d_state": n}})
			if err == nil || !strings.Contains(err.Error(), "d_state: found "+n) {
				t.Errorf("%s with d_state=%s: found the error %v", info.Name, n, err)
			}
		}
	}
}

// TestStartOfPositions checks that the features of position i of l are i/(l-1), then cosines and negative sines of 2π f
// i/l, with frequencies f from 1e-4 to one less than their number (Hyena, arXiv:2302.10866, appendix D.3, and its
// release).
func TestStartOfPositions(t *testing.T) {
	const l, bands = 11, 3
	m := variant{build: HyenaInfo.New, cfg: hyenaConfig("l_max", "11", "emb_dim", "7")}.mixer(t).(*Hyena)
	nn.InitAll(m, "", 1)
	z := m.Filter.Z.Elements()
	for i := range l {
		want := []float64{float64(i) / (l - 1)}
		for part := range 2 {
			for j := range bands {
				f := 1e-4 + float64(j)*(bands-1-1e-4)/(bands-1)
				sin, cos := math.Sincos(2 * math.Pi * f * float64(i) / l)
				want = append(want, []float64{cos, -sin}[part])
			}
		}
		for j, w := range want {
			if got := float64(z[i*len(want)+j]); math.Abs(got-w) > 1e-5 {
				t.Errorf("feature %d at %d is %v, want %v", j, i, got, w)
			}
		}
	}
}

// TestBoundsOfOptions checks bounds that are allowed, and values just beyond them.
func TestBoundsOfOptions(t *testing.T) {
	for _, c := range []struct {
		info    Info
		options Options
		want    string // part of the error
	}{
		{Mamba2Info, Options{"headdim": "4", "dt_low": "0.01"}, ""},
		{Mamba2Info, Options{"headdim": "4", "dt_low": "0.01", "dt_high": "0.01"}, ""},
		{Mamba2Info, Options{"headdim": "4", "dt_low": "0.02", "dt_high": "0.01"}, "dt_low, dt_high: found 0.02, 0.01"},
		{Mamba2Info, Options{"headdim": "4", "ngroups": "3"}, "ngroups: found 3, want a divisor of the 4 heads"},
		{HyenaInfo, Options{"fast_decay_pct": "0"}, "fast_decay_pct"},
		{HyenaInfo, Options{"fast_decay_pct": "-1"}, "fast_decay_pct"},
		{HyenaInfo, Options{"fast_decay_pct": "1.5"}, ""},
		{HyenaInfo, Options{"fast_decay_pct": "1.6"}, "fast_decay_pct"},
		{GatedDeltaNetInfo, nil, "num_k_heads: found 0"},
		{GatedDeltaNetInfo, Options{"num_k_heads": "3"}, "num_k_heads: found 3, want a divisor of d_model 8"},
		{GatedDeltaNetInfo, Options{"num_k_heads": "3", "head_k_dim": "2"}, ""},
		{GatedDeltaNetInfo, Options{"num_k_heads": "2", "num_v_heads": "3"}, "num_v_heads: found 3, want a multiple"},
		{GatedDeltaNetInfo, Options{"num_k_heads": "2", "num_v_heads": "-2"}, "num_v_heads: found -2"},
		{GatedDeltaNetInfo, Options{"num_k_heads": "70000", "head_k_dim": "1"}, "num_k_heads: found 70000"},
		{GatedDeltaNetInfo, Options{"num_k_heads": "2", "head_k_dim": "70000"}, "head_k_dim: found 70000"},
		{GatedDeltaNetInfo, Options{"num_k_heads": "2", "head_v_dim": "-1"}, "head_v_dim: found -1"},
		{GatedDeltaNetInfo, Options{"num_k_heads": "2", "d_conv": "0"}, "d_conv: found 0"},
		{GatedDeltaNetInfo, Options{"num_k_heads": "2", "norm_eps": "0"}, "norm_eps: found 0"},
		{GatedDeltaNetInfo, Options{"num_k_heads": "2", "dt_min": "0.2"}, "dt_min, dt_max: found 0.2, 0.1"},
		{KDAInfo, Options{"num_k_heads": "2", "dt_min": "0"}, "dt_min, dt_max: found 0, 0.1"},
		{KDAInfo, Options{"num_k_heads": "2", "lower_bound": "1"}, "lower_bound: found 1, want 0 or less"},
		{KDAInfo, Options{"num_k_heads": "2", "rank": "-1"}, "rank: found -1"},
		{GDN2Info, Options{"num_k_heads": "2", "num_v_heads": "4"}, "num_v_heads: found 4, want the 2 of num_k_heads"},
	} {
		_, err := c.info.New(Config{DModel: 8, NLayer: 1, DtMin: 1e-3, DtMax: 0.1, Options: c.options})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with %v: found the error %v, want %q", c.info.Name, c.options, err, c.want)
		}
	}
}
