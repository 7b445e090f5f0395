package release

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// fusedXLSTM lists the projections that are stacked with weight_mode "fused", in the order of their rows.
var fusedXLSTM = map[string][]string{
	"mlstm_layer.qkv_opreact.weight": {"mlstm_layer.q.weight", "mlstm_layer.k.weight", "mlstm_layer.v.weight",
		"mlstm_layer.ogate_preact.weight"},
	"mlstm_layer.ifgate_preact.weight": {"mlstm_layer.igate_preact.weight", "mlstm_layer.fgate_preact.weight"},
	"mlstm_layer.ifgate_preact.bias":   {"mlstm_layer.igate_preact.bias", "mlstm_layer.fgate_preact.bias"},
	"ffn.proj_up_gate_z.weight":        {"ffn.proj_up_gate.weight", "ffn.proj_up.weight"},
}

// TestXLSTMFused checks files with weight_mode "fused", in which the same projections are stacked. The logits are the
// same, and the folder is written unchanged.
func TestXLSTMFused(t *testing.T) {
	for _, keys := range []int{64, 32} { // as wide as values, and half as wide
		dir := xlstmFolder(t, keys, "fused")
		m, _ := openHF(t, dir)
		n, _ := openHF(t, xlstmFolder(t, keys, "single"))
		if !slices.Equal(hybridLogits(m), hybridLogits(n)) {
			t.Errorf("keys of %d: other logits", keys)
		}
		config, err := os.ReadFile(filepath.Join(dir, model.ConfigFile))
		if err != nil {
			t.Fatal(err)
		}
		if names := differing(t, dir, hfWritten(t, m, config, nil)); len(names) > 0 {
			t.Errorf("keys of %d: other tensors %q", keys, names)
		}
	}
}

// xlstmFolder returns a copy of the golden folder with only the first components of queries and keys.
func xlstmFolder(t *testing.T, keys int, mode string) string {
	t.Helper()
	single, dir := filepath.Join(golden.Dir(t), "13_hf_xlstm_a"), t.TempDir()
	config, err := os.ReadFile(filepath.Join(single, model.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	config = bytes.Replace(config, []byte(`"weight_mode": "single"`), []byte(`"weight_mode": "`+mode+`"`), 1)
	if keys == 32 {
		config = bytes.Replace(config, []byte(`"qk_dim_factor": 1.0`), []byte(`"qk_dim_factor": 0.5`), 1)
	}
	f, err := OpenWeights(single)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := func(name string) (values []float32, shape []int) {
		x, ok := f.Tensor(name)
		if !ok {
			t.Fatalf("no tensor %s", name)
		}
		values, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		shape = slices.Clone(x.Shape)
		if strings.HasSuffix(name, "_layer.q.weight") || strings.HasSuffix(name, "_layer.k.weight") {
			shape[0] = keys
			values = values[:keys*shape[1]]
		}
		return values, shape
	}
	var tensors []checkpoint.Tensor
	for _, name := range f.Names() {
		values, shape := rows(name)
		for fused, parts := range fusedXLSTM {
			prefix, inside := strings.CutSuffix(name, parts[0])
			switch {
			case mode == "single":
			case inside:
				name = prefix + fused
				for _, part := range parts[1:] {
					more, s := rows(prefix + part)
					values, shape[0] = slices.Concat(values, more), shape[0]+s[0]
				}
			case slices.ContainsFunc(parts[1:], func(p string) bool { return strings.HasSuffix(name, p) }):
				name = ""
			}
		}
		if name != "" {
			tensors = append(tensors, checkpoint.NewTensor(name, shape, values))
		}
	}
	var out bytes.Buffer
	if err := checkpoint.WriteSafetensors(&out, tensors, nil); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{model.ConfigFile: config, model.WeightsFile: out.Bytes()} {
		if err := disk.WriteBytes(filepath.Join(dir, name), data); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
