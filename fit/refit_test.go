package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRefitsSeeNoFuture checks that all training and validation rows of a refit come before its first origin, that each
// origin of the test part is used once, and that a refit knows all rows before its origins.
func TestRefitsSeeNoFuture(t *testing.T) {
	const lookback, horizon = 10, 4
	lengths := []int{200, 130, 60, 12}
	for _, every := range []int{1, 7, 50} {
		for _, stride := range []int{0, 3} {
			f := &frame{plan: &Plan{Task: Forecast, Lookback: lookback, Horizon: horizon}}
			at := 0
			for i, n := range lengths {
				f.seqs = append(f.seqs, sequence{group: i, lo: at, hi: at + n})
				at += n
			}
			c := DefaultConfig()
			c.Task, c.Split, c.Refit, c.Stride = Forecast, "0.7,0.1,0.2", every, stride
			divided, _, err := f.divide(&c)
			if err != nil {
				t.Fatal(err)
			}
			want, asked := map[int]int{}, map[int]int{}
			count := func(to map[int]int, segments []segment) {
				w := f.newWindows(segments, testPart, c.stride(f.plan), 1)
				for i := range w.Len() {
					to[w.at(i).lo]++
				}
			}
			count(want, divided[testPart])
			groups, err := f.refits(&c)
			if err != nil || len(groups) < 2 && every < 30 {
				t.Fatalf("found %d groups, %v", len(groups), err)
			}
			for _, now := range groups {
				count(asked, now[testPart])
				for _, test := range now[testPart] {
					known := 0
					for _, part := range []int{trainPart, validPart} {
						for _, s := range now[part] {
							if s.seq == test.seq && s.hi > test.lo {
								t.Errorf("every %d: rows %d to %d are known before row %d", every, s.lo, s.hi, test.lo)
							}
							if s.seq == test.seq {
								known += s.hi - s.lo
							}
						}
					}
					if lo := f.seqs[test.seq].lo; known != test.lo-lo {
						t.Errorf("every %d: %d rows are known of the %d before row %d", every, known, test.lo-lo,
							test.lo)
					}
				}
			}
			if fmt.Sprint(asked) != fmt.Sprint(want) || len(want) == 0 {
				t.Errorf("every %d, stride %d: found the origins %v, want %v", every, stride, asked, want)
			}
		}
	}
}

// TestRefit checks that networks that are trained again forecast better if a series changes its pattern in the test
// part. Both results are reported, the folders of the refits are removed, and an interrupted run ends the same.
func TestRefit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	var b strings.Builder
	b.WriteString("x\n")
	for i := range 300 {
		x := math.Sin(2 * math.Pi * float64(i) / 8)
		if i > 230 {
			x = -3 * math.Sin(4*math.Pi*float64(i)/8)
		}
		fmt.Fprintf(&b, "%.4f\n", x+0.05*rng.NormFloat64())
	}
	path := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	config := func() Config {
		c := DefaultConfig()
		c.Data, c.Out, c.Task, c.Target = []string{path}, filepath.Join(t.TempDir(), "run"), Forecast, []string{"x"}
		c.Model.Layers, c.Model.DModel, c.Model.DState, c.Base = "s4d*1", 8, 4, "linear"
		c.Horizon, c.Lookback, c.Epochs, c.BatchSize, c.Split, c.Refit = 4, 8, 1, 16, "0.7,0.1,0.2", 20
		return c
	}
	c := config()
	res, err := Run(context.Background(), c, nil, Events{})
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]Errors{}
	for _, e := range res.Errors {
		by[e.Name] = e
	}
	once, again := by["network"], by["network, refitted every 20 origins"]
	if again.Count != once.Count || !(again.MAE < 0.95*once.MAE) || by["linear, refitted every 20 origins"].Count == 0 {
		t.Errorf("found %+v", res.Errors)
	}
	if _, err := os.Stat(filepath.Join(c.Out, refitsDir)); !os.IsNotExist(err) {
		t.Errorf("the folder of the refits: %v", err)
	}
	c = config()
	ctx, cancel := context.WithCancel(context.Background())
	_, err = Run(ctx, c, nil, Events{Note: func(text string) {
		if strings.HasPrefix(text, "refit 2 of 2") {
			cancel()
		}
	}})
	if !errors.Is(err, ErrInterrupted) {
		t.Fatalf("found %v", err)
	}
	same, err := Run(context.Background(), c, nil, Events{})
	if err != nil || fmt.Sprint(same.Errors) != fmt.Sprint(res.Errors) {
		t.Errorf("found %v, %v, want %v", same, err, res.Errors)
	}
	c = config()
	c.Task = Next
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "refit: found 20 for the task next") {
		t.Errorf("found %v", err)
	}
}
