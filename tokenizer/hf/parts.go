package hf

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/hippo-ssm/hippo/internal/fault"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
)

// component is a normalizer, pre_tokenizer or decoder, or one step of a Sequence of them.
type component struct {
	Type string `json:"type"`

	Normalizers   []json.RawMessage `json:"normalizers"`   // Sequence
	PreTokenizers []json.RawMessage `json:"pretokenizers"` // Sequence
	Decoders      []json.RawMessage `json:"decoders"`      // Sequence
	Processors    []json.RawMessage `json:"processors"`    // Sequence

	AddPrefixSpace   *bool `json:"add_prefix_space"`  // ByteLevel, and Metaspace in older files
	UseRegex         *bool `json:"use_regex"`         // ByteLevel; absent is true
	IndividualDigits bool  `json:"individual_digits"` // Digits

	Pattern  matcher `json:"pattern"`  // Split, Replace
	Behavior string  `json:"behavior"` // Split, Punctuation
	Invert   bool    `json:"invert"`   // Split

	Content string `json:"content"` // Replace, Strip as a decoder
	Start   int    `json:"start"`   // Strip as a decoder
	Stop    int    `json:"stop"`

	StripLeft  bool   `json:"strip_left"` // Strip as a normalizer
	StripRight bool   `json:"strip_right"`
	Prepend    string `json:"prepend"`              // Prepend
	Charsmap   []byte `json:"precompiled_charsmap"` // Precompiled

	Replacement   string `json:"replacement"`    // Metaspace
	PrependScheme string `json:"prepend_scheme"` // Metaspace; absent in older files
	Split         *bool  `json:"split"`          // Metaspace; absent is true
	Delimiter     string `json:"delimiter"`      // CharDelimiterSplit

	Single  []templatePiece            `json:"single"`         // TemplateProcessing
	Special map[string]templateSpecial `json:"special_tokens"` // TemplateProcessing
	Cls     tokenID                    `json:"cls"`            // BertProcessing, RobertaProcessing
	Sep     tokenID                    `json:"sep"`
}

// matcher is a regular expression or a plain string.
type matcher struct {
	Regex  *string
	String *string
}

// Limits of a Sequence: the number of steps including nested ones, and the depth of nesting. Published files have up to
// about ten steps, and one level of nesting.
const (
	maxParts = 64
	maxNests = 8
)

// components parses a part. If the part is a Sequence, it returns the parts inside, which list selects. It returns nil
// if there is no part.
func components(data json.RawMessage, list func(component) []json.RawMessage) []component {
	return nestedComponents(data, list, maxNests)
}

func nestedComponents(data json.RawMessage, list func(component) []json.RawMessage, depth int) []component {
	if len(data) == 0 || string(data) == "null" {
		return nil
	}
	var part component
	fault.Check(json.Unmarshal(data, &part))
	if part.Type != "Sequence" {
		return []component{part}
	}
	if depth == 0 {
		fault.Raisef("more than %d Sequences inside each other", maxNests)
	}
	var parts []component
	for i, data := range list(part) {
		step(i, func() { parts = append(parts, nestedComponents(data, list, depth-1)...) })
		if len(parts) > maxParts {
			fault.Raisef("more than %d steps", maxParts)
		}
	}
	return parts
}

// step runs do. Errors in it are prefixed with the number of the step.
func step(i int, do func()) { fault.Within(fmt.Sprintf("step %d", i), do) }

// These functions return the parts of a Sequence.
func normalizerSteps(p component) []json.RawMessage   { return p.Normalizers }
func preTokenizerSteps(p component) []json.RawMessage { return p.PreTokenizers }
func decoderSteps(p component) []json.RawMessage      { return p.Decoders }
func processorSteps(p component) []json.RawMessage    { return p.Processors }

// isByteLevel reports whether all parts of a decoder are ByteLevel. Some files that were made by hand have no decoder.
func isByteLevel(decoder []component) bool {
	return !slices.ContainsFunc(decoder, func(p component) bool { return p.Type != "ByteLevel" })
}

// classicSplits reads the steps of byte-level BPE that keep the whole text: any number of Split and Digits, then
// ByteLevel, which splits by GPT-2's pattern unless use_regex is false. ok is false for other steps.
func classicSplits(parts []component) (patterns []string, prefixSpace, ok bool) {
	last := len(parts) - 1
	if last < 0 || parts[last].Type != "ByteLevel" {
		return nil, false, false
	}
	for i, p := range parts {
		switch {
		case p.Type == "Split":
			// Removed and inverted drops the text that the pattern does not match. The patterns of published tokenizers
			// match everything. If one does not, dropping text would lose it.
			if !(p.Behavior == "Isolated" && !p.Invert || p.Behavior == "Removed" && p.Invert) {
				return nil, false, false
			}
			step(i, func() { patterns = append(patterns, p.Pattern.regex()) })
		case p.Type == "Digits" && p.IndividualDigits:
			patterns = append(patterns, `\p{N}`)
		case p.Type == "Digits":
			patterns = append(patterns, `\p{N}+`)
		case p.Type != "ByteLevel" || i < last, p.AddPrefixSpace != nil && *p.AddPrefixSpace && last > 0:
			return nil, false, false
		default:
			prefixSpace = p.AddPrefixSpace != nil && *p.AddPrefixSpace
			if p.UseRegex == nil || *p.UseRegex {
				patterns = append(patterns, regex.GPT2Pattern)
			}
		}
	}
	return patterns, prefixSpace, true
}

// regex returns the pattern as a regular expression.
func (p matcher) regex() string {
	switch {
	case p.Regex != nil:
		return *p.Regex
	case p.String == nil || *p.String == "":
		fault.Raisef("pattern is missing or empty")
	}
	return regexp.QuoteMeta(*p.String)
}
