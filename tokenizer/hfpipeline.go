package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// hfReader reads the parts of a tokenizer.json beside its vocabulary.
type hfReader struct {
	file          *hfFile
	work          regexWork
	growth        int // how much longer the normalizers may make a text
	changes       bool
	norms         []normalizer
	splits        []hfPart // of the pre_tokenizer
	decoder       []hfPart
	before, after []int32
}

// Bounds on what a file may make of a text, so that memory stays in proportion to it.
const (
	maxGrowth  = 1 << 10
	maxPrepend = 256 // bytes
)

func (r *hfReader) read() error {
	parts, err := hfParts(r.file.Normalizer, normalizerSteps)
	for i := 0; err == nil && i < len(parts); i++ {
		r.changes = r.changes || parts[i].Type != "NFC"
		var step normalizer
		if step, err = r.normalizer(parts[i]); step != nil {
			r.norms = append(r.norms, step)
		}
	}
	if err != nil {
		return fmt.Errorf("normalizer: %w", err)
	}
	if r.splits, err = hfParts(r.file.PreTokenizer, preTokenizerSteps); err != nil {
		return fmt.Errorf("pre_tokenizer: %w", err)
	}
	if r.decoder, err = hfParts(r.file.Decoder, decoderSteps); err != nil {
		return fmt.Errorf("decoder: %w", err)
	}
	if err := r.postProcessor(); err != nil {
		return fmt.Errorf("post_processor: %w", err)
	}
	return nil
}

// grow counts how much longer a step makes a text.
func (r *hfReader) grow(old, new int) error {
	r.growth = max(r.growth, 1) * max(1, (new+old-1)/old)
	if r.growth > maxGrowth {
		return fmt.Errorf("the steps make a text more than %d times as long", maxGrowth)
	}
	return nil
}

// normalizer makes a step; nil for one that changes nothing.
func (r *hfReader) normalizer(p hfPart) (normalizer, error) {
	switch p.Type {
	case "NFC":
		return unicodeForm{norm.NFC}, nil
	case "NFD":
		return unicodeForm{norm.NFD}, nil
	case "NFKC":
		return unicodeForm{norm.NFKC}, nil
	case "NFKD":
		return unicodeForm{norm.NFKD}, nil
	case "Lowercase":
		return eachRune(lowercase), nil
	case "StripAccents":
		return eachRune(stripAccents), nil
	case "Strip":
		return stripSpace{p.StripLeft, p.StripRight}, nil
	case "Prepend":
		if len(p.Prepend) > maxPrepend {
			return nil, fmt.Errorf("a Prepend of %d bytes, want at most %d", len(p.Prepend), maxPrepend)
		}
		return prepend(p.Prepend), nil
	case "Precompiled":
		if len(p.Charsmap) == 0 {
			return nil, nil
		}
		m, err := newCharsmap(p.Charsmap)
		if err != nil {
			return nil, err
		}
		return m, r.grow(1, m.longest)
	case "Replace":
		return r.replace(p)
	}
	return nil, fmt.Errorf("%.60q is not supported, want NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, "+
		"Prepend, Replace, Precompiled or a Sequence of them", p.Type)
}

// replace makes the normalizer of a Replace step.
func (r *hfReader) replace(p hfPart) (normalizer, error) {
	if text := p.Pattern.String; text != nil && *text != "" {
		return replaceText{[]byte(*text), []byte(p.Content)}, r.grow(len(*text), len(p.Content))
	}
	pattern, err := p.Pattern.regex()
	if err != nil {
		return nil, fmt.Errorf("in Replace: %w", err)
	}
	d, err := compileWithin(pattern, &r.work)
	if err != nil {
		return nil, err
	}
	return replaceMatches{d, []byte(p.Content)}, r.grow(1, len(p.Content))
}

// maxSplits bounds the steps of a pre_tokenizer. DeepSeek's has four.
const maxSplits = 8

// preSteps makes the steps of the pre_tokenizer.
func (r *hfReader) preSteps() (steps []preStep, err error) {
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

func (r *hfReader) preStep(p hfPart) ([]preStep, error) {
	cut := func(d *dfa, err error, behavior cutBehavior, invert bool) ([]preStep, error) {
		return []preStep{&cutStep{d, behavior, invert}}, err
	}
	switch p.Type {
	case "Split":
		behavior, ok := cutBehaviors[p.Behavior]
		if !ok {
			return nil, fmt.Errorf("in Split: behavior %.60q is not known", p.Behavior)
		}
		pattern, err := p.Pattern.regex()
		if err != nil {
			return nil, err
		}
		d, err := compileWithin(pattern, &r.work)
		return cut(d, err, behavior, p.Invert)
	case "Digits":
		d, err := compileSet(setNumber(), !p.IndividualDigits, &r.work)
		return cut(d, err, cutIsolated, false)
	case "Punctuation":
		behavior, ok := cutBehaviors[p.Behavior]
		if p.Behavior != "" && !ok {
			return nil, fmt.Errorf("in Punctuation: behavior %.60q is not known", p.Behavior)
		}
		d, err := compileSet(setPunctuation(), false, &r.work)
		return cut(d, err, behavior, false)
	case "Whitespace":
		d, err := compileWords(&r.work)
		return cut(d, err, cutRemoved, true)
	case "WhitespaceSplit":
		d, err := compileSet(setSpace, false, &r.work)
		return cut(d, err, cutRemoved, false)
	case "BertPreTokenizer":
		spaces, err := compileSet(setSpace, false, &r.work)
		punctuation, err2 := compileSet(setPunctuation(), false, &r.work)
		return []preStep{&cutStep{pattern: spaces, behavior: cutRemoved}, &cutStep{pattern: punctuation}},
			errors.Join(err, err2)
	case "CharDelimiterSplit":
		d, err := compileChar(p.Delimiter, &r.work)
		return cut(d, err, cutRemoved, false)
	case "Metaspace":
		return r.metaspace(p)
	case "ByteLevel":
		var steps []preStep
		if p.AddPrefixSpace == nil || *p.AddPrefixSpace {
			steps = append(steps, prefixStep{with: " "})
		}
		if p.UseRegex == nil || *p.UseRegex {
			d, err := compileWithin(gpt2Pattern, &r.work)
			if err != nil {
				return nil, err
			}
			steps = append(steps, &cutStep{pattern: d})
		}
		return append(steps, bytesStep{}), r.grow(1, 2)
	}
	return nil, fmt.Errorf("%.60q is not supported, want ByteLevel, Split, Digits, Metaspace, Punctuation, "+
		"Whitespace, WhitespaceSplit, BertPreTokenizer, CharDelimiterSplit or a Sequence of them", p.Type)
}

// metaspace makes the steps of SentencePiece's way to write spaces.
func (r *hfReader) metaspace(p hfPart) ([]preStep, error) {
	d, err := compileChar(p.Replacement, &r.work)
	if err != nil {
		return nil, fmt.Errorf("in Metaspace: replacement: %w", err)
	}
	scheme := p.PrependScheme
	if scheme == "" && p.AddPrefixSpace != nil && !*p.AddPrefixSpace {
		scheme = "never"
	}
	steps := []preStep{spaceStep{p.Replacement}}
	switch scheme {
	case "always", "":
		steps = append(steps, prefixStep{with: p.Replacement})
	case "first":
		steps = append(steps, prefixStep{with: p.Replacement, first: true})
	case "never":
	default:
		return nil, fmt.Errorf("in Metaspace: prepend_scheme %.60q, want always, first or never", scheme)
	}
	if p.Split == nil || *p.Split {
		steps = append(steps, &cutStep{pattern: d, behavior: cutNext})
	}
	return steps, r.grow(1, len(p.Replacement))
}

// compileChar makes the pattern of one character.
func compileChar(char string, work *regexWork) (*dfa, error) {
	r, size := utf8.DecodeRuneInString(char)
	if size == 0 || size != len(char) || r == utf8.RuneError && size < 2 {
		return nil, fmt.Errorf("found %.60q, want one character", char)
	}
	return compileSet(runeSet{{r, r}}, false, work)
}

// aroundBPE is byte-level BPE with normalizers, or with added tokens that have flags.
func (r *hfReader) aroundBPE(b *bpe) (Tokenizer, error) {
	t := pipeSpec{kind: b.kind, bytes: b, tokens: b.tokens, norms: r.norms, added: b.added, before: r.before,
		after: r.after, file: b.huggingFace}
	if b.prefixSpace {
		t.steps = []preStep{prefixStep{with: " "}}
	}
	// NFC alone leaves the fingerprint as it is: it changes no text that is in NFC, as nearly all text is, and models
	// were trained before it was applied.
	t.print = sync.OnceValue(func() string {
		f := newFingerprint("bpe")
		f.text(b.Fingerprint())
		if r.changes {
			f.json(r.file.Normalizer)
		} else if !slices.ContainsFunc(b.added, hfAdded.hasFlags) {
			return b.Fingerprint()
		}
		addFlags(f, b.added)
		return f.sum()
	})
	return newPipeline(t)
}

// pipeline makes the tokenizer of a file in its general form.
func (r *hfReader) pipeline(data []byte) (Tokenizer, error) {
	m := &r.file.Model
	t := pipeSpec{kind: "bpe", norms: r.norms, added: r.file.AddedTokens, before: r.before, after: r.after,
		file: func() ([]byte, error) { return data, nil }}
	var err error
	if t.steps, err = r.preSteps(); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	texts, err := m.texts()
	if err != nil {
		return nil, err
	}
	t.joins = newPairFilter(texts)
	if isBPE(m) {
		t.model, err = m.charBPE()
	} else {
		t.kind = "unigram"
		t.model, err = m.unigram(texts)
	}
	if err != nil {
		return nil, err
	}
	if t.tokens, err = placeAdded(texts, t.added, m.Vocab.ids); err != nil {
		return nil, err
	}
	if t.decoding, err = newDecoding(r.decoder, slices.ContainsFunc(t.steps, isBytesStep), &r.work); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	fingerprint := r.fingerprint(&t) // now, so that the file's texts need not be kept
	t.print = func() string { return fingerprint }
	return newPipeline(t)
}

func isBytesStep(s preStep) bool { _, ok := s.(bytesStep); return ok }

// charBPE makes the model of BPE over characters.
func (m *hfModel) charBPE() (*charBPE, error) {
	unknown := int32(-1)
	if m.Unk != nil {
		id, ok := m.Vocab.ids[*m.Unk]
		if !ok {
			return nil, fmt.Errorf("model.unk_token is %.60q, which is not in model.vocab", *m.Unk)
		}
		unknown = id
	}
	merges, results, err := m.mergeIDs(false)
	if err != nil {
		return nil, err
	}
	b := newCharBPE(m.Vocab.ids, unknown, m.ByteFallback)
	b.fuse = m.FuseUnk != nil && *m.FuseUnk
	b.table = newMergeTable(merges, results)
	if m.IgnoreMerges {
		b.words = m.Vocab.ids
	}
	return b, nil
}

// unigram makes the model of a unigram vocabulary.
func (m *hfModel) unigram(texts []string) (*unigram, error) {
	u := &unigram{score: m.Vocab.scores, unknown: -1, byteID: byteTokenIDs(m.Vocab.ids, m.ByteFallback),
		fuse: m.FuseUnk == nil || *m.FuseUnk}
	if m.UnkID != nil {
		if u.unknown = *m.UnkID; u.unknown < 0 || int(u.unknown) >= len(texts) {
			return nil, fmt.Errorf("model.unk_id is %d, want 0 to %d", u.unknown, len(texts)-1)
		}
	}
	var ids []int32
	for id, text := range texts {
		if len(text) > maxPiece {
			return nil, fmt.Errorf("model.vocab: a token of %d bytes, want at most %d", len(text), maxPiece)
		}
		ids = append(ids, int32(id))
	}
	u.unkScore = slices.Min(u.score) - unknownPenalty
	u.trie = newTrie(texts, ids)
	return u, nil
}
