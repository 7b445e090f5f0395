package text

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// fourIslands returns the configuration of four small islands of one shard each, which meet after 2, 4, 6 and 7
// updates.
func fourIslands(t *testing.T, precision string) Config {
	c := swift(t, "h3")
	c.Data = []string{jsonl(t, documents(40)...)}
	c.Train.Shards, c.Train.Islands, c.Train.Every, c.Train.IslandPrecision = 4, 4, 2, precision
	c.Train.OuterLR, c.Train.OuterMomentum, c.Train.EMA = 0.7, 0.9, 0.5 // as in the paper
	c.Train.Steps, c.Train.EvalEvery, c.Train.SaveEvery, c.Train.LogEvery, c.Train.SampleEvery = 7, 3, 1000, 1, 0
	return c
}

// TestIslandsSameBits checks that islands on two and three machines make the same bits as in one process, also if a
// machine is lost in a round, between two rounds, or before its states are saved, and in a run that was stopped and
// resumed.
func TestIslandsSameBits(t *testing.T) {
	kill := func(when int) func(*cluster.Local, int) {
		return func(n *cluster.Local, at int) {
			if at == when {
				n.Kill(1)
			}
		}
	}
	type team struct{ others, message, step int } // a machine is lost before this message or after this step
	for precision, teams := range map[string][]team{
		"float32": {{1, 0, 0}, {2, 30, 0}}, "bf16": {{3, 0, 4}},
		"int8": {{2, 60, 0}, {1, 0, 0}, {1, 0, 4}, {2, 0, 7}},
	} {
		if testing.Short() { // runs under the race detector use -short
			if precision != "int8" {
				continue
			}
			teams = teams[:1]
		}
		c := fourIslands(t, precision)
		c.Out = filepath.Join(t.TempDir(), "alone")
		if _, err := Run(t.Context(), c, train.Events{}); err != nil {
			t.Fatal(err)
		}
		want := lastFiles(t, c.Out)

		ctx, stop := context.WithCancel(t.Context())
		c.Out = filepath.Join(t.TempDir(), "resumed")
		if res, err := Run(ctx, c, train.Events{Step: func(p train.Progress) {
			if p.Step == 4 {
				stop()
			}
		}}); err != nil || !res.Interrupted || res.Step != 4 {
			t.Fatalf("%s: found %+v and %v", precision, res, err)
		}
		if _, err := Resume(t.Context(), c, train.Events{}); err != nil {
			t.Fatal(err)
		}
		if lastFiles(t, c.Out) != want {
			t.Errorf("%s: the resumed run differs", precision)
		}

		for _, x := range teams {
			c.Out = filepath.Join(t.TempDir(), "run")
			notes, _ := togetherAt(t, c, x.others, kill(x.message), kill(x.step))
			if lastFiles(t, c.Out) != want {
				t.Errorf("%s: the run of %+v differs: %q", precision, x, notes)
			}
			gone := slices.ContainsFunc(notes, func(s string) bool {
				return strings.HasPrefix(s, "- m1 gone at step ")
			})
			if gone != (x.message+x.step > 0) {
				t.Errorf("%s: the notes of %+v are %q", precision, x, notes)
			}
		}
	}
}

// TestBadIslands checks that each invalid setting of islands gives one error that names it, and that valid settings
// give none.
func TestBadIslands(t *testing.T) {
	for _, x := range []struct {
		want   string
		change func(l *Loop)
	}{
		{"", func(*Loop) {}},
		{"train.islands: found -1, want at least 0", func(l *Loop) { l.Islands = -1 }},
		{"train.islands: found 3 with train.shards 4, want a number that divides it", func(l *Loop) { l.Islands = 3 }},
		{"train.islands: found 8 with train.shards 4, want a number that divides", func(l *Loop) { l.Islands = 8 }},
		{"train.every: found -1, want at least 1", func(l *Loop) { l.Every = -1 }},
		{`train.island_precision: found "x", want one of`, func(l *Loop) { l.IslandPrecision = "x" }},
		{"train.outer_lr: found 0, want a number above 0", func(l *Loop) { l.OuterLR = 0 }},
		{"train.outer_lr: found NaN, want a number above 0", func(l *Loop) { l.OuterLR = math.NaN() }},
		{"train.outer_momentum: found 1, want a number", func(l *Loop) { l.OuterMomentum = 1 }},
		{"train.carry_state: found true with train.islands 4", func(l *Loop) { l.CarryState = true }},
		{"train.time: found 1m0s with train.islands 4", func(l *Loop) { l.Time = time.Minute }},
		{"train.every: found 2000000 of 96 tokens, want at most", func(l *Loop) { l.Every, l.Steps = 2e6, 1e7 }},
	} {
		c := fourIslands(t, "int8")
		x.change(&c.Train)
		err := c.Validate()
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.HasPrefix(err.Error(), x.want) ||
			strings.Contains(err.Error(), "\n")) {
			t.Errorf("found %v, want %q", err, x.want)
		}
	}
}

// TestTogetherIslands checks that the predicted traffic of a step is its share of a meeting and of the states for
// checkpoints.
func TestTogetherIslands(t *testing.T) {
	c := fourIslands(t, "float32")
	c.Train.Every, c.Train.SaveEvery = 100, 1000
	e := Estimate{Trained: 1e6, StepSeconds: 1.6, RunSeconds: 160, Total: 1e9}
	for precision, of := range map[string]struct{ part, state float64 }{"float32": {1, 8}, "bf16": {0.5, 12},
		"int8": {65. / 256, 12}} {
		c.Train.IslandPrecision = precision
		for machines, want := range map[int]float64{1: 0, 2: of.part + 0.5, 4: 0.75 * (of.part + 1)} {
			got, err := c.Together(e, machines, "1Gbit")
			if err != nil {
				t.Fatal(err)
			}
			if precision == "float32" && machines == 2 {
				want = 1 // two islands on one machine form one node
			}
			want = want*4e6/100 + 1e6*of.state*float64(4-4/machines)/800          // after 8 rounds
			kept := 7 * (4e6 + 8*c.Train.tokensPerStep()*min(100, c.Train.Steps)) // rounds besides this one
			sums := 4e6 * (train.SumsOf(4/machines) + 2 - train.SumsOf(4))
			if memory := got.Memory - 1e9; machines > 1 && memory != kept+sums || machines == 1 && memory != 0 {
				t.Errorf("%s on %d: %d bytes more than on one, want %d", precision, machines, memory, kept+sums)
			}
			if math.Abs(got.Sent-want) > 1 || got.Islands != 4/machines || got.Shards != 4/machines ||
				!strings.Contains(got.String(), fmt.Sprintf("at most %d islands each, which meet every 100 steps",
					4/machines)) {
				t.Errorf("%s on %d: %+v, want %g bytes a step", precision, machines, got, want)
			}
		}
	}
	if _, err := c.Together(e, 5, "1Gbit"); err == nil || !strings.Contains(err.Error(), "as many as train.islands") {
		t.Errorf("five machines: %v", err)
	}
}

// TestIslandsVolume checks that a round of four machines sends the predicted bytes, and a few more for tokens and
// orders.
func TestIslandsVolume(t *testing.T) {
	for _, precision := range []string{"float32", "int8"} {
		c := fourIslands(t, precision)
		m, err := model.New(c.shape(256))
		if err != nil {
			t.Fatal(err)
		}
		at := map[int]int{}
		togetherAt(t, c, 3, nil, func(n *cluster.Local, step int) { at[step] = n.Bytes() })
		_, traffic := cluster.Volume(4, 4, islandBits[precision])
		got, want := at[6]-at[4], int(4*traffic*4*float64(m.NumParams()))
		if got < want || got > want+8000 {
			t.Errorf("%s: a round of %d parameters sends %d bytes, want about %d", precision, m.NumParams(), got, want)
		}
	}
}
