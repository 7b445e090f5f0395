// Package tokenizer converts bytes to token ids and back.
//
// It has eight kinds of tokenizers:
//
//   - bytes: every byte is a token;
//   - chars: every character of an alphabet is a token;
//   - dna: the nucleotides and special tokens of HyenaDNA;
//   - gpt2: the byte-level BPE of GPT-2 and of the published H3 models, vocabulary included;
//   - bpe: BPE in Hugging Face's tokenizer.json, over bytes as in the checkpoints of Mamba, Llama 3 or Qwen, or over
//     characters as in those of Llama 2; or trained with bpe.Train;
//   - unigram: the other model of that format and of SentencePiece;
//   - rwkv: the longest token at each position, of RWKV's vocabulary;
//   - ids: numbers, which represent the tokens of a missing tokenizer.
//
// Load detects the kind of a file. Each kind is a package: chars, bpe, trie, words (the models) and pipeline (the steps
// around them). hf, sentencepiece and gguf read files of other programs. token contains what all kinds share.
package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/tokenizer/chars"
	"github.com/hippo-ssm/hippo/tokenizer/hf"
	"github.com/hippo-ssm/hippo/tokenizer/sentencepiece"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"github.com/hippo-ssm/hippo/tokenizer/trie"
)

// Parse returns a tokenizer from what a user types: "bytes", "dna", "gpt2", or the path of a tokenizer.json or of a
// folder that holds one. "chars" needs a corpus: see Characters.
func Parse(spec string) (Tokenizer, error) {
	switch spec {
	case "bytes":
		return Bytes(), nil
	case "dna":
		return DNA(), nil
	case "gpt2":
		return GPT2(), nil
	case "chars":
		return nil, errors.New(`tokenizer: "chars" takes its alphabet from a corpus, and none is given here`)
	case "":
		return nil, errors.New(`tokenizer: empty name; want "bytes", "dna", "gpt2" or the path of a tokenizer.json`)
	}
	t, err := Load(spec)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf(`tokenizer %q is neither "bytes", "dna" nor "gpt2" nor a file: %w`, spec, err)
	}
	return t, err
}

// Load reads a tokenizer.json, or the one in the folder path. It reads files of Save, and Hugging Face's format with a
// BPE or a Unigram model. It also reads a .model file of SentencePiece and a .txt file with RWKV's vocabulary. If a
// folder has no tokenizer.json, it reads the folder's tokenizer.model or rwkv_vocab_*.txt.
//
// In Hugging Face's format, Load ignores truncation and padding: hippo does not truncate text. Affixes returns the ids
// that post_processor adds. If an unsupported part would change ids, the error names it. The ids are those of Hugging
// Face's library except in three cases. One is a base with more than 30 combining marks under a normalization form. The
// second is Precompiled, which is applied as in SentencePiece; that library replaces a short cluster of characters by
// the replacement of its first part. The third is a Split of byte-level BPE that would drop text, which is kept here.
func Load(path string) (Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if info.IsDir() {
		dir := path
		path = filepath.Join(dir, FileName)
		for _, other := range []string{sentencepiece.ModelName, trie.Pattern} {
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				break
			}
			if found, err := fs.Glob(os.DirFS(dir), other); err == nil && len(found) > 0 {
				path = filepath.Join(dir, found[len(found)-1]) // the newest
			}
		}
	}
	data, err := disk.ReadText(path, disk.MaxText) // the largest published byte-level ones have about 28 MB
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	parse := parseFile
	switch filepath.Ext(path) {
	case filepath.Ext(sentencepiece.ModelName):
		parse = sentencepiece.Parse
	case filepath.Ext(trie.Pattern):
		parse = func(data []byte) (Tokenizer, error) { return parseTrie(data) }
	}
	t, err := parse(data)
	if err != nil {
		return nil, brief.Error(fmt.Errorf("tokenizer: %s: %w", path, err))
	}
	return t, nil
}

// parseFile returns the tokenizer of the content of a tokenizer.json.
func parseFile(data []byte) (Tokenizer, error) {
	var file hf.File
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	switch own := file.Hippo; {
	case own == nil:
		return hf.Parse(&file, data)
	case own.Kind == "" && own.End != nil:
		t, err := hf.Parse(&file, data)
		if err == nil {
			err = token.SetEnd(t, own.End)
		}
		return t, err
	}
	switch file.Hippo.Kind {
	case "bytes":
		return Bytes(), nil
	case "dna":
		return DNA(), nil
	case "gpt2":
		return GPT2(), nil
	case "chars":
		return chars.FromAlphabet(file.Hippo.Alphabet)
	case trie.Kind:
		t, err := parseTrie(file.Hippo.Model)
		if err != nil {
			return nil, fmt.Errorf("hippo.model: %w", err)
		}
		return t, nil
	case "sentencepiece":
		m, err := sentencepiece.Read(file.Hippo.Model)
		if err != nil {
			return nil, fmt.Errorf("hippo.model: %w", err)
		}
		t, err := m.Tokenizer(file.Hippo.Before, file.Hippo.After)
		if err == nil && file.Hippo.End != nil {
			err = token.SetEnd(t, file.Hippo.End)
		}
		return t, err
	}
	return nil, fmt.Errorf(`hippo.kind is %.60q, want "bytes", "chars", "dna", "gpt2", "rwkv" or "sentencepiece"`,
		file.Hippo.Kind)
}

// parseTrie is like trie.Parse, but returns a nil interface with an error, not a nil pointer in one.
func parseTrie(data []byte) (Tokenizer, error) {
	t, err := trie.Parse(data)
	if err != nil {
		return nil, err
	}
	return t, nil
}
