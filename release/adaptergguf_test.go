package release

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// ggufAdapter writes the adapter of a model as a GGUF file and returns its path.
func ggufAdapter(t *testing.T, m *model.Model, a *Adapter, published []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteGGUFAdapter(&b, m, a, published); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// allAdapted returns the model of a folder with random changes of the product matrices whose names contain part.
func allAdapted(t *testing.T, folder, part string) (*model.Model, *Adapter) {
	t.Helper()
	m := must(LoadDir(folder))
	shapes := map[string]model.ChangeShape{}
	for _, p := range m.Products() {
		if strings.Contains(p.Name, part) {
			shapes[p.Name] = model.ChangeShape{Rank: 2, Scale: 3}
		}
	}
	adapter, err := m.AdaptEach(shapes)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range adapter.Changes {
		for _, p := range []interface {
			Len() int
			SetData([]float32)
		}{c.A, c.B} {
			x := make([]float32, p.Len())
			for j := range x {
				x[j] = 0.2 * float32((j*7919+i*13)%101-50) / 50
			}
			p.SetData(x)
		}
	}
	return m, &Adapter{Name: "org/base", Rank: 2, Alpha: 6}
}

// TestGGUFAdapter checks adapters of all matrices, for a model of each family supported by llama.cpp, written as GGUF
// files. Applied to the file or the folder of the base, they give the adapted model. B A of each tensor is the
// difference of the files of the base and of the merged model, and therefore what llama.cpp adds.
func TestGGUFAdapter(t *testing.T) {
	golden.Run(t, "13_hf_", func(t *testing.T, c golden.Case) {
		folder := hfFolder(c)
		if name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(folder), "13_hf_"), "_a"); ggufOf[name] != "" {
			return
		}
		texts, err := ChatTexts(folder)
		if err != nil {
			t.Fatal(err)
		}
		part := ""
		if m := must(LoadDir(folder)); m.Blocks[0].Kind == "rwkv7" || m.Blocks[0].Kind == "kda" {
			part = "mlp." // llama.cpp supports no adapters of other products
			all, a := allAdapted(t, folder, "")
			err := WriteGGUFAdapter(io.Discard, all, a, nil)
			if err == nil || !strings.Contains(err.Error(), "found a change that llama.cpp's") {
				t.Errorf("changes of all matrices: %v", err)
			}
		}
		m, a := allAdapted(t, folder, part)
		options := GGUFOptions{Type: checkpoint.F32, Published: texts[PublishedFile]}
		path := ggufAdapter(t, m, a, texts[PublishedFile])
		base := writtenGGUF(t, must(LoadDir(folder)), options)
		want := hybridLogits(m)
		for _, at := range []string{folder, base} {
			got, read := must(LoadDir(at)), &Adapter{}
			if read, err = ReadAdapter(path); err == nil {
				err = read.Attach(got, at, "")
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := furthest(t, hybridLogits(got), want); d > 1e-4 || read.Name != a.Name || read.Alpha != 6 {
				t.Errorf("%s: other logits, by %g; %+v", at, d, read)
			}
		}
		if err := m.Merge(); err != nil {
			t.Fatal(err)
		}
		compareAdded(t, path, base, writtenGGUF(t, m, options))
	})
}

// compareAdded compares alpha/r·B A of each tensor of an adapter with the difference of two files. Other tensors must
// not differ.
func compareAdded(t *testing.T, adapter, before, after string) {
	t.Helper()
	var files [3]*checkpoint.File
	for i, path := range []string{adapter, before, after} {
		f, err := checkpoint.OpenGGUF(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	numbers := func(f *checkpoint.File, name string) (*checkpoint.Tensor, []float32) {
		x, ok := f.Tensor(name)
		if !ok {
			return nil, nil
		}
		v, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		return x, v
	}
	copied := map[string]bool{} // without effect
	for _, name := range ggufRWKV7Copies {
		copied[name] = true
	}
	for _, name := range files[1].Names() {
		x, old := numbers(files[1], name)
		_, changed := numbers(files[2], name)
		a, down := numbers(files[0], name+".lora_a")
		b, up := numbers(files[0], name+".lora_b")
		if a == nil || b == nil {
			_, isCopy := copied[name]
			if !slices.Equal(old, changed) && !isCopy {
				t.Errorf("%s: found no change of it, and another tensor", name)
			}
			continue
		}
		k := x.Shape[len(x.Shape)-1]
		r, n := a.Shape[len(a.Shape)-2], b.Shape[len(b.Shape)-2]
		for i, v := range old {
			sum, matrix, row, column := 0., i/k/n, i/k%n, i%k
			for l := range r {
				sum += 6 / float64(r) * float64(up[(matrix*n+row)*r+l]) * float64(down[(matrix*r+l)*k+column])
			}
			if d := float64(changed[i]) - float64(v) - sum; d > 1e-4 || d < -1e-4 {
				t.Errorf("%s: element %d changes by %g, want %g", name, i, changed[i]-v, sum)
				break
			}
		}
	}
}

// TestGGUFAdapterProblems checks that adapters of another architecture, of other sizes, or not of the LoRA kind are
// errors with the reason.
func TestGGUFAdapterProblems(t *testing.T) {
	folder := filepath.Join(golden.Dir(t), "13_hf_qwen3_5_a")
	m, a := allAdapted(t, folder, "")
	path := ggufAdapter(t, m, a, nil)
	for _, c := range []struct {
		values map[string]any
		base   string
		want   string
	}{
		{nil, "13_hf_llama_a", "general.architecture: found qwen35, which is not that of"},
		{map[string]any{"general.architecture": "h3"}, "13_hf_qwen3_5_a", `general.architecture: found "h3"`},
		{map[string]any{"adapter.type": "dora"}, "13_hf_qwen3_5_a", `peft_type: found "DORA", want LORA`},
		{map[string]any{"adapter.lora.alpha": float32(0)}, "13_hf_qwen3_5_a", "adapter.lora.alpha: found 0, want"},
	} {
		at := path
		if c.values != nil {
			at = edited(t, path, c.values, nil)
		}
		dir := filepath.Join(golden.Dir(t), c.base)
		read, err := ReadAdapter(at)
		if err == nil {
			err = read.Attach(must(LoadDir(dir)), dir, "")
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	b := checkpoint.NewTensor("blk.3.attn_k.weight.lora_b", []int{3, 2}, make([]float32, 6))
	bad := edited(t, path, map[string]any{}, map[string]checkpoint.Tensor{b.Name: b})
	read, err := ReadAdapter(bad)
	if err == nil {
		err = read.Attach(must(LoadDir(folder)), folder, "")
	}
	if want := "blk.3.attn_k.lora_B: found shape [3 2], want ["; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
	wantError(t, path, "general.type: found an adapter, want a model")
	if IsAdapter(writtenGGUF(t, must(LoadDir(folder)), GGUFOptions{Type: checkpoint.F32})) {
		t.Error("a model is taken for an adapter")
	}
}
