package release

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
)

// withMTP returns a copy of a golden folder with a head for multi-token prediction. It has the tensors of the last
// layer, which must be one of attention, and random tensors around it, all of the folder's type or of bfloat16.
func withMTP(t *testing.T, name string, kind checkpoint.DType) string {
	t.Helper()
	dir := hfCopy(t, name, replaced(model.ConfigFile, `dtype": "float32"`, map[checkpoint.DType]string{
		checkpoint.F32: `dtype": "float32"`, checkpoint.BF16: `dtype": "bfloat16"`}[kind]))
	path := filepath.Join(dir, model.WeightsFile)
	f, err := checkpoint.OpenSafetensors(path)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []checkpoint.Tensor
	add := func(name string, shape []int, values []float32) {
		x, err := checkpoint.ConvertTensor(name, kind, shape, values)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, x)
	}
	random := func(at, n int, scale float64) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(scale * math.Sin(float64(i*i+at*7)))
		}
		return x
	}
	for i, name := range f.Names() {
		if strings.HasPrefix(name, "mtp.") { // a few tensors that represent a head
			continue
		}
		x, _ := f.Tensor(name)
		values, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		add(name, x.Shape, values)
		if _, rest, ok := strings.Cut(name, "layers.3."); ok {
			add("mtp.layers.0."+rest, x.Shape, random(i, len(values), 0.3))
		}
	}
	add("mtp.fc.weight", []int{32, 64}, random(1, 32*64, 0.2))
	for i, norm := range []string{"norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"} {
		add("mtp."+norm+".weight", []int{32}, random(i, 32, 0.4))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	err = disk.WriteFile(path, func(w io.Writer) error { return checkpoint.WriteSafetensors(w, tensors, nil) })
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// mtpFolders lists golden models of the families that can have such a head.
var mtpFolders = []string{"13_hf_qwen3_5_a", "13_hf_qwen3_5_moe_a", "13_hf_qwen3_next_a"}

// TestMTPAndBack checks that the head of a folder is written to its GGUF file, as by llama.cpp's conversion, and read
// back bit for bit. llama.cpp's Qwen3-Next has none.
func TestMTPAndBack(t *testing.T) {
	for _, name := range mtpFolders {
		for _, kind := range []checkpoint.DType{checkpoint.F32, checkpoint.BF16} {
			dir := withMTP(t, name, kind)
			texts, err := ChatTexts(dir)
			if err != nil {
				t.Fatal(err)
			}
			m := must(LoadDir(dir))
			h, err := LoadMTP(dir, m, func(h *model.MTP, w model.Weights) error { return h.Load(w) })
			if err != nil {
				t.Fatal(err)
			}
			path := writtenGGUF(t, m, GGUFOptions{Type: checkpoint.F32, Published: texts[PublishedFile], MTP: h})
			f, err := checkpoint.OpenGGUF(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			back := must(LoadDir(path))
			if !slices.Equal(hybridLogits(back), hybridLogits(m)) {
				t.Errorf("%s: other logits", name)
			}
			out := hfWritten(t, back, texts[PublishedFile], f)
			if strings.Contains(name, "next") {
				if _, err := LoadMTP(path, back, (*model.MTP).LoadAlike); !errors.Is(err, ErrNoMTP) {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			arch := f.Values()["general.architecture"].(string)
			if f.Values()[arch+".block_count"] != uint64(5) || f.Values()[arch+".nextn_predict_layers"] != uint64(1) {
				t.Errorf("%s: %v layers, %v of them guess", name, f.Values()[arch+".block_count"],
					f.Values()[arch+".nextn_predict_layers"])
			}
			for own, theirs := range map[string]string{"eh_proj": "fc", "enorm": "pre_fc_norm_embedding",
				"hnorm": "pre_fc_norm_hidden", "shared_head_norm": "norm"} {
				x, ok := f.Tensor("blk.4.nextn." + own + ".weight")
				folder, err := OpenWeights(dir)
				if err != nil || !ok {
					t.Fatalf("%s: %v, %t", own, err, ok)
				}
				y, _ := folder.Tensor("mtp." + theirs + ".weight")
				got, failed := x.Float32()
				want, failedToo := y.Float32()
				if err := errors.Join(failed, failedToo, folder.Close()); err != nil {
					t.Fatal(err)
				}
				for i, v := range want {
					if own != "eh_proj" {
						v = 1 + v
					}
					if got[i] != v {
						t.Fatalf("%s: element %d is %g, want %g", own, i, got[i], v)
					}
				}
			}
			for _, other := range differing(t, dir, out) {
				if !strings.HasPrefix(other, "model.visual.") { // these are in no GGUF file
					t.Errorf("%s, %s: another tensor %s", name, kind, other)
				}
			}
		}
	}
	dir := hfCopy(t, "13_hf_llama_a", nil)
	if _, err := LoadMTP(dir, must(LoadDir(dir)), (*model.MTP).LoadAlike); !errors.Is(err, ErrNoMTP) {
		t.Errorf("a folder without: %v", err)
	}
	dir = hfCopy(t, mtpFolders[0], nil) // some tensors of a head
	if h, err := LoadMTP(dir, must(LoadDir(dir)), (*model.MTP).LoadAlike); h != nil || err == nil {
		t.Errorf("a part of a head: %v, %v", h, err)
	}
}

// TestMTPGoesWithTheModel checks that a folder in hippo's own layout has the same head, whether it was made from a
// published folder, from its GGUF file, or from such a folder.
func TestMTPGoesWithTheModel(t *testing.T) {
	read := func(path string, m *model.Model) *model.MTP {
		h, err := LoadMTP(path, m, func(h *model.MTP, w model.Weights) error { return h.Load(w) })
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	own := func(of string) string {
		texts, err := FolderTexts(of)
		dir := t.TempDir()
		if err := errors.Join(err, must(LoadDir(of)).Save(dir), WriteChatTexts(dir, texts)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, name := range mtpFolders {
		dir := withMTP(t, name, checkpoint.BF16)
		m := must(LoadDir(dir))
		h := read(dir, m)
		places := map[string]string{"a folder": own(dir)}
		places["a folder of a folder"] = own(places["a folder"])
		if !strings.Contains(name, "next") { // llama.cpp has none for it
			texts, err := ChatTexts(dir)
			if err != nil {
				t.Fatal(err)
			}
			places["a folder of a GGUF file"] = own(writtenGGUF(t, m,
				GGUFOptions{Type: checkpoint.BF16, Published: texts[PublishedFile], MTP: h}))
		}
		texts, err := FolderTexts(places["a folder"])
		if err != nil {
			t.Fatal(err)
		}
		like, err := OpenWeights(places["a folder"])
		if err != nil {
			t.Fatal(err)
		}
		defer like.Close()
		out := hfWritten(t, m, texts[PublishedFile], like)
		places["a published folder of a folder"] = out
		if names := slices.DeleteFunc(differing(t, dir, out), func(name string) bool {
			return !strings.HasPrefix(name, "mtp.")
		}); len(names) > 0 {
			t.Errorf("%s: other tensors %q", name, names)
		}
		for what, place := range places {
			got := read(place, must(LoadDir(place))).Tensors()
			for i, want := range h.Tensors() {
				x, err := got[i].Float32()
				y, failed := want.Float32()
				if err := errors.Join(err, failed); err != nil || got[i].Name != want.Name || !slices.Equal(x, y) {
					t.Errorf("%s, %s: another tensor %s (%v)", name, what, want.Name, err)
				}
			}
		}
	}
	dir := own(hfCopy(t, "13_hf_llama_a", nil))
	if _, err := LoadMTP(dir, must(LoadDir(dir)), (*model.MTP).LoadAlike); !errors.Is(err, ErrNoMTP) {
		t.Errorf("a folder of a model without: %v", err)
	}
}

// TestMTPProblems checks that missing and unexpected tensors of a head are reported with the names in the file.
func TestMTPProblems(t *testing.T) {
	dir := withMTP(t, "13_hf_qwen3_5_a", checkpoint.F32)
	path := filepath.Join(dir, model.WeightsFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for old, c := range map[string][2]string{
		"mtp.fc.weight":                {"mtp.fd.weight", "mtp.fc.weight: missing, want shape [32 64]"},
		"mtp.layers.0.mlp.up_proj":     {"mtp.layers.1.mlp.up_proj", "mtp.layers.1.mlp.up_proj.weight: unexpected"},
		"mtp.layers.0.self_attn.q_nor": {"mtp.layers.0.self_attn.x_nor", "mtp.layers.0.self_attn.q_norm.weight: miss"},
	} {
		if err := os.WriteFile(path, bytes.Replace(data, []byte(old), []byte(c[0]), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadMTP(dir, must(LoadDir(dir)), (*model.MTP).LoadAlike)
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("error %v, want one with %q", err, c[1])
		}
	}
}

// TestMTPFormula checks that the head computes its formula, evaluated in float64. The inputs are the hidden states
// after the final norm and the embeddings of the next ids. They pass through a norm each, one matrix for both, a layer
// of attention like the model's, and a norm. It tests whole sequences and pieces.
func TestMTPFormula(t *testing.T) {
	dir := withMTP(t, "13_hf_qwen3_5_a", checkpoint.F32)
	m := must(LoadDir(dir))
	h, err := LoadMTP(dir, m, (*model.MTP).LoadAlike)
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenWeights(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const n, d = 9, 32
	ids := make([]int32, n+1)
	for i := range ids {
		ids[i] = int32((i*37 + 5) % 101)
	}
	tape := autograd.NewTape(cpu.Backend{})
	hidden := m.Forward(tape, ids[:n], model.EqualRows(1, n))
	want := mtpReference{t, f, d}.forward(hidden.Floats(), ids[1:])
	got := h.Forward(tape, ids[1:], hidden, model.EqualRows(1, n)).Floats()
	state, pieces := h.NewState(), []float32(nil)
	for _, cut := range [][2]int{{0, 4}, {4, 5}, {5, n}} {
		part := tape.New(cut[1]-cut[0], d)
		part.CopyFrom(hidden.Floats()[cut[0]*d : cut[1]*d])
		y := h.Forward(tape, ids[1+cut[0]:1+cut[1]], part, model.OneRow(cut[1]-cut[0], state))
		pieces = append(pieces, y.Floats()...)
	}
	for i, w := range want {
		if math.Abs(float64(got[i])-w) > 2e-5 || math.Abs(float64(pieces[i])-w) > 2e-5 {
			t.Fatalf("element %d is %g, in pieces %g, want %g", i, got[i], pieces[i], w)
		}
	}
}

// mtpReference computes the head of a Qwen3.5 folder from its tensors by definition (vLLM's qwen3_5_mtp.py, and the
// attention of modeling_qwen3_5.py): 4 heads of 8 components, 2 key heads. The first two components are rotated.
type mtpReference struct {
	t *testing.T
	f *checkpoint.File
	d int
}

func (r mtpReference) tensor(name string) []float64 {
	for _, prefix := range []string{"mtp.", "model.language_model.", "model."} {
		if x, ok := r.f.Tensor(prefix + name); ok {
			v, err := x.Float64()
			if err != nil {
				r.t.Fatal(err)
			}
			return v
		}
	}
	r.t.Fatalf("found no %s", name)
	return nil
}

// norm computes x/√(mean(x²)+1e-6)·(1 + w).
func (r mtpReference) norm(x []float64, name string) []float64 {
	w, sum, y := r.tensor(name), 0., make([]float64, len(x))
	for _, v := range x {
		sum += v * v
	}
	for i, v := range x {
		y[i] = v / math.Sqrt(sum/float64(len(x))+1e-6) * (1 + w[i])
	}
	return y
}

func (r mtpReference) linear(x []float64, name string) []float64 {
	w := r.tensor(name)
	y := make([]float64, len(w)/len(x))
	for i := range y {
		for j, v := range x {
			y[i] += w[i*len(x)+j] * v
		}
	}
	return y
}

func (r mtpReference) forward(hidden []float32, ids []int32) (out []float64) {
	table, n := r.tensor("embed_tokens.weight"), len(ids)
	xs, ks, vs := make([][]float64, n), make([][]float64, n), make([][]float64, n)
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	head := mtpHead(r.t, r.f)
	for i, id := range ids {
		h := make([]float64, r.d)
		for j := range h {
			h[j] = float64(hidden[i*r.d+j])
		}
		both := slices.Concat(r.norm(table[int(id)*r.d:][:r.d], "pre_fc_norm_embedding.weight"),
			r.norm(h, "pre_fc_norm_hidden.weight"))
		x := r.linear(both, "fc.weight")
		u := r.norm(x, "layers.0.input_layernorm.weight")
		q, k := r.linear(u, "layers.0.self_attn.q_proj.weight"), r.linear(u, "layers.0.self_attn.k_proj.weight")
		ks[i], vs[i] = head.turned(r, k, head.kv, "layers.0.self_attn.k_norm.weight", i, head.width),
			r.linear(u, "layers.0.self_attn.v_proj.weight")
		qs := head.turned(r, q, head.q, "layers.0.self_attn.q_norm.weight", i, 2*head.width)
		var y []float64
		for a := range head.q {
			at := a / (head.q / head.kv) * head.width
			weights, total := make([]float64, i+1), 0.
			for j := range weights {
				for c := range head.width {
					weights[j] += qs[a*head.width+c] * ks[j][at+c] / math.Sqrt(float64(head.width))
				}
				weights[j] = math.Exp(weights[j])
				total += weights[j]
			}
			for c := range head.width {
				sum := 0.
				for j, w := range weights {
					sum += w / total * vs[j][at+c]
				}
				y = append(y, sum*sigmoid(q[(2*a+1)*head.width+c]))
			}
		}
		for j, v := range r.linear(y, "layers.0.self_attn.o_proj.weight") {
			x[j] += v
		}
		u = r.norm(x, "layers.0.post_attention_layernorm.weight")
		gate, up := r.linear(u, "layers.0.mlp.gate_proj.weight"), r.linear(u, "layers.0.mlp.up_proj.weight")
		for j := range gate {
			gate[j] *= sigmoid(gate[j]) * up[j]
		}
		for j, v := range r.linear(gate, "layers.0.mlp.down_proj.weight") {
			x[j] += v
		}
		xs[i] = x
	}
	for _, x := range xs {
		out = append(out, r.norm(x, "norm.weight")...)
	}
	return out
}

// mtpHeads holds the sizes of attention in a folder.
type mtpHeads struct {
	q, kv, width, rotated int
	base                  float64
}

// mtpHead reads the sizes from the tensors and the golden configuration.
func mtpHead(t *testing.T, f *checkpoint.File) (h mtpHeads) {
	shape := func(name string) []int {
		x, ok := f.Tensor(name)
		if !ok {
			t.Fatal(fmt.Errorf("found no %s", name))
		}
		return x.Shape
	}
	const in = "mtp.layers.0.self_attn."
	h.width = shape(in + "q_norm.weight")[0]
	h.q, h.kv = shape(in + "o_proj.weight")[1]/h.width, shape(in + "k_proj.weight")[0]/h.width
	h.rotated, h.base = h.width/4, 1e7
	return h
}

// turned applies the norm, and the rotation of the first components to a position, to the queries or keys of heads. The
// vectors of the heads are step numbers apart in x.
func (h mtpHeads) turned(r mtpReference, x []float64, heads int, norm string, position, step int) (out []float64) {
	for a := range heads {
		y := r.norm(x[a*step:][:h.width], norm)
		half := h.rotated / 2
		for i := range half {
			angle := float64(position) * math.Pow(h.base, -2*float64(i)/float64(h.rotated))
			sin, cos := math.Sincos(angle)
			y[i], y[half+i] = y[i]*cos-y[half+i]*sin, y[half+i]*cos+y[i]*sin
		}
		out = append(out, y...)
	}
	return out
}
