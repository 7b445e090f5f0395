package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/inspect"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// infoCase is an argument of hippo info with the expected results.
type infoCase struct {
	path   string
	status int
	said   []string // texts on standard output
	wrong  string   // text on standard error, or in "problem" of --json if said is also printed
}

// infoInputs writes the files and folders of infoCases into a folder.
func infoInputs(t *testing.T, dir string) {
	t.Helper()
	from := filepath.Join(golden.Dir(t), "13_hf_granite_h_a")
	folder := familyFolder(t, from, model.ConfigFile, 2)
	if err := os.Rename(folder, filepath.Join(dir, "granite")); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(dir, "granite", model.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	other := func(name string, change ...string) {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(dir, "granite"))); err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer(change...).Replace(string(config))
		writeFile(t, filepath.Join(dir, name, model.ConfigFile), []byte(text))
	}
	other("unknown", `"granitemoehybrid"`, `"granite_next"`)
	other("misshapen", `"shared_intermediate_size": 64`, `"shared_intermediate_size": 65`)
	other("unread", `"rope_scaling": null`, `"rope_scaling": null, "hidden_act": "relu"`)
	other("bare")
	if err := os.Remove(filepath.Join(dir, "bare", model.ConfigFile)); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "granite", "model-00001-of-00002.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	llama := checkpoint.NewTensor("blk.0.ssm_a", []int{4, 1}, make([]float32, 4))
	norm := checkpoint.NewTensor("blk.0.ssm_norm.weight", []int{2, 2}, make([]float32, 4))
	if err := disk.WriteFile(filepath.Join(dir, "plamo.gguf"), func(w io.Writer) error {
		return checkpoint.WriteGGUF(w, []checkpoint.GGUFValue{{Key: "general.architecture", Value: "plamo9"}},
			[]checkpoint.Tensor{llama, norm})
	}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"cut.safetensors": string(whole[:len(whole)-9]), "text.txt": "Call me Ishmael.", "empty.pt": "",
		"noise.bin": "\x01\x02\xff\xfe\x00\x00", "page.safetensors": "<!DOCTYPE html><html>",
		"pointer.safetensors": "version https://git-lfs.github.com/spec/v1\noid sha256:12\n",
		"x.incomplete":        "half", "other.json": `{"temperature": 1}`, "cut.gguf": "GGUF\x03\x00",
		"config.json": strings.Replace(string(config), `"granitemoehybrid"`, `"granite_moe"`, 1),
	} {
		writeFile(t, filepath.Join(dir, name), []byte(text))
	}
	for _, name := range []string{"nothing", "pieces"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(dir, "pieces", "model.safetensors.incomplete"), []byte("half"))
	if err := os.CopyFS(filepath.Join(dir, "h3"), os.DirFS(filepath.Join(golden.Dir(t), "05_h3_lm_a"))); err != nil {
		t.Fatal(err)
	}
}

var infoCases = []infoCase{
	{"granite", 0, []string{"granitemoehybrid", "BF16", "chat", `mamba2`, "memory"}, ""},
	{"granite/model.safetensors.index.json", 0, []string{"granitemoehybrid", "BF16", "embed_tokens"}, ""},
	{"granite/model-00001-of-00002.safetensors", 0, []string{"BF16", "missing, want shape"}, ""},
	{"granite/tokenizer.json", 0, []string{"bpe", "280"}, ""},
	{"granite/config.json", 0, []string{"granitemoehybrid", "mamba2"}, ""},
	{"h3/model.pt", 0, []string{"pytorch-zip", "word_embeddings"}, ""},
	{"unknown", 1, []string{"granite_next", "BF16"}, `found "granite_next", which is not read; want one of bamba, ` +
		`falcon_h1, falcon_mamba, `},
	{"unknown", 1, nil, "the nearest by the fields of this configuration is granitemoehybrid"},
	{"unknown/model.safetensors.index.json", 0, []string{"granite_next", "which is not read"}, ""},
	{"misshapen", 1, []string{"granitemoehybrid", "BF16"},
		"shared_mlp.input_linear.weight: found shape [128 48], want [130 48]"},
	{"unread", 1, []string{"granitemoehybrid"}, `hidden_act: found "relu", want silu`},
	{"bare", 1, nil, "found no config.json in it"},
	{"bare", 1, nil, "hippo info describes these files in it: bare/model-00001-of-00002.safetensors, bare/model-00002"},
	{"plamo.gguf", 0, []string{"plamo9", "F32", "want one of falcon-h1", "the nearest by its tensors is mamba2"}, ""},
	{"config.json", 1, nil, `config.json: model_type: found "granite_moe", which is not read`},
	{"cut.safetensors", 1, nil, "is it an incomplete download?"},
	{"cut.gguf", 1, nil, "the file ends at byte 6"},
	{"text.txt", 1, nil, `found a text that starts with "Call me Ishmael.", want safetensors, GGUF, a zip archive`},
	{"empty.pt", 1, nil, "empty.pt: the file is empty"},
	{"noise.bin", 1, nil, "found a file that starts with 01 02 ff fe 00 00, want safetensors"},
	{"page.safetensors", 1, nil, "found a web page in place of the file"},
	{"pointer.safetensors", 1, nil, "found a pointer of Git LFS"},
	{"x.incomplete", 1, nil, "found an unfinished download of 4 B so far"},
	{"other.json", 1, nil, "want a tokenizer.json, a config.json, an index (NAME.safetensors.index.json)"},
	{"nothing", 1, nil, "the folder is empty"},
	{"pieces", 1, nil, "it holds unfinished downloads: pieces/model.safetensors.incomplete"},
	{"missing", 1, nil, "no model missing"},
}

// TestInfoOfAnything checks that hippo info describes any file or folder and its faults, as a table and as JSON.
func TestInfoOfAnything(t *testing.T) {
	dir := t.TempDir()
	infoInputs(t, dir)
	for _, c := range infoCases {
		for _, flags := range [][]string{nil, {"--json"}} {
			var out, complaint bytes.Buffer
			cmd := command(dir, append([]string{"info", c.path}, flags...)...)
			cmd.Stdout, cmd.Stderr = &out, &complaint
			err := cmd.Run()
			if got := cmd.ProcessState.ExitCode(); got != c.status {
				t.Errorf("%s %v: status %d, %v, want %d\n%s%s", c.path, flags, got, err, c.status, &out, &complaint)
			}
			for _, want := range c.said {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%s %v: %q is not in\n%s", c.path, flags, want, &out)
				}
			}
			if !strings.Contains(complaint.String(), c.wrong) || (c.wrong == "") != (complaint.Len() == 0) {
				t.Errorf("%s %v: complaint %q, want %q", c.path, flags, &complaint, c.wrong)
			}
			if flags == nil || out.Len() == 0 {
				continue
			}
			var r inspect.Report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Kind == "" || r.Path != c.path {
				t.Errorf("%s: %v in %s", c.path, err, &out)
			}
			if c.wrong != "" && !strings.Contains(r.Problem, c.wrong) {
				t.Errorf("%s: problem %q, want %q", c.path, r.Problem, c.wrong)
			}
		}
	}
}
