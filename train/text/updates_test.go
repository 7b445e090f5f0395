package text

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// swift returns the configuration of a run with so few tokens that an update takes a millisecond.
func swift(t testing.TB, layers string) Config {
	c := small(t)
	c.Model.AttnIdx, c.Model.Layers, c.Model.DModel, c.Model.NumHeads = nil, layers, 8, 1
	c.Train.SeqLen, c.Train.BatchSize, c.Train.Shards = 12, 2, 2
	return c
}

// TestLongUpdates checks that an update in chunks, and one with recomputation, has the same gradients and losses as one
// at once, with documents, dropout, shards, carried states and frozen layers.
func TestLongUpdates(t *testing.T) {
	file := jsonl(t, documents(40)...)
	for _, k := range []struct {
		layers string
		freeze []string
	}{{"mamba,h3", nil}, {"h3,rwkv7/channel-mix*2", nil}, {"h3*3", []string{"backbone.embeddings",
		"backbone.layers.0"}}} {
		c := swift(t, k.layers)
		c.Data, c.Freeze = []string{file}, k.freeze
		loss, whole := longGradient(t, c)
		c.Train.Recompute = true
		if mean, again := longGradient(t, c); mean != loss || !slices.EqualFunc(again, whole, slices.Equal) {
			t.Errorf("%s again: loss %v, want %v; gradients %.2g apart", k.layers, mean, loss, apart(whole, again))
		}
		c.Train.Recompute, c.Train.Chunk = false, 5
		dropped, _ := longGradient(t, c)
		c.Train.Chunk = 0
		c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout = 0, 0, 0
		loss, whole = longGradient(t, c)
		if math.Abs(dropped-loss) < 1e-4 {
			t.Errorf("%s: chunks have no dropout", k.layers)
		}
		for _, chunk := range []int{3, 5, 11, 12} {
			c.Train.Chunk, c.Train.Gradients = chunk, ""
			if mean, got := longGradient(t, c); apart(whole, got) > 1e-4 || math.Abs(loss-mean) > 1e-5 {
				t.Errorf("%s in chunks of %d: loss %v, want %v; gradients %.2g apart", k.layers, chunk, mean, loss,
					apart(whole, got))
			}
			c.Train.Gradients = gradientsStopped
			if mean, got := longGradient(t, c); math.Abs(loss-mean) > 1e-5 || (apart(whole,
				got) > 1e-4) != (chunk < 12) {
				t.Errorf("%s in chunks of %d, stopped: loss %v, want %v; gradients %.2g apart", k.layers, chunk, mean,
					loss,
					apart(whole, got))
			}
		}
	}
	single := swift(t, "s4d")
	single.Train.BatchSize, single.Train.Shards = 1, 1
	single.Model.EmbedDropout, single.Model.AttnDropout, single.Model.ResidDropout = 0, 0, 0
	_, whole := longGradient(t, single)
	single.Train.Chunk = 4
	if _, got := longGradient(t, single); apart(whole, got) > 1e-4 {
		t.Errorf("one state in chunks: gradients %.2g apart", apart(whole, got))
	}
	// In chunks with stopped gradients, attention sees one chunk back.
	seen := map[int]float64{}
	for _, chunk := range []int{0, 3} {
		c := swift(t, "attention")
		c.Train.Chunk, c.Train.Gradients = chunk, gradientsStopped
		c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout = 0, 0, 0
		r := newRun(t, c)
		toymodel.Randomize(r.work.Model, 0.5)
		n, err := r.work.Read(0)
		if err != nil {
			t.Fatal(err)
		}
		if seen[chunk], _, _, err = r.loop.Gradient(n); err != nil {
			t.Fatal(err)
		}
	}
	if math.Abs(seen[0]-seen[3]) < 1e-3 {
		t.Errorf("losses %v: attention sees the whole sequence", seen)
	}
	// With carried states, the second update continues from those after the first, for any chunks.
	second := func(change func(l *Loop)) (loss float64, states []float32, grads [][]float32) {
		c := swift(t, "mamba,h3")
		c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout = 0, 0, 0
		c.Data, c.Train.CarryState = []string{file}, true
		change(&c.Train)
		r := newRun(t, c)
		for range 2 {
			n, err := r.work.Read(0)
			if err != nil || n != 4 {
				t.Fatal(n, err)
			}
			l, count, g, err := r.loop.Gradient(n)
			if err != nil {
				t.Fatal(err)
			}
			loss, grads = l, nil
			for _, x := range g.Each() {
				grads = append(grads, slices.Clone(x.Elements()))
				for i := range grads[len(grads)-1] {
					grads[len(grads)-1][i] /= float32(count)
				}
			}
		}
		for _, x := range carriedTensors(r.work.carried) {
			v, err := x.Float32()
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, v...)
		}
		return loss, states, grads
	}
	loss, states, grads := second(func(*Loop) {})
	for chunk, how := range map[int]string{3: gradientsExact, 5: gradientsExact, 4: gradientsStopped} {
		l, s, g := second(func(l *Loop) { l.Chunk, l.Gradients = chunk, how })
		if math.Abs(l-loss) > 1e-5 || apart([][]float32{states}, [][]float32{s}) > 1e-4 || how == gradientsExact &&
			apart(grads, g) > 1e-4 {
			t.Errorf("carried in chunks of %d: loss %v, want %v; states %.2g and gradients %.2g apart", chunk, l, loss,
				apart([][]float32{states}, [][]float32{s}), apart(grads, g))
		}
	}
	for _, how := range []string{gradientsExact, gradientsStopped} { // a shard has no targets, or one
		c := swift(t, "mamba,h3")
		c.Train.Chunk, c.Train.Gradients = 5, how
		c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout = 0, 0, 0
		r := newRun(t, c)
		if _, err := r.work.Read(0); err != nil {
			t.Fatal(err)
		}
		last := r.work.targets[47]
		for i := range r.work.targets {
			r.work.targets[i] = data.Ignore
		}
		for _, id := range []int32{data.Ignore, last} {
			r.work.targets[47] = id
			loss, _, sum, err := r.loop.Gradient(4)
			if one := loss > 1; err != nil || one != (id == last) || loss != loss {
				t.Errorf("a loss of %v, %v, of the target %d", loss, err, id)
			}
			for _, g := range sum.Each() {
				for _, v := range g.Elements() {
					if v != v || id != last && v != 0 {
						t.Fatalf("a gradient of %v of the target %d", v, id)
					}
				}
			}
			r.work.Config.Train.Chunk = 0
			if whole, _, _, err := r.loop.Gradient(4); err != nil || math.Abs(whole-loss) > 1e-5 {
				t.Errorf("a loss of %v, %v; in chunks %v", whole, err, loss)
			}
			r.work.Config.Train.Chunk = 5
		}
	}
	failed := errors.New("no")
	for _, change := range []func(l *Loop){func(l *Loop) { l.Recompute = true }, func(l *Loop) { l.Chunk = 5 },
		func(l *Loop) { l.Chunk, l.Gradients = 5, gradientsStopped }} {
		c := swift(t, "mamba,h3")
		change(&c.Train)
		r := newRun(t, c)
		w := r.work
		if _, err := w.Read(0); err != nil {
			t.Fatal(err)
		}
		s := train.Shard{First: 2, End: 4}
		weighed := 0
		loss, n, err := w.Through(r.loop.Tape(), s, func(n int) float64 { weighed = n; return 1 },
			func(float64) error { return failed })
		if !errors.Is(err, failed) || n != 24 || !w.Long() || loss < 4 || loss > 7 || !c.Train.Recompute &&
			weighed != 24 {
			t.Errorf("%+v: loss %v of %d targets, %v", c.Train, loss, n, err)
		}
		if got := w.StateBytes(); (got > 0) != (c.Train.Chunk > 0 && c.Train.Gradients == "") {
			t.Errorf("%+v: states of %d bytes", c.Train, got)
		}
	}
	for chunk, long := range map[int]bool{0: false, 12: false, 13: false, 11: true} {
		w := &Work{Config: Config{Train: Loop{SeqLen: 12, Chunk: chunk}}}
		if w.Long() != long {
			t.Errorf("chunks of %d of 12 are long: %v", chunk, w.Long())
		}
	}
	c := swift(t, "h3*2")
	c.Model.MLP, c.Train.Recompute = "swiglu-experts(experts=4,balance=1)", true
	r := newRun(t, c)
	_, _, err := r.loop.Step()
	toymodel.WantError(t, err, "train.recompute: found layer 0, whose experts are balanced")
	shared := swift(t, "zamba2-shared(num_heads=2)>mamba2(headdim=8),zamba2-shared(num_heads=2)>mamba2(headdim=8)")
	for recompute, want := range map[bool]string{true: "train.recompute: found layers that share a block", false: ""} {
		m, err := model.New(shared.shape(256))
		if err != nil {
			t.Fatal(err)
		}
		shared.Train.Recompute = recompute
		if err := shared.Train.chunked(m); (err == nil) != (want == "") || err != nil &&
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
	m := toymodel.New(t, "attention", 23)
	for l, ok := range map[Loop]bool{{SeqLen: 12}: true, {SeqLen: 12, Chunk: 12}: true, {SeqLen: 12, Chunk: 11}: false,
		{SeqLen: 12, Chunk: 11, Gradients: gradientsStopped}: true} {
		if err := l.chunked(m); (err == nil) != ok {
			t.Errorf("%+v of attention: %v", l, err)
		}
	}
}

// TestSequencesOfUpdates checks which sequences are skipped, the note on documents, and the spans of examples.
func TestSequencesOfUpdates(t *testing.T) {
	var chats []any
	for i := range 30 {
		chats = append(chats, map[string]string{"prompt": strings.Repeat("q", 50), "completion": fmt.Sprint("r", i%10)})
	}
	c := swift(t, "mamba")
	c.Data, c.Train.BatchSize, c.Train.Shards = []string{jsonl(t, chats...)}, 1, 1
	r := newRun(t, c)
	w := r.work
	for range 20 {
		if n, err := w.Read(0); err != nil || n != 1 || countAsked(w.targets) == 0 {
			t.Fatalf("%d sequences, %v, of which %d targets count", n, err, countAsked(w.targets))
		}
	}
	one := c
	one.Data = []string{jsonl(t, slices.Repeat([]any{map[string]string{"prompt": strings.Repeat("q", 20),
		"completion": "r"}}, 20)...)}
	if n, err := newRun(t, one).work.Read(0); err != nil || n != 1 {
		t.Errorf("updates of one target: %d sequences, %v", n, err)
	}
	if w.carried != nil {
		t.Error("states are carried")
	}
	passed := false
	c.Train.CarryState = true
	w = newRun(t, c).work
	before := []*model.State(nil)
	epoch := 0.0
	for range 130 { // more updates than an epoch has
		if n, err := w.Read(0); err != nil || n != 1 || len(w.carried) != 1 {
			t.Fatal(n, err)
		}
		passed = passed || countAsked(w.targets) == 0
		now := math.Ceil(w.loader.Epoch())
		if before != nil && (before[0] == w.carried[0]) != (now == epoch) {
			t.Error("states that go on are made anew, or go on from the end of the text to its beginning")
		}
		before, epoch = slices.Clone(w.carried), now
	}
	if !passed {
		t.Error("states are not carried through questions")
	}
	if notes := w.Data.documentsNote(); len(notes) != 1 || notes[0] != fmt.Sprintf(
		"30 documents, which see nothing of each other; 54 of %d training tokens are of replies, which count",
		w.Data.Train.Len()) {
		t.Errorf("notes %q", notes)
	}
	spans, n, ok, err := w.Data.Example(1, 1000)
	if err != nil || !ok || n != 52 || !slices.Equal(spans, []Span{{strings.Repeat("q", 50), true, 50}, {"r1", false,
		2}}) {
		t.Errorf("%+v, %d, %v, %v", spans, n, ok, err)
	}
	if spans, n, ok, err = w.Data.Example(2, 51); err != nil || !ok || n != 52 || !slices.Equal(spans,
		[]Span{{strings.Repeat("q", 50), true, 50}, {"r", false, 1}}) {
		t.Errorf("%+v, %d, %v, %v", spans, n, ok, err)
	}
	for i, want := range map[int]bool{0: true, 26: true, 27: false, 29: false, 30: false} {
		if _, n, ok, err := w.Data.Example(i, 5); ok != want || err != nil || (n > 0) != want {
			t.Errorf("document %d is there: %v, with %d tokens, %v", i, ok, n, err)
		}
	}
	joined := &Dataset{Train: w.Data.Train, Tokenizer: tokenizer.Bytes()}
	for _, k := range []struct {
		lines []any
		join  bool
		want  string
	}{{[]any{map[string]string{"text": "ab"}, map[string]string{"text": "c"}}, false,
		"[2 documents, which see nothing of each other]"}, {[]any{map[string]string{"text": "ab"},
		map[string]string{"text": "c"}}, true, "[2 documents]"}, {[]any{map[string]string{"text": "ab"}}, false,
		"[]"}} {
		tokens, corpus, _, err := Tokenize(t.Context(), tokenizer.Bytes(), []string{jsonl(t, k.lines...)},
			ReadOptions{Cache: data.CacheNone, Join: k.join})
		if err != nil {
			t.Fatal(err)
		}
		joined.Train = tokens
		if got := fmt.Sprint(joined.documentsNote()); got != k.want {
			t.Errorf("notes %s, want %s", got, k.want)
		}
		spans, n, ok, err := joined.Example(0, 7)
		if err != nil || !ok || n != 2 || !slices.Equal(spans, []Span{{"ab", false, 2}}) {
			t.Errorf("%+v, %d, %v, %v", spans, n, ok, err)
		}
		corpus.Close()
	}
	all := w.Data.Valid // three documents of about 53 tokens
	for pairs, want := range map[int]int{20: 81, 50: 51, 51: 52, 1000: all.Len(), all.Len() - 1: all.Len()} {
		part, err := firstAsked(all, pairs)
		if n, _, _ := part.Targets(); err != nil || part.Len() != want || n == 0 {
			t.Errorf("the first %d pairs are %d tokens, %v, with %d that count; want %d", pairs, part.Len(), err, n,
				want)
		}
	}
	if part, err := firstAsked(joined.Train, 1); err != nil || part.Len() != 2 {
		t.Errorf("the first pair is %d tokens, %v", part.Len(), err)
	}
	only := small(t) // its training part has no reply
	only.Data, only.Train.SeqLen, only.Train.BatchSize, only.Train.Shards = []string{jsonl(t, map[string]string{
		"prompt": strings.Repeat("q", 90), "completion": "r"})}, 8, 1, 1
	only.Valid = []string{jsonl(t, chats[0])}
	d, err := only.OpenData(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.Train = d.Train.Slice(0, 80)
	w, err = New(only, d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Read(0); err == nil || err.Error() !=
		"training text: found no token of a reply in it, want at least one" {
		t.Errorf("nothing to learn: %v", err)
	}
}
