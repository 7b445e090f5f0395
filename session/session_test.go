package session

import (
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestRewindLearnsAgain checks that a rewound text has the log-probabilities of a text that was never longer, although
// its last piece was longer and had other rounding errors.
func TestRewindLearnsAgain(t *testing.T) {
	differ := false
	for _, layers := range []string{"h3", "mamba2", "dss"} {
		m, ids := language(t, layers), text(3, 60)
		long := New(m, tokenizer.Bytes(), Options{LogProbs: true})
		if err := long.Append(t.Context(), ids); err != nil {
			t.Fatal(err)
		}
		for n := 2; n < len(ids); n++ {
			short, back := New(m, tokenizer.Bytes(), Options{LogProbs: true}), long.Fork()
			if err := short.Append(t.Context(), ids[:n]); err != nil {
				t.Fatal(err)
			}
			if again, err := back.Rewind(t.Context(), n); err != nil || again != n {
				t.Fatalf("%d of %d read again: %v", again, n, err)
			}
			if !slices.Equal(back.LogProbs()[1:], short.LogProbs()[1:]) {
				t.Errorf("%s: rewound to %d there are other log-probabilities", layers, n)
			}
			differ = differ || !slices.Equal(short.LogProbs()[1:], long.LogProbs()[1:n])
		}
	}
	if !differ {
		t.Error("the pieces are rounded alike, which shows nothing")
	}
}

// TestMarksAreALadder checks that a text read in one call has marks at doubling distances from its end, within the
// budget, so that a rewind reads again at most as many ids as it goes back, plus two chunks.
func TestMarksAreALadder(t *testing.T) {
	m := language(t, "mamba(d_state=2,expand=1)")
	const n = 5000
	chunk := Chunk(m)
	s := New(m, tokenizer.Bytes(), Options{})
	if err := s.Append(t.Context(), text(1, n)); err != nil {
		t.Fatal(err)
	}
	if most := 9; len(s.marks) > most {
		t.Errorf("%d marks in %d ids, want at most %d", len(s.marks), n, most)
	}
	for to := n - 1; to > 0; to -= 37 {
		if again, back := to-s.Near(to), n-to; again > back+2*chunk {
			t.Errorf("going back by %d reads %d again", back, again)
		}
	}
	one := s.cost(s.marks[0])
	s.SetBudget(3 * one)
	if len(s.marks) != 3 || s.marks[2].Position != n {
		t.Errorf("%d marks within the budget of 3, the last at %d", len(s.marks), s.marks[len(s.marks)-1].Position)
	}
	at := s.marks[0].Position
	if again, err := s.Rewind(t.Context(), at); err != nil || again != 0 {
		t.Fatal(again, err)
	}
	s.Mark("here")
	if err := s.Append(t.Context(), text(2, n)); err != nil {
		t.Fatal(err)
	}
	if again, err := s.RewindTo(t.Context(), "here"); err != nil || again != 0 {
		t.Errorf("a place with a name lost its state: %d read again, %v", again, err)
	}
}

// TestForksShare checks that a fork shares the state of its session until one of them continues, and that thousands of
// forks continue independently.
func TestForksShare(t *testing.T) {
	m := language(t, hybrid)
	s := New(m, tokenizer.Bytes(), Options{})
	if err := s.Append(t.Context(), text(1, 300)); err != nil {
		t.Fatal(err)
	}
	forks := make([]*Session, 2000)
	for i := range forks {
		if forks[i] = s.Fork(); forks[i].at != s.at {
			t.Fatal("the fork has a state of its own")
		}
	}
	for _, i := range []int{0, 7, 1999} {
		f := forks[i]
		if err := f.Append(t.Context(), text(uint64(i), 5)); err != nil {
			t.Fatal(err)
		}
		alone := New(m, tokenizer.Bytes(), Options{})
		for _, ids := range [][]int32{text(1, 300), text(uint64(i), 5)} {
			if err := alone.Append(t.Context(), ids); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(f.logits(), alone.logits()) {
			t.Errorf("fork %d is not what it would be alone", i)
		}
	}
}

// TestWritingSessionIsNotChanged checks that during a loop over Generate a session can be marked, forked and saved, but
// that methods that would change it return an error.
func TestWritingSessionIsNotChanged(t *testing.T) {
	m := language(t, hybrid)
	s := told(t, m)
	whole := s.Fork()
	want := rest(t, whole)
	var forked *Session
	for _, err := range s.Continue(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if forked == nil {
			forked = s.Fork()
			encode(t, s, FileOptions{})
			s.Mark("in between")
			_, rewind := s.Rewind(t.Context(), 1)
			_, score := s.Score(t.Context(), []int32{1})
			for _, err := range []error{s.Append(t.Context(), []int32{1}), rewind, score} {
				if err != errWriting {
					t.Errorf("got %v, want %v", err, errWriting)
				}
			}
			for _, err := range s.Continue(t.Context()) {
				if err != errWriting {
					t.Errorf("a loop in a loop: %v, want %v", err, errWriting)
				}
			}
		}
	}
	for range forked.Continue(t.Context()) {
	}
	for _, x := range []*Session{s, forked} {
		if !slices.Equal(x.IDs(), whole.IDs()) || !slices.Equal(x.logits(), whole.logits()) {
			t.Errorf("it went on otherwise than\n%s", want)
		}
	}
}
