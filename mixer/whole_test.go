package mixer

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/nn"
)

// reachable collects the parameters that a value leads to.
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

// TestParamsVisitsAll: every parameter that a mixer has is visited, so that it is trained and saved, and none twice.
// The window of a block recurrence uses nothing of attention but its products, and its parameters have no values.
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

// deviation is the root mean square of a parameter's values.
func deviation(p *nn.Param) float64 {
	sum := 0.0
	for _, v := range p.Elements() {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum / float64(p.Len()))
}

// TestStartOfProjections: the projections of H3 and attention start with the deviation 0.02, and attention's last one
// with 0.02/√(2·layers), as in the release of H3; a model of no known depth counts as one layer.
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

// TestOptionsOfAttention: without biases there are none, and each of the two ways of looking ahead is told.
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

// TestWindowBoundsTheState: the state counts what can still be seen, though more may be stored.
func TestWindowBoundsTheState(t *testing.T) {
	m := variant{build: WindowAttentionInfo.New,
		cfg: Config{NumHeads: 2, Options: Options{"window": "9", "kv_heads": "1"}}}.mixer(t)
	row := 2 * dModel / 2 * 4 // bytes of a key and a value of one head of two
	for _, l := range []int{3, 8, 9, 30} {
		_, s := chunked(m, sequences(1, 1, l), []int{l}, never)
		if got, want := s.size(), min(l, 8)*row; got != want {
			t.Errorf("after %d positions the state has %d bytes, want %d, of at most 8 positions", l, got, want)
		}
	}
}
