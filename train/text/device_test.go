package text

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/smallengine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// smallest is small at sizes for the small engine, which is slow.
func smallest(t *testing.T) Config {
	c := small(t)
	c.Model.DModel, c.Model.Layers, c.Model.AttnIdx, c.Model.NumHeads = 8, "attention", nil, 1
	c.Train.SeqLen, c.Train.BatchSize, c.Train.EvalTokens, c.Train.SampleEvery = 8, 1, 9, 0
	c.ValidFraction = 0.02
	return c
}

// onDevice trains on a device that fails as fail sets it when a checkpoint has been saved, or a step been made (then
// saved is false). It returns the error.
func onDevice(t *testing.T, c Config, fail func(b smallengine.Backend[float32], step int, saved bool)) error {
	t.Helper()
	b := smallengine.New[float32]()
	c.Device = b
	_, err := Run(t.Context(), c, train.Events{
		Saved: func(_ string, step int) { fail(b, step, true) },
		Step:  func(p train.Progress) { fail(b, p.Step, false) },
	})
	return err
}

// TestDeviceIsLost: a run on a device that is lost in the middle of a step ends with what has failed and where its
// checkpoint is, from which the processor goes on as if nothing had happened.
func TestDeviceIsLost(t *testing.T) {
	c := smallest(t)
	want := mustRun(t, c).ValidLoss
	c.Out = filepath.Join(t.TempDir(), "lost")
	err := onDevice(t, c, func(b smallengine.Backend[float32], step int, saved bool) {
		if step == 4 && saved {
			b.FailAt(b.Reads() + 2) // with the loss of the second shard
		}
	})
	var lost *train.DeviceError
	if !errors.As(err, &lost) || lost.Step != 4 || lost.Out != c.Out {
		t.Fatalf("the run ended with %v, want the loss of the device, with the checkpoint of step 4", err)
	}
	run, err := ReadRun(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Resume(t.Context(), run, train.Events{})
	if err != nil || res.Step != 6 || math.Abs(res.ValidLoss-want) > 1e-4*want {
		t.Errorf("resumed on the processor, it ended at step %d with the loss %g (%v), want step 6 and %g", res.Step,
			res.ValidLoss, err, want)
	}
}

// TestDeviceIsLostWhileSaving: a checkpoint whose last numbers were read from a device that was lost is none.
func TestDeviceIsLostWhileSaving(t *testing.T) {
	c := smallest(t)
	c.Train.Steps = 2
	first := 0
	if err := onDevice(t, c, func(b smallengine.Backend[float32], _ int, saved bool) {
		if saved {
			first = b.Reads()
		}
	}); err != nil {
		t.Fatal(err)
	}
	c.Out = filepath.Join(t.TempDir(), "lost")
	err := onDevice(t, c, func(b smallengine.Backend[float32], _ int, _ bool) { b.FailAt(first) })
	var lost *train.DeviceError
	if !errors.As(err, &lost) || lost.Step != 0 {
		t.Errorf("the run ended with %v, want the loss of the device, without a checkpoint", err)
	}
	if _, err := os.Stat(filepath.Join(c.Out, model.LastDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a checkpoint (%v), want none", err)
	}
}
