package data

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
)

func loader(t testing.TB, tok *Tokens, opt LoaderOptions) *Loader {
	t.Helper()
	l, err := NewLoader(tok, opt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// next returns a copy of the next batch.
func next(l *Loader) (inputs, targets []int32, reset bool) {
	n := l.opt.BatchSize * l.opt.SeqLen
	inputs, targets = make([]int32, n), make([]int32, n)
	reset, err := l.Next(inputs, targets)
	if err != nil {
		panic(err)
	}
	return inputs, targets, reset
}

// TestShuffleCoversAll checks that in each epoch every pair comes at most once and all but (n−1) mod seq_len come, and
// that targets follow their inputs.
func TestShuffleCoversAll(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seqLen := rapid.IntRange(1, 9).Draw(r, "seq_len")
		n := rapid.IntRange(seqLen+1, 120).Draw(r, "tokens")
		opt := LoaderOptions{BatchSize: rapid.IntRange(1, 5).Draw(r, "batch_size"), SeqLen: seqLen,
			Seed: rapid.Uint64().Draw(r, "seed")}
		l := loader(t, count(t, n), opt)
		var sequences [][]int32
		for len(sequences) < 4*l.total {
			in, tg, reset := next(l)
			if !reset {
				r.Fatal("no reset")
			}
			for i := range in {
				if tg[i] != in[i]+1 {
					r.Fatalf("target %d after input %d", tg[i], in[i])
				}
			}
			for s := range slices.Chunk(in, seqLen) {
				sequences = append(sequences, s)
			}
		}
		for epoch := range 4 {
			seen := make([]int, n-1)
			for _, s := range sequences[epoch*l.total:][:l.total] {
				for i, id := range s {
					seen[id]++
					if i > 0 && id != (s[i-1]+1)%int32(n-1) {
						r.Fatalf("sequence %v is not contiguous", s)
					}
				}
			}
			missing := 0
			for id, times := range seen {
				if times > 1 {
					r.Fatalf("epoch %d: pair %d came %d times", epoch, id, times)
				}
				missing += 1 - times
			}
			if missing != (n-1)%seqLen || l.TokensPerEpoch() != n-1-missing {
				r.Fatalf("epoch %d: %d of %d pairs are missing", epoch, missing, n-1)
			}
		}
	})
}

func TestShuffleDependsOnSeedAndEpoch(t *testing.T) {
	tok := count(t, 1001)
	opt := LoaderOptions{BatchSize: 100, SeqLen: 10, Seed: 1}
	a, b := loader(t, tok, opt), loader(t, tok, opt)
	first, _, _ := next(a)
	if same, _, _ := next(b); !slices.Equal(first, same) {
		t.Error("same seed, other batch")
	}
	if second, _, _ := next(a); slices.Equal(first, second) {
		t.Error("both epochs have the same order")
	}
	opt.Seed = 2
	if other, _, _ := next(loader(t, tok, opt)); slices.Equal(first, other) {
		t.Error("another seed, same batch")
	}
	starts := map[int32]bool{} // starts of sequences modulo their length, new in each epoch
	for range 50 {
		in, _, _ := next(a)
		starts[in[0]%10] = true
	}
	if len(starts) < 5 {
		t.Errorf("sequences start at %d of 10 phases", len(starts))
	}
}

// TestShuffleIsFixed checks fixed batches: a cursor saved by one version must mean the same in the next.
func TestShuffleIsFixed(t *testing.T) {
	in, _, _ := next(loader(t, count(t, 33), LoaderOptions{BatchSize: 8, SeqLen: 4, Seed: 42}))
	want := []int32{11, 12, 13, 14, 27, 28, 29, 30, 3, 4, 5, 6, 31, 0, 1, 2, 7, 8, 9, 10, 23, 24, 25, 26,
		15, 16, 17, 18, 19, 20, 21, 22}
	if !slices.Equal(in, want) {
		t.Errorf("found %v, want %v", in, want)
	}
}

// TestStreamIsContiguous checks that each row continues where it ended, through an epoch, and that rows do not overlap.
func TestStreamIsContiguous(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b, n := rapid.IntRange(1, 4).Draw(r, "batch_size"), rapid.IntRange(1, 7).Draw(r, "seq_len")
		size := rapid.IntRange(b*n+1, 150).Draw(r, "tokens")
		l := loader(t, count(t, size),
			LoaderOptions{BatchSize: b, SeqLen: n, Seed: rapid.Uint64().Draw(r, "seed"), Mode: Stream})
		row := (size - 1) / b
		steps := row / n
		last := make([]int32, b)
		for step := range 4 * steps {
			in, tg, reset := next(l)
			if reset != (step%steps == 0) {
				r.Fatalf("step %d of %d: reset %v", step, steps, reset)
			}
			for i := range b {
				x, y := in[i*n:][:n], tg[i*n:][:n]
				if reset {
					if skip := int(x[0]) - i*row; skip < 0 || skip > row-steps*n || x[0] != in[0]+int32(i*row) {
						r.Fatalf("row %d of %d pairs starts at %d", i, row, x[0])
					}
				} else if x[0] != last[i] {
					r.Fatalf("row %d goes on at %d, want %d", i, x[0], last[i])
				}
				for j := range x {
					if x[j] != x[0]+int32(j) || y[j] != x[j]+1 {
						r.Fatalf("row %d: inputs %v, targets %v", i, x, y)
					}
				}
				last[i] = y[n-1]
			}
		}
		if l.TokensPerEpoch() != steps*b*n || l.Epoch() != 4 {
			r.Fatalf("%d tokens per epoch, epoch %v", l.TokensPerEpoch(), l.Epoch())
		}
	})
}

func TestLoaderErrors(t *testing.T) {
	for _, tc := range []struct {
		tokens int
		opt    LoaderOptions
		want   []string
	}{
		{8, LoaderOptions{BatchSize: 1, SeqLen: 8},
			[]string{"found 8 tokens", "want at least 9", "seq_len of at most 7"}},
		{1, LoaderOptions{BatchSize: 1, SeqLen: 1}, []string{"found 1 tokens", "want at least 2"}},
		{21, LoaderOptions{BatchSize: 5, SeqLen: 5, Mode: Stream},
			[]string{"found 21 tokens", "4 for each of 5 rows", "want 5", "smaller batch_size or seq_len"}},
		{9, LoaderOptions{BatchSize: 0, SeqLen: 2}, []string{"batch_size 0"}},
		{9, LoaderOptions{BatchSize: 1, SeqLen: -2}, []string{"seq_len -2"}},
		{9, LoaderOptions{BatchSize: 1, SeqLen: 2, Mode: "sorted"}, []string{`"sorted"`, `"shuffle"`, `"stream"`}},
	} {
		_, err := NewLoader(count(t, tc.tokens), tc.opt)
		wantError(t, err, tc.want...)
	}
	l := loader(t, count(t, 9), LoaderOptions{BatchSize: 2, SeqLen: 2})
	defer func() {
		if recover() == nil {
			t.Error("Next into slices of the wrong size: no panic")
		}
	}()
	l.Next(make([]int32, 4), make([]int32, 3))
}

// TestCursorResumes checks that a new loader with a cursor saved at any point, as JSON, returns the same batches as the
// old one.
func TestCursorResumes(t *testing.T) {
	tok := count(t, 97)
	for _, mode := range []Mode{Shuffle, Stream} {
		for _, batchSize := range []int{1, 3, 7} {
			opt := LoaderOptions{BatchSize: batchSize, SeqLen: 4, Seed: 1<<64 - 5, Mode: mode}
			whole := loader(t, tok, opt)
			var batches []string
			var cursors [][]byte
			for range 60 {
				b, err := json.Marshal(whole.Cursor())
				if err != nil {
					t.Fatal(err)
				}
				cursors = append(cursors, b)
				batches = append(batches, fmt.Sprint(next(whole)))
			}
			for at, saved := range cursors {
				var c Cursor
				if err := json.Unmarshal(saved, &c); err != nil {
					t.Fatal(err)
				}
				l := loader(t, tok, opt)
				if err := l.Seek(c); err != nil {
					t.Fatal(err)
				}
				if l.Cursor() != c {
					t.Fatalf("cursor %+v became %+v", c, l.Cursor())
				}
				for i := at; i < min(at+20, len(batches)); i++ {
					if got := fmt.Sprint(next(l)); got != batches[i] {
						t.Fatalf("%s, batch size %d, resumed at %d: batch %d is %s, want %s", mode,
							batchSize, at, i, got, batches[i])
					}
				}
			}
		}
	}
}

func TestSeekOtherBatchSize(t *testing.T) {
	tok := count(t, 101)
	a := loader(t, tok, LoaderOptions{BatchSize: 2, SeqLen: 5})
	next(a)
	b := loader(t, tok, LoaderOptions{BatchSize: 4, SeqLen: 5})
	if err := b.Seek(a.Cursor()); err != nil {
		t.Fatal(err)
	}
	got, _, _ := next(b)
	x, _, _ := next(a)
	y, _, _ := next(a)
	if want := slices.Concat(x, y); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestSeekErrors(t *testing.T) {
	tok := count(t, 50)
	l := loader(t, tok, LoaderOptions{BatchSize: 2, SeqLen: 4, Seed: 3, Mode: Stream})
	next(l)
	good := l.Cursor()
	for want, change := range map[string]func(*Cursor){
		"tokens: found 00ff, want " + tok.Hash(): func(c *Cursor) { c.Tokens = "00ff" },
		"mode: found shuffle, want stream":       func(c *Cursor) { c.Mode = Shuffle },
		"seed: found 4, want 3":                  func(c *Cursor) { c.Seed = 4 },
		"seq_len: found 8, want 4":               func(c *Cursor) { c.SeqLen = 8 },
		"batch_size: found 3, want 2":            func(c *Cursor) { c.BatchSize = 3 },
		"epoch: found -1, want at least 0":       func(c *Cursor) { c.Epoch = -1 },
		"position: found 7, want 0 to 6":         func(c *Cursor) { c.Position = 7 },
		"position: found -1, want 0 to 6":        func(c *Cursor) { c.Position = -1 },
	} {
		c := good
		change(&c)
		wantError(t, l.Seek(c), "cursor: "+want)
		if l.Cursor() != good {
			t.Errorf("%s: the loader moved", want)
		}
	}
	wantError(t, l.Seek(Cursor{}), "tokens:", "mode:", "seed:", "seq_len:", "batch_size:") // all differences at once
}

func TestNextDoesNotAllocate(t *testing.T) {
	for _, mode := range []Mode{Shuffle, Stream} {
		l := loader(t, count(t, 100_000), LoaderOptions{BatchSize: 4, SeqLen: 64, Mode: mode})
		in, tg := make([]int32, 256), make([]int32, 256)
		if n := testing.AllocsPerRun(100, func() { l.Next(in, tg) }); n > 0 {
			t.Errorf("%s: %v allocations in a batch", mode, n)
		}
	}
}
