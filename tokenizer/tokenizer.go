// Package tokenizer turns bytes into token ids and back.
//
// It has six kinds of tokenizer:
//
//   - bytes: every byte is a token;
//   - chars: every character of an alphabet is a token;
//   - dna: the nucleotides and special tokens of HyenaDNA;
//   - gpt2: the byte-level BPE of GPT-2 and of the published H3 models, vocabulary built in;
//   - bpe: BPE in Hugging Face's tokenizer.json, over bytes as the checkpoints of Mamba, Llama 3 or Qwen have it, or
//     over characters as those of Llama 2; or trained here with TrainBPE;
//   - unigram: the other model of that format and of SentencePiece;
//   - ids: numbers, which stand for the tokens of a tokenizer that is not there.
//
// Byte-level BPE follows GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", §2.2;
// merges after Sennrich et al., arXiv:1508.07909): text is cut into words by a regular expression, each word starts as
// its bytes, and the adjacent pair that was learned first is merged until no learned pair is left.
//
// Unigram follows Kudo, arXiv:1804.10959.
//
// How the files read, from the bottom up: runeset, regexparse, regexclass and regexdfa compile a pretokenization
// pattern to a table; split cuts text into words with it; merge and wordcache turn a word into ids; added finds added
// tokens such as <|endoftext|>; bpe puts these together, for byte-level BPE. pipeline does for all else: normalize and
// charsmap change the text, addedflags finds added tokens, pretokenize cuts, charbpe and unigram are the models, in
// parts of words that pairs finds. hfread, hfsplit, hfpipeline, hfdecode, affixes and hfwrite are Hugging Face's file
// format, protobuf, spmodel and sentencepiece that of SentencePiece; gguf makes a tokenizer of what a GGUF file says.
// train and trainmerge learn merges; stream and streamdecode take text and ids that arrive in pieces, special leaves
// out what is not meant to be read.
//
// The package imports internal/brief, internal/disk, golang.org/x/text for the Unicode normalization forms, and the
// standard library.
package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// Parse makes a tokenizer from what a user types: "bytes", "dna", "gpt2", or the path of a tokenizer.json or of a
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
		return nil, errors.New(`tokenizer: "chars" takes its alphabet from a corpus, and there is none here`)
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
// BPE or a Unigram model. It also reads a .model file of SentencePiece: in a folder its tokenizer.model,
// where there is no tokenizer.json.
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
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			if _, err := os.Stat(filepath.Join(dir, ModelName)); err == nil {
				path = filepath.Join(dir, ModelName)
			}
		}
	}
	data, err := disk.ReadText(path, disk.MaxText) // the largest published byte-level ones have about 28 MB
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	parse := parseFile
	if filepath.Ext(path) == filepath.Ext(ModelName) {
		parse = parseSentencePiece
	}
	t, err := parse(data)
	if err != nil {
		return nil, brief.Error(fmt.Errorf("tokenizer: %s: %w", path, err))
	}
	return t, nil
}

// parseFile makes a tokenizer of the content of a tokenizer.json.
func parseFile(data []byte) (Tokenizer, error) {
	var file hfFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	switch own := file.Hippo; {
	case own == nil:
		return parseHuggingFace(&file, data)
	case own.Kind == "" && own.End != nil:
		t, err := parseHuggingFace(&file, data)
		if err == nil {
			err = setEnd(t, own.End)
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
		return newChars(file.Hippo.Alphabet)
	case "sentencepiece":
		m, err := readSPModel(file.Hippo.Model)
		if err != nil {
			return nil, fmt.Errorf("hippo.model: %w", err)
		}
		t, err := m.tokenizer(file.Hippo.Before, file.Hippo.After)
		if err == nil && file.Hippo.End != nil {
			err = setEnd(t, file.Hippo.End)
		}
		return t, err
	}
	return nil, fmt.Errorf(`hippo.kind is %.60q, want "bytes", "chars", "dna", "gpt2" or "sentencepiece"`,
		file.Hippo.Kind)
}
