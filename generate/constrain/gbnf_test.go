package constrain

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/tokenizer"
)

func mustGBNF(t testing.TB, source string) *Grammar {
	t.Helper()
	g, err := GBNF(source)
	if err != nil {
		t.Fatalf("%s\n%v", source, err)
	}
	return g
}

// TestGBNF checks that the grammars of testdata/gbnf accept and refuse the texts listed in their comments.
func TestGBNF(t *testing.T) { grammarFiles(t, "testdata/gbnf/*.gbnf", "#", 4, tokenizer.GPT2(), GBNF) }

// grammarFiles checks grammars whose comments list texts that they accept (+) and texts that they refuse (-).
func grammarFiles(t *testing.T, pattern, comment string, least int, tok tokenizer.Tokenizer,
	read func(source string) (*Grammar, error)) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) < least {
		t.Fatal(names, err)
	}
	v := NewVocabulary(tok, nil)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		g, err := read(string(data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c, err := New(g, tok, v)
		if err != nil {
			t.Fatal(err)
		}
		cases := 0
		for line := range strings.Lines(string(data)) {
			yes, isYes := strings.CutPrefix(line, comment+"+")
			no, isNo := strings.CutPrefix(line, comment+"-")
			if !isYes && !isNo {
				continue
			}
			if !isYes {
				yes = no
			}
			text, err := strconv.Unquote(strings.TrimSpace(yes))
			if err != nil {
				t.Fatalf("%s: %s: %v", name, line, err)
			}
			cases++
			if got := accepts(t, g, text); got != isYes {
				t.Errorf("%s: %q: got %v, want %v", name, text, got, isYes)
			}
			if isYes { // accepts it by tokens too, some of which end inside a character or a rule
				ids, err := tok.Encode(nil, []byte(text))
				if err != nil {
					t.Fatal(err)
				}
				at := c.Start()
				for _, id := range ids {
					if mask, err := at.mask(); err != nil || mask[id/64]>>(id%64)&1 == 0 {
						t.Fatalf("%s: %q: token %d may not follow (%v)", name, text, id, err)
					}
					if err := at.Accept(id); err != nil {
						t.Fatal(err)
					}
				}
				if !at.Ends() {
					t.Errorf("%s: %q does not end", name, text)
				}
			}
		}
		if cases < 5 {
			t.Errorf("%s: %d texts", name, cases)
		}
	}
}

// TestGBNFRefused checks that an invalid or unsupported grammar gives an error with the line and what was found.
func TestGBNFRefused(t *testing.T) {
	nest := func(n int) string { return "root ::= " + strings.Repeat("(", n) + `"a"` + strings.Repeat(")", n) }
	for source, want := range map[string]string{
		"":                                   "found 0 rules, none of them root",
		"# nothing\n\n":                      "found 0 rules, none of them root",
		`a ::= "x"`:                          "none of them root",
		"a ::= root":                         "none of them root",
		"root ::= a\n\nb ::= a":              `line 1: found the rule "a", want one that is defined`,
		`root := "a"`:                        `line 1: found ":= \"a\"" after "root", want ::=`,
		"\n root ::= \"a":                    "line 2: found the end of the grammar",
		"root ::= [a":                        "line 1: found the end of the grammar",
		"root ::= (\n\"a\"":                  "want ) after the group of line 1",
		`root ::= "a")`:                      `line 1: found ")"`,
		`root ::= "\q"`:                      `line 1: found "\\q\""`,
		`root ::= "\`:                        "line 1: found",
		`root ::= "\x4"`:                     "hexadecimal digits",
		`root ::= "\uD800"`:                  "hexadecimal digits",
		`root ::= "\U00110000"`:              "hexadecimal digits",
		`root ::= [z-a]`:                     "found the range from 'z' to 'a'",
		`root ::= *`:                         "something before it that is repeated",
		`root ::= | +`:                       "something before it that is repeated",
		`root ::= "a"{3,2}`:                  "found {3,2}",
		`root ::= "a"{,2}`:                   "want a number of repetitions",
		`root ::= "a"{2`:                     "want }",
		`root ::= "a"{1000000}`:              `found "1000000}", want a number of repetitions of at most`,
		`root ::= "a"{99999999999999999999}`: "want a number of repetitions",
		"root ::= \"a\"\n::= x":              "line 2: found \"::= x\", want a rule",
		`root ::= <think> "a"`:               `line 1: found "<think> \"a\"", want a literal`,
		`root ::= !<[7]>`:                    "not about tokens",
		`root ::= 'a'`:                       `found "'a'"`,
		"root ::= \"\xff\"":                  "not UTF-8",
		`root ::= root "a" | "b"`:            `line 1: found left recursion: the rule "root" may begin with itself`,
		"root ::= \"x\" e\ne ::= t \"+\" | t\nt ::= f? e | \"1\"\nf ::= \"\"": `left recursion: the rule "e" may ` +
			`begin with itself (e, t, e)`,
		`root ::= ("" root "a")*`:             "left recursion",
		`root ::= [a] (root){0} []`:           "without any text",
		`root ::= "a" root`:                   "without any text",
		nest(201):                             "found more than 200 groups",
		nest(200000):                          "found a grammar of 400012 bytes, want at most",
		strings.Repeat("root ::= \"a\"\n", 8): "",
		nest(200):                             "",
		"root ::= " + strings.Repeat(`"a"{9999} `, 10): "repetitions of more than",
		"root ::= " + strings.Repeat("a ", 40000):      "more than 32768 literals",
		"root ::= " + strings.Repeat("()", 9000):       "more than 8192 rules and groups",
		strings.Repeat("x", 10<<20):                    "want at most 262144",
	} {
		g, err := GBNF(source)
		if want == "" && err == nil {
			if !accepts(t, g, "a") {
				t.Errorf("%.60q does not take a", source)
			}
		} else if want == "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: got %.200v, want %q", source, err, want)
		}
	}
}

// gbnfJudge determines directly from the rules which texts a grammar accepts.
type gbnfJudge struct {
	text  []rune
	known map[judged][]int
}

type judged struct {
	r  *rule
	at int
}

// ends returns the positions where a rule that begins at a position may end.
func (j *gbnfJudge) ends(r *rule, at int) []int {
	key := judged{r, at}
	if all, ok := j.known[key]; ok {
		return all
	}
	var all []int
	for _, way := range r.ways {
		here := []int{at}
		for _, it := range way {
			here = j.repeated(it, here)
		}
		all = append(all, here...)
	}
	slices.Sort(all)
	j.known[key] = slices.Compact(all)
	return j.known[key]
}

func (j *gbnfJudge) repeated(it symbol, from []int) (all []int) {
	for n := 0; n <= it.most && n <= it.least+len(j.text)+1 && len(from) > 0; n++ {
		if n >= it.least {
			all = append(all, from...)
		}
		var next []int
		for _, at := range from {
			switch {
			case it.rule != nil:
				next = append(next, j.ends(it.rule, at)...)
			case it.ranges != nil:
				for i := 0; i < len(it.ranges) && at < len(j.text); i += 2 {
					if r := j.text[at]; r >= it.ranges[i] && r <= it.ranges[i+1] {
						next = append(next, at+1)
					}
				}
			case strings.HasPrefix(string(j.text[at:]), it.text):
				next = append(next, at+len([]rune(it.text)))
			}
		}
		slices.Sort(next)
		from = slices.Compact(next)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (j *gbnfJudge) takes(g *rules, text string) bool {
	*j = gbnfJudge{[]rune(text), map[judged][]int{}}
	return slices.Contains(j.ends(g.root, 0), len(j.text))
}

// anyGrammar returns a random grammar, which may be invalid.
func anyGrammar(r *rand.Rand) string {
	var sequence func(depth int) string
	item := func(depth int) string {
		all := []string{`"a"`, `"b"`, `"ab"`, `""`, `[ab]`, `[^a]`, `.`, `"é"`, `[à-ü]`, "r1", "r2", "root"}
		one := all[r.IntN(len(all))]
		if depth > 0 && r.IntN(3) == 0 {
			one = "(" + sequence(depth-1) + ")"
		}
		return one + []string{"", "", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"}[r.IntN(11)]
	}
	sequence = func(depth int) string {
		var out []string
		for range 1 + r.IntN(3) {
			out = append(out, item(depth))
		}
		if r.IntN(2) == 0 {
			return strings.Join(out, " ") + " | " + item(depth)
		}
		return strings.Join(out, " ")
	}
	return fmt.Sprintf("root ::= %s\nr1 ::= %s\nr2 ::= [ab] %s", sequence(2), sequence(1), sequence(1))
}

// TestAnyGBNF checks that random grammars accept the same texts as gbnfJudge, and that masks computed from places in
// rules equal those from trying each token. The tokens of the vocabulary may split characters.
func TestAnyGBNF(t *testing.T) {
	tok := tokenizers(t)["bpe"]
	v := NewVocabulary(tok, nil)
	r := rand.New(rand.NewPCG(1, 28))
	grammars, taken, over, most := 0, 0, 0, 80
	if testing.Short() {
		most = 25
	}
	letters := []string{"a", "b", "ab", "é", "c", "a", "ba"}
	for grammars < most {
		source := anyGrammar(r)
		g, err := GBNF(source)
		if err != nil {
			if !strings.Contains(err.Error(), "left recursion") && !strings.Contains(err.Error(), "without any text") {
				t.Fatalf("%s\n%v", source, err)
			}
			continue
		}
		grammars++
		rules, judge := newGBNF("", source), gbnfJudge{}
		for range 30 {
			text := ""
			for range r.IntN(6) {
				text += letters[r.IntN(len(letters))]
			}
			want := judge.takes(rules, text)
			if want {
				taken++
			}
			m := newMachine(g, g.needs(nil))
			at := m.start
			for i := range len(text) {
				at = m.step(at, text[i])
			}
			if m.over {
				over++
			} else if at.ends != want {
				t.Fatalf("%s\n%q: got %v, want %v", source, text, at.ends, want)
			}
		}
		c, err := New(g, tok, v)
		if err != nil {
			t.Fatalf("%s\n%v", source, err)
		}
		if grammars%2 == 0 {
			c.Ahead()
		}
		if text, whole := masksAgree(t, c, r, 8); whole && !judge.takes(rules, text) {
			t.Fatalf("%s\nwrote %q", source, text)
		}
	}
	if t.Logf("%d texts are taken, %d too ambiguous", taken, over); taken < 5*most || over > most {
		t.Errorf("%d texts are taken by %d grammars, %d are too ambiguous", taken, grammars, over)
	}
}

// masksAgree compares the masks along a random text with the tokens that a new machine accepts byte by byte.
func masksAgree(t *testing.T, c *Constraint, r *rand.Rand, steps int) (text string, whole bool) {
	t.Helper()
	at, plain := c.Start(), newMachine(c.grammar, c.need)
	here := plain.start
	for range steps {
		mask, err := at.mask()
		if err != nil {
			return text, false // too ambiguous
		}
		var may []int32
		for id := range int32(c.vocabulary.size) {
			plain.bound()
			to := here
			for _, x := range c.tok.Decode(nil, []int32{id}) {
				to = plain.step(to, x)
			}
			want := to != plain.dead
			if got := mask[id/64]>>(id%64)&1 == 1; got != want && !plain.over && slices.Contains(c.vocabulary.ids, id) {
				t.Fatalf("token %d (%q): got %v, want %v", id, c.tok.Decode(nil, []int32{id}), got, want)
			}
			if mask[id/64]>>(id%64)&1 == 1 {
				may = append(may, id)
			}
		}
		if len(may) == 0 || plain.over {
			break
		}
		id := may[r.IntN(len(may))]
		if err := at.Accept(id); err != nil {
			t.Fatal(err)
		}
		for _, x := range c.tok.Decode(nil, []int32{id}) {
			text, here = text+string([]byte{x}), plain.step(here, x)
		}
	}
	return text, at.Ends()
}

// TestDeepGBNF checks that calls of rules nest up to the limit, and that near it masks from places in rules equal those
// from a walk.
func TestDeepGBNF(t *testing.T) {
	tok := tokenizers(t)["bpe"]
	c, err := New(mustGBNF(t, `root ::= "[" (root | inner)? "]"
inner ::= "{" (inner ("," inner)*)? "}" | [a-z]+`), tok, NewVocabulary(tok, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, begin := range []string{"", "[", "[[["} {
		text, depth := c.Start(), 0
		if err := text.take([]byte(begin)); err != nil {
			t.Fatal(err)
		}
		open := map[bool]byte{true: '[', false: '{'}[begin == ""]
		for text.take([]byte{open}) == nil {
			depth++
		}
		if depth < maxDepth/2-2 || depth > maxDepth+1 {
			t.Errorf("after %q, %c: %d deep", begin, open, depth)
		}
	}
	r := rand.New(rand.NewPCG(3, 3))
	for n := 80; n < 100; n++ {
		text := c.Start()
		if text.take([]byte(strings.Repeat("[", n))) != nil {
			continue
		}
		mask, err := text.mask()
		if err != nil {
			t.Fatal(err)
		}
		direct := make([]uint64, len(mask))
		c.machine.bound()
		c.vocabulary.walk(c.machine, direct, 0, len(c.vocabulary.nodes), text.at, nil)
		if !slices.Equal(mask, direct) {
			t.Errorf("after %d: the masks differ", n)
		}
	}
	masksAgree(t, c, r, 30)
}

// TestGBNFBombs checks that a grammar that can be read in exponentially many ways ends a text with an error in bounded
// time.
func TestGBNFBombs(t *testing.T) {
	tok := tokenizer.Bytes()
	v := NewVocabulary(tok, nil)
	var chain, slow strings.Builder
	for i := range 80 {
		fmt.Fprintf(&chain, "a%d ::= a%d \"x\" | a%d \"y\"\n", i, i+1, i+1)
	}
	const rules = 8000
	called := slices.Repeat([]string{`""`}, rules) // a chain of rules, in an order that needs many passes
	for i := range rules - 1 {
		called[i*7919%rules] = fmt.Sprintf("a%d \"\"", (i+1)*7919%rules)
	}
	for i, of := range called {
		fmt.Fprintf(&slow, "a%d ::= %s\n", i, of)
	}
	for name, c := range map[string]struct {
		source, text string
		ambiguous    bool
	}{
		"stacks":  {`root ::= "a" root "b" | "a" root "c" | "a"`, strings.Repeat("a", 60), true},
		"chain":   {"root ::= a0\n" + chain.String() + `a80 ::= "z"`, "", true},
		"nested":  {`root ::= (((("a"*)*)*)*)*`, strings.Repeat("a", 200), false},
		"counted": {`root ::= ((("a"{0,900}){0,900}){0,900}){0,900}`, strings.Repeat("a", 200), true},
		"options": {`root ::= ` + strings.Repeat(`("a" | "b" | "")? `, 300), strings.Repeat("ab", 100), false},
		"zigzag":  {"root ::= a0 \"a\"\n" + slow.String(), "a", false},
		"wide":    {`root ::= [^a]{0,200} [^b]{0,200} "x"`, strings.Repeat("c", 60), false},
	} {
		begun := time.Now()
		g, err := GBNF(c.source)
		var made *Constraint
		if err == nil {
			made, err = New(g, tok, v)
		}
		if err == nil {
			made.Ahead()
			text := made.Start()
			for i := 0; i < len(c.text) && err == nil; i++ {
				if _, err = text.mask(); err == nil {
					err = text.take([]byte{c.text[i]})
				}
			}
		}
		took := time.Since(begun)
		t.Logf("%s: %v, %v", name, took, err)
		ambiguous := errors.Is(err, ErrAmbiguous) || err != nil && strings.Contains(err.Error(), ErrAmbiguous.Error())
		if err != nil && !ambiguous && !strings.Contains(err.Error(), "found") || c.ambiguous != ambiguous {
			t.Errorf("%s: got %v", name, err)
		}
		if took > 10*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}
