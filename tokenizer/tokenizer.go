// Package tokenizer turns bytes into token ids and back.
//
// It has seven kinds of tokenizer:
//
//   - bytes: every byte is a token;
//   - chars: every character of an alphabet is a token;
//   - dna: the nucleotides and special tokens of HyenaDNA;
//   - gpt2: the byte-level BPE of GPT-2 and of the published H3 models, vocabulary built in;
//   - bpe: BPE in Hugging Face's tokenizer.json, over bytes as the checkpoints of Mamba, Llama 3 or Qwen have it, or
//     over characters as those of Llama 2; or trained here with TrainBPE;
//   - unigram: the other model of that format and of SentencePiece;
//   - rwkv: the longest token at each place, of RWKV's vocabulary;
//   - ids: numbers, which stand for the tokens of a tokenizer that is not there.
//
// Load finds out what a file is. Each kind is a package: chars, bpe, trie, words (the models) and pipeline (what
// surrounds them); hf, sentencepiece and gguf read the files of others; token is what all share.
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
// BPE or a Unigram model. It also reads a .model file of SentencePiece and a .txt file with RWKV's vocabulary: in a
// folder its tokenizer.model or rwkv_vocab_*.txt, where there is no tokenizer.json.
//
// In Hugging Face's format it ignores truncation and padding: hippo does not cut the text. What post_processor adds is
// told by Affixes. An unsupported part that would change ids is an error that names it. Ids are those of Hugging Face's
// library but in three cases: a base with more than 30 combining marks under a normalization form; Precompiled, which
// is applied as SentencePiece does, where that library replaces a short cluster of characters by what its first part
// becomes; and a Split of byte-level BPE that would drop text, which is kept.
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

// parseFile returns a tokenizer of the content of a tokenizer.json.
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

// parseTrie is trie.Parse, with no tokenizer beside an error instead of a nil one of that kind.
func parseTrie(data []byte) (Tokenizer, error) {
	t, err := trie.Parse(data)
	if err != nil {
		return nil, err
	}
	return t, nil
}
