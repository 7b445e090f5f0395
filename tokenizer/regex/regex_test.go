package regex

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// symbols returns text as the matcher sees it: characters, and invalidByte for each byte that is not UTF-8. at[i] is
// the byte offset of symbol i.
func symbols(text string) (syms []rune, at []int) {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			r = invalidByte
		}
		syms = append(syms, r)
		at = append(at, i)
		i += size
	}
	return syms, append(at, len(text))
}

// backtrack is the definition of a pattern. It tries the ways to match n at syms[i:], the preferred ones first, until
// then accepts the end of one.
func backtrack(n *Node, syms []rune, i int, then func(int) bool) bool {
	in := n.Set != nil && i < len(syms) && n.Set.Has(syms[i])
	switch n.Op {
	case OpSet:
		return in && then(i+1)
	case opLook:
		return in != n.negated && then(i)
	case OpAlt:
		for _, sub := range n.Subs {
			if backtrack(sub, syms, i, then) {
				return true
			}
		}
		return false
	case opCat:
		var rest func(k, i int) bool
		rest = func(k, i int) bool {
			if k == len(n.Subs) {
				return then(i)
			}
			return backtrack(n.Subs[k], syms, i, func(j int) bool { return rest(k+1, j) })
		}
		return rest(0, i)
	default: // OpRepeat
		var more func(k, i int) bool
		more = func(k, i int) bool {
			if (n.Max < 0 || k < n.Max) &&
				backtrack(n.Subs[0], syms, i, func(j int) bool { return more(k+1, j) }) {
				return true
			}
			return k >= n.Min && then(i)
		}
		return more(0, i)
	}
}

// drawPattern draws a pattern with a small alphabet.
func drawPattern(t *rapid.T, depth int) string {
	atom := rapid.SampledFrom([]string{
		"a", "b", " ", `\s`, `\S`, `\p{L}`, `[^\s\p{L}]`, "[ab]", `[^a]`, ".", "(?i:b)", "é", `[\r\n]`,
	})
	kinds := 5
	if depth == 0 {
		kinds = 1
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 1:
		return drawPattern(t, depth-1) + drawPattern(t, depth-1)
	case 2:
		return "(?:" + drawPattern(t, depth-1) + "|" + drawPattern(t, depth-1) + ")"
	case 3:
		return "(?:" + drawPattern(t, depth-1) + ")" +
			rapid.SampledFrom([]string{"?", "*", "+", "{2}", "{1,2}", "{2,}"}).Draw(t, "times")
	case 4:
		return drawPattern(t, depth-1) + rapid.SampledFrom([]string{"(?=", "(?!"}).Draw(t, "look") +
			atom.Draw(t, "ahead") + ")"
	}
	return atom.Draw(t, "atom")
}

var drawText = rapid.Map(
	rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "B", " ", "\n", "é", "1", "\xff", "\xe2\x82", "\u2003"}),
		0, 10),
	func(parts []string) string { return strings.Join(parts, "") })

// TestDFAIsBacktracking compares the table with the definition, on random patterns and texts.
func TestDFAIsBacktracking(t *testing.T) {
	matches := 0
	rapid.Check(t, func(t *rapid.T) {
		pattern := drawPattern(t, 3) + "|" + drawPattern(t, 2)
		work := MaxWork
		node, err := parseRegex(pattern, &work)
		if err != nil {
			return // a repeated part may match nothing
		}
		d, err := CompileNode(node, &work)
		if err != nil {
			t.Fatal(err)
		}
		text := drawText.Draw(t, "text")
		syms, at := symbols(text)
		for i := range syms {
			want := at[i]
			if backtrack(node, syms, i, func(j int) bool { want = at[j]; return true }) {
				matches++
			}
			got, settled := d.Match([]byte(text), at[i], true)
			if got != want || !settled {
				t.Fatalf("%q at byte %d of %q: match to %d (settled %v), want %d", pattern,
					at[i], text, got, settled, want)
			}
			// Before the end of the text is known, the result is the same or not settled.
			for cut := at[i]; cut < len(text); cut++ {
				if end, settled := d.Match([]byte(text[:cut]), at[i], false); settled && end != want {
					t.Fatalf("%q at byte %d of %q: match to %d settled at %d, want %d", pattern,
						at[i], text, end, cut, want)
				}
			}
		}
	})
	if matches == 0 {
		t.Error("no pattern matched anything")
	}
}

// TestDFAIsPackageRegexp compares matches with those of package regexp, for syntax that both support. This also checks
// the parser against another one.
func TestDFAIsPackageRegexp(t *testing.T) {
	patterns := []string{
		`[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\p{L}\p{N}]+[\r\n]*`,
		`(?i:'s|'t|'re|k)|[a-c\-x]+|[\x{e9}\x41]{2,}|\x{1F642}`,
		`[^a-z]{2,3}|[\]\[^-]|a.c|\.`,
		`(?i)ab|(?:c|CD)+|\p{Lu}\P{Lu}|\p{^Greek}\p{Greek}`,
		`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_{|}~][A-Za-z]+|\t|[\n\f\v]`,
	}
	texts := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", "b", "c", "C", "D", "x", "-", "]", "[", "^", ".", "é", "A", "🙂", "'S", "'re",
		"ſ", "K", "K", "Ω", "1", "22",
		" ", "\r\n", "\t", "\f", "_", "{", `\`, "日",
	}), 0, 12), func(s []string) string { return strings.Join(s, "") })
	for _, pattern := range patterns {
		d, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		re := regexp.MustCompile(`\A(?:` + pattern + `)`)
		rapid.Check(t, func(t *rapid.T) {
			text := texts.Draw(t, "text")
			for i := range text {
				want := i
				if loc := re.FindStringIndex(text[i:]); loc != nil {
					want = i + loc[1]
				}
				if got, _ := d.Match([]byte(text), i, true); got != want {
					t.Fatalf("%q at byte %d of %q: match to %d, want %d", pattern, i, text, got, want)
				}
			}
		})
	}
}

func TestRegexErrors(t *testing.T) {
	for pattern, want := range map[string]string{
		`a++`:                       "possessive",
		`a+?`:                       "lazy",
		`a*`:                        "empty string",
		`a||b`:                      "empty string",
		`(?:a?)+b`:                  "may match nothing",
		`(?!a)*b`:                   "may match nothing",
		`a(?!bc)`:                   "lookahead at more than one",
		`(?<=a)b`:                   "(?<=a…",
		`(?<!a)b`:                   "(?<!a…",
		`(?>a)b`:                    "(?>a",
		`a(?i)b`:                    "(?i)",
		`^a`:                        `'^' here`,
		`a$`:                        `'$' here`,
		`(a`:                        "missing )",
		`a)`:                        "unmatched )",
		`[a`:                        "ends too early",
		`[]a]`:                      "empty class",
		`[a&&b]`:                    "class inside",
		`[[:alpha:]]`:               "class inside",
		`[b-a]`:                     "ascend",
		`[a-\s]`:                    "ascend",
		`\p{Nope}`:                  "{Nope}",
		`\pL`:                       "want {name}",
		`\b`:                        `\b is not`,
		`(a)\1`:                     `\1 is not`,
		`\x{110000}`:                "hexadecimal",
		`\x4`:                       "hexadecimal",
		`a{2`:                       "quantifier {2",
		`a{3,2}`:                    "quantifier {3,2",
		`a{1000}`:                   "up to 256",
		`+a`:                        `'+' here`,
		"\xff":                      "UTF-8",
		strings.Repeat("(", 100):    "nested",
		strings.Repeat("ab", 10000): "20000 bytes",
		`(?:a{200}){200}`:           "too long",
		`(?:a|b)*a(?:a|b){14}c`:     "states",
	} {
		_, err := Compile(pattern)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want one with %q", pattern, err, want)
		}
	}
}

// FuzzRegex compiles any pattern and then splits text with it.
func FuzzRegex(f *testing.F) {
	f.Add(GPT2Pattern, "it's 12 o'clock\n\n now\xff")
	f.Add(`(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*`, "A1 b")
	f.Add(`[\x{41}-\u0045&\-]{2,}(?=\d)|\P{Greek}.`, "ABCDE12")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		d, err := Compile(pattern)
		if err != nil {
			return
		}
		end := 0
		Splitter{d}.Split([]byte(text), 0, len(text), true, func(lo, hi int) {
			if lo != end || hi <= lo {
				t.Fatalf("%q: word %d to %d after %d", pattern, lo, hi, end)
			}
			end = hi
		})
		if end != len(text) {
			t.Fatalf("%q: words up to %d of %d", pattern, end, len(text))
		}
	})
}
