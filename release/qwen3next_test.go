package release

import (
	"bytes"
	"fmt"
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

// TestQwen35ExpertsApart checks that Qwen3.5's experts may be stored as separate tensors, like those of Qwen3-Next. The
// logits are the same, and the folder is written unchanged.
func TestQwen35ExpertsApart(t *testing.T) {
	stacked := filepath.Join(golden.Dir(t), "13_hf_qwen3_5_moe_a")
	dir := hfCopy(t, "13_hf_qwen3_5_moe_a", nil)
	unstackExperts(t, stacked, dir)
	m, _ := openHF(t, dir)
	n, _ := openHF(t, stacked)
	if !slices.Equal(hybridLogits(m), hybridLogits(n)) {
		t.Error("other logits")
	}
	f, err := OpenWeights(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	config, err := os.ReadFile(filepath.Join(dir, model.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	if names := differing(t, dir, hfWritten(t, m, config, f)); len(names) > 0 {
		t.Errorf("other tensors %q", names)
	}
}

// unstackExperts writes the weights of a folder into another, with a tensor for each matrix of an expert.
func unstackExperts(t *testing.T, from, to string) {
	t.Helper()
	f, err := OpenWeights(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tensors []checkpoint.Tensor
	found := 0
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		layer, which, stacked := strings.Cut(name, ".mlp.experts.")
		if !stacked {
			tensors = append(tensors, *x)
			continue
		}
		found++
		values, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		rows, width := x.Shape[1], x.Shape[2]
		parts := []string{"down"}
		if which == "gate_up_proj" {
			parts, rows = []string{"gate", "up"}, rows/2
		}
		for expert := range x.Shape[0] {
			for _, part := range parts {
				tensors = append(tensors, checkpoint.NewTensor(fmt.Sprintf("%s.mlp.experts.%d.%s_proj.weight", layer,
					expert, part), []int{rows, width}, values[:rows*width]))
				values = values[rows*width:]
			}
		}
	}
	if found == 0 {
		t.Fatalf("%s: no stacked experts", from)
	}
	var out bytes.Buffer
	if err := checkpoint.WriteSafetensors(&out, tensors, nil); err != nil {
		t.Fatal(err)
	}
	if err := disk.WriteBytes(filepath.Join(to, model.WeightsFile), out.Bytes()); err != nil {
		t.Fatal(err)
	}
}
