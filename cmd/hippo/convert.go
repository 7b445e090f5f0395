package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/inspect"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// gpt2Vocab is the size of GPT-2's vocabulary, which the released H3 models use.
const gpt2Vocab = 50257

func newConvert() *cobra.Command {
	var shape release.ShapeOptions
	var spec, kind string
	var force bool
	cmd := &cobra.Command{
		Use:   "convert FILE DIR",
		Short: "Make a model's folder from a published checkpoint, or a GGUF file from a model",
		Long: `Make a model's folder DIR (config.json, model.safetensors, tokenizer.json) from a checkpoint FILE: a .pt
of torch.save in the new or the old format, a Lightning .ckpt, or safetensors, with the official parameter names or the
older ones. Nothing in FILE is executed. Every tensor is checked: what is missing, unexpected, misshapen or not finite
is listed. FILE may also be the name of a model that hippo pull has fetched.

The shape of the model comes from --config, else from a config.json beside FILE, else from the tensors themselves. The
tokenizer comes from --tokenizer, else from a tokenizer.json beside FILE; a model with the vocabulary of GPT-2 gets
GPT-2's, one with that of HyenaDNA its own. A .gguf file has both inside. The chat template, the special tokens and the
defaults of sampling come along, too: tokenizer_config.json, chat_template.jinja, generation_config.json.

When the second name ends in .gguf, the first is a model's folder, a training run's, or a FILE as above, and the model
is written as a GGUF file that llama.cpp runs: Mamba and Mamba-2, with tokenizer and chat template. --type says how the
matrices are kept; vectors, norms, filters and A stay float32.`,
		Example: `  hippo convert H3-hybrid-125M/model.pt models/h3-125m
  hippo convert last.ckpt models/mine --heads 8 --tokenizer my/tokenizer.json
  hippo convert model.pt models/mine --config config.json --force
  hippo convert runs/mamba mamba.gguf --type q8_0`,
		Args: wantArgs(2, 2),
		ValidArgsFunction: completeArgs(
			completeFiles(checkpoint.Endings...), completeFolders),
	}
	cmd.Flags().StringVar(&kind, "type", ggufTypes[0], "of the matrices of a .gguf file: f32, f16 or q8_0")
	completeFlag(cmd, "type", cobra.FixedCompletions(ggufTypes, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringVar(&shape.Config, "config", "", "config.json with the shape of the model")
	cmd.Flags().IntVar(&shape.Heads, "heads", 0,
		"heads of attention, which the tensors do not tell; 0 takes what the configuration or the release of this "+
			"width has")
	cmd.Flags().StringVar(&spec, "tokenizer", "", "bytes, dna, gpt2, or the path of a tokenizer.json")
	cmd.Flags().BoolVar(&force, "force", false, "replace the model in DIR")
	completeFlag(cmd, "tokenizer", completeTokenizer)
	completeFlag(cmd, "config", completeFiles("json"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(ggufTypes, kind) {
			return fmt.Errorf("type: found %q, want one of %s", kind, strings.Join(ggufTypes, ", "))
		}
		if strings.HasSuffix(args[1], ggufEnding) {
			path, err := modelPath(args[0])
			if err != nil {
				return err
			}
			return convertToGGUF(cmd, path, args[1], kind, spec, shape, force)
		}
		file, err := modelFile(args[0])
		if err != nil {
			return err
		}
		dir := args[1]
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			return notAFile(file)
		}
		if err := mayWrite(dir, force); err != nil {
			return err
		}
		m, origin, err := readCheckpoint(file, shape)
		if err != nil {
			return err
		}
		tok, err := tokenizerOf(m, file, spec, origin.config == "")
		if err != nil {
			return err
		}
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		texts, err := release.ChatTexts(file)
		if err != nil {
			return err
		}
		if err := writeModel(dir, m, tok, texts); err != nil {
			return err
		}
		return reportConversion(cmd, dir, m, tok, origin)
	}
	return cmd
}

// modelFiles are the files of a model's folder.
var modelFiles = append([]string{model.ConfigFile, model.WeightsFile, tokenizer.FileName, checkpoint.ManifestFile},
	release.ChatFiles...)

// mayWrite returns an error if writing to a folder would lose something. With force, only the files of a model may be
// replaced.
func mayWrite(dir string, force bool) error {
	if dir, err := filepath.Abs(dir); err != nil {
		return err
	} else if here, err := os.Getwd(); err == nil && dir == here {
		return fmt.Errorf("%s is the folder you are in, want another: it is put in place as a whole", dir)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: want a folder: %w", dir, err)
	}
	for _, e := range entries {
		isOurs := slices.Contains(modelFiles, e.Name())
		switch {
		case isOurs && !force:
			return fmt.Errorf("%s: found %s in it, want an empty or new folder (--force replaces a model)", dir,
				e.Name())
		case !isOurs:
			return fmt.Errorf("%s: found %s in it, which is no file of a model; want an empty or new folder", dir,
				e.Name())
		}
	}
	return nil
}

// origin is where a converted model came from.
type origin struct {
	path, format, root string
	tensors            int
	config             string // path, "" when the shape was read off the tensors
}

// notAFile returns an error for a folder in place of a file, which says what to give instead.
func notAFile(dir string) error {
	var found []string
	for _, ending := range checkpoint.Endings {
		paths, err := filepath.Glob(filepath.Join(dir, "*."+ending))
		if err != nil { // the folder's name is no pattern
			break
		}
		found = append(found, paths...)
	}
	if len(found) == 0 {
		return fmt.Errorf("%s: found a folder, want the file of a checkpoint (.%s)", dir,
			strings.Join(checkpoint.Endings, ", ."))
	}
	return fmt.Errorf("%s: found a folder, want the file of a checkpoint, such as %s", dir, brief.List(found, ", "))
}

func readCheckpoint(path string, shape release.ShapeOptions) (*model.Model, origin, error) {
	f, err := checkpoint.Open(path)
	if err != nil {
		return nil, origin{}, err
	}
	defer f.Close()
	from := origin{path: path, format: f.Format(), root: f.Root(), tensors: len(f.Names())}
	m, configPath, err := release.FromCheckpoint(f, shape)
	from.config = configPath
	return m, from, err
}

// tokenizerOf finds the tokenizer of a converted model, nil if there is none, and records it in the configuration.
// guessed says that the size of the vocabulary was read off the padded embedding: the tokenizer's replaces it if
// padding makes it the same.
func tokenizerOf(m *model.Model, file, spec string, guessed bool) (tokenizer.Tokenizer, error) {
	tok, err := findTokenizer(m, file, spec)
	if tok == nil || err != nil {
		return nil, err
	}
	cfg := &m.Config
	if got := tok.Fingerprint(); cfg.Tokenizer != "" && cfg.Tokenizer != got {
		return nil, fmt.Errorf("tokenizer: found the %s tokenizer %s of %d tokens, want %s, which the configuration "+
			"names", tok.Kind(), got, tok.VocabSize(), cfg.Tokenizer)
	}
	if tok.VocabSize() > cfg.PaddedVocab() {
		return nil, fmt.Errorf("tokenizer: found the %s tokenizer of %d tokens, want one for the model's %d",
			tok.Kind(), tok.VocabSize(), cfg.VocabSize)
	}
	exact := *cfg
	exact.VocabSize = tok.VocabSize()
	if guessed && exact.PaddedVocab() == cfg.PaddedVocab() {
		cfg.VocabSize = exact.VocabSize
	}
	cfg.Tokenizer = tok.Fingerprint()
	return tok, nil
}

func findTokenizer(m *model.Model, file, spec string) (tokenizer.Tokenizer, error) {
	if spec != "" {
		return release.FindTokenizer(spec)
	}
	if release.IsGGUF(file) {
		return release.Tokenizer(file)
	}
	tok, err := tokenizer.Load(filepath.Join(filepath.Dir(file), tokenizer.FileName))
	if !errors.Is(err, fs.ErrNotExist) {
		return tok, err
	}
	switch dna := tokenizer.DNA(); {
	case m.Config.VocabSize == gpt2Vocab:
		return tokenizer.GPT2(), nil
	case m.Blocks[0].Kind == "hyena" && m.Config.VocabSize == dna.VocabSize():
		return dna, nil
	}
	return nil, nil
}

// writeModel writes a model's folder, with further files, whole or not at all. tok may be nil.
func writeModel(dir string, m *model.Model, tok tokenizer.Tokenizer, more map[string][]byte) error {
	return writeFolder(dir, m.Save, tok, more)
}

// writeFolder is writeModel, where save writes the model itself.
func writeFolder(dir string, save func(dir string) error, tok tokenizer.Tokenizer, more map[string][]byte) error {
	return checkpoint.WriteDirAtomic(dir, func(tmp string) error {
		if err := release.WriteChatTexts(tmp, more); err != nil {
			return err
		}
		if err := save(tmp); err != nil || tok == nil {
			return err
		}
		return tok.Save(tmp)
	})
}

func reportConversion(cmd *cobra.Command, dir string, m *model.Model, tok tokenizer.Tokenizer, from origin) error {
	t := status.NewTable(cmd.OutOrStdout())
	format := from.format
	if from.root != "" {
		format += ", " + from.root
	}
	t.Row("read", "%s (%s): %d tensors", from.path, format, from.tensors)
	if from.config == "" {
		t.Row("shape", "read off the tensors")
	} else {
		t.Row("shape", "of %s", from.config)
	}
	inspect.PrintModel(t, m)
	inspect.PrintTokenizer(t, tok)
	for _, name := range modelFiles {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Row("wrote", "%s, %s", filepath.Join(dir, name), status.Bytes(uint64(info.Size())))
		}
	}
	if tok == nil {
		t.Row("note", "generate and eval need the tokenizer: convert again with --tokenizer")
	}
	return t.Flush()
}
