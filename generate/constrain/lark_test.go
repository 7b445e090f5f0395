package constrain

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestLark checks that the grammars of testdata/lark accept and refuse the texts listed in their comments.
func TestLark(t *testing.T) {
	grammarFiles(t, "testdata/lark/*.lark", "//", 13, tokenizers(t)["bpe"], Lark)
}

// TestLarkRefused checks that an invalid grammar or an unsupported feature gives an error with its name, line and
// column.
func TestLarkRefused(t *testing.T) {
	for source, want := range map[string]string{
		"":                       "found 0 rules, none of them start",
		"a: \"x\"":               "none of them start",
		"start: a\n\nb: \"x\"":   `line 1, column 8: found the rule "a", want one that is defined`,
		"start: B":               `line 1, column 8: found the rule "B", want one that is defined`,
		"start: \"x\"\nstart: b": `line 2, column 1: found "start" a second time`,
		"start \"x\"":            `line 1, column 7: found "\"x\"" after "start", want :`,
		"é: \"x\"":               `line 1, column 1: found "é: \"x\"", want a rule`,
		"Start: \"x\"":           `after "S"`,
		"start: (\"é\"": `line 1, column 12: found the end of the line, want ) after the group of line 1, ` +
			`column 8`,
		"start: [\"a\")":          `line 1, column 12: found ")", want ] after the group`,
		"start: \"a\" )":          `line 1, column 12: found ")"`,
		"start: \"a":              `line 1, column 8: found "\"a", want a quotation mark`,
		"start: /a":               `line 1, column 8: found "/a", want / at the end`,
		"start: /(/":              `line 1, column 8: found the regular expression "("`,
		"start: /(?<=b)a/":        `line 1, column 8: found the regular expression`,
		"start: /^a$/m":           `with (?m)`,
		"start: /a/x":             `line 1, column 11: found the flag x`,
		"start: \"\\q\"":          `line 1, column 9: found "\\q\""`,
		"start: \"b\"..\"a\"":     `line 1, column 8: found "\"b\"..\"a\"", want a range`,
		"start: \"ab\"..\"c\"":    `want a range of two characters`,
		"start: \"a\"..B":         `want the last character of the range`,
		"start: *":                `something before it that is repeated`,
		"start: \"a\"~":           `line 1, column 11: found "~", want a number of repetitions`,
		"start: \"a\"~3..2":       `found "~3..2", want the smaller number first`,
		"start: \"a\"~99999":      `want a number of repetitions of at most`,
		"start: \"a\"{,}":         `want a number of repetitions`,
		"start: \"a\" ->":         `want a name after ->`,
		"start: _list{x, \",\"}":  `line 1, column 8: found the template "_list"`,
		"list{x}: x\nstart: \"\"": `line 1, column 1: found the template "list"`,
		"start[max_tokens=5]: A":  `line 1, column 1: found attributes of the rule "start"`,
		"start: <|end|>":          `line 1, column 8: found "<|end|>", want literals`,
		"start: %json {}":         `line 1, column 8: found "%json {}"`,
		"%declare A\nstart: A":    `line 1, column 1: found "%declare A", want %ignore or %import`,
		"%import python.NAME":     `line 1, column 9: found "python.NAME", want terminals of common`,
		"%import .own.NAME":       `line 1, column 9`,
		"%import common.NAMES":    `found the terminal "NAMES", want one of common: CNAME`,
		"start: INT\nINT: \"1\"\n%import common.INT": `line 3, column 9: found "INT" a second time`,
		"start: A\nA: start":                         `line 2, column 4: found the rule "start" in the terminal "A"`,
		"start: A\nA: \"x\" B\nB: (A | \"y\")":       `line 2, column 1: found recursion: the terminal "A"`,
		"start: \"a\"\n%ignore /x?/":                 `line 2, column 1: found %ignore of what may be empty`,
		"start: \"a\"\n%ignore":                      `line 2, column 1: found %ignore of what may be empty`,
		"start: start":                               "without any text",
		"start: \"a\" start":                         "without any text",
		"start: start \"a\"":                         "without any text",
		"start: \"\xff\"":                            "not UTF-8",
	} {
		if _, err := Lark(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", source, err, want)
		}
	}
}

// larkJudge determines from the parsed rules, which may be left-recursive, which parts of a text they accept. It adds
// parts until there are no more.
type larkJudge struct {
	text  string
	spans map[*rule]map[[2]int]bool
}

func (j *larkJudge) takes(g *lark, text string) bool {
	*j = larkJudge{text, map[*rule]map[[2]int]bool{}}
	for _, r := range g.all {
		j.spans[r] = map[[2]int]bool{}
	}
	for more := true; more; {
		more = false
		for _, r := range g.all {
			for from := range len(text) + 1 {
				for _, way := range r.ways {
					for _, to := range j.ends(way, from) {
						more = more || !j.spans[r][[2]int{from, to}]
						j.spans[r][[2]int{from, to}] = true
					}
				}
			}
		}
	}
	return j.spans[g.root][[2]int{0, len(text)}]
}

// ends returns the positions known so far where a sequence that begins at a position may end.
func (j *larkJudge) ends(way []symbol, from int) []int {
	here := map[int]bool{from: true}
	for _, it := range way {
		next, at := map[int]bool{}, here
		for n := 0; n <= it.most && n <= it.least+len(j.text)+1; n++ {
			if n >= it.least {
				maps.Copy(next, at)
			}
			then := map[int]bool{}
			for i := range at {
				if it.rule == nil && strings.HasPrefix(j.text[i:], it.text) {
					then[i+len(it.text)] = true
				}
				for span := range j.spans[it.rule] {
					if span[0] == i {
						then[span[1]] = true
					}
				}
			}
			at = then
		}
		here = next
	}
	return slices.Collect(maps.Keys(here))
}

// TestAnyLark checks that random grammars, many of them left-recursive, accept the same texts as larkJudge.
func TestAnyLark(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 28))
	var texts []string
	for n, last := 0, []string{""}; n < 4; n++ {
		var next []string
		for _, text := range last {
			next = append(next, text+"a", text+"b")
		}
		texts, last = append(texts, last...), next
	}
	var sequence func(depth int) string
	item := func(depth int) string {
		one := []string{`"a"`, `"b"`, `"ab"`, "x", "y", "x", "start"}[r.IntN(7)]
		if depth > 0 && r.IntN(4) == 0 {
			one = "(" + sequence(depth-1) + ")"
		}
		return one + []string{"", "", "", "", "", "*", "+", "?", "~2", "~0..2"}[r.IntN(10)]
	}
	sequence = func(depth int) string {
		out := item(depth)
		for range r.IntN(3) {
			out += " " + item(depth)
		}
		if r.IntN(2) == 0 {
			return out + " | " + item(depth)
		}
		return out
	}
	recursive, refused, taken := 0, 0, 0
	for range 160 {
		source := "start: " + sequence(1) + "\nx: " + sequence(1) + "\ny: " + sequence(0) + " | \"a\""
		g, err := Lark(source)
		if err != nil {
			if refused++; !strings.Contains(err.Error(), "without any text") {
				t.Fatalf("%s\n%v", source, err)
			}
			continue
		}
		plain, judge := readLark("", source), larkJudge{}
		plain.start("start")
		plain.empties()
		if len(plain.beginning()) > 0 {
			recursive++
		}
		m := newMachine(g, g.needs(nil))
		for _, text := range texts {
			m.bound()
			at, want := m.start, judge.takes(plain, text)
			for i := range len(text) {
				at = m.step(at, text[i])
			}
			if at.ends != want && !m.over {
				t.Fatalf("%s\n%q: got %v, want %v", source, text, at.ends, want)
			}
			if want {
				taken++
			}
		}
	}
	t.Logf("%d of 160 begin with themselves, %d have no text; %d texts are taken", recursive, refused, taken)
	if recursive < 80 || refused > 40 || taken < 400 {
		t.Errorf("%d of 160 begin with themselves, %d have no text; %d texts are taken", recursive, refused, taken)
	}
}

// TestLarkBombs checks that grammars with extreme nesting, repetition or left recursion are refused or compiled in
// bounded time and memory, and so are texts that can be read in exponentially many ways.
func TestLarkBombs(t *testing.T) {
	tok := tokenizer.Bytes()
	v := NewVocabulary(tok, nil)
	var all, chain, doubled strings.Builder
	for i := range 30 { // each rule may begin with each
		fmt.Fprintf(&all, "a%s: \"x\"", letters(i))
		for j := range 30 {
			fmt.Fprintf(&all, " | a%s \"y\"", letters(j))
		}
		all.WriteString("\n")
	}
	for i := range 8000 {
		fmt.Fprintf(&chain, "a%s: a%s \"x\" | \"y\"\n", letters(i), letters((i+1)%8000))
	}
	for i := range 40 {
		this, next := strings.ToUpper(letters(i)), strings.ToUpper(letters(i+1))
		fmt.Fprintf(&doubled, "A%s: B%[1]s B%[1]s\nB%[1]s: A%s A%[2]s\n", this, next)
	}
	for name, c := range map[string]struct{ source, text, want string }{
		"deep": {"start: " + strings.Repeat("(", 300) + `"a"` + strings.Repeat(")", 300), "",
			"groups in each other"},
		"large":      {strings.Repeat("a", 1<<20), "", "want at most 262144"},
		"repeated":   {"start: " + strings.Repeat(`"a"~9999 `, 20), "", "repetitions of more than"},
		"nested":     {`start: ((("a"~0..900)~0..900)~0..900)~0..900`, strings.Repeat("a", 50), "too many ways"},
		"expression": {`start: /((a{0,100}){0,100}){0,100}/`, "", "regular expression"},
		"each":       {"start: aaaa\n" + all.String(), "xyyy", ""},
		"chain":      {"start: aaaa\n" + chain.String(), "", "more than 8192 rules"},
		"optional": {"start: " + strings.Repeat(`"b"? `, 5000) + "start \"a\" | \"c\"", "",
			"too many rules that may begin"},
		"doubled": {"start: AAAA\nA" + strings.ToUpper(letters(40)) + ": \"a\"\n" + doubled.String(),
			strings.Repeat("a", 50), ""},
		"ambiguous": {`start: start start | "a" | "a" "a"`, strings.Repeat("a", 300), ""},
		"inside":    {`start: "a" start "b" | "a" start "c" | "a"`, strings.Repeat("a", 60), "too many ways"},
		"ignored": {"start: (\"a\" | \"b\")+\n%ignore /\\s+/\n%ignore \" \"\n%ignore /[ \\n]/",
			"a" + strings.Repeat(" ", 500) + "b", ""},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		g, err := Lark(c.source)
		var made *Constraint
		if err == nil {
			made, err = New(g, tok, v)
		}
		if err == nil {
			text := made.Start()
			for i := 0; i < len(c.text) && err == nil; i++ {
				if _, err = text.mask(); err == nil {
					err = text.take([]byte{c.text[i]})
				}
			}
		}
		runtime.ReadMemStats(&after)
		mebibytes := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %d bytes take %d MiB: %.120v", name, len(c.source), mebibytes, err)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %.200v, want %q", name, err, c.want)
		}
		const most = 200
		if mebibytes > most {
			t.Errorf("%s: %d MiB, want at most %d", name, mebibytes, most)
		}
	}
}

// letters returns a number as letters.
func letters(n int) string {
	return string([]byte{'a' + byte(n/26/26%26), 'a' + byte(n/26%26), 'a' + byte(n%26)})
}
