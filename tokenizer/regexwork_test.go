package tokenizer

import (
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"strings"
	"testing"
)

// TestRegexWork checks that patterns of a few KB that would take seconds to compile are rejected after a bounded amount
// of work, which all patterns of a tokenizer share. Published tokenizers need a small part of it.
func TestRegexWork(t *testing.T) {
	published := []string{
		regex.GPT2Pattern,
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|` +
			`\s+(?!\S)|\s+`,
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
			`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*` +
			`(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
			`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	}
	for _, pattern := range published {
		work := regex.MaxWork
		if _, err := regex.CompileWithin(pattern, &work); err != nil || work < regex.MaxWork*9/10 {
			t.Errorf("%.40s: %d of %d units of work are left, %v", pattern, work, regex.MaxWork, err)
		}
	}
	hostile := map[string]string{
		"folded letters":  `(?i)` + strings.Repeat("a", 900),
		"folded classes":  `(?i)` + strings.Repeat(`[\w\W]`, 600),
		"classes":         strings.Repeat(`[\w\W\d\D]`, 400),
		"different sets":  strings.Repeat(`[\wa-b]\W\S\D`, 300),
		"many states":     `(?:a|b)*a` + strings.Repeat("(?:a|b)", 8) + strings.Repeat("(?:[c-m]|e)", 60),
		"many classes":    `(?:` + strings.Repeat("a?b?c?d?e?f?g?h?", 60) + `)x`,
		"many kinds":      strings.Repeat(`\p{L}?\p{Lu}?\p{Ll}?\p{N}?[a-z]?\s?\w?`, 60) + "x",
		"folded property": `(?i)` + strings.Repeat(`\p{Lu}`, 600),
	}
	for name, pattern := range hostile {
		work := regex.MaxWork
		regex.CompileWithin(pattern, &work) // the result does not matter
		if work < -regex.MaxWork/10 {
			t.Errorf("%s: %d units of work beyond the limit", name, -work)
		}
	}
	// All steps of a tokenizer share the limit.
	_, err := bpe.New(bpe.Spec{Patterns: []string{hostile["many classes"], hostile["folded classes"]}})
	if err == nil || !strings.Contains(err.Error(), "too much work") {
		t.Errorf("hostile patterns: %v", err)
	}
}
