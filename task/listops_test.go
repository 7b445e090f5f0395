package task

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// goldenListOps holds expressions of the official generator, with their values from the official evaluator and their
// tokens from S4's tokenizer, which writes X for ].
type goldenListOps struct {
	Samples []struct {
		Kind, Source string
		Target       int32
		Length       int
		Tokens       json.RawMessage // a list, or only its length for long expressions
	}
}

func TestGoldenListOps(t *testing.T) {
	goldenJSON(t, "08_listops", func(t *testing.T, g goldenListOps) {
		if len(g.Samples) == 0 {
			t.Fatal("no sample in the file")
		}
		for i, s := range g.Samples {
			tokens, err := appendTokens(nil, []byte(s.Source))
			if err != nil {
				t.Errorf("%d: %v", i, err)
				continue
			}
			value, err := evaluate(tokens)
			if err != nil || value != s.Target || len(tokens) != s.Length {
				t.Errorf("%d: value %d, length %d, want %d and %d: %v", i, value, len(tokens), s.Target, s.Length, err)
			}
			if back := string(appendSource(nil, tokens)); back != s.Source {
				t.Errorf("%d: written back as %s, want %s", i, back, s.Source)
			}
			var words []string
			for _, token := range tokens {
				words = append(words, strings.ReplaceAll(opNames[token], "]", "X"))
			}
			want, _ := json.Marshal(words)
			if s.Tokens[0] != '[' {
				want, _ = json.Marshal(len(words))
			}
			if got := strings.Join(strings.Fields(string(s.Tokens)), ""); got != string(want) {
				t.Errorf("%d: tokens %s, want %s", i, want, got)
			}
		}
	})
}

func TestEvaluate(t *testing.T) {
	for source, want := range map[string]int32{
		"7": 7, "[MAX 1 9 4 ]": 9, "[MIN 3 2 8 ]": 2, "[SM 9 9 9 ]": 7, "[MED 5 ]": 5, "[MED 1 9 2 ]": 2,
		"[MED 1 2 ]": 1, "[MED 9 1 2 7 ]": 4, "[MED 3 3 4 4 ]": 3, "[MED 0 9 ]": 4, // means, rounded down
		"[MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]":  5, // from the paper of the Long Range Arena
		"[SM [SM [SM 5 6 ] 9 ] [MIN [MAX 1 2 ] 3 ] ]": 2,
	} {
		tokens, err := appendTokens(nil, []byte(source))
		if err != nil {
			t.Errorf("%s: %v", source, err)
		} else if got, err := evaluate(tokens); err != nil || got != want {
			t.Errorf("%s is %d, want %d: %v", source, got, want, err)
		}
	}
	for source, want := range map[string]string{
		"":                 "no expression",
		"1 2":              "token 1: found more after the end",
		"[MAX 1 2 ] 3":     "token 4: found more after the end",
		"[MAX 1 2":         "within [MAX",
		"[MED ]":           "after [MED, want a value",
		"]":                "without an operator",
		"[MAX 1 ] ]":       "token 3: found more",
		"( [MAX ( ] ) ) )": "after [MAX",
	} {
		tokens, err := appendTokens(nil, []byte(source))
		if err != nil {
			t.Errorf("%s: %v", source, err)
		} else if _, err := evaluate(tokens); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", source, err, want)
		}
	}
	for source, want := range map[string]string{
		"[MAX 1 12 ]": `column 8: found "12"`, "[FIRST 1 ]": `column 1: found "[FIRST"`, "((": `found "(("`,
	} {
		if _, err := appendTokens(nil, []byte(source)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", source, err, want)
		}
	}
	if _, err := evaluate([]int32{opMin, 1, opTokens, opEnd}); err == nil ||
		!strings.Contains(err.Error(), "found 15") {
		t.Errorf("a token that is none: error %v", err)
	}
}

// byDefinition evaluates an expression recursively. It returns the value and the remaining tokens.
func byDefinition(tokens []int32) (int32, []int32) {
	op := tokens[0]
	tokens = tokens[1:]
	if op < 10 {
		return op, tokens
	}
	var values []int
	for tokens[0] != opEnd {
		var v int32
		v, tokens = byDefinition(tokens)
		values = append(values, int(v))
	}
	slices.Sort(values)
	n, sum := len(values), 0
	for _, v := range values {
		sum += v
	}
	value := map[int32]int{
		opMin: values[0], opMax: values[n-1], opSum: sum % 10,
		opMed: int(math.Floor(float64(values[(n-1)/2]+values[n/2]) / 2)),
	}[op]
	return int32(value), tokens[1:]
}

func TestListOps(t *testing.T) {
	s := open(t, ListOps, func(o *listOpsOptions) { o.Train = 3000 })
	lengths := []int{s.Train.Len(), s.Valid.Len(), s.Test.Len()}
	if !slices.Equal(lengths, []int{3000, 2000, 2000}) || s.Vocab != 15 || s.Outputs != 10 || s.MaxLength < 1900 {
		t.Fatalf("set %+v", s)
	}
	values := map[int32]int{}
	var ex Example
	for i := range 60 {
		for _, split := range []Split{s.Train, s.Valid, s.Test} {
			split.Example(i, &ex)
			if n := len(ex.Tokens); n <= 500 || n >= 2000 {
				t.Fatalf("expression of %d tokens, want 501 to 1999", n)
			}
			value, rest := byDefinition(ex.Tokens)
			if len(rest) > 0 || len(ex.Targets) != 1 || ex.Targets[0] != value {
				t.Fatalf("expression with target %v, want %d, and %d tokens more", ex.Targets, value, len(rest))
			}
			values[value]++
		}
	}
	if len(values) < 10 {
		t.Errorf("only %d values occur: %v", len(values), values)
	}
}

// TestListOpsDistribution compares expressions drawn without length limits with the probabilities of the official
// generator.
func TestListOpsDistribution(t *testing.T) {
	o := ListOps.Options().(*listOpsOptions)
	o.MinLength, o.MaxLength, o.MaxDepth = 0, 1<<20, 3
	rng := rand.New(rand.NewPCG(1, 2))
	const draws = 20000
	lists, operators, args, deepest := 0, map[int32]int{}, map[int]int{}, 0
	var tokens []int32
	for range draws {
		var ok bool
		if tokens, ok = o.attempt(rng, tokens); !ok {
			t.Fatal("an expression was dropped")
		}
		if len(tokens) == 1 {
			continue
		}
		lists++
		operators[tokens[0]]++
		depth, n := 0, 0
		for _, token := range tokens {
			switch {
			case token == opEnd:
				depth--
			case token >= opMin:
				depth++
			}
			deepest = max(deepest, depth)
			if depth == 1 && (token < 10 || token == opEnd) {
				n++
			}
		}
		args[n]++
	}
	near := func(what string, got, total int, want float64) {
		t.Helper()
		if limit := 4 * math.Sqrt(want*(1-want)/float64(total)); math.Abs(float64(got)/float64(total)-want) > limit {
			t.Errorf("%s: %d of %d, want a part of %.4f ± %.4f", what, got, total, want, limit)
		}
	}
	near("lists", lists, draws, 0.25)
	for op := opMin; op < opEnd; op++ {
		near(opNames[op], operators[op], lists, 0.25)
	}
	for n := 2; n <= 10; n++ {
		near("lists of a length", args[n], lists, 1.0/9)
	}
	if deepest != 2 || len(args) != 9 || len(operators) != 4 {
		t.Errorf("lists in lists to depth %d, of %v values, by %v; want depth 2, 2 to 10 values, 4 operators",
			deepest, args, operators)
	}
}

func TestListOpsErrors(t *testing.T) {
	for _, c := range []struct {
		change func(*listOpsOptions)
		want   string
	}{
		{func(o *listOpsOptions) { o.MaxLength = 501 },
			"max_length: found 501, want at least min_length + 2, which is 502"},
		{func(o *listOpsOptions) { o.MaxDepth = 2 },
			"only 0 of 100000 expressions are longer than 500 and shorter than 2000, with max_depth=2"},
	} {
		o := ListOps.Options().(*listOpsOptions)
		c.change(o)
		if _, err := ListOps.Open(t.Context(), "", o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
	s := open(t, ListOps, func(o *listOpsOptions) { o.MinLength, o.MaxLength, o.Valid = 0, 2, 0 })
	var ex Example
	if s.Train.Example(0, &ex); len(ex.Tokens) != 1 || s.Valid != nil {
		t.Errorf("expression %v, want one digit, and no validation", ex.Tokens)
	}
}

// FuzzExpression checks that the parser never panics, and that an accepted expression survives a round trip.
func FuzzExpression(f *testing.F) {
	for _, seed := range []string{"( ( ( [MAX 2 ) 9 ) ] )", "[MED 1 [SM 2 3 ] ]", "] 1 [MIN", "5",
		"", "[MIN  ] (", "[SM 3 ] x"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		tokens, err := appendTokens(nil, source)
		if err != nil {
			return
		}
		value, err := evaluate(tokens)
		if err != nil {
			return
		}
		again, err := appendTokens(nil, appendSource(nil, tokens))
		if err != nil || !slices.Equal(again, tokens) {
			t.Fatalf("%q became %v, then %v: %v", source, tokens, again, err)
		}
		if want, rest := byDefinition(tokens); value != want || len(rest) > 0 {
			t.Fatalf("%q is %d, want %d", source, value, want)
		}
	})
}
