package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGoldenGPT2BPE compares ids with those of OpenAI's src/encoder.py. It reads every 10_gpt2_bpe*.json in the folder
// HIPPO_GOLDEN, or in the repository's testdata/golden.
func TestGoldenGPT2BPE(t *testing.T) {
	dir := os.Getenv("HIPPO_GOLDEN")
	if dir == "" {
		dir = filepath.Join("..", "testdata", "golden")
	}
	files, err := filepath.Glob(filepath.Join(dir, "10_gpt2_bpe*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no 10_gpt2_bpe*.json in %s", dir)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var golden struct {
				Samples []struct {
					Text string
					IDs  []int32
				}
			}
			if err := json.Unmarshal(data, &golden); err != nil {
				t.Fatal(err)
			}
			if len(golden.Samples) == 0 {
				t.Fatal("no samples")
			}
			tok := GPT2()
			for _, s := range golden.Samples {
				// In the golden ids, <|endoftext|> in the text is plain characters.
				ids, err := EncodeOrdinary(tok, nil, []byte(s.Text))
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(ids, s.IDs) {
					t.Errorf("%q is %v, want %v", s.Text, ids, s.IDs)
				}
				if back := string(tok.Decode(nil, s.IDs)); back != s.Text {
					t.Errorf("%v decodes to %q, want %q", s.IDs, back, s.Text)
				}
			}
		})
	}
}
