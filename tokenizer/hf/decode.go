package hf

import (
	"strings"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/internal/fault"
	"github.com/hippo-ssm/hippo/tokenizer/normalize"
	"github.com/hippo-ssm/hippo/tokenizer/pipeline"
	"github.com/hippo-ssm/hippo/tokenizer/pretokenize"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"github.com/hippo-ssm/hippo/tokenizer/words"
)

// maxDecoded is the maximum factor by which a decoder may lengthen a token.
const maxDecoded = 16

// newDecoding returns the steps of a decoder. If a file has no decoder and writes words in byte characters, these are
// decoded.
func newDecoding(parts []component, inBytes bool, work *regex.Work) *pipeline.Decoding {
	if len(parts) == 0 && inBytes {
		parts = []component{{Type: "ByteLevel"}}
	}
	d := &decoder{work: work, growth: 1}
	for i, p := range parts {
		step(i, func() { d.add(p) })
	}
	return &d.Decoding
}

// decoder builds a pipeline.Decoding step by step.
type decoder struct {
	pipeline.Decoding
	work   *regex.Work
	fused  bool // after a step Fuse, which makes the tokens one text
	growth int  // factor by which the steps may lengthen a token
}

// add adds a step.
func (d *decoder) add(p component) {
	var step func(string, bool) string
	switch p.Type {
	case "ByteLevel":
		step = func(token string, _ bool) string {
			if text, ok := pretokenize.FromChars(token); ok {
				return text
			}
			return token
		}
	case "ByteFallback":
		step = func(token string, _ bool) string {
			if b, ok := words.ByteOfToken(token); ok {
				return string([]byte{b})
			}
			return token
		}
	case "Fuse":
		d.fused = true
		return
	case "Metaspace":
		step = metaspaceDecoder(p)
	case "Replace":
		step = d.replace(p)
	case "Strip":
		if p.Content == "" || p.Start < 0 || p.Stop < 0 || p.Start > maxPrepend || p.Stop > maxPrepend {
			fault.Raisef("Strip of %d and %d times %.60q", p.Start, p.Stop, p.Content)
		}
		if d.fused {
			if p.Stop > 0 || d.Left > 0 {
				fault.Raisef("Strip at the end of the text is not supported")
			}
			d.Left, d.Strip = p.Start, p.Content
			return
		}
		step = stripDecoder(p)
	default:
		fault.Raisef("%.60q is not supported, want ByteLevel, Metaspace, Replace, ByteFallback, Fuse or Strip",
			p.Type)
	}
	d.Steps = append(d.Steps, step)
}

// metaspaceDecoder returns a step that restores spaces. In the first token of a text it removes them if the encoder may
// have added one.
func metaspaceDecoder(p component) func(string, bool) string {
	if utf8.RuneCountInString(p.Replacement) != 1 {
		fault.Raisef("in Metaspace: replacement %.60q, want one character", p.Replacement)
	}
	never := p.PrependScheme == "never" ||
		p.PrependScheme == "" && p.AddPrefixSpace != nil && !*p.AddPrefixSpace
	return func(token string, opens bool) string {
		if opens && !never {
			return strings.ReplaceAll(token, p.Replacement, "")
		}
		return strings.ReplaceAll(token, p.Replacement, " ")
	}
}

// grow multiplies growth by the factor by which a step may lengthen a token.
func (d *decoder) grow(times int) {
	if d.growth *= max(1, times); d.growth > maxDecoded {
		fault.Raisef("the steps make a token more than %d times as long", maxDecoded)
	}
}

// replace returns a step that replaces text within a token. After Fuse the pattern must be one character, because a
// longer one could match across tokens.
func (d *decoder) replace(p component) func(string, bool) string {
	if text := p.Pattern.String; text != nil && *text != "" {
		if d.fused && utf8.RuneCountInString(*text) > 1 {
			fault.Raisef("a Replace of several characters after Fuse is not supported")
		}
		d.grow((len(p.Content) + len(*text) - 1) / len(*text))
		return func(token string, _ bool) string { return strings.ReplaceAll(token, *text, p.Content) }
	}
	var pattern string
	fault.Within("in Replace", func() { pattern = p.Pattern.regex() })
	if d.fused {
		fault.Raisef("a Replace by a pattern after Fuse is not supported")
	}
	matches := normalize.ReplaceMatches{Pattern: compile(pattern, d.work), New: []byte(p.Content)}
	d.grow(len(p.Content))
	return func(token string, _ bool) string {
		out, _ := matches.Apply(nil, []byte(token), true, true)
		return string(out)
	}
}

// stripDecoder returns a step that removes up to Start and Stop copies of Content from the two ends of a token.
func stripDecoder(p component) func(string, bool) string {
	return func(token string, _ bool) string {
		for range p.Start {
			token = strings.TrimPrefix(token, p.Content)
		}
		for range p.Stop {
			token = strings.TrimSuffix(token, p.Content)
		}
		return token
	}
}
