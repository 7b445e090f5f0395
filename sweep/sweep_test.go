package sweep

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/train"
)

// TestDraws checks that a logarithmic range has as many values below its geometric mean as above, that a linear range
// has as many below its mean, that whole numbers reach both ends, and that a longer list of trials begins like a
// shorter one.
func TestDraws(t *testing.T) {
	of := func(text string, n int) (x []float64) {
		r, err := ParseRange(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range draws([]Range{r}, n, 3) {
			v, err := strconv.ParseFloat(one[0].Value, 64)
			if err != nil {
				t.Fatal(err)
			}
			x = append(x, v)
		}
		return x
	}
	below := func(x []float64, at float64) float64 {
		n := 0
		for _, v := range x {
			if v < at {
				n++
			}
		}
		return float64(n) / float64(len(x))
	}
	for _, c := range []struct {
		text string
		at   float64
	}{{"lr=1e-4..1e-2", 1e-3}, {"p=0.2..0.6", 0.4}, {"x=-3.0..5.0", 1}} {
		if share := below(of(c.text, 400), c.at); math.Abs(share-0.5) > 0.08 {
			t.Errorf("%s: %.2f of the values are below %g, want half", c.text, share, c.at)
		}
	}
	if x := of("d=16..19", 100); !slices.Equal(slices.Sorted(slices.Values(x)), []float64{16, 17, 18, 19}) {
		t.Errorf("d=16..19: found %v, want each whole number once, both ends among them", x)
	}
	if short, long := of("lr=1e-4..1e-2", 5), of("lr=1e-4..1e-2", 9); !slices.Equal(short, long[:5]) {
		t.Errorf("found %v, then %v", short, long)
	}
	for _, text := range []string{"lr", "lr=", "lr=1", "=1..2", "lr=2..1", "lr=a..b", "lr=1..NaN", "lr=1..1e999"} {
		if r, err := ParseRange(text); err == nil {
			t.Errorf("%s: found %+v and no error", text, r)
		}
	}
}

// TestRungs checks the rounds against Hyperband's Table 1 with R = 81, η = 3 and 81 trials, in shares of the budget.
func TestRungs(t *testing.T) {
	b, err := ParseBudget("train.steps=81")
	if err != nil {
		t.Fatal(err)
	}
	var got [][2]string
	for _, r := range rungs(81, 3) {
		got = append(got, [2]string{strconv.Itoa(r.trials), b.share(r.share).Value})
	}
	want := [][2]string{{"81", "1"}, {"27", "3"}, {"9", "9"}, {"3", "27"}, {"1", "81"}}
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	b, err = ParseBudget("time=10m")
	if got := b.share(0.25); err != nil || got.Value != "2m30s" {
		t.Errorf("a quarter of 10m is %s, %v", got.Value, err)
	}
	for _, text := range []string{"", "steps", "steps=0", "steps=x", "=4", "time=1ms"} {
		if _, err := ParseBudget(text); err == nil {
			t.Errorf("%s: found no error", text)
		}
	}
}

// bowl returns a runner whose loss is least at x = 0.3, with noise that vanishes as the budget grows. It counts its
// calls.
func bowl(calls *int) Runner {
	return func(_ context.Context, t Trial) (train.Score, error) {
		*calls++
		x, _ := strconv.ParseFloat(t.Settings[0].Value, 64)
		loss := 1 + (x-0.3)*(x-0.3)
		if t.Budget != nil {
			n, _ := strconv.ParseFloat(t.Budget.Value, 64)
			loss += 0.01 * math.Sin(1e4*x) / n
		}
		return train.Score{Loss: loss}, nil
	}
}

var ignore = Events{Trial: func(Trial, int) {}, Wait: func([]*disk.LockedError) {}}

// sweepAlone runs a sweep in which no other process takes part.
func sweepAlone(ctx context.Context, out string, p Plan, run Runner, ev Events) (*Record, error) {
	r, held, err := Run(ctx, out, p, run, ev)
	if len(held) > 0 {
		err = errors.Join(err, held[0])
	}
	return r, err
}

// TestHalving checks that halving finds the least loss with a fraction of the trials at the full budget.
func TestHalving(t *testing.T) {
	calls, out := 0, t.TempDir()
	p := Plan{Command: []string{"fit"}, Over: []string{"x=0.0..1.0"}, Halving: "epochs=27", Trials: 27, Eta: 3, Seed: 1}
	r, err := sweepAlone(t.Context(), out, p, bowl(&calls), ignore)
	if err != nil {
		t.Fatal(err)
	}
	if want := 27 + 9 + 3 + 1; calls != want {
		t.Errorf("found %d trials, want %d", calls, want)
	}
	best := r.Ranking(r.Last())
	if x, _ := strconv.ParseFloat(best[0].Settings[0].Value, 64); len(best) != 1 || math.Abs(x-0.3) > 0.05 {
		t.Errorf("found x = %v in %d trials of the last round, want about 0.3 in one", x, len(best))
	}
	if best[0].Budget.Value != "27" {
		t.Errorf("the last round has the budget %s, want 27", best[0].Budget.Value)
	}
	var table bytes.Buffer
	if err := r.Print(&table); err != nil || strings.Count(table.String(), "\n") != 1+calls {
		t.Errorf("%v, printed:\n%s", err, table.String())
	}
	if err := r.Draw(out); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{PicturePage, "sweep.png"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestResume checks that an interrupted sweep makes only the remaining trials, and ends like one that was not
// interrupted.
func TestResume(t *testing.T) {
	p := Plan{Command: []string{"fit"}, Over: []string{"x=0.0..1.0", "kind=a|b"}, Halving: "epochs=9", Trials: 9,
		Eta: 3}
	calls := 0
	whole, err := sweepAlone(t.Context(), t.TempDir(), p, bowl(&calls), ignore)
	if err != nil {
		t.Fatal(err)
	}
	out, again := t.TempDir(), 0
	for stop := 2; again < calls; stop += 3 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := sweepAlone(ctx, out, p, func(ctx context.Context, one Trial) (train.Score, error) {
			if again == stop {
				cancel()
				return train.Score{}, errors.New("interrupted")
			}
			return bowl(&again)(ctx, one)
		}, ignore)
		cancel()
		if again < calls && !errors.Is(err, context.Canceled) {
			t.Fatalf("found the error %v, want that of the context", err)
		}
	}
	r, err := sweepAlone(t.Context(), out, p, bowl(&again), ignore)
	if err != nil || again != calls {
		t.Fatalf("%v after %d trials, want %d", err, again, calls)
	}
	for i := range r.Trials {
		a, b := r.Trials[i], whole.Trials[i]
		if a.Number != b.Number || a.Round != b.Round || a.Score.Loss != b.Score.Loss {
			t.Errorf("trial %d: found %+v, want %+v", i, a, b)
		}
	}
	other := p
	other.Seed++
	if _, err := sweepAlone(t.Context(), out, other, bowl(&again), ignore); err == nil ||
		!strings.Contains(err.Error(), "with other settings") {
		t.Errorf("another seed in the same folder: %v", err)
	}
}

// TestFailures checks that a failed trial does not end a sweep, but three failed trials at its start do.
func TestFailures(t *testing.T) {
	p := Plan{Command: []string{"fit"}, Over: []string{"x=0.0..1.0"}, Trials: 5, Eta: 3}
	calls := 0
	r, err := sweepAlone(t.Context(), t.TempDir(), p, func(ctx context.Context, one Trial) (train.Score, error) {
		if one.Number == 2 {
			return train.Score{}, errors.New("too wide")
		}
		return bowl(&calls)(ctx, one)
	}, ignore)
	if err != nil || len(r.Ranking(1)) != 4 || r.Trials[1].Error != "too wide" {
		t.Errorf("%v, %+v", err, r)
	}
	all := func(context.Context, Trial) (train.Score, error) { return train.Score{}, errors.New("no such file") }
	if _, err := sweepAlone(t.Context(), t.TempDir(), p, all, ignore); err == nil ||
		!strings.Contains(err.Error(), "first 3 trials failed, the last one with: no such file") {
		t.Errorf("all fail: %v", err)
	}
}

// TestTogether checks that several processes share the trials and that each trial is made once. The next round of
// halving waits for all trials of the previous one. A trial of the last round that another process is making is
// reported.
func TestTogether(t *testing.T) {
	p := Plan{Command: []string{"fit"}, Over: []string{"x=0.0..1.0"}, Halving: "epochs=9", Trials: 9, Eta: 3, Seed: 1}
	calls := 0
	whole, err := sweepAlone(t.Context(), t.TempDir(), p, bowl(&calls), ignore)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	var mu sync.Mutex
	made := map[string]int{}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			r, held, err := Run(t.Context(), out, p, func(ctx context.Context, one Trial) (train.Score, error) {
				time.Sleep(10 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				made[one.Out]++
				return bowl(&calls)(ctx, one)
			}, ignore)
			if err != nil || len(r.Ranking(2)) != 3 || len(held) == 0 && len(r.Ranking(3)) != 1 {
				t.Errorf("%v, %v, %v", r, held, err)
			}
		})
	}
	all.Wait()
	for dir, n := range made {
		if n != 1 {
			t.Errorf("%s was made %d times", dir, n)
		}
	}
	r, err := sweepAlone(t.Context(), out, p, bowl(&calls), ignore)
	if err != nil || len(made) != 9+3+1 || len(r.Trials) != len(made) {
		t.Fatalf("%v: found %d trials in the record, made %d, want 13", err, len(r.Trials), len(made))
	}
	for round := 1; round <= 3; round++ {
		for i, one := range r.Ranking(round) {
			if want := whole.Ranking(round)[i]; one.Number != want.Number || one.Score.Loss != want.Score.Loss {
				t.Errorf("round %d, place %d: found %+v, want %+v", round, i, one, want)
			}
		}
	}
	p.Halving, p.Trials = "", 3
	out = t.TempDir()
	taken := filepath.Join(out, "trial-002")
	err = disk.Claim(t.Context(), taken, false, func(context.Context) error {
		r, held, err := Run(t.Context(), out, p, bowl(&calls), ignore)
		if err != nil || len(r.Trials) != 2 || len(held) != 1 || held[0].Dir != taken {
			t.Errorf("found %v, %v, %v, want that %s is held", r, held, err, taken)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := sweepAlone(t.Context(), out, p, bowl(&calls), ignore); err != nil || len(r.Trials) != 3 {
		t.Errorf("afterwards: %v, %v", r, err)
	}
}
