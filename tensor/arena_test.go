package tensor

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
)

func TestSizeClass(t *testing.T) {
	last := 0
	for n := range 5000 {
		c := sizeClass(n)
		if c < n || c < last || sizeClass(c) != c {
			t.Fatalf("the class of %d is %d, that of %d is %d", n, c, n-1, last)
		}
		if n > 16 && float64(c-n) > float64(n)/16 {
			t.Errorf("the class of %d is %d: more than a sixteenth is waste", n, c)
		}
		last = c
	}
}

// TestArenaLendsOnce checks that buffers lent at the same time never overlap, that kept buffers keep their values, and
// that a second round of the same requests allocates no memory.
func TestArenaLendsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := NewArena()
		type loan struct {
			buf  []float32
			mark float32
		}
		sizes := rapid.SliceOfN(rapid.IntRange(0, 100), 1, 20).Draw(t, "sizes")
		keep := rapid.IntRange(0, len(sizes)-1).Draw(t, "keep")
		var before int
		for round := range 3 {
			a.Reset()
			var live []loan
			lend := func(buf []float32) {
				l := loan{buf, float32(len(live) + 1)}
				for i := range buf {
					buf[i] = l.mark
				}
				live = append(live, l)
			}
			check := func() {
				t.Helper()
				for _, l := range live {
					for _, v := range l.buf {
						if v != l.mark {
							t.Fatalf("a buffer of %d holds %v, want %v: it was lent twice", len(l.buf), v, l.mark)
						}
					}
				}
			}
			borrowed := a.Borrow(30)
			for i := range borrowed {
				borrowed[i] = 7
			}
			lend(a.Floats(7))
			mark := a.Mark()
			for _, n := range sizes {
				lend(a.Floats(n))
			}
			check()
			live = []loan{live[0], live[1+keep]}
			a.ReleaseSince(mark, live[1].buf)
			for _, n := range sizes {
				lend(a.Floats(n))
			}
			check()
			for _, v := range borrowed {
				if v != 7 {
					t.Fatalf("what was borrowed holds %v, want what was written there", v)
				}
			}
			a.Return(borrowed)
			if round > 0 && a.Bytes() != before {
				t.Fatalf("round %d: %d bytes, %d before", round, a.Bytes(), before)
			}
			before = a.Bytes()
		}
	})
}

// TestBorrowOutlivesReset checks that Reset does not take back borrowed buffers.
func TestBorrowOutlivesReset(t *testing.T) {
	a := NewArena()
	g := a.Borrow(20)
	a.Reset()
	if x, y := a.Borrow(20), a.Floats(20); &x[0] == &g[0] || &y[0] == &g[0] || &x[0] == &y[0] {
		t.Error("what is still borrowed is lent again")
	}
	held := a.Bytes()
	a.Return(g)
	if again := a.Borrow(20); &again[0] != &g[0] || a.Bytes() != held {
		t.Error("what was returned is not lent again")
	}
}

func TestArenaTensors(t *testing.T) {
	a := NewArena()
	x := a.Tensor(2, 3, 4)
	y := a.Like(x, 0)
	z := a.Like(x, 7)
	if x.String() != "(2, 3, 4)" || !x.SameShape(y) || z.String() != "(2, 3, 7)" || len(z.Data()) != 42 {
		t.Errorf("got %v, %v, %v", x, y, z)
	}
	x.SetNeedsGrad(true)
	x.SetGrad(make([]float32, 24))
	a.Reset()
	if again := a.Tensor(5); again != x || again.NeedsGrad() || again.Grad() != nil || again.Version() != 0 {
		t.Error("a tensor's header is not reused, or not fresh")
	}
}

// TestArenaOfVaryingLengths checks that after steps of many lengths an arena holds little more than the longest step
// needs.
func TestArenaOfVaryingLengths(t *testing.T) {
	const buffers, longest = 20, 16000
	rng := rand.New(rand.NewPCG(3, 1))
	a := NewArena()
	for range 300 {
		l := longest/8 + rng.IntN(longest*7/8)
		for i := range buffers {
			x := a.Floats(l * (1 + i%2))
			if len(x) != l*(1+i%2) {
				t.Fatalf("lent %d elements, want %d", len(x), l*(1+i%2))
			}
		}
		a.Reset()
	}
	need := 4 * longest * buffers * 3 / 2
	if a.Bytes() > 3*need {
		t.Errorf("the arena holds %d bytes, want at most three times the %d of the longest step", a.Bytes(), need)
	}
}

// TestStepsOfOtherSizesShareMemory checks that alternating steps that need one large buffer or many smaller ones take
// hardly more memory than one of them, and that no buffer is lent twice.
func TestStepsOfOtherSizesShareMemory(t *testing.T) {
	const large = 1 << 20
	a := NewArena()
	a.Floats(large)
	a.Reset()
	for range 3 {
		var parts [][]float32
		for i := range 30 {
			x := a.Floats(large/40 + 700*i)
			for j := range x {
				x[j] = float32(i)
			}
			parts = append(parts, x)
		}
		for i, x := range parts {
			if x[0] != float32(i) || x[len(x)-1] != float32(i) {
				t.Fatalf("part %d was lent twice", i)
			}
		}
		a.Reset()
		a.Floats(large)
		a.Reset()
	}
	if got := a.Bytes(); got > 4*large*3/2 {
		t.Errorf("the arena holds %d bytes, want little more than %d", got, 4*large)
	}
}
