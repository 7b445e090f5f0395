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

// EndOfTextToken is the text of the token that separates documents. In text it is one token for the tokenizers that
// have it (see Tokenizer.EndOfText), and plain characters for the others.
const EndOfTextToken = "<|endoftext|>"

// FileName is the name under which a tokenizer is saved in a model's folder.
const FileName = "tokenizer.json"

// Tokenizer turns bytes into token ids and back. It is safe for concurrent use.
//
// Decode(Encode(x)) == x for every byte string x that Encode accepts. Bytes and GPT2 accept every byte string.
// Characters accepts text in its alphabet. A tokenizer.json whose vocabulary lacks a byte (GPT-NeoX lacks the 13 bytes
// that never occur in UTF-8) accepts text without that byte; one with a normalizer decodes to the normalized text; one
// that puts a space before the first word decodes to the text with that space, which DecodeText drops; one with an
// unknown token loses the characters that it stands for. DNA has no inverse: it accepts all text and turns unknown
// characters into [UNK].
type Tokenizer interface {
	// Kind is "bytes", "chars", "dna", "gpt2", "bpe", "unigram" or "ids".
	Kind() string

	// VocabSize is one more than the largest id.
	VocabSize() int

	// Encode appends the ids of text to dst. Added tokens of gpt2, bpe and unigram, <|endoftext|> among them, are
	// recognized in the text; EncodeOrdinary treats them as plain characters. The tokens that a file puts around every
	// text are not added; EncodeAffixed adds them. If a part of the text has no token, the error is an
	// *EncodeError and dst is returned unchanged.
	Encode(dst []int32, text []byte) ([]int32, error)

	// Decode appends the bytes of ids to dst; those of two lists, one after the other, are those of both. An id that
	// names no token (a model's vocabulary is often padded) appends nothing.
	Decode(dst []byte, ids []int32) []byte

	// EndOfText is the id of the token that ends a document, if there is one: <|endoftext|>, or the vocabulary's
	// equivalent.
	EndOfText() (id int32, ok bool)

	// Fingerprint is a short hexadecimal hash that changes when the encoding of some text would.
	Fingerprint() string

	// Save writes dir/tokenizer.json, from which Load makes an equal tokenizer. It makes dir if needed.
	Save(dir string) error
}

// EncodeError says which part of a text has no token.
type EncodeError struct {
	Offset int64  // in bytes from the start of the text; near it where a tokenizer changes the text before it cuts it
	What   string // for example: character 'ß' (U+00DF) is not in the alphabet of 65 characters
}

// Error says where the text has no token, and why.
func (e *EncodeError) Error() string {
	return fmt.Sprintf("tokenizer: byte offset %d: %s", e.Offset, e.What)
}

// moveError adds n to the offset of an *EncodeError and returns any other error as it is.
func moveError(err error, n int64) error {
	var at *EncodeError
	if errors.As(err, &at) {
		at.Offset += n
	}
	return err
}

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

// ownSection is what tokenizer.json holds for the kinds that Hugging Face's format does not have, and of what that
// format does not say.
type ownSection struct {
	Kind     string `json:"kind,omitempty"` // "" for one of Hugging Face's format
	Alphabet string `json:"alphabet,omitempty"`

	Model  []byte  `json:"model,omitempty"`  // of SentencePiece
	Before []int32 `json:"before,omitempty"` // the ids around a text
	After  []int32 `json:"after,omitempty"`

	End *int32 `json:"end_of_text,omitempty"` // the token that ends a document, where its name does not tell
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

// WriteFile writes what Save writes to a file of any name.
func WriteFile(path string, tok Tokenizer) error {
	own, ok := tok.(interface{ marshal() ([]byte, error) })
	if !ok {
		return fmt.Errorf("tokenizer: %s: found a tokenizer of another package, want one of this", path)
	}
	data, err := own.marshal()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o777)
	}
	if err == nil {
		err = disk.Replace(path, func(f *os.File) error {
			_, err := f.Write(data)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("tokenizer: save: %w", err)
	}
	return nil
}

// marshalOwn is the content of the file of a kind that Hugging Face's format does not have.
func marshalOwn(section ownSection) ([]byte, error) {
	data, err := json.Marshal(map[string]ownSection{"hippo": section})
	return append(data, '\n'), err
}

// save implements Save for all tokenizers. A reader never sees half a file.
func save(dir string, tok Tokenizer) error { return WriteFile(filepath.Join(dir, FileName), tok) }
