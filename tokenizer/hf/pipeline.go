package hf

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/tokenizer/added"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"github.com/hippo-ssm/hippo/tokenizer/normalize"
	"github.com/hippo-ssm/hippo/tokenizer/pipeline"
	"github.com/hippo-ssm/hippo/tokenizer/pretokenize"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"github.com/hippo-ssm/hippo/tokenizer/words"
	"golang.org/x/text/unicode/norm"
)

// reader reads the parts of a tokenizer.json beside its vocabulary.
type reader struct {
	file          *File
	work          regex.Work
	growth        int // how much longer the normalizers may make a text
	changes       bool
	norms         []normalize.Normalizer
	splits        []component // of the pre_tokenizer
	decoder       []component
	before, after []int32
}

// Bounds on what a file may make of a text, so that memory stays in proportion to it.
const (
	maxGrowth  = 1 << 10
	maxPrepend = 256 // bytes
)

func (r *reader) read() error {
	parts, err := components(r.file.Normalizer, normalizerSteps)
	for i := 0; err == nil && i < len(parts); i++ {
		r.changes = r.changes || parts[i].Type != "NFC"
		var step normalize.Normalizer
		if step, err = r.normalizer(parts[i]); step != nil {
			r.norms = append(r.norms, step)
		}
	}
	if err != nil {
		return fmt.Errorf("normalizer: %w", err)
	}
	if r.splits, err = components(r.file.PreTokenizer, preTokenizerSteps); err != nil {
		return fmt.Errorf("pre_tokenizer: %w", err)
	}
	if r.decoder, err = components(r.file.Decoder, decoderSteps); err != nil {
		return fmt.Errorf("decoder: %w", err)
	}
	if err := r.postProcessor(); err != nil {
		return fmt.Errorf("post_processor: %w", err)
	}
	return nil
}

// grow counts how much longer a step makes a text.
func (r *reader) grow(old, new int) error {
	r.growth = max(r.growth, 1) * max(1, (new+old-1)/old)
	if r.growth > maxGrowth {
		return fmt.Errorf("the steps make a text more than %d times as long", maxGrowth)
	}
	return nil
}

// normalizer makes a step; nil for one that changes nothing.
func (r *reader) normalizer(p component) (normalize.Normalizer, error) {
	switch p.Type {
	case "NFC":
		return normalize.UnicodeForm{Form: norm.NFC}, nil
	case "NFD":
		return normalize.UnicodeForm{Form: norm.NFD}, nil
	case "NFKC":
		return normalize.UnicodeForm{Form: norm.NFKC}, nil
	case "NFKD":
		return normalize.UnicodeForm{Form: norm.NFKD}, nil
	case "Lowercase":
		return normalize.EachRune(normalize.Lowercase), nil
	case "StripAccents":
		return normalize.EachRune(normalize.StripAccents), nil
	case "Strip":
		return normalize.StripSpace{Left: p.StripLeft, Right: p.StripRight}, nil
	case "Prepend":
		if len(p.Prepend) > maxPrepend {
			return nil, fmt.Errorf("a Prepend of %d bytes, want at most %d", len(p.Prepend), maxPrepend)
		}
		return normalize.Prepend(p.Prepend), nil
	case "Precompiled":
		if len(p.Charsmap) == 0 {
			return nil, nil
		}
		m, err := normalize.NewCharsmap(p.Charsmap)
		if err != nil {
			return nil, err
		}
		return m, r.grow(1, m.Longest)
	case "Replace":
		return r.replace(p)
	}
	return nil, fmt.Errorf("%.60q is not supported, want NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, "+
		"Prepend, Replace, Precompiled or a Sequence of them", p.Type)
}

// replace makes the normalizer of a Replace step.
func (r *reader) replace(p component) (normalize.Normalizer, error) {
	if text := p.Pattern.String; text != nil && *text != "" {
		return normalize.ReplaceText{Old: []byte(*text), New: []byte(p.Content)}, r.grow(len(*text), len(p.Content))
	}
	pattern, err := p.Pattern.regex()
	if err != nil {
		return nil, fmt.Errorf("in Replace: %w", err)
	}
	d, err := regex.CompileWithin(pattern, &r.work)
	if err != nil {
		return nil, err
	}
	return normalize.ReplaceMatches{Pattern: d, New: []byte(p.Content)}, r.grow(1, len(p.Content))
}

// maxSplits bounds the steps of a pre_tokenizer. DeepSeek's has four.
const maxSplits = 8

// preSteps makes the steps of the pre_tokenizer.
func (r *reader) preSteps() (steps []pretokenize.Step, err error) {
	if len(r.splits) > maxSplits {
		return nil, fmt.Errorf("%d steps, want at most %d", len(r.splits), maxSplits)
	}
	for i, p := range r.splits {
		more, err := r.preStep(p)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		steps = append(steps, more...)
	}
	return steps, nil
}

func (r *reader) preStep(p component) ([]pretokenize.Step, error) {
	cut := func(d *regex.DFA, err error, behavior pretokenize.CutBehavior, invert bool) ([]pretokenize.Step, error) {
		return []pretokenize.Step{&pretokenize.Cut{Pattern: d, Behavior: behavior, Invert: invert}}, err
	}
	switch p.Type {
	case "Split":
		behavior, ok := pretokenize.CutBehaviors[p.Behavior]
		if !ok {
			return nil, fmt.Errorf("in Split: behavior %.60q is not known", p.Behavior)
		}
		pattern, err := p.Pattern.regex()
		if err != nil {
			return nil, err
		}
		d, err := regex.CompileWithin(pattern, &r.work)
		return cut(d, err, behavior, p.Invert)
	case "Digits":
		d, err := pretokenize.CompileSet(pretokenize.SetNumber(), !p.IndividualDigits, &r.work)
		return cut(d, err, pretokenize.CutIsolated, false)
	case "Punctuation":
		behavior, ok := pretokenize.CutBehaviors[p.Behavior]
		if p.Behavior != "" && !ok {
			return nil, fmt.Errorf("in Punctuation: behavior %.60q is not known", p.Behavior)
		}
		d, err := pretokenize.CompileSet(pretokenize.SetPunctuation(), false, &r.work)
		return cut(d, err, behavior, false)
	case "Whitespace":
		d, err := pretokenize.CompileWords(&r.work)
		return cut(d, err, pretokenize.CutRemoved, true)
	case "WhitespaceSplit":
		d, err := pretokenize.CompileSet(regex.SetSpace, false, &r.work)
		return cut(d, err, pretokenize.CutRemoved, false)
	case "BertPreTokenizer":
		spaces, err := pretokenize.CompileSet(regex.SetSpace, false, &r.work)
		punctuation, err2 := pretokenize.CompileSet(pretokenize.SetPunctuation(), false, &r.work)
		return []pretokenize.Step{&pretokenize.Cut{Pattern: spaces, Behavior: pretokenize.CutRemoved},
				&pretokenize.Cut{Pattern: punctuation}},
			errors.Join(err, err2)
	case "CharDelimiterSplit":
		d, err := compileChar(p.Delimiter, &r.work)
		return cut(d, err, pretokenize.CutRemoved, false)
	case "Metaspace":
		return r.metaspace(p)
	case "ByteLevel":
		var steps []pretokenize.Step
		if p.AddPrefixSpace == nil || *p.AddPrefixSpace {
			steps = append(steps, pretokenize.Prefix{With: " "})
		}
		if p.UseRegex == nil || *p.UseRegex {
			d, err := regex.CompileWithin(regex.GPT2Pattern, &r.work)
			if err != nil {
				return nil, err
			}
			steps = append(steps, &pretokenize.Cut{Pattern: d})
		}
		return append(steps, pretokenize.Bytes{}), r.grow(1, 2)
	}
	return nil, fmt.Errorf("%.60q is not supported, want ByteLevel, Split, Digits, Metaspace, Punctuation, "+
		"Whitespace, WhitespaceSplit, BertPreTokenizer, CharDelimiterSplit or a Sequence of them", p.Type)
}

// metaspace makes the steps of SentencePiece's way to write spaces.
func (r *reader) metaspace(p component) ([]pretokenize.Step, error) {
	d, err := compileChar(p.Replacement, &r.work)
	if err != nil {
		return nil, fmt.Errorf("in Metaspace: replacement: %w", err)
	}
	scheme := p.PrependScheme
	if scheme == "" && p.AddPrefixSpace != nil && !*p.AddPrefixSpace {
		scheme = "never"
	}
	steps := []pretokenize.Step{pretokenize.Spaces{With: p.Replacement}}
	switch scheme {
	case "always", "":
		steps = append(steps, pretokenize.Prefix{With: p.Replacement})
	case "first":
		steps = append(steps, pretokenize.Prefix{With: p.Replacement, First: true})
	case "never":
	default:
		return nil, fmt.Errorf("in Metaspace: prepend_scheme %.60q, want always, first or never", scheme)
	}
	if p.Split == nil || *p.Split {
		steps = append(steps, &pretokenize.Cut{Pattern: d, Behavior: pretokenize.CutNext})
	}
	return steps, r.grow(1, len(p.Replacement))
}

// compileChar returns the pattern of one character.
func compileChar(char string, work *regex.Work) (*regex.DFA, error) {
	r, size := utf8.DecodeRuneInString(char)
	if size == 0 || size != len(char) || r == utf8.RuneError && size < 2 {
		return nil, fmt.Errorf("found %.60q, want one character", char)
	}
	return pretokenize.CompileSet(regex.Of(char), false, work)
}

// aroundBPE is byte-level BPE with normalizers, or with added tokens that have flags.
func (r *reader) aroundBPE(b *bpe.Tokenizer) (token.Tokenizer, error) {
	t := pipeline.Spec{Type: b.Type, Bytes: b, Tokens: b.Tokens, Norms: r.norms, Added: b.Added, Before: r.before,
		After: r.after, File: b.HuggingFace}
	if b.PrefixSpace {
		t.Steps = []pretokenize.Step{pretokenize.Prefix{With: " "}}
	}
	// NFC alone leaves the fingerprint as it is: it changes no text that is in NFC, as nearly all text is, and models
	// were trained before it was applied.
	t.Sum = sync.OnceValue(func() string {
		f := token.NewFingerprint("bpe")
		f.Text(b.Fingerprint())
		if r.changes {
			f.Json(r.file.Normalizer)
		} else if !slices.ContainsFunc(b.Added, added.Token.HasFlags) {
			return b.Fingerprint()
		}
		addFlags(f, b.Added)
		return f.Sum()
	})
	return pipeline.New(t)
}

// pipeline makes the tokenizer of a file in its general form.
func (r *reader) pipeline(data []byte) (token.Tokenizer, error) {
	m := &r.file.Model
	t := pipeline.Spec{Type: "bpe", Norms: r.norms, Added: r.file.AddedTokens, Before: r.before, After: r.after,
		File: func() ([]byte, error) { return data, nil }}
	var err error
	if t.Steps, err = r.preSteps(); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	texts, err := m.texts()
	if err != nil {
		return nil, err
	}
	t.Joins = words.NewPairFilter(texts)
	if isBPE(m) {
		t.Model, err = m.charBPE()
	} else {
		t.Type = "unigram"
		t.Model, err = m.unigram(texts)
	}
	if err != nil {
		return nil, err
	}
	if t.Tokens, err = placeAdded(texts, t.Added, m.Vocab.IDs); err != nil {
		return nil, err
	}
	if t.Decoding, err = newDecoding(r.decoder, slices.ContainsFunc(t.Steps, isBytesStep), &r.work); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	fingerprint := r.fingerprint(&t) // now, so that the file's texts need not be kept
	t.Sum = func() string { return fingerprint }
	return pipeline.New(t)
}

func isBytesStep(s pretokenize.Step) bool { _, ok := s.(pretokenize.Bytes); return ok }

// charBPE makes the model of BPE over characters.
func (m *Model) charBPE() (*words.CharBPE, error) {
	unknown := int32(-1)
	if m.Unk != nil {
		id, ok := m.Vocab.IDs[*m.Unk]
		if !ok {
			return nil, fmt.Errorf("model.unk_token is %.60q, which is not in model.vocab", *m.Unk)
		}
		unknown = id
	}
	merges, results, err := m.mergeIDs(false)
	if err != nil {
		return nil, err
	}
	b := words.NewCharBPE(m.Vocab.IDs, unknown, m.ByteFallback)
	b.Fuse = m.FuseUnk != nil && *m.FuseUnk
	b.Table = bpe.NewMergeTable(merges, results)
	if m.IgnoreMerges {
		b.Words = m.Vocab.IDs
	}
	return b, nil
}

// unigram makes the model of a unigram vocabulary.
func (m *Model) unigram(texts []string) (*words.Unigram, error) {
	u := &words.Unigram{Score: m.Vocab.scores, Unknown: -1, ByteID: words.ByteTokenIDs(m.Vocab.IDs, m.ByteFallback),
		Fuse: m.FuseUnk == nil || *m.FuseUnk}
	if m.UnkID != nil {
		if u.Unknown = *m.UnkID; u.Unknown < 0 || int(u.Unknown) >= len(texts) {
			return nil, fmt.Errorf("model.unk_id is %d, want 0 to %d", u.Unknown, len(texts)-1)
		}
	}
	var ids []int32
	for id, text := range texts {
		if len(text) > words.MaxPiece {
			return nil, fmt.Errorf("model.vocab: a token of %d bytes, want at most %d", len(text), words.MaxPiece)
		}
		ids = append(ids, int32(id))
	}
	u.UnkScore = slices.Min(u.Score) - words.UnknownPenalty
	u.Trie = words.NewTrie(texts, ids)
	return u, nil
}
