package release

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
)

// TestGGUFMixOfLlama checks that each tensor of a file has the type that llama.cpp gives it: in a hybrid with layers of
// eight experts, rows that are not whole blocks and a separate head, in a model of many layers that shares the
// embedding's head, and in one of gated delta networks with a shared expert. The types are in
// testdata/ggufmix_llama.json, which names their source.
func TestGGUFMixOfLlama(t *testing.T) {
	var llama struct {
		Models map[string]struct {
			Shapes map[string][]int
			Types  map[checkpoint.DType]map[string]checkpoint.DType // except for F32
		}
	}
	text, err := os.ReadFile(filepath.Join("testdata", "ggufmix_llama.json"))
	if err == nil {
		err = json.Unmarshal(text, &llama)
	}
	if err != nil || len(llama.Models) != 3 {
		t.Fatal(len(llama.Models), err)
	}
	for name, m := range llama.Models {
		var tensors []checkpoint.Tensor
		for tensor, shape := range m.Shapes {
			tensors = append(tensors, checkpoint.Tensor{Name: tensor, Shape: shape})
		}
		kinds := map[checkpoint.DType]bool{}
		for to, types := range m.Types {
			found := GGUFTensorTypes(to, tensors)
			for _, x := range tensors {
				want := types[x.Name]
				if want == "" {
					want = checkpoint.F32
				}
				if got := found[x.Name]; got != want {
					t.Errorf("%s as %s: %s is %s, want %s", name, to, x.Name, got, want)
				}
				kinds[want] = true
			}
		}
		if name == "jamba" && !(kinds[checkpoint.Q5_0] && kinds[checkpoint.Q5_K] && kinds[checkpoint.F16]) {
			t.Errorf("the types are only %v", kinds)
		}
	}
}
