package experiment

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/train"
)

// TestRunCells checks that each cell without a result is run once, with no more at a time than asked for. Failed cells
// are named in the error, and the summary of the others has their mean and range.
func TestRunCells(t *testing.T) {
	opt := &TableOptions{Models: []string{"h3", "attention"}, Seeds: 3, Jobs: 2, Out: t.TempDir()}
	cells, err := Cells([]string{"induction"}, opt)
	if err != nil || len(cells) != 6 {
		t.Fatalf("found %d cells, %v, want 6", len(cells), err)
	}
	broken := errors.New("it broke")
	var running, runs atomic.Int32
	run := func(_ context.Context, c *Cell) error {
		if n := running.Add(1); n > 2 {
			t.Errorf("%d runs at the same time, want 2 at most", n)
		}
		defer running.Add(-1)
		runs.Add(1)
		if c.Model == "attention" && c.Seed == 2 {
			return broken
		}
		r := &Result{Config: c.Settings.Config, TrainSeconds: float64(c.Seed)}
		r.Test = train.Score{Accuracy: 90 + float64(c.Seed), Count: 100}
		r.Extra = []ExtraScore{{Name: "longer", Score: train.Score{Accuracy: 50}}}
		dir := c.Folder(opt)
		return errors.Join(os.MkdirAll(dir, 0o777), r.write(dir))
	}
	var left []int
	// A cell that another process has locked is skipped.
	other := disk.Inside(cells[1].Folder(opt))
	err = disk.Claim(t.Context(), other, false, func(context.Context) error {
		held, err := RunCells(context.Background(), cells[1:2], opt, run, nil)
		if len(held) != 1 || held[0].Dir != filepath.Clean(other) || runs.Load() != 0 {
			t.Errorf("held: %v after %d runs, want %s", held, runs.Load(), other)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = RunCells(context.Background(), cells, opt, run, func(_ *Cell, n int) { left = append(left, n) })
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "induction attention, seed 2: ") {
		t.Errorf("got %v, want the run that broke by its name", err)
	}
	if runs.Load() != 6 || len(left) != 5 || left[4] != 1 || Missing(cells) != 1 {
		t.Errorf("%d runs, left %v, %d missing, want 6, five down to 1, and 1", runs.Load(), left, Missing(cells))
	}
	sums := Summarize(cells)
	if len(sums) != 2 || sums[0].Mean != 92 || sums[0].Spread != 2 || sums[0].Seconds != 2 || sums[1].Mean != 92 ||
		len(sums[1].Scores) != 2 || sums[0].Also() != "longer: 50.00 % (50.00 % to 50.00 %, 3 seeds)" {
		t.Errorf("found the summaries %+v", sums)
	}
	if cells, err = Cells([]string{"induction"}, opt); err != nil || Missing(cells) != 1 {
		t.Errorf("again: %d missing, %v, want 1", Missing(cells), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := RunCells(ctx, cells, opt, run, nil); !errors.Is(err, context.Canceled) || runs.Load() != 6 {
		t.Errorf("interrupted: %v after %d runs, want none more", err, runs.Load())
	}
}
