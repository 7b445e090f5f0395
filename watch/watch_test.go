package watch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/watch"
)

// layersOf lists layers with every kind of state: recurrent, growing, and of limited length.
var layersOf = []string{"mamba2(d_state=4,headdim=4)", "h3(head_dim=4)", "attention", "hyena(l_max=64)"}

func fresh(t *testing.T, layers string) *model.Model {
	return toymodel.Fresh(t, func(c *model.Config) { c.Layers, c.VocabSize, c.NumHeads = layers, 256, 2 })
}

func open(t *testing.T, m *model.Model, o watch.Options) *watch.Watcher {
	t.Helper()
	w, err := watch.New(m, tokenizer.Bytes(), nil, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// linesOf returns n random lines, most of them short and some empty.
func linesOf(seed uint64, n int) (all []string) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for range n {
		length := rng.IntN(12)
		if rng.IntN(10) == 0 {
			length = 20 + rng.IntN(30)
		}
		b := make([]byte, length, length+1)
		for i := range b {
			b[i] = byte(rng.IntN(256))
		}
		all = append(all, strings.ReplaceAll(string(b), "\n", " ")+"\n")
	}
	return all
}

func read(t *testing.T, w *watch.Watcher, name string, lines ...string) (all []watch.Report) {
	t.Helper()
	for _, text := range lines {
		r, err := w.Read(t.Context(), watch.Line{Stream: w.Stream(name), Text: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r...)
	}
	return all
}

// TestSameBits checks that a stream has the same reports alone, together with others, and if its state is saved and
// restored between lines, for every kind of model.
func TestSameBits(t *testing.T) {
	for _, layers := range layersOf {
		t.Run(layers, func(t *testing.T) {
			o := watch.DefaultOptions()
			o.Rate, o.HalfLife, o.Score, o.Keep, o.Ranges = 0.05, 1000, watch.ScoreBits, 40, true
			m := fresh(t, layers)
			a, b := linesOf(1, 130), linesOf(2, 130)
			want := read(t, open(t, m, o), "a", a...)

			w := open(t, m, o)
			var got []watch.Report
			for i := range a {
				if i == 40 || i == 117 {
					var file bytes.Buffer
					if err := w.Encode(&file); err != nil {
						t.Fatal(err)
					}
					w = open(t, m, o)
					if note, err := w.Restore(file.Bytes()); err != nil || note != "" {
						t.Fatal(note, err)
					}
				}
				r, err := w.Read(t.Context(), watch.Line{Stream: w.Stream("b"), Text: []byte(b[i])},
					watch.Line{Stream: w.Stream("a"), Text: []byte(a[i])})
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, r[1])
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("reports differ beside another stream")
			}
			alarms := slices.IndexFunc(want, func(r watch.Report) bool { return r.Alarm })
			if s := w.Stream("a"); s.Lines != 130 || alarms < 0 || s.Alarms == 0 {
				t.Errorf("counts %+v, first alarm %d", s.Counts, alarms)
			}
		})
	}
}

// TestBitsAreTheModels checks that the bits of lines add up to those of the model for the whole text after a newline,
// and that with Reset a line has the bits that it has alone.
func TestBitsAreTheModels(t *testing.T) {
	m := fresh(t, layersOf[0])
	lines := linesOf(3, 20)
	ids := []int32{'\n'}
	for _, c := range []byte(strings.Join(lines, "")) {
		ids = append(ids, int32(c))
	}
	sum := 0.0
	for _, p := range toymodel.LogProbs(m, ids) {
		sum -= p / math.Ln2
	}
	got := 0.0
	for _, r := range read(t, open(t, m, watch.DefaultOptions()), "", lines...) {
		got += r.Bits
	}
	if math.Abs(got/sum-1) > 1e-5 {
		t.Errorf("%.6f bits, the model has %.6f", got, sum)
	}
	o := watch.DefaultOptions()
	o.Reset = 1
	w := open(t, m, o)
	twice := read(t, w, "", lines[0], lines[1], lines[0])
	if twice[0].Bits != twice[2].Bits {
		t.Errorf("the same line has %v and %v bits with a state that starts again", twice[0].Bits, twice[2].Bits)
	}
	if kept := read(t, open(t, m, watch.DefaultOptions()), "", lines[0], lines[1], lines[0]); kept[0].Bits ==
		kept[2].Bits {
		t.Error("a state that is carried on changes nothing")
	}
}

// TestUnreadable checks that a line that the tokenizer cannot encode raises an alarm and does not change the state.
func TestUnreadable(t *testing.T) {
	tok, err := tokenizer.Characters(strings.NewReader("abc\n"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := watch.New(fresh(t, layersOf[0]), tok, nil, watch.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	r := read(t, w, "", "abc\n", "xyz\n", "cab\n")
	plain, err := watch.New(fresh(t, layersOf[0]), tok, nil, watch.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if want := read(t, plain, "", "abc\n", "cab\n"); r[2].Bits != want[1].Bits || !r[1].Alarm ||
		r[1].Unreadable == "" || r[0].Alarm {
		t.Errorf("reports %+v", r)
	}
}

// TestBadState checks that an invalid file gives an error that names the field, and that thresholds and counts are
// restored even if the states are of another model.
func TestBadState(t *testing.T) {
	m, o := fresh(t, layersOf[0]), watch.DefaultOptions()
	w := open(t, m, o)
	read(t, w, "a", linesOf(1, 200)...)
	var file bytes.Buffer
	if err := w.Encode(&file); err != nil {
		t.Fatal(err)
	}
	for change, want := range map[string]string{
		`{"hippo>x{`:                         "no state of hippo watch",
		`"hippo_watch":1>"hippo_watch":2`:    "found version 2, want 1",
		`"lines":200>"lines":-1`:             "streams[0]: lines: found -1",
		`"state":">"state":"AAAA`:            "streams[0].state: it is damaged",
		`"scores":{"half_life":20000>"x":{"`: "",
	} {
		from, to, _ := strings.Cut(change, ">")
		text := strings.Replace(file.String(), from, to, 1)
		if _, err := open(t, m, o).Restore([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
	o.Reset = 5
	note, err := open(t, m, o).Restore(file.Bytes())
	if err != nil || !strings.Contains(note, "thresholds are for scores") {
		t.Errorf("note %q, %v, want that thresholds start again", note, err)
	}
	o.Reset = 0
	other := open(t, toymodel.Fresh(t, func(c *model.Config) { c.VocabSize, c.Layers = 256, layersOf[1] }), o)
	note, err = other.Restore(file.Bytes())
	if err != nil || !strings.Contains(note, "of another model") || other.Threshold(other.Stream("a")) !=
		w.Threshold(w.Stream("a")) || other.Stream("a").Lines != 200 {
		t.Errorf("note %q, %v, threshold %g", note, err, other.Threshold(other.Stream("a")))
	}
	read(t, other, "a", "on\n")
}

// TestBrokenWeights checks that a model whose logits are not finite gives an error, not a score.
func TestBrokenWeights(t *testing.T) {
	m := toymodel.Fresh(t, func(c *model.Config) { c.VocabSize, c.Layers, c.MLP = 256, layersOf[0]+"*2", "gelu" })
	toymodel.Ruin(m)
	w := open(t, m, watch.DefaultOptions())
	_, err := w.Read(t.Context(), watch.Line{Stream: w.Stream(""), Text: []byte("x\n")})
	toymodel.WantError(t, err, "not finite")
}

// TestOptions checks that an option out of range gives an error that names it.
func TestOptions(t *testing.T) {
	m := fresh(t, layersOf[0])
	for want, change := range map[string]func(o *watch.Options){
		"rate: found 0":       func(o *watch.Options) { o.Rate = 0 },
		"rate: found NaN":     func(o *watch.Options) { o.Rate = math.NaN() },
		"half-life: found 0":  func(o *watch.Options) { o.HalfLife = 0 },
		`score: found "x"`:    func(o *watch.Options) { o.Score = "x" },
		"reset: found -1":     func(o *watch.Options) { o.Reset = -1 },
		"keep: found 0":       func(o *watch.Options) { o.Keep = 0 },
		"learn: found -1":     func(o *watch.Options) { o.Learn.Every = -1 },
		"tokens to learn fro": func(o *watch.Options) { o.Learn.Every, o.Learn.Tokens = 1, 1 },
		"round: found 0":      func(o *watch.Options) { o.Learn.Every, o.Learn.Steps = 1, 0 },
		"rate: found 2":       func(o *watch.Options) { o.Learn.Every, o.Learn.LR = 1, 2 },
		"time of a round":     func(o *watch.Options) { o.Learn.Every, o.Learn.Time = 1, 0 },
	} {
		o := watch.DefaultOptions()
		change(&o)
		_, err := watch.New(m, tokenizer.Bytes(), nil, o)
		toymodel.WantError(t, err, want)
	}
}

// TestRun checks that lines of several streams that arrive together are reported in the order of each stream, and that
// Run returns when the context is done.
func TestRun(t *testing.T) {
	w := open(t, fresh(t, layersOf[0]), watch.DefaultOptions())
	lines := make(chan watch.Line, 100)
	for i := range 90 {
		lines <- watch.Line{Stream: w.Stream(fmt.Sprint(i % 3)), Text: fmt.Append(nil, i, "\n")}
	}
	close(lines)
	last := map[string]int{}
	emit := func(reports []watch.Report) error {
		for _, r := range reports {
			var i int
			fmt.Sscan(string(r.Text), &i)
			if before, ok := last[r.Stream]; ok && i != before+3 {
				t.Errorf("stream %s: line %d after %d", r.Stream, i, before)
			}
			last[r.Stream] = i
		}
		return nil
	}
	if err := w.Run(t.Context(), lines, emit); err != nil || last["0"] != 87 || last["2"] != 89 {
		t.Errorf("%v, last lines %v", err, last)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := w.Run(ctx, make(chan watch.Line), emit); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// FuzzRestore checks that no file makes Restore panic, and that restored streams can be read further.
func FuzzRestore(f *testing.F) {
	c := model.DefaultConfig()
	c.VocabSize, c.DModel, c.Layers, c.MLP = 256, 8, layersOf[0], model.MLPNone
	m, err := model.New(c)
	if err != nil {
		f.Fatal(err)
	}
	m.Init(1)
	opened := func() *watch.Watcher {
		w, err := watch.New(m, tokenizer.Bytes(), nil, watch.DefaultOptions())
		if err != nil {
			f.Fatal(err)
		}
		return w
	}
	w := opened()
	var file bytes.Buffer
	if _, err := w.Read(f.Context(), watch.Line{Stream: w.Stream("a"), Text: []byte("x\n")}); err != nil {
		f.Fatal(err)
	}
	if err := w.Encode(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte(`{"hippo_watch":1,"score":"peak","streams":[` +
		`{"scores":{"half_life":1,"weight":1,"bins":[1],"weights":[1]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w := opened()
		if _, err := w.Restore(data); err != nil {
			return
		}
		for _, s := range w.Streams() {
			if _, err := w.Read(t.Context(), watch.Line{Stream: s, Text: []byte("y\n")}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
