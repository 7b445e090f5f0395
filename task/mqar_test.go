package task

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// goldenMQAR is a sample in a golden file. The label -100 is ignored.
type goldenMQAR struct {
	Config struct {
		Vocab  int   `json:"vocab_size"`
		Length int   `json:"input_seq_len"`
		Pairs  int   `json:"num_kv_pairs"`
		Noise  *bool `json:"random_non_queries"` // true by default
	}
	Inputs, Labels [][]int32
}

// checkMQAR returns an error if a sequence is wrong. It must start with pairs of different keys and different values,
// ask for each key once at an even position after them, and have the key's value as the target of that query. Targets
// at other positions must be ignore.
func checkMQAR(vocab, length, pairs int, noise bool, tokens, targets []int32, ignore int32) error {
	if len(tokens) != length || len(targets) != length {
		return fmt.Errorf("%d tokens and %d targets, want %d", len(tokens), len(targets), length)
	}
	half := int32(vocab / 2)
	value, used := map[int32]int32{}, map[int32]bool{}
	for i := range pairs {
		k, v := tokens[2*i], tokens[2*i+1]
		if _, again := value[k]; again || used[v] || k < 1 || k >= half || v < half || v >= int32(vocab) {
			return fmt.Errorf("pair %d is %d %d, after %v", i, k, v, value)
		}
		value[k], used[v] = v, true
	}
	for i, t := range targets {
		if t == ignore {
			if i >= 2*pairs && !noise && tokens[i] != 0 {
				return fmt.Errorf("found %d at %d, between queries, want 0", tokens[i], i)
			}
			continue
		}
		v, ok := value[tokens[i]]
		if !ok || v != t || i < 2*pairs || i%2 != 0 {
			return fmt.Errorf("position %d asks for the value of %d: target %d, want %d", i, tokens[i], t, v)
		}
		delete(value, tokens[i])
	}
	if len(value) > 0 {
		return fmt.Errorf("nothing asks for the keys of %v", value)
	}
	return nil
}

func TestGoldenMQAR(t *testing.T) {
	goldenJSON(t, "12_synthetics", func(t *testing.T, file map[string]json.RawMessage) {
		found := 0
		for name, raw := range file {
			if !strings.HasPrefix(name, "mqar") {
				continue
			}
			var g goldenMQAR
			if err := json.Unmarshal(raw, &g); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			c := g.Config
			noise := c.Noise == nil || *c.Noise
			for i, tokens := range g.Inputs {
				found++
				if err := checkMQAR(c.Vocab, c.Length, c.Pairs, noise, tokens, g.Labels[i], -100); err != nil {
					t.Errorf("%s %d: %v", name, i, err)
				}
			}
		}
		if found == 0 {
			t.Error("no sample in the file")
		}
	})
}

func TestMQAR(t *testing.T) {
	for _, noise := range []bool{false, true} {
		s := open(t, MQAR, func(o *mqarOptions) { o.Noise, o.Train = noise, 300 })
		if s.Train.Len() != 300 || s.Test.Len() != 1500 || s.MaxLength != 64 || s.Vocab != 256 || !s.Everywhere {
			t.Fatalf("set %+v", s)
		}
		var ex, again Example
		for i := range 300 {
			s.Train.Example(i, &ex)
			pairs := []int{2, 4, 8, 16}[i%4]
			if err := checkMQAR(256, 64, pairs, noise, ex.Tokens, ex.Targets, Ignore); err != nil {
				t.Fatalf("example %d: %v", i, err)
			}
			s.Test.Example(i, &again)
			if fmt.Sprint(ex.Tokens) == fmt.Sprint(again.Tokens) {
				t.Fatalf("example %d is the same in two splits", i)
			}
			for at, target := range ex.Targets {
				want := Ignore
				if target != Ignore {
					want = int32(i % 4)
				}
				if ex.Tags[at] != want {
					t.Fatalf("example %d: tag %d at %d, want %d", i, ex.Tags[at], at, want)
				}
			}
		}
	}
}

// TestMQARDistance checks that the extra measurement has the same sequences, with the distance between key and query as
// the tag.
func TestMQARDistance(t *testing.T) {
	s := open(t, MQAR, func(o *mqarOptions) {})
	want := "2 pairs,4 pairs,8 pairs,16 pairs," +
		"distance 1 to 1,distance 2 to 3,distance 4 to 7,distance 8 to 15,distance 16 to 31,distance 32 to 63"
	if got := strings.Join(s.Tags, ","); got != want {
		t.Fatalf("tags %s, want %s", got, want)
	}
	var ex, tagged Example
	for i := range 60 {
		s.Test.Example(i, &ex)
		s.Extra[0].Split.Example(i, &tagged)
		if fmt.Sprint(ex.Tokens, ex.Targets) != fmt.Sprint(tagged.Tokens, tagged.Targets) {
			t.Fatalf("example %d differs", i)
		}
		for at, tag := range tagged.Tags {
			if tag == Ignore {
				continue
			}
			key := at
			for j, k := range ex.Tokens[:at] {
				if k == ex.Tokens[at] && j%2 == 0 {
					key = j
					break
				}
			}
			var low, high int
			if _, err := fmt.Sscanf(s.Tags[tag], "distance %d to %d", &low, &high); err != nil ||
				at-key < low || at-key > high {
				t.Fatalf("example %d: query at %d, key at %d: %s", i, at, key, s.Tags[tag])
			}
		}
	}
}

// TestMQARGaps checks that the first slot drawn follows the power law, by the largest difference of the two
// distribution functions (Kolmogorov and Smirnov), and that power 1 is uniform.
func TestMQARGaps(t *testing.T) {
	const draws, pairs, length = 4000, 2, 44
	for _, power := range []float64{0.01, 1} {
		s := open(t, MQAR, func(o *mqarOptions) {
			o.Power, o.Length, o.MinPairs, o.MaxPairs, o.Noise, o.Train = power, length, pairs, pairs, false, draws
		})
		slots := length/2 - pairs
		counts := make([]float64, slots)
		var ex Example
		for i := range draws {
			s.Train.Example(i, &ex)
			for at := 2 * pairs; at < length; at += 2 {
				if ex.Tokens[at] == ex.Tokens[0] { // the first slot drawn is that of the first key
					counts[at/2-pairs]++
				}
			}
		}
		total := 0.0
		for g := range slots {
			total += math.Pow(float64(g+1), power-1)
		}
		got, want, worst := 0.0, 0.0, 0.0
		for g := range slots {
			got += counts[g] / draws
			want += math.Pow(float64(g+1), power-1) / total
			worst = max(worst, math.Abs(got-want))
		}
		if limit := 1.95 / math.Sqrt(draws); worst > limit { // exceeded for one in a thousand seeds
			t.Errorf("power %g: distribution functions differ by %.3g, allowed %.3g", power, worst, limit)
		}
	}
}

func TestMQARErrors(t *testing.T) {
	for _, c := range []struct {
		change func(*mqarOptions)
		want   string
	}{
		{func(o *mqarOptions) { o.MaxPairs = 1 }, "max_pairs: found 1, want at least min_pairs, which is 2"},
		{func(o *mqarOptions) { o.Length = 63 }, "length: found 63, want at least 64"},
		{func(o *mqarOptions) { o.Vocab = 33 }, "vocab: found 33, want at least 34"},
	} {
		o := MQAR.Options().(*mqarOptions)
		c.change(o)
		if _, err := MQAR.Open(t.Context(), "", o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
	if s := open(t, MQAR, func(o *mqarOptions) { o.Vocab, o.MinPairs = 34, 16 }); s.Vocab != 34 {
		t.Errorf("vocabulary %d, want 34", s.Vocab)
	}
}

func TestSelectiveCopying(t *testing.T) {
	s := open(t, SelectiveCopying, func(o *copyingOptions) { o.Train = 200 })
	if s.MaxLength != 272 || s.Extra[0].Name != "length 512" || s.Train.Len() != 200 || s.Test.Len() != 500 {
		t.Fatalf("set %+v", s)
	}
	check := func(split Split, length int) {
		t.Helper()
		first := map[int]bool{}
		var ex Example
		for i := range 200 {
			split.Example(i, &ex)
			if len(ex.Tokens) != length+16 || len(ex.Targets) != length+16 {
				t.Fatalf("example %d has %d tokens, want %d", i, len(ex.Tokens), length+16)
			}
			var data []int32
			for at, token := range ex.Tokens[:length] {
				if ex.Targets[at] != Ignore {
					t.Fatalf("example %d: target %d at %d", i, ex.Targets[at], at)
				}
				if token != 0 {
					data = append(data, token)
					first[at] = first[at] || len(data) == 1
				}
				if token < 0 || token > 14 {
					t.Fatalf("example %d: found %d at %d, want noise or data", i, token, at)
				}
			}
			if fmt.Sprint(data) != fmt.Sprint(ex.Targets[length:]) {
				t.Fatalf("example %d asks for %v, want %v", i, ex.Targets[length:], data)
			}
			for _, token := range ex.Tokens[length:] {
				if token != 15 {
					t.Fatalf("example %d: found %d, want the marker", i, token)
				}
			}
		}
		if len(first) < 20 {
			t.Errorf("the first data tokens have only %d places", len(first))
		}
	}
	check(s.Train, 256)
	check(s.Test, 256)
	check(s.Extra[0].Split, 512)
	o := SelectiveCopying.Options().(*copyingOptions)
	o.Length = 15
	want := "want at most length, which is 15"
	if _, err := SelectiveCopying.Open(t.Context(), "", o); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
}

// TestDrawn checks that an example depends only on the seed, the split and its index.
func TestDrawn(t *testing.T) {
	few := func(seed uint64, n int) *Set {
		return open(t, SelectiveCopying, func(o *copyingOptions) { o.Seed, o.Train, o.Test = seed, n, n })
	}
	text := func(split Split, i int) string {
		var ex Example
		split.Example(i, &ex)
		return fmt.Sprint(ex.Tokens, ex.Targets)
	}
	want := text(few(1, 5).Train, 3)
	for _, same := range []Split{few(1, 5).Train, few(1, 50).Train} {
		if text(same, 3) != want {
			t.Error("the same seed and index give another example")
		}
	}
	a := few(1, 5)
	others := []string{text(a.Train, 2), text(a.Train, 4), text(a.Test, 3),
		text(a.Extra[0].Split, 3), text(few(2, 5).Train, 3)}
	for i, other := range others {
		if other == want {
			t.Errorf("another index, split or seed (%d) gives the same example", i)
		}
	}
}
