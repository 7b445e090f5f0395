package release

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// mostBytes is the maximum number of bytes that opening a small folder may allocate, for any contents.
const mostBytes = 64 << 20

// weightsOf returns a safetensors file with a header and the zeros that its offsets cover, up to a megabyte.
func weightsOf(header []byte) []byte {
	var tensors map[string]struct {
		Offsets []uint64 `json:"data_offsets"`
	}
	end := uint64(0)
	if json.Unmarshal(header, &tensors) == nil {
		for _, x := range tensors {
			if len(x.Offsets) == 2 {
				end = max(end, min(x.Offsets[1], 1<<20))
			}
		}
	}
	data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(data, header...), make([]byte, end)...)
}

// headerOf returns the header of a safetensors file.
func headerOf(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data[8:][:binary.LittleEndian.Uint64(data)]
}

// openAll opens a folder with every function that opens one. It returns the errors.
func openAll(t testing.TB, dir string) (errs []error) {
	t.Helper()
	add := func(err error) { errs = append(errs, err) }
	m, _, err := LoadDir(dir)
	if err == nil {
		m.NewState()
	}
	add(err)
	_, _, err = LoadDirStored(dir)
	add(err)
	_, _, err = Describe(dir)
	add(err)
	_, err = model.LoadNetwork(dir)
	add(err)
	f, err := checkpoint.Open(filepath.Join(dir, model.WeightsFile))
	if err != nil {
		add(err)
		return errs
	}
	defer f.Close()
	_, _, err = FromCheckpoint(f, ShapeOptions{})
	add(err)
	_, _, err = DescribeCheckpoint(f, ShapeOptions{Heads: 2})
	add(err)
	if c, err := InferConfig(f, 2); err == nil {
		if m, err := model.NewFor(c, f); err == nil {
			add(Load(m, f))
		}
	} else {
		add(err)
	}
	return errs
}

// hostileFolder writes a small model with a network.json. It returns the folder and the contents of its files.
func hostileFolder(t testing.TB, layers string) (dir string, config, network, header []byte) {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.DState, c.NumHeads = 8, 16, layers, 4, 2
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	dir = t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	net, err := json.Marshal(model.NetworkConfig{Model: c, Vocab: 16, Outputs: 16, Everywhere: true, Pool: "mean"})
	if err != nil {
		t.Fatal(err)
	}
	return dir, c.JSON(), net, headerOf(t, filepath.Join(dir, model.WeightsFile))
}

func writeFolder(t testing.TB, dir string, config, network, header []byte) (size int) {
	t.Helper()
	for name, data := range map[string][]byte{model.ConfigFile: config, model.NetworkFile: network,
		model.WeightsFile: weightsOf(header)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
		size += len(data)
	}
	return size
}

// TestHostileSizes checks that a configuration whose sizes differ from the weights is an error in every function that
// opens a folder, and takes no memory.
func TestHostileSizes(t *testing.T) {
	for _, layers := range []string{"h3*2", "attention,s4", "mamba", "lmu,block-recurrent", "hyena(l_max=32)"} {
		dir, config, network, header := hostileFolder(t, layers)
		for _, field := range []string{"d_model", "vocab_size", "pad_vocab_size_multiple", "d_inner",
			"max_position_embeddings"} {
			for _, size := range []string{"1000000000", "1000000", "9000000000000000000"} {
				large := func(text []byte) []byte {
					var fields map[string]json.RawMessage
					if err := json.Unmarshal(text, &fields); err != nil {
						t.Fatal(err)
					}
					if inner, ok := fields["model"]; ok { // a network's configuration
						var model map[string]json.RawMessage
						if err := json.Unmarshal(inner, &model); err != nil {
							t.Fatal(err)
						}
						model[field] = json.RawMessage(size)
						fields["model"], _ = json.Marshal(model)
						if field == "vocab_size" {
							fields["vocab"] = json.RawMessage(size)
						}
					}
					fields[field] = json.RawMessage(size)
					out, _ := json.Marshal(fields)
					return out
				}
				writeFolder(t, dir, large(config), large(network), header)
				var errs []error
				bytes := allocated(func() { errs = openAll(t, dir) })
				for i, err := range errs[:4] {
					if err == nil {
						t.Errorf("%s, %s %s: no error of way %d", layers, field, size, i)
					}
				}
				if bytes > mostBytes {
					t.Errorf("%s, %s %s: %d bytes were allocated, want at most %d", layers, field, size, bytes,
						mostBytes)
				}
			}
		}
	}
}

// TestHostileExperts checks that experts that do not fit into a file of weights, and very many gates, take no memory.
func TestHostileExperts(t *testing.T) {
	for name, entry := range map[string]string{"experts": "h3/relu2-experts(experts=1000,d_inner=%d)",
		"alone": "swiglu-experts(d_inner=%d,experts=1024)", "gates": "rg-lru(width=%d,num_heads=64)"} {
		dir, config, network, header := hostileFolder(t, "h3*2")
		var layers []string
		for i := range 20 {
			layers = append(layers, fmt.Sprintf(entry, 64*(i+1)))
		}
		config = bytes.Replace(config, []byte("h3*2"), []byte(strings.Join(layers, ",")), 1)
		network = bytes.Replace(network, []byte("h3*2"), []byte(strings.Join(layers, ",")), 1)
		writeFolder(t, dir, config, network, header)
		var errs []error
		n := allocated(func() { errs = openAll(t, dir) })
		for i, err := range errs[:4] {
			if err == nil {
				t.Errorf("%s: no error of way %d", name, i)
			}
		}
		if n > mostBytes/4 {
			t.Errorf("%s: %d bytes were allocated, want at most %d", name, n, mostBytes/4)
		}
	}
}

// byNumber sets the layers of a configuration by n_layer.
func byNumber(config []byte) []byte {
	return bytes.Replace(bytes.Replace(config, []byte(`"layers": "h3*2"`), []byte(`"layers": ""`), 1),
		[]byte(`"n_layer": 0`), []byte(`"n_layer": 2`), 1)
}

// TestManyLayers checks that a configuration cannot request more layers than the file has tensors.
func TestManyLayers(t *testing.T) {
	dir, config, network, header := hostileFolder(t, "h3*2")
	config = byNumber(config)
	config = bytes.Replace(config, []byte(`"n_layer": 2`), []byte(`"n_layer": 10000`), 1)
	config = bytes.Replace(config, []byte(`"d_model": 8`), []byte(`"d_model": 4096`), 1)
	writeFolder(t, dir, config, network, header)
	n := allocated(func() {
		if _, _, err := LoadDir(dir); err == nil || !strings.Contains(err.Error(),
			"n_layer: found 10000 layers, want at most") {
			t.Errorf("got %v", err)
		}
	})
	if n > 1<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

// TestEmptyTensors checks that a tensor of shape [2^40, 0], which takes no space in a file, cannot justify the model's
// size.
func TestEmptyTensors(t *testing.T) {
	for _, name := range []string{"backbone.layers.0.mlp.fc1.weight",
		"backbone.embeddings.position_embeddings.weight"} {
		header := fmt.Sprintf(`{"backbone.embeddings.word_embeddings.weight":`+
			`{"dtype":"F32","shape":[16,8],"data_offsets":[0,512]},`+
			`"%s":{"dtype":"F32","shape":[1099511627776,0],"data_offsets":[512,512]}}`, name)
		path := filepath.Join(t.TempDir(), model.WeightsFile)
		if err := os.WriteFile(path, weightsOf([]byte(header)), 0o666); err != nil {
			t.Fatal(err)
		}
		f, err := checkpoint.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want := name + ": found shape [1099511627776 0], want no empty tensor"
		if _, _, err := FromCheckpoint(f, ShapeOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestMessagesAreShort checks that errors about names of megabytes, or hundreds of thousands of names, fit on a page.
func TestMessagesAreShort(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	tensorOf := func(name string) string { return `"` + name + `":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}` }
	var many, layers []string
	for i := range 5_000 {
		many = append(many, fmt.Sprintf(`"backbone.layers.%d.x":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}`,
			i%100, 4*i, 4*i+4))
		many[i] = strings.Replace(many[i], ".x", fmt.Sprintf(".x%d", i), 1)
		layers = append(layers, "h3")
	}
	dir, config, network, header := hostileFolder(t, "h3*2")
	with := func(field, value string) []byte {
		return bytes.Replace(config, []byte(`"`+field+`": "`), []byte(`"`+field+`": "`+value), 1)
	}
	for what, c := range map[string][3][]byte{
		"name of a tensor":  {config, network, []byte("{" + tensorOf(strings.Repeat(long, 10)) + "}")},
		"names of tensors":  {config, network, []byte("{" + strings.Join(many, ",") + "}")},
		"kind of a tensor":  {config, network, []byte(strings.Replace("{"+tensorOf("a")+"}", "F32", long, 1))},
		"name of a mixer":   {with("layers", long+"*2,"), network, header},
		"option of a mixer": {with("layers", "h3("+long+"=1)*2,"), network, header},
		"number of mixers":  {with("layers", strings.Join(layers, ",")+","), network, header},
		"norm":              {with("norm", long), network, header},
		"measure":           {with("measure", long), network, header},
		"head order":        {with("head_order", long), network, header},
		"number": {bytes.Replace(config, []byte(`"d_model": 8`), []byte(`"d_model": 1`+strings.Repeat("0",
			1000_000)), 1), network, header},
		"network": {config, bytes.Replace(network, []byte(`"pool":"`), []byte(`"pool":"`+long), 1), header},
		"indexes": {bytes.Replace(byNumber(config), []byte(`"attn_layer_idx": null`),
			[]byte(`"attn_layer_idx": [`+strings.Repeat("99,", 100_000)+`1]`), 1), network, header},
		"control characters": {with("norm", `\u001b[2J\u0007`), network, header},
	} {
		writeFolder(t, dir, c[0], c[1], c[2])
		failed := 0
		for _, err := range openAll(t, dir) {
			if err == nil {
				continue
			}
			failed++
			if text := err.Error(); len(text) > 40<<10 || strings.ContainsAny(text, "\x1b\a") {
				t.Errorf("%s: a message of %d bytes: %.200q", what, len(text), text)
			}
		}
		if failed == 0 {
			t.Errorf("%s: no error", what)
		}
	}
}

// FuzzModelFolder checks that opening any configuration with any header of weights succeeds or is an error, and takes
// memory in proportion to the files.
func FuzzModelFolder(f *testing.F) {
	for _, layers := range []string{"h3,attention", "s4d,s4", "mamba2(headdim=4,d_state=4)", "lmu(order=4),rnn",
		"block-recurrent(block=4,rows=2)", "hyena(l_max=8)", "rg-lru/swiglu-experts(experts=3)",
		"relu2-experts(experts=1000),zamba2-shared(adapter_rank=2)>gated-conv"} {
		_, config, network, header := hostileFolder(f, layers)
		f.Add(config, network, header)
		f.Add(bytes.Replace(config, []byte(`"d_model": 8`), []byte(`"d_model": 88888888`), 1), network, header)
	}
	for _, name := range []string{"bamba", "falcon_h1", "granite_h", "jamba_dense", "lfm2", "mamba2", "nemotron_h",
		"zamba2_2blocks", "recurrent_gemma", "falcon_mamba", "granite_h_moe", "nemotron_h_moe", "lfm2_moe", "rwkv7"} {
		from := filepath.Join(golden.Dir(f), "13_hf_"+name+"_a")
		config, err := os.ReadFile(filepath.Join(from, model.ConfigFile))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(config, []byte("{}"), headerOf(f, filepath.Join(from, model.WeightsFile)))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, config, network, header []byte) {
		size := writeFolder(t, dir, config, network, header)
		if n := allocated(func() { openAll(t, dir) }); n > mostBytes+256*size {
			t.Errorf("%d bytes were allocated for files of %d", n, size)
		}
	})
}
