package release

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLlamaTable checks that the table of docs/models.md is that of testdata/gguf_llama.json, which names the source of
// its figures, and has every golden model that is written as a GGUF file.
func TestLlamaTable(t *testing.T) {
	var result struct {
		Rows []struct {
			Model, Type string
			Worst       float64
			Same        int
		}
	}
	text, err := os.ReadFile(filepath.Join("testdata", "gguf_llama.json"))
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	page, failed := os.ReadFile(filepath.Join("..", "docs", "models.md"))
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	lines, goldens, worst := map[string][]string{}, []string{}, 0.
	for _, r := range result.Rows {
		if name, ok := strings.CutPrefix(r.Model, "13_hf_"); ok {
			goldens = append(goldens, name)
			if name != "gpt2" {
				worst = max(worst, r.Worst)
			} else if line := fmt.Sprintf("in a table of float16 | %.2g, %d |", r.Worst, r.Same); !strings.Contains(
				string(page), line) {
				t.Errorf("the page does not have %s", line)
			}
			continue
		}
		lines[r.Model] = append(lines[r.Model], fmt.Sprintf("%s %.2g, %d", r.Type, r.Worst, r.Same))
	}
	for name, cells := range lines {
		line := "| `" + name + "` |"
		for _, kind := range []string{"F32", "F16", "BF16", "Q8_0", "Q6_K", "Q4_K_M", "Q4_0"} {
			at := slices.IndexFunc(cells, func(s string) bool { return strings.HasPrefix(s, kind+" ") })
			line += cells[at][len(kind):] + " |"
		}
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("the page does not have the line %s", line)
		}
	}
	line := fmt.Sprintf("| the %d goldens that are written, without GPT-2 | %.2g, 60 |", len(goldens)-1, worst)
	if !strings.Contains(string(page), line) {
		t.Errorf("the page does not have the line %s", line)
	}
	for name, why := range ggufOf {
		if why == "" && !slices.Contains(goldens, name) {
			t.Errorf("%s was not compared with llama.cpp", name)
		}
	}
}

// TestLlamaAdapterFigures checks that the figures of docs/finetune.md are those of testdata/ggufadapter_llama.json.
// There an adapter of a golden model of each family changes the model, in the same way for llama.cpp as in this
// package.
func TestLlamaAdapterFigures(t *testing.T) {
	var result struct {
		Rows []struct {
			Model          string
			Worst, Without float64
			Same           int
		}
	}
	text, err := os.ReadFile(filepath.Join("testdata", "ggufadapter_llama.json"))
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	page, failed := os.ReadFile(filepath.Join("..", "docs", "finetune.md"))
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	worst, of := 0., map[string]bool{}
	for _, r := range result.Rows {
		of[strings.TrimPrefix(r.Model, "13_hf_")] = true
		if r.Model == "13_hf_gpt2" {
			if !strings.Contains(string(page), fmt.Sprintf("\nby %.2g (`release", r.Worst)) {
				t.Errorf("the page does not have %.2g of GPT-2", r.Worst)
			}
		} else {
			worst = max(worst, r.Worst)
		}
		if r.Same != 60 || r.Without < 1 {
			t.Errorf("%+v", r)
		}
	}
	if !strings.Contains(string(page), fmt.Sprintf("by at most %.2g of their deviation", worst)) {
		t.Errorf("the page does not have %.2g", worst)
	}
	for _, name := range []string{"llama", "qwen3", "qwen3_5", "qwen3_5_moe", "qwen3_next", "kimi_linear", "rwkv7"} {
		if !of[name] {
			t.Errorf("%s was not compared", name)
		}
	}
}
