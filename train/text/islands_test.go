package text

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/train"
)

// fourIslands are small islands of a shard each, which meet after 2, 4, 6 and 7 updates.
func fourIslands(t *testing.T, precision string) Config {
	c := swift(t, "h3")
	c.Data = []string{jsonl(t, documents(40)...)}
	c.Train.Shards, c.Train.Islands, c.Train.Every, c.Train.IslandPrecision = 4, 4, 2, precision
	c.Train.OuterLR, c.Train.OuterMomentum, c.Train.EMA = 0.7, 0.9, 0.5
	c.Train.Steps, c.Train.EvalEvery, c.Train.SaveEvery, c.Train.LogEvery, c.Train.SampleEvery = 7, 3, 1000, 1, 0
	return c
}

// TestIslandsSameBits: islands make the bits of one process on two machines and three, where one is lost in a round,
// between two, and before its states are saved, and in a run that was stopped and resumed.
func TestIslandsSameBits(t *testing.T) {
	kill := func(when int) func(*cluster.Local, int) {
		return func(n *cluster.Local, at int) {
			if at == when {
				n.Kill(1)
			}
		}
	}
	type team struct{ others, message, step int } // the message before which one is lost, or the step after which
	for precision, teams := range map[string][]team{
		"float32": {{1, 0, 0}, {2, 30, 0}}, "bf16": {{3, 0, 4}},
		"int8": {{1, 0, 0}, {2, 60, 0}, {1, 0, 4}, {2, 0, 7}},
	} {
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
