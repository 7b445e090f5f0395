package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/convert"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
)

// goldenWords is the vocabulary size of the golden models. familyWords is that of the folders made from them, whose
// tokens are all bytes and some words.
const goldenWords, familyWords = 101, 280

// familyTexts holds the text files in the folder of a published model, without tokenizer.json.
var familyTexts = map[string]string{
	template.ConfigFile: `{"bos_token": {"content": "<|endoftext|>"}, "eos_token": "<|im_end|>", "chat_template": ` +
		`"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}` +
		`{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"}`,
	chat.GenerationFile: `{"do_sample": false, "max_new_tokens": 12, "temperature": 0.7, "eos_token_id": [0, 2]}`,
}

// familyFolder makes a folder as a family publishes it: a configuration in one of its dialects, weights in bfloat16 in
// a number of files, a tokenizer, a chat template and the defaults of sampling. The layers are those of a golden model.
func familyFolder(t *testing.T, from, config string, files int) string {
	t.Helper()
	dir := t.TempDir()
	writeFamilyTexts(t, dir)
	data, err := os.ReadFile(filepath.Join(from, config))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{fmt.Sprintf(`"vocab_size": %d`, goldenWords), fmt.Sprintf(`"vocab_size": %d`, familyWords)},
		{`dtype": "float32"`, `dtype": "bfloat16"`},
	} {
		data = bytes.Replace(data, []byte(change[0]), []byte(change[1]), 1)
	}
	writeFile(t, filepath.Join(dir, model.ConfigFile), data)
	writeFamilyWeights(t, familyTensors(t, from), dir, files)
	return dir
}

// writeFamilyTexts writes the tokenizer and familyTexts.
func writeFamilyTexts(t *testing.T, dir string) {
	t.Helper()
	specials := []string{tokenizer.EndOfTextToken, "<|im_start|>", "<|im_end|>"}
	tok, err := bpe.Train(strings.NewReader(strings.Repeat("hello to all whales in the sea ", 20)),
		bpe.TrainOptions{VocabSize: familyWords, Specials: specials})
	if err != nil {
		t.Fatal(err)
	}
	if err := tok.Save(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range familyTexts {
		writeFile(t, filepath.Join(dir, name), []byte(text))
	}
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// familyTensors returns the tensors of a golden model in bfloat16, extended to the larger vocabulary.
func familyTensors(t *testing.T, from string) (tensors []checkpoint.Tensor) {
	t.Helper()
	path := filepath.Join(from, model.WeightsFile)
	if !disk.Exists(path) {
		path = strings.TrimSuffix(path, ".safetensors") + checkpoint.IndexSuffix
	}
	f, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	random := rand.New(rand.NewPCG(1, 13))
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		values, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		shape := slices.Clone(x.Shape)
		if shape[0] == goldenWords {
			shape[0] = familyWords
			for range (familyWords - goldenWords) * shape[1] {
				values = append(values, float32(random.NormFloat64()*deviation(values)))
			}
		}
		y, err := checkpoint.ConvertTensor(name, checkpoint.BF16, shape, values)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, y)
	}
	return tensors
}

// deviation returns the root mean square of the first row of x, which has 32 values.
func deviation(x []float32) float64 {
	sum := 0.0
	for _, v := range x[:32] {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum / 32)
}

// writeFamilyWeights writes tensors into one file, or into several files and an index.
func writeFamilyWeights(t *testing.T, tensors []checkpoint.Tensor, dir string, files int) {
	t.Helper()
	index := map[string]string{}
	for i := range files {
		name := model.WeightsFile
		if files > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, files)
		}
		part := tensors[i*len(tensors)/files : (i+1)*len(tensors)/files]
		for _, x := range part {
			index[x.Name] = name
		}
		if err := disk.WriteFile(filepath.Join(dir, name), func(w io.Writer) error {
			return checkpoint.WriteSafetensors(w, part, map[string]string{"format": "pt"})
		}); err != nil {
			t.Fatal(err)
		}
	}
	if files == 1 {
		return
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{}, "weight_map": index})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "model"+checkpoint.IndexSuffix), data)
}

// runs runs hippo and returns its standard output. It must end with status 0, and hippo run must not write to standard
// error.
func (f *family) runs(args ...string) string {
	f.t.Helper()
	cmd := command(f.work, args...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil || complaint.Len() > 0 && args[0] == "run" {
		f.t.Fatalf("hippo %s: %v\n%s%s", strings.Join(args, " "), err, &out, &complaint)
	}
	return out.String()
}

// family is a folder of a family, with the folder in which programs run.
type family struct {
	t         *testing.T
	dir, work string
}

// reply returns the reply of hippo run, which must be text and nothing else.
func (f *family) reply() string {
	f.t.Helper()
	text, ended := strings.CutSuffix(f.runs("run", f.dir, "hello"), "\n")
	if !ended {
		f.t.Errorf("hippo run: got %q, want a line", text)
	}
	return f.checked(text)
}

// replyAt returns the reply of hippo run at a precision. It makes the same calls as hippo run, as starting a program
// for each reply would take most of the time.
func (f *family) replyAt(precision string) string {
	f.t.Helper()
	m, err := loadModel(f.dir, "", hippo.Precision(precision))
	if err != nil {
		f.t.Fatal(err)
	}
	settings, err := new(talk).settings(m)
	if err != nil {
		f.t.Fatal(err)
	}
	opt := generate.DefaultOptions()
	settings.Defaults.Apply(&opt)
	opt.MaxTokens = min(opt.MaxTokens, 12) // GGUF files do not hold this setting
	reply := ""
	err = chat.New(m.Net(), m.Tokenizer(), settings).Reply(f.t.Context(), "hello", opt, func(text string) error {
		reply += text
		return nil
	})
	if err != nil {
		f.t.Fatalf("precision %s: %v", precision, err)
	}
	return f.checked(reply)
}

// checked returns a reply, after checking that it is text and nothing else.
func (f *family) checked(text string) string {
	f.t.Helper()
	if strings.TrimSpace(text) == "" || !utf8.ValidString(text) || strings.Contains(text, "<|im_") ||
		strings.Contains(text, "<|endoftext|>") {
		f.t.Errorf("%s: got %q, want a reply and nothing else", f.dir, text)
	}
	return text
}

// quantizes writes quantized models. It checks that they reply as the model does at the precisions of replies. A model
// with calibrated precisions must only reply.
func (f *family) quantizes(replies map[string]string) {
	f.t.Helper()
	for bits, p := range map[float64]string{4: "int4", 4.5: "int4min", 8: "int8", 5: ""} {
		o := convert.QuantizeOptions{Bits: bits, Tokens: 64, Note: func(string) {},
			Progress: func() (func(done, total int), func()) { return func(int, int) {}, func() {} }}
		if p == "" {
			o.Calibrate = []string{filepath.Join(f.work, "short.txt")}
		}
		small := &family{f.t, filepath.Join(f.t.TempDir(), "small"), f.work}
		if _, err := convert.Quantize(f.t.Context(), f.dir, small.dir, o); err != nil {
			f.t.Fatal(err)
		}
		if got, want := small.replyAt(hippo.Stored), replies[p]; got != want && p != "" {
			f.t.Errorf("quantized to %g bits: got %q, want %q as at --precision %s", bits, got, want, p)
		}
	}
}

// converts writes a GGUF file and checks that it replies as the folder does, unless llama.cpp does not support the
// model.
func (f *family) converts(reply string) {
	f.t.Helper()
	file := &family{f.t, filepath.Join(f.t.TempDir(), "model.gguf"), f.work}
	_, err := convert.ToGGUF(f.t.Context(), f.dir, file.dir, convert.Options{Type: "f32"})
	if err != nil {
		if !strings.Contains(err.Error(), "llama.cpp cannot run this model") {
			f.t.Error(err)
		}
		return
	}
	if got := file.replyAt(hippo.Stored); got != reply {
		f.t.Errorf("GGUF: got %q, want %q", got, reply)
	}
}

// TestEveryFamilyRuns checks that the folder of a model of every family, as it is published, in both dialects of its
// configuration, replies and can be described, verified, continued and measured. One folder of each family replies at
// every precision, and from a GGUF file.
func TestEveryFamilyRuns(t *testing.T) {
	has := map[string]bool{}
	own, err := filepath.Glob(filepath.Join("..", "..", "testdata", "golden", "13_hf_*", model.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range own {
		has[familyOf(t, filepath.Dir(path))] = true
	}
	if got, want := slices.Sorted(maps.Keys(has)), release.Families(); !slices.Equal(got, want) {
		t.Errorf("found golden folders 13_hf_* of %v, want of all of %v", got, want)
	}
	seen := map[string]bool{}
	golden.Run(t, "13_hf_", func(t *testing.T, c golden.Case) {
		from := filepath.Dir(c.File(model.ConfigFile))
		files := 1
		if strings.Contains(c.Name, "sharded") {
			files = 3
		}
		f := &family{t, familyFolder(t, from, model.ConfigFile, files), t.TempDir()}
		writeFile(t, filepath.Join(f.work, "short.txt"), []byte(strings.Repeat("A whale in the sea says hello. ", 20)))
		reply := f.reply()
		newer := &family{t, familyFolder(t, from, "config_v5.json", files), f.work}
		if other := newer.replyAt(hippo.Stored); other != reply {
			t.Errorf("transformers 4: %q, transformers 5: %q", reply, other)
		}
		if name := familyOf(t, f.dir); !seen[name] {
			seen[name] = true
			replies := map[string]string{}
			for _, p := range precisions {
				replies[p] = f.replyAt(p)
			}
			f.quantizes(replies)
			f.converts(reply)
		}
		if out := f.runs("info", f.dir); !strings.Contains(out, "bpe, 280 tokens") {
			t.Errorf("hippo info: %s", out)
		}
		if out := f.runs("verify", f.dir, "--lengths", "9", "--json"); !strings.Contains(out, `"ok":true`) {
			t.Errorf("hippo verify: %s", out)
		}
		if out := f.runs("generate", f.dir, "hello", "--temperature", "0", "--max_tokens", "5"); len(out) < 8 {
			t.Errorf("hippo generate: %q", out)
		}
		out := f.runs("eval", f.dir, "--data", "short.txt", "--json")
		var measured struct{ Loss float64 }
		if err := json.Unmarshal([]byte(out), &measured); err != nil || !(measured.Loss > 1 && measured.Loss < 20) {
			t.Errorf("hippo eval: %v, %s", err, out)
		}
	})
}

// familyOf returns the model_type of a folder.
func familyOf(t *testing.T, dir string) string {
	t.Helper()
	var c struct {
		Type string `json:"model_type"`
	}
	data, err := os.ReadFile(filepath.Join(dir, model.ConfigFile))
	if err == nil {
		err = json.Unmarshal(bytes.ReplaceAll(data, []byte("Infinity"), []byte("1e30")), &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmp.Or(c.Type, "none")
}
