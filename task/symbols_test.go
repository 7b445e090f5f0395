package task

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// goldenJSON runs test on the content of every golden file prefix*.json, as a subtest with the name of the file.
func goldenJSON[T any](t *testing.T, prefix string, test func(t *testing.T, v T)) {
	for _, path := range golden.Files(t, prefix, ".json") {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var v T
			if err := json.Unmarshal(text, &v); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			test(t, v)
		})
	}
}

// goldenSymbols is a language in a golden file: whole sequences, including the answer.
type goldenSymbols struct {
	Config struct {
		VocabSize   int `json:"vocab_size"`
		InputSeqLen int `json:"input_seq_len"`
		NumKeys     int `json:"num_keys"`
		NumTriggers int `json:"induction_num_triggers"`
	}
	Vocab    []string
	Extra    int `json:"num_extra_seq_len"`
	Examples [][]int32
}

// answerOfInduction returns the answer to a sequence without its last symbol, or an error if the sequence is wrong. It
// may contain the trigger at most triggers times.
func answerOfInduction(vocab, length, triggers int, asked []int32) (int32, error) {
	trigger := int32(vocab - 1)
	if len(asked) != length+1 || asked[length] != trigger {
		return 0, fmt.Errorf("found %v, want %d symbols and the trigger", asked, length)
	}
	var places []int
	for i, s := range asked[:length] {
		if s == trigger {
			places = append(places, i)
		} else if s < 1 || s > trigger {
			return 0, fmt.Errorf("found special token %d at %d", s, i)
		}
	}
	if n := len(places); n < 1 || n > triggers || places[n-1] >= length-2 {
		return 0, fmt.Errorf("found the trigger at %v, want it 1 to %d times, before %d", places, triggers, length-2)
	}
	answer := asked[places[0]+1]
	for _, at := range places {
		if asked[at+1] != answer || answer == trigger {
			return 0, fmt.Errorf("%d stands behind the trigger at %d, want %d, no trigger", asked[at+1], at, answer)
		}
	}
	return answer, nil
}

// answerOfRecall is like answerOfInduction, for associative recall.
func answerOfRecall(vocab, length, keys int, asked []int32) (int32, error) {
	if len(asked) != length+1+keys || asked[length] != int32(vocab-1) {
		return 0, fmt.Errorf("found %v, want %d symbols, the trigger and a key of %d", asked, length, keys)
	}
	half := int32((vocab - 2) / 2)
	key := func(symbols []int32) (string, error) {
		for _, s := range symbols {
			if s < 1 || s > half {
				return "", fmt.Errorf("found %d in a key, want 1 to %d", s, half)
			}
		}
		return fmt.Sprint(symbols), nil
	}
	values := map[string]int32{}
	for i := 0; i < length; i += keys + 1 {
		k, err := key(asked[i : i+keys])
		if err != nil {
			return 0, err
		}
		v := asked[i+keys]
		if before, ok := values[k]; ok && before != v {
			return 0, fmt.Errorf("key %s has the values %d and %d", k, before, v)
		}
		if v <= half || v > int32(vocab-2) {
			return 0, fmt.Errorf("found value %d, want %d to %d", v, half+1, vocab-2)
		}
		values[k] = v
	}
	k, err := key(asked[length+1:])
	if err != nil {
		return 0, err
	}
	v, ok := values[k]
	if !ok {
		return 0, fmt.Errorf("key %s is asked for but did not occur", k)
	}
	return v, nil
}

// TestGoldenSymbols checks that each official sequence follows the rule of the task in this package.
func TestGoldenSymbols(t *testing.T) {
	goldenJSON(t, "12_synthetics", func(t *testing.T, file map[string]json.RawMessage) {
		found := 0
		for name, raw := range file {
			if !strings.HasPrefix(name, "induction") && !strings.HasPrefix(name, "assoc_recall") {
				continue
			}
			found++
			var g goldenSymbols
			if err := json.Unmarshal(raw, &g); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			c := g.Config
			checkVocabulary(t, name, g.Vocab, c.VocabSize)
			keys := cmp.Or(c.NumKeys, 1)
			if g.Extra != 1+keys {
				t.Errorf("%s: question and answer of %d symbols, want %d", name, g.Extra, 1+keys)
			}
			for i, tokens := range g.Examples {
				last := len(tokens) - 1
				var answer int32
				var err error
				if strings.HasPrefix(name, "induction") {
					answer, err = answerOfInduction(c.VocabSize, c.InputSeqLen, cmp.Or(c.NumTriggers, 1), tokens[:last])
				} else {
					answer, err = answerOfRecall(c.VocabSize, c.InputSeqLen, keys, tokens[:last])
				}
				if err != nil || answer != tokens[last] {
					t.Errorf("%s %d: answer %d, want %d: %v", name, i, answer, tokens[last], err)
				}
			}
		}
		if found == 0 {
			t.Error("no language in the file")
		}
	})
}

// checkVocabulary checks that symbols are sorted as strings, so that the trigger comes last and "." first.
func checkVocabulary(t *testing.T, name string, got []string, size int) {
	t.Helper()
	want := []string{"=>", "."}
	for i := range size - 2 {
		want = append(want, strconv.Itoa(i))
	}
	slices.Sort(want)
	o := SymbolOptions{Vocab: size}
	if !slices.Equal(got, want) || got[o.trigger()] != "=>" || got[0] != "." {
		t.Errorf("%s: vocabulary %q, want %q", name, got, want)
	}
}

// open opens a task with some of its options changed.
func open[O any](t *testing.T, task *Task, change func(*O)) *Set {
	t.Helper()
	o := task.Options().(*O)
	change(o)
	s, err := task.Open(t.Context(), "", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checkSplit checks that the last target of every example of a split is the answer by the rule, and that targets are at
// the right positions.
func checkSplit(t *testing.T, split Split, n int, all bool, answer func(tokens []int32) (int32, error)) {
	t.Helper()
	if split.Len() != n {
		t.Fatalf("%d examples, want %d", split.Len(), n)
	}
	seen := map[string]bool{}
	var ex Example
	for i := range n {
		split.Example(i, &ex)
		want, err := answer(ex.Tokens)
		last := len(ex.Targets) - 1
		if err != nil || len(ex.Targets) != len(ex.Tokens) || ex.Targets[last] != want {
			t.Fatalf("example %d: %v asks for %v, want %d: %v", i, ex.Tokens, ex.Targets, want, err)
		}
		for j, target := range ex.Targets[:last] {
			next := Ignore
			if all {
				next = ex.Tokens[j+1]
			}
			if target != next {
				t.Fatalf("example %d: target %d at %d, want %d", i, target, j, next)
			}
		}
		key := fmt.Sprint(ex.Tokens)
		if seen[key] {
			t.Fatalf("example %d is there twice", i)
		}
		seen[key] = true
	}
}

func TestInductionHead(t *testing.T) {
	at := func(length int) func([]int32) (int32, error) {
		return func(tokens []int32) (int32, error) { return answerOfInduction(20, length, 1, tokens) }
	}
	s := open(t, InductionHead, func(o *InductionOptions) {})
	checkSplit(t, s.Train, 5000, true, at(30))
	checkSplit(t, s.Test, 500, false, at(30))
	checkSplit(t, s.Extra[0].Split, 500, false, at(60))
	if s.Vocab != 20 || s.Outputs != 20 || !s.Everywhere || s.MaxLength != 31 || len(s.Extra) != 1 ||
		s.Extra[0].Name != "length 60" {
		t.Errorf("set %+v", s)
	}
	// The trigger can be at 0 to 27, and all 18 symbols can be answers.
	places, answers := map[int]bool{}, map[int32]bool{}
	var ex Example
	for i := range s.Train.Len() {
		s.Train.Example(i, &ex)
		places[slices.Index(ex.Tokens, 19)] = true
		answers[ex.Targets[30]] = true
	}
	if len(places) != 28 || len(answers) != 18 {
		t.Errorf("the trigger has %d places and %d answers, want 28 and 18", len(places), len(answers))
	}
	s = open(t, InductionHead, func(o *InductionOptions) { o.Train, o.Longer = 2, 5 })
	for i, times := range []int{2, 4, 5} {
		checkSplit(t, s.Extra[i].Split, 500, false, at(30*times))
	}
	if len(s.Extra) != 3 {
		t.Errorf("%d further measurements, want those at 2, 4 and 5 times the length", len(s.Extra))
	}
	counts := map[string]int{}
	for i := range 500 {
		s.Extra[2].Split.Example(i, &ex)
		back, name := 150-slices.Index(ex.Tokens, 19), s.Tags[ex.Tags[150]]
		var length, near, far int
		fmt.Sscanf(name, "length %d, distance %d to %d", &length, &near, &far)
		if length != 150 || back < near || back > far || ex.Tags[149] != Ignore {
			t.Errorf("a trigger %d back is in the group %q", back, name)
		}
		counts[name]++
	}
	if len(counts) != 4 || counts["length 150, distance 121 to 150"] == 0 {
		t.Errorf("the groups of length 150 are %v, want 1 to 30, 31 to 60, 61 to 120, 121 to 150", counts)
	}
	s = open(t, InductionHead, func(o *InductionOptions) { o.Loss, o.Train, o.Test, o.Longer = "answer", 7, 3, 1 })
	checkSplit(t, s.Train, 7, false, at(30))
	checkSplit(t, s.Test, 3, false, at(30))
	if len(s.Extra) != 0 {
		t.Errorf("%d further measurements, want none", len(s.Extra))
	}
}

// TestInductionTriggers checks that half of the sequences contain the trigger once and the others up to num_triggers
// times, always before the same answer.
func TestInductionTriggers(t *testing.T) {
	const triggers, n = 4, 4000
	s := open(t, InductionHead, func(o *InductionOptions) { o.Triggers, o.Train = triggers, n })
	rule := func(length int) func([]int32) (int32, error) {
		return func(tokens []int32) (int32, error) { return answerOfInduction(20, length, triggers, tokens) }
	}
	checkSplit(t, s.Train, n, true, rule(30))
	checkSplit(t, s.Test, 500, false, rule(30))
	checkSplit(t, s.Extra[0].Split, 500, false, rule(60))
	shown, first := map[int]int{}, map[int]bool{}
	var ex Example
	for i := range n {
		s.Train.Example(i, &ex)
		times := 0
		for at, token := range ex.Tokens[:30] {
			if token == 19 {
				if times == 0 {
					first[at] = true
				}
				times++
			}
		}
		shown[times]++
	}
	// Four draws from 28 positions are not adjacent, so that all are kept, in C(25, 4)·4!/28⁴ = 0.494 of the cases.
	// Half of the sequences draw four.
	alone, all := float64(shown[1])/n, float64(shown[triggers])/n
	if alone < 0.48 || alone > 0.53 || all < 0.22 || all > 0.28 || len(shown) != triggers {
		t.Errorf("one trigger in %.3f of the sequences, want about half; all %d in %.3f, want about 0.247; %v",
			alone, triggers, all, shown)
	}
	if len(first) != 28 {
		t.Errorf("the first trigger has %d places, want 28", len(first))
	}
	one := open(t, InductionHead, func(o *InductionOptions) { o.Train, o.Test = 50, 50 })
	same := open(t, InductionHead, func(o *InductionOptions) { o.Train, o.Test, o.Triggers = 50, 50, 1 })
	if fmt.Sprint(one.Train) != fmt.Sprint(same.Train) {
		t.Error("num_triggers=1 is not what the task is without the option")
	}
}

func TestRecall(t *testing.T) {
	rule := func(vocab, length, keys int) func([]int32) (int32, error) {
		return func(tokens []int32) (int32, error) { return answerOfRecall(vocab, length, keys, tokens) }
	}
	s := open(t, Recall, func(o *RecallOptions) {})
	checkSplit(t, s.Train, 5000, true, rule(10, 20, 1))
	checkSplit(t, s.Test, 500, false, rule(10, 20, 1))
	checkSplit(t, s.Extra[0].Split, 500, false, rule(10, 40, 1))
	if s.MaxLength != 22 || s.Extra[0].Name != "length 40" || s.Extra[0].PublishedOf("h3-official") != 98.4 ||
		s.Extra[0].PublishedOf("s4d") != 0 {
		t.Errorf("longest %d, further %+v", s.MaxLength, s.Extra[0])
	}
	s = open(t, RecallLarge, func(o *RecallOptions) { o.Train = 200 })
	checkSplit(t, s.Train, 200, true, rule(20, 40, 1))
	if s.MaxLength != 42 || s.Extra[0].Published != 0 {
		t.Errorf("longest %d, further %+v", s.MaxLength, s.Extra[0])
	}
	s = open(t, Recall, func(o *RecallOptions) { o.Keys, o.Length, o.Train, o.Loss = 2, 30, 300, "answer" })
	checkSplit(t, s.Train, 300, false, rule(10, 30, 2))
	checkSplit(t, s.Extra[0].Split, 500, false, rule(10, 60, 2))

	// 10 keys and 10 values, each pair twice.
	s = open(t, Recall, func(o *RecallOptions) { o.Vocab, o.Length, o.Shown, o.Train = 22, 40, 2, 300 })
	checkSplit(t, s.Train, 300, true, rule(22, 40, 1))
	var ex Example
	for i := range s.Train.Len() {
		s.Train.Example(i, &ex)
		times := map[int32]int{}
		for j := 0; j < 40; j += 2 {
			times[ex.Tokens[j]]++
		}
		for k := range int32(10) {
			if times[k+1] != 2 {
				t.Fatalf("example %d shows key %d %d times, want 2", i, k+1, times[k+1])
			}
		}
	}
}

// TestKnownSymbols checks that with loss "known" the targets are exactly those that a table of the pairs so far
// determines, including the answer.
func TestKnownSymbols(t *testing.T) {
	sets := map[string][2]*Set{}
	for i, loss := range []string{"known", "all"} {
		add := func(name string, s *Set) { x := sets[name]; x[i] = s; sets[name] = x }
		for keys, length := range map[int]int{1: 41, 2: 48} { // one symbol more than in whole pairs, and none more
			add(fmt.Sprint("recall ", keys), open(t, Recall, func(o *RecallOptions) {
				o.Loss, o.Keys, o.Length, o.Vocab = loss, keys, length, 8
			}))
		}
		add("induction", open(t, InductionHead, func(o *InductionOptions) { o.Loss, o.Triggers = loss, 3 }))
	}
	for name, s := range sets {
		keys := 1
		if name == "recall 2" {
			keys = 2
		}
		for i, ex := range s[0].Train.(Examples)[:100] {
			whole := s[1].Train.(Examples)[i]
			table, last := map[string]int32{}, len(whole.Tokens)-1
			for at, next := range whole.Targets {
				asks := at == last || at >= keys-1 && whole.Tokens[at] < 4 && next >= 4 && next < 7
				if name == "induction" {
					asks = whole.Tokens[at] == 19
				}
				want := int32(Ignore)
				if asks {
					key := fmt.Sprint(whole.Tokens[at+1-keys : at+1])
					value, known := table[key]
					if table[key] = next; known {
						want = value
					}
				}
				if ex.Targets[at] != want {
					t.Fatalf("%s: example %d of %v learns %v, want %d at %d", name, i, whole.Tokens, ex.Targets, want,
						at)
				}
			}
			if ex.Targets[last] == Ignore {
				t.Fatalf("%s: example %d does not learn its answer", name, i)
			}
		}
	}
}

// TestSymbolsSeed checks that the same options give the same data, that another seed gives other data, and that splits
// are independent.
func TestSymbolsSeed(t *testing.T) {
	few := func(seed uint64, train int) *Set {
		return open(t, Recall, func(o *RecallOptions) { o.Seed, o.Train, o.Test = seed, train, 20 })
	}
	text := func(s Split) string { return fmt.Sprint(s) }
	a, b, other, longer := few(1, 20), few(1, 20), few(2, 20), few(1, 50)
	if text(a.Train) != text(b.Train) || text(a.Test) != text(b.Test) {
		t.Error("the same seed gives different data")
	}
	if text(a.Train) == text(other.Train) || text(a.Test) == text(other.Test) {
		t.Error("different seeds give the same data")
	}
	if text(a.Test) != text(longer.Test) || text(a.Train) != text(longer.Train.(Examples)[:20]) {
		t.Error("the number of sequences to train on changes which they are")
	}
}

func TestSymbolsErrors(t *testing.T) {
	fail := func(task *Task, options any, words ...string) {
		t.Helper()
		_, err := task.Open(t.Context(), "", options)
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("error %v, want one that says %q", err, w)
			}
		}
	}
	small := SymbolOptions{Vocab: 4, Length: 4, Longer: 1, Train: 500, Test: 5, Loss: "all"}
	fail(InductionHead, &InductionOptions{small, 1}, "vocab=4", "want 500")
	fail(Recall, &RecallOptions{SymbolOptions: small, Keys: 1}, "want 500")
	fail(Recall, &RecallOptions{SymbolOptions: SymbolOptions{Vocab: 10, Length: 2}, Keys: 2}, "at least 3")
	fail(Recall, &RecallOptions{SymbolOptions: SymbolOptions{Vocab: 22, Length: 20}, Keys: 1, Shown: 2},
		"found 20", "want 40")
	fail(Recall, &RecallOptions{SymbolOptions: SymbolOptions{Vocab: 10, Length: 20}, Keys: 3, Shown: 1},
		"want 256", "64 keys")
}
