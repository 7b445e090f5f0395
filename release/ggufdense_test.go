package release

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// llamaCppCase is what llama.cpp's logits may differ by.
type llamaCppCase struct {
	Tolerance float64 `json:"llama_cpp_tolerance"`
}

// TestLogitsOfLlamaCpp: models with attention alone have llama.cpp's logits, read from a folder of the transformers
// library's layout, and from the GGUF file that llama.cpp read, which this repository did not write.
func TestLogitsOfLlamaCpp(t *testing.T) {
	golden.Run(t, "13_hf_", func(t *testing.T, c golden.Case) {
		if !c.Has("out/logits_llama_cpp") {
			return
		}
		var meta llamaCppCase
		c.Config(&meta)
		want, long := c.F64("out/logits_llama_cpp"), ids32(c.I64("in/ids_long"))
		compare := func(what string, m *model.Model) {
			t.Helper()
			golden.CloseAbs(t, what, logitsOf(m, long, 1)[:len(want)], want, meta.Tolerance)
		}
		folder := must(LoadDir(hfFolder(c)))
		compare("the folder", folder)
		if strings.Contains(c.Name, "mistral") { // in a GGUF file it is a llama without a window
			return
		}
		path := filepath.Join(filepath.Dir(hfFolder(c)), strings.Replace(c.Name, "_hf_", "_gguf_", 1), "model.gguf")
		file := must(LoadDir(path))
		compare("the file", file)
		if d := furthest(t, logitsOf(file, long, 1), logitsOf(folder, long, 1)); d > 2e-6 {
			t.Errorf("logits of the file and of the folder differ by %.2g of their deviation", d)
		}
	})
}
