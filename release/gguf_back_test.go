package release

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// TestGGUFAndBack writes the folder of a model of each family supported by llama.cpp as a GGUF file, and writes that
// file in the layout of the family again. It checks that names, types, shapes, bytes and configuration are the same,
// and that the model of the file has the same logits, in float32 and bfloat16. Falcon-H1's multipliers are included in
// the weights of a file. This loses the last bit of float32 weights, but nothing of bfloat16.
func TestGGUFAndBack(t *testing.T) {
	for _, kind := range []checkpoint.DType{checkpoint.F32, checkpoint.BF16} {
		golden.Run(t, "13_hf_", func(t *testing.T, c golden.Case) {
			folder := hfFolder(c)
			name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(folder), "13_hf_"), "_a")
			if ggufOf[name] != "" {
				return
			}
			texts, err := ChatTexts(folder)
			if err != nil {
				t.Fatal(err)
			}
			published := texts[PublishedFile]
			if kind == checkpoint.BF16 {
				folder = storedAs(t, folder, func(string, int) checkpoint.DType { return kind })
			}
			m := must(LoadDir(folder))
			path := writtenGGUF(t, m, GGUFOptions{Type: checkpoint.F32, Published: published})
			back := must(LoadDir(path))
			rounded := strings.HasPrefix(name, "falcon_h1") && kind == checkpoint.F32
			most := 0.
			if rounded {
				most = 1e-5
			}
			if d := furthest(t, hybridLogits(back), hybridLogits(m)); d > most {
				t.Errorf("%s: logits differ by %.2g of their deviation, want at most %g", kind, d, most)
			}
			if texts, err = ChatTexts(path); err != nil || !bytes.Equal(texts[PublishedFile], published) {
				t.Fatalf("%s: the file has the configuration %.100s, %v", kind, texts[PublishedFile], err)
			}
			f, err := OpenWeights(folder)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			out := hfWritten(t, back, published, f)
			config, err := os.ReadFile(filepath.Join(out, model.ConfigFile))
			if err != nil || !bytes.Equal(config, published) {
				t.Errorf("%s: the configuration is %s, %v", kind, config, err)
			}
			if names := differing(t, folder, out); rounded {
				lastBits(t, folder, out, names)
			} else if len(names) > 0 {
				t.Errorf("%s: other tensors %q", kind, names)
			}
		})
	}
}

// lastBits compares tensors of two folders. Weights may differ in the last bit.
func lastBits(t *testing.T, a, b string, names []string) {
	t.Helper()
	x, err := OpenWeights(a)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, err := OpenWeights(b)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	for _, name := range names {
		p, _ := x.Tensor(name)
		q, ok := y.Tensor(name)
		if !ok {
			t.Fatalf("%s is missing", name)
		}
		v, err := p.Float32()
		if err != nil {
			t.Fatal(err)
		}
		w, err := q.Float32()
		if err != nil {
			t.Fatal(err)
		}
		for i := range v {
			if math.Abs(float64(v[i]-w[i])) > math.Abs(float64(v[i]))*0x1p-23 {
				t.Fatalf("%s: element %d is %g, want %g", name, i, w[i], v[i])
			}
		}
	}
}

// writable converts the values of a file to the form that WriteGGUF takes.
func writable(values map[string]any) map[string]any {
	out := map[string]any{}
	for key, v := range values {
		switch x := v.(type) {
		case uint64:
			v = uint32(x)
		case float64:
			v = float32(x)
		case []int64:
			v = numbersOf[int32](x)
		case []uint64:
			v = numbersOf[uint32](x)
		case []float64:
			v = numbersOf[float32](x)
		}
		out[key] = v
	}
	return out
}

func numbersOf[T, F int32 | uint32 | float32 | int64 | uint64 | float64](x []F) []T {
	all := make([]T, len(x))
	for i, v := range x {
		all[i] = T(v)
	}
	return all
}

// edited writes a copy of a GGUF file with other values and tensors and returns its path.
func edited(t *testing.T, path string, values map[string]any, tensors map[string]checkpoint.Tensor) string {
	t.Helper()
	f, err := checkpoint.OpenGGUF(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if tensors == nil {
		tensors = map[string]checkpoint.Tensor{}
	}
	for key, v := range writable(f.Values()) {
		if _, ok := values[key]; !ok {
			values[key] = v
		}
	}
	for _, name := range f.Names() {
		if _, ok := tensors[name]; !ok {
			x, _ := f.Tensor(name)
			tensors[name] = *x
		}
	}
	return llamaPath(t, values, tensors)
}

// TestGGUFConfigOfOthers checks that a published configuration in a file is not used if another program has changed the
// shapes.
func TestGGUFConfigOfOthers(t *testing.T) {
	folder := filepath.Join(golden.Dir(t), "13_hf_falcon_h1_a")
	texts, err := ChatTexts(folder)
	if err != nil {
		t.Fatal(err)
	}
	m := must(LoadDir(folder))
	path := writtenGGUF(t, m, GGUFOptions{Type: checkpoint.F32, Published: texts[PublishedFile]})
	plain := must(LoadDir(writtenGGUF(t, m, GGUFOptions{Type: checkpoint.F32})))
	other := strings.Replace(string(texts[PublishedFile]), `"mamba_d_state": 16`, `"mamba_d_state": 8`, 1)
	eps := strings.Replace(string(texts[PublishedFile]), `"rms_norm_eps": 1e-05`, `"rms_norm_eps": 0.5`, 1)
	for what, config := range map[string]string{"another shape": other, "another epsilon": eps, "none": "",
		"no configuration": "{"} {
		path := edited(t, path, map[string]any{ggufConfig: config}, map[string]checkpoint.Tensor{})
		got := must(LoadDir(path))
		if !slices.Equal(hybridLogits(got), hybridLogits(plain)) {
			t.Errorf("%s: other logits than without it", what)
		}
		if texts, err := ChatTexts(path); err != nil || texts[PublishedFile] != nil {
			t.Errorf("%s: the configuration is given out, %v", what, err)
		}
	}
}

// TestGGUFExact checks that numbers of A whose logarithm has other bits are restored, unless another program has
// changed A.
func TestGGUFExact(t *testing.T) {
	m := ggufModel(t, "mamba", nil)
	const parameter, tensor = "backbone.layers.0.mixer.A_log", "blk.0.ssm_a"
	m.Params("", func(name string, p *nn.Param) {
		if name == parameter {
			for i, x := 0, p.Data(); i < len(x); i++ {
				x[i] = float32(0.01 * math.Sin(float64(i)))
			}
		}
	})
	logs := func(m *model.Model) []float32 {
		x := tensorsOf(m)[parameter]
		v, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	path := writtenGGUF(t, m, GGUFOptions{Type: checkpoint.F32})
	if !slices.Equal(logs(must(LoadDir(path))), logs(m)) {
		t.Error("A_log has other bits")
	}
	f, err := checkpoint.OpenGGUF(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, _ := f.Tensor(tensor)
	a, err := x.Float32()
	if err != nil {
		t.Fatal(err)
	}
	a[1] *= 3
	other := checkpoint.NewTensor(tensor, x.Shape, a)
	got := logs(must(LoadDir(edited(t, path, map[string]any{}, map[string]checkpoint.Tensor{tensor: other}))))
	if want := math.Log(-float64(a[1])); math.Abs(float64(got[1])-want) > 1e-6 {
		t.Errorf("A_log is %g, want %g", got[1], want)
	}
}
