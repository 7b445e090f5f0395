package release

import (
	"bytes"
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

// hfWritten writes a model in the layout of its family and returns the folder.
func hfWritten(t *testing.T, m *model.Model, published []byte, like *checkpoint.File) string {
	t.Helper()
	dir := t.TempDir()
	if err := WriteHF(dir, m, published, like); err != nil {
		t.Fatal(err)
	}
	return dir
}

// differing returns the names of the tensors that do not have the same type, shape and bytes in two folders.
func differing(t *testing.T, a, b string) (names []string) {
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
	all := slices.Concat(x.Names(), y.Names())
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		p, inA := x.Tensor(name)
		q, inB := y.Tensor(name)
		if !inA || !inB || p.DType != q.DType || !slices.Equal(p.Shape, q.Shape) || !bytes.Equal(p.Data, q.Data) {
			names = append(names, name)
		}
	}
	return names
}

// TestWriteHF checks that a model of every family, read and written, is unchanged: names, types, shapes, bytes and
// configuration. This includes writing from a folder in hippo's own layout, when no original file is available.
func TestWriteHF(t *testing.T) {
	families := map[string]bool{}
	golden.Run(t, "13_hf_", func(t *testing.T, c golden.Case) {
		folder := hfFolder(c)
		m, _, err := LoadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		f, err := OpenWeights(folder)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		texts, err := ChatTexts(folder)
		if err != nil {
			t.Fatal(err)
		}
		families[hfType(pythonJSON(texts[PublishedFile]))] = true
		own := t.TempDir()
		if err := WriteChatTexts(own, texts); err != nil {
			t.Fatal(err)
		}
		if err := m.Save(own); err != nil {
			t.Fatal(err)
		}
		saved, _, err := LoadDir(own)
		if err != nil {
			t.Fatal(err)
		}
		if texts, err = ChatTexts(own); err != nil {
			t.Fatal(err)
		}
		for where, out := range map[string]string{"with its file": hfWritten(t, m, texts[PublishedFile], f),
			"after a folder of hippo": hfWritten(t, saved, texts[PublishedFile], nil)} {
			names := differing(t, folder, out)
			if where != "with its file" { // the source of the names of the embedding and other parts
				names = slices.DeleteFunc(names, func(s string) bool {
					return strings.HasPrefix(s, "backbone.embedding") ||
						strings.HasPrefix(s, "mtp.") || strings.HasPrefix(s, "model.visual.")
				})
			}
			config, err := os.ReadFile(filepath.Join(out, model.ConfigFile))
			if err != nil || len(names) > 0 || !bytes.Equal(config, texts[PublishedFile]) {
				t.Errorf("%s: other tensors %q, configuration %s, %v", where, names, config, err)
			}
			again, _, err := LoadDir(out)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(hybridLogits(again), hybridLogits(m)) {
				t.Errorf("%s: other logits", where)
			}
		}
	})
	for _, name := range Families() {
		if !families[name] {
			t.Errorf("no model of the family %s was written", name)
		}
	}
}

// TestWriteHFChanged checks that, if one matrix of a bfloat16 model has changed, it is written in float32, as the
// configuration then says, and all others are unchanged. A separate head is recorded in the configuration.
func TestWriteHFChanged(t *testing.T) {
	golden.Run(t, "13_hf_granite_h_bf16_sharded", func(t *testing.T, c golden.Case) {
		m, _, err := LoadDir(hfFolder(c))
		if err != nil {
			t.Fatal(err)
		}
		published, err := os.ReadFile(filepath.Join(hfFolder(c), model.ConfigFile))
		if err != nil {
			t.Fatal(err)
		}
		m.Params("", func(name string, p *nn.Param) {
			if name == "backbone.layers.1.mixer.Wqkv.weight" {
				p.Data()[0] += 1e-5 // in a query matrix
			}
		})
		out := hfWritten(t, m, published, nil)
		names := differing(t, hfFolder(c), out)
		if !slices.Equal(names, []string{"model.layers.1.self_attn.q_proj.weight"}) {
			t.Errorf("changed are %q", names)
		}
		config, err := os.ReadFile(filepath.Join(out, model.ConfigFile))
		if err != nil || !bytes.Contains(config, []byte(`"torch_dtype": "float32"`)) {
			t.Errorf("the configuration is %s, %v", config, err)
		}
		again, _, err := LoadDir(out)
		if err != nil || !slices.Equal(hybridLogits(again), hybridLogits(m)) {
			t.Errorf("other logits, %v", err)
		}
		other := bytes.Replace(published, []byte(`"mamba_d_state": 16`), []byte(`"mamba_d_state": 8`), 1)
		if err := WriteHF(t.TempDir(), m, other, nil); err == nil || !strings.Contains(err.Error(), "layers: ") {
			t.Errorf("another shape: %v", err)
		}
	})
}

// TestWriteHFDerived checks that a model that was trained from scratch is written with a configuration derived from it
// if the transformers library has a class for it. Otherwise the error names the mixer that prevents it.
func TestWriteHFDerived(t *testing.T) {
	for mixer, want := range map[string]string{
		"mamba": "mamba", "mamba(bcdt_norm=rms,d_conv=3,d_state=8,dt_rank=4,norm_eps=1e-06)": "falcon_mamba",
		"mamba(bias=true,conv_bias=false,d_inner=48)": "mamba", "mamba2(d_state=16,headdim=8)": "mamba2",
		"mamba2(d_state=8,headdim=16,ngroups=2,dt_low=0.001,grouped_norm=false)": "mamba2",
		"mamba2(d_state=8,headdim=16,dt_low=0.001,dt_high=0.5)":                  "mamba2",
	} {
		for _, untied := range []bool{false, true} {
			m := ggufModel(t, mixer, func(c *model.Config) { c.UntiedHead = untied })
			dir := hfWritten(t, m, nil, nil)
			got, _, err := LoadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			kind, err := ModelType(dir)
			if err != nil || kind != want || !slices.Equal(ggufLogits(got), ggufLogits(m)) {
				t.Errorf("%s: read as %s with other logits, %v", mixer, kind, err)
			}
		}
	}
	for layers, want := range map[string]string{
		"h3(head_dim=8),attention":           "found h3 in layer 0 of a model without a published configuration",
		"mamba(expand=3),mamba2(headdim=8)":  "layers: ",
		"mamba2(headdim=8,rmsnorm=false)*2":  "layers: ",
		"mamba(bcdt_norm=learned,d_state=8)": "layers: ",
	} {
		m := ggufModel(t, "mamba", func(c *model.Config) { c.Layers = layers })
		if err := WriteHF(t.TempDir(), m, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", layers, err, want)
		}
	}
}
