package hf

import (
	"errors"
	"fmt"
	"github.com/hippo-ssm/hippo/tokenizer/normalize"
	"github.com/hippo-ssm/hippo/tokenizer/pipeline"
	"github.com/hippo-ssm/hippo/tokenizer/pretokenize"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"github.com/hippo-ssm/hippo/tokenizer/words"
	"strings"
	"unicode/utf8"
)

// maxDecoded is how much longer a decoder may make a token.
const maxDecoded = 16

// newDecoding returns the steps of a decoder. A file without one whose words are written in byte characters is decoded
// from them.
func newDecoding(parts []component, inBytes bool, work *regex.Work) (*pipeline.Decoding, error) {
	if len(parts) == 0 && inBytes {
		parts = []component{{Type: "ByteLevel"}}
	}
	d := &pipeline.Decoding{}
	fused := false
	growth := 1
	for i, p := range parts {
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
			fused = true
			continue
		case "Metaspace":
			var err error
			if step, err = metaspaceDecoder(p); err != nil {
				return nil, fmt.Errorf("step %d: %w", i, err)
			}
		case "Replace":
			replace, longer, err := replaceDecoder(p, fused, work)
			if err != nil {
				return nil, fmt.Errorf("step %d: %w", i, err)
			}
			if growth *= longer; growth > maxDecoded {
				return nil, fmt.Errorf("step %d: the steps make a token more than %d times as long", i, maxDecoded)
			}
			step = replace
		case "Strip":
			if p.Content == "" || p.Start < 0 || p.Stop < 0 || p.Start > maxPrepend || p.Stop > maxPrepend {
				return nil, fmt.Errorf("step %d: Strip of %d and %d times %.60q", i, p.Start, p.Stop, p.Content)
			}
			if fused {
				if p.Stop > 0 || d.Left > 0 {
					return nil, fmt.Errorf("step %d: Strip at the end of the text is not supported", i)
				}
				d.Left, d.Strip = p.Start, p.Content
				continue
			}
			step = stripDecoder(p)
		default:
			return nil, fmt.Errorf("step %d: %.60q is not supported, want ByteLevel, Metaspace, Replace, "+
				"ByteFallback, Fuse or Strip", i, p.Type)
		}
		d.Steps = append(d.Steps, step)
	}
	return d, nil
}

// metaspaceDecoder writes spaces; in the first token of a text it drops them if the encoder may have added one.
func metaspaceDecoder(p component) (func(string, bool) string, error) {
	if utf8.RuneCountInString(p.Replacement) != 1 {
		return nil, fmt.Errorf("in Metaspace: replacement %.60q, want one character", p.Replacement)
	}
	never := p.PrependScheme == "never" ||
		p.PrependScheme == "" && p.AddPrefixSpace != nil && !*p.AddPrefixSpace
	return func(token string, opens bool) string {
		if opens && !never {
			return strings.ReplaceAll(token, p.Replacement, "")
		}
		return strings.ReplaceAll(token, p.Replacement, " ")
	}, nil
}

// replaceDecoder replaces inside a token. Behind Fuse the pattern must be one character: others may go over tokens.
func replaceDecoder(p component, fused bool, work *regex.Work) (step func(string, bool) string, longer int, err error) {
	if text := p.Pattern.String; text != nil && *text != "" {
		if fused && utf8.RuneCountInString(*text) > 1 {
			return nil, 0, errors.New("a Replace of several characters after Fuse is not supported")
		}
		longer = max(1, (len(p.Content)+len(*text)-1)/len(*text))
		return func(token string, _ bool) string { return strings.ReplaceAll(token, *text, p.Content) }, longer, nil
	}
	pattern, err := p.Pattern.regex()
	if err != nil {
		return nil, 0, fmt.Errorf("in Replace: %w", err)
	}
	if fused {
		return nil, 0, errors.New("a Replace by a pattern after Fuse is not supported")
	}
	d, err := regex.CompileWithin(pattern, work)
	if err != nil {
		return nil, 0, err
	}
	matches := normalize.ReplaceMatches{Pattern: d, New: []byte(p.Content)}
	return func(token string, _ bool) string {
		out, _ := matches.Apply(nil, []byte(token), true, true)
		return string(out)
	}, max(1, len(p.Content)), nil
}

// stripDecoder drops up to so many characters at the ends of a token.
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
