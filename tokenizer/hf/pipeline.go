package hf

import (
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/internal/fault"
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

// reader reads the parts of a tokenizer.json other than its vocabulary.
type reader struct {
	file          *File
	work          regex.Work
	growth        int // factor by which the normalizers may lengthen a text
	changes       bool
	norms         []normalize.Normalizer
	splits        []component // steps of the pre_tokenizer
	decoder       []component
	before, after []int32
}

// Limits for lengthening a text, so that memory stays proportional to it.
const (
	maxGrowth  = 1 << 10
	maxPrepend = 256 // bytes
)

func (r *reader) read() {
	fault.Within("normalizer", func() {
		for _, part := range components(r.file.Normalizer, normalizerSteps) {
			r.changes = r.changes || part.Type != "NFC"
			if step := r.normalizer(part); step != nil {
				r.norms = append(r.norms, step)
			}
		}
	})
	fault.Within("pre_tokenizer", func() { r.splits = components(r.file.PreTokenizer, preTokenizerSteps) })
	fault.Within("decoder", func() { r.decoder = components(r.file.Decoder, decoderSteps) })
	fault.Within("post_processor", r.postProcessor)
}

// grow multiplies growth by the factor by which a step may lengthen a text.
func (r *reader) grow(old, new int) {
	r.growth = max(r.growth, 1) * max(1, (new+old-1)/old)
	if r.growth > maxGrowth {
		fault.Raisef("the steps make a text more than %d times as long", maxGrowth)
	}
}

// forms maps names to Unicode normalization forms.
var forms = map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}

// normalizer returns the normalizer of a step, nil if the step changes nothing.
func (r *reader) normalizer(p component) normalize.Normalizer {
	switch p.Type {
	case "NFC", "NFD", "NFKC", "NFKD":
		return normalize.UnicodeForm{Form: forms[p.Type]}
	case "Lowercase":
		return normalize.EachRune(normalize.Lowercase)
	case "StripAccents":
		return normalize.EachRune(normalize.StripAccents)
	case "Strip":
		return normalize.StripSpace{Left: p.StripLeft, Right: p.StripRight}
	case "Prepend":
		if len(p.Prepend) > maxPrepend {
			fault.Raisef("a Prepend of %d bytes, want at most %d", len(p.Prepend), maxPrepend)
		}
		return normalize.Prepend(p.Prepend)
	case "Precompiled":
		if len(p.Charsmap) == 0 {
			return nil
		}
		m := fault.Must(normalize.NewCharsmap(p.Charsmap))
		r.grow(1, m.Longest)
		return m
	case "Replace":
		return r.replace(p)
	}
	fault.Raisef("%.60q is not supported, want NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, "+
		"Prepend, Replace, Precompiled or a Sequence of them", p.Type)
	return nil
}

// replace returns the normalizer of a Replace step.
func (r *reader) replace(p component) normalize.Normalizer {
	if text := p.Pattern.String; text != nil && *text != "" {
		r.grow(len(*text), len(p.Content))
		return normalize.ReplaceText{Old: []byte(*text), New: []byte(p.Content)}
	}
	var pattern string
	fault.Within("in Replace", func() { pattern = p.Pattern.regex() })
	d := compile(pattern, &r.work)
	r.grow(1, len(p.Content))
	return normalize.ReplaceMatches{Pattern: d, New: []byte(p.Content)}
}

// compile compiles a pattern within the remaining work.
func compile(pattern string, work *regex.Work) *regex.DFA {
	return fault.Must(regex.CompileWithin(pattern, work))
}

// maxSplits is the maximum number of steps of a pre_tokenizer. DeepSeek's has four.
const maxSplits = 8

// preSteps returns the steps of the pre_tokenizer.
func (r *reader) preSteps() (steps []pretokenize.Step) {
	if len(r.splits) > maxSplits {
		fault.Raisef("%d steps, want at most %d", len(r.splits), maxSplits)
	}
	for i, p := range r.splits {
		step(i, func() { steps = append(steps, r.preStep(p)...) })
	}
	return steps
}

func (r *reader) preStep(p component) []pretokenize.Step {
	cut := func(d *regex.DFA, behavior pretokenize.CutBehavior, invert bool) []pretokenize.Step {
		return []pretokenize.Step{&pretokenize.Cut{Pattern: d, Behavior: behavior, Invert: invert}}
	}
	set := func(of regex.Set, many bool) *regex.DFA { return fault.Must(pretokenize.CompileSet(of, many, &r.work)) }
	switch p.Type {
	case "Split":
		behavior, ok := pretokenize.CutBehaviors[p.Behavior]
		if !ok {
			fault.Raisef("in Split: behavior %.60q is not known", p.Behavior)
		}
		return cut(compile(p.Pattern.regex(), &r.work), behavior, p.Invert)
	case "Digits":
		return cut(set(pretokenize.SetNumber(), !p.IndividualDigits), pretokenize.CutIsolated, false)
	case "Punctuation":
		behavior, ok := pretokenize.CutBehaviors[p.Behavior]
		if p.Behavior != "" && !ok {
			fault.Raisef("in Punctuation: behavior %.60q is not known", p.Behavior)
		}
		return cut(set(pretokenize.SetPunctuation(), false), behavior, false)
	case "Whitespace":
		return cut(fault.Must(pretokenize.CompileWords(&r.work)), pretokenize.CutRemoved, true)
	case "WhitespaceSplit":
		return cut(set(regex.SetSpace, false), pretokenize.CutRemoved, false)
	case "BertPreTokenizer":
		return append(cut(set(regex.SetSpace, false), pretokenize.CutRemoved, false),
			cut(set(pretokenize.SetPunctuation(), false), pretokenize.CutIsolated, false)...)
	case "CharDelimiterSplit":
		return cut(compileChar(p.Delimiter, &r.work), pretokenize.CutRemoved, false)
	case "Metaspace":
		return r.metaspace(p)
	case "ByteLevel":
		var steps []pretokenize.Step
		if p.AddPrefixSpace == nil || *p.AddPrefixSpace {
			steps = append(steps, pretokenize.Prefix{With: " "})
		}
		if p.UseRegex == nil || *p.UseRegex {
			steps = append(steps, &pretokenize.Cut{Pattern: compile(regex.GPT2Pattern, &r.work)})
		}
		r.grow(1, 2)
		return append(steps, pretokenize.Bytes{})
	}
	fault.Raisef("%.60q is not supported, want ByteLevel, Split, Digits, Metaspace, Punctuation, "+
		"Whitespace, WhitespaceSplit, BertPreTokenizer, CharDelimiterSplit or a Sequence of them", p.Type)
	return nil
}

// metaspace returns the steps for SentencePiece's way of writing spaces.
func (r *reader) metaspace(p component) []pretokenize.Step {
	var d *regex.DFA
	fault.Within("in Metaspace: replacement", func() { d = compileChar(p.Replacement, &r.work) })
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
		fault.Raisef("in Metaspace: prepend_scheme %.60q, want always, first or never", scheme)
	}
	if p.Split == nil || *p.Split {
		steps = append(steps, &pretokenize.Cut{Pattern: d, Behavior: pretokenize.CutNext})
	}
	r.grow(1, len(p.Replacement))
	return steps
}

// compileChar returns the pattern of one character.
func compileChar(char string, work *regex.Work) *regex.DFA {
	r, size := utf8.DecodeRuneInString(char)
	if size == 0 || size != len(char) || r == utf8.RuneError && size < 2 {
		fault.Raisef("found %.60q, want one character", char)
	}
	return fault.Must(pretokenize.CompileSet(regex.Of(char), false, work))
}

// aroundBPE returns byte-level BPE with normalizers, or with added tokens that have flags.
func (r *reader) aroundBPE(b *bpe.Tokenizer) token.Tokenizer {
	t := pipeline.Spec{Type: b.Type, Bytes: b, Tokens: b.Tokens, Norms: r.norms, Added: b.Added, Before: r.before,
		After: r.after, File: b.HuggingFace}
	if b.PrefixSpace {
		t.Steps = []pretokenize.Step{pretokenize.Prefix{With: " "}}
	}
	// NFC alone leaves the fingerprint unchanged. Nearly all text is in NFC already and stays the same, and models were
	// trained before NFC was applied.
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
	return fault.Must(pipeline.New(t))
}

// pipeline returns the tokenizer of a file in its general form.
func (r *reader) pipeline(data []byte) token.Tokenizer {
	m := &r.file.Model
	t := pipeline.Spec{Type: "bpe", Norms: r.norms, Added: r.file.AddedTokens, Before: r.before, After: r.after,
		File: func() ([]byte, error) { return data, nil }}
	fault.Within("pre_tokenizer", func() { t.Steps = r.preSteps() })
	texts := m.texts()
	t.Joins = words.NewPairFilter(texts)
	if isBPE(m) {
		t.Model = m.charBPE()
	} else {
		t.Type, t.Model = "unigram", m.unigram(texts)
	}
	t.Tokens = placeAdded(texts, t.Added, m.Vocab.IDs)
	fault.Within("decoder", func() {
		t.Decoding = newDecoding(r.decoder, slices.ContainsFunc(t.Steps, isBytesStep), &r.work)
	})
	fingerprint := r.fingerprint(&t) // computed now, so that the file's texts can be freed
	t.Sum = func() string { return fingerprint }
	return fault.Must(pipeline.New(t))
}

func isBytesStep(s pretokenize.Step) bool { _, ok := s.(pretokenize.Bytes); return ok }

// charBPE returns the model of BPE over characters.
func (m *Model) charBPE() *words.CharBPE {
	unknown := int32(-1)
	if m.Unk != nil {
		id, ok := m.Vocab.IDs[*m.Unk]
		if !ok {
			fault.Raisef("model.unk_token is %.60q, which is not in model.vocab", *m.Unk)
		}
		unknown = id
	}
	merges, results := m.mergeIDs(false)
	b := words.NewCharBPE(m.Vocab.IDs, unknown, m.ByteFallback)
	b.Fuse = m.FuseUnk != nil && *m.FuseUnk
	b.Table = bpe.NewMergeTable(merges, results)
	if m.IgnoreMerges {
		b.Words = m.Vocab.IDs
	}
	return b
}

// unigram returns the model of a unigram vocabulary.
func (m *Model) unigram(texts []string) *words.Unigram {
	u := &words.Unigram{Score: m.Vocab.scores, Unknown: -1, ByteID: words.ByteTokenIDs(m.Vocab.IDs, m.ByteFallback),
		Fuse: m.FuseUnk == nil || *m.FuseUnk}
	if m.UnkID != nil {
		if u.Unknown = *m.UnkID; u.Unknown < 0 || int(u.Unknown) >= len(texts) {
			fault.Raisef("model.unk_id is %d, want 0 to %d", u.Unknown, len(texts)-1)
		}
	}
	var ids []int32
	for id, text := range texts {
		if len(text) > words.MaxPiece {
			fault.Raisef("model.vocab: a token of %d bytes, want at most %d", len(text), words.MaxPiece)
		}
		ids = append(ids, int32(id))
	}
	u.UnkScore = slices.Min(u.Score) - words.UnknownPenalty
	u.Trie = words.NewTrie(texts, ids)
	return u
}
