package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/smallengine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// smallest returns small with smaller sizes, as the small engine is slow.
func smallest(t *testing.T) Config {
	c := small(t)
	c.Model.DModel, c.Model.Layers, c.Model.AttnIdx, c.Model.NumHeads = 8, "attention", nil, 1
	c.Train.SeqLen, c.Train.BatchSize, c.Train.EvalTokens, c.Train.SampleEvery = 8, 1, 9, 0
	c.ValidFraction = 0.02
	return c
}

// onDevice trains on a device and returns the error. fail makes the device fail. It is called after each step, and,
// with saved true, after each checkpoint.
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

// TestDeviceIsLost checks that a run on a device that is lost in the middle of a step ends with an error that names the
// failure and the checkpoint, and that the processor continues from this checkpoint with the same results.
func TestDeviceIsLost(t *testing.T) {
	c := smallest(t)
	want := mustRun(t, c).ValidLoss
	c.Out = filepath.Join(t.TempDir(), "lost")
	err := onDevice(t, c, func(b smallengine.Backend[float32], step int, saved bool) {
		if step == 4 && saved {
			b.FailAt(b.Reads() + 2) // fails when the loss of the second shard is read
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

// TestDeviceIsLostWhileSaving checks that a checkpoint is discarded if the device is lost while its last numbers are
// read.
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

// TestDevicesTogether checks that members with a device each make the same bits as one machine, also with islands. A
// member whose device is lost while it computes or while its sums are read leaves, and its numbers are not used.
func TestDevicesTogether(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"shards": func(c *Config) { c.Train.Shards = 4 },
		"islands": func(c *Config) {
			c.Train.Shards, c.Train.Islands, c.Train.Every, c.Train.IslandPrecision = 4, 4, 2, "float32"
			c.Train.OuterLR, c.Train.OuterMomentum = 0.7, 0.9
		},
	} {
		c := smallest(t)
		change(&c)
		c.Train.SaveEvery, c.Device = 1000, smallengine.New[float32]()
		mustRun(t, c)
		want := lastFiles(t, c.Out)
		readings := 0
		for _, share := range []float64{0, 0.3, 0.5, 0.62, 0.7} { // fraction of its reads after which a device is lost
			first, second := smallengine.New[float32](), smallengine.New[float32]()
			c.Device, c.Out = smallengine.New[float32](), filepath.Join(t.TempDir(), "run")
			if share > 0 {
				first.FailAt(int(share * float64(readings)))
			}
			notes, _ := togetherOn(t, c, []engine.Backend{first, second}, nil, nil)
			if share == 0 {
				readings = first.Reads()
			}
			if gone := strings.Contains(fmt.Sprint(notes), "- m1 gone"); gone != (share > 0) {
				t.Errorf("%s, lost after %g: the notes are %q", name, share, notes)
			}
			if lastFiles(t, c.Out) != want {
				t.Errorf("%s, lost after %g: the run differs from that of one device", name, share)
			}
		}
	}
}

// TestDevicesThatDiffer checks that a machine with another device than the leader's is admitted only with AnyBits, and
// that moments on devices cannot be split.
func TestDevicesThatDiffer(t *testing.T) {
	c := smallest(t)
	c.Device = smallengine.New[float32]()
	own, err := Greeting(&c, 0, c.Device)
	if err != nil {
		t.Fatal(err)
	}
	other := own
	other.Device = ""
	if err := c.Admits(own)(own); err != nil {
		t.Error(err)
	}
	want := "device: found the processor, want small as the leader's"
	if err := c.Admits(own)(other); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("found %v, want %q", err, want)
	}
	if c.AnyBits = true; c.Admits(own)(other) != nil {
		t.Error(c.Admits(own)(other))
	}
	if got := Named(own); !strings.HasSuffix(got, " (small)") {
		t.Errorf("it is named %s", got)
	}
	c.Train.Moments = momentsSplit
	text, err := json.Marshal(&c)
	if err != nil {
		t.Fatal(err)
	}
	inv := invitation{Config: text}
	for _, err := range []error{c.Shareable(), func() error { _, _, err := inv.prepare(c.Device); return err }()} {
		if err == nil || !strings.Contains(err.Error(), "train.moments: found split on a device, want all") {
			t.Errorf("found %v", err)
		}
	}
}

// roomyDevice is a device with a given number of bytes of memory.
type roomyDevice struct {
	smallengine.Backend[float32]
	room int64
}

func (d roomyDevice) Room() int64 { return d.room }

// TestDeviceIsTooSmall checks that a run whose weights, gradients and moments exceed its device's memory is refused
// before it starts, with the sizes.
func TestDeviceIsTooSmall(t *testing.T) {
	c := smallest(t)
	params, err := c.countParams(c.shape(c.likelyVocab()))
	if err != nil {
		t.Fatal(err)
	}
	need := int64(params.Bytes(c.Train.Shards))
	if c.Device = (roomyDevice{smallengine.New[float32](), need}); c.FitsDevice() != nil {
		t.Errorf("with room for all: %v", c.FitsDevice())
	}
	c.Device = roomyDevice{smallengine.New[float32](), need - 1}
	var e *train.MemoryError
	if _, err := Run(t.Context(), c, train.Events{}); !errors.As(err, &e) || e.Need != int(need) ||
		!strings.Contains(err.Error(), "but the device leaves ") {
		t.Errorf("with a byte less: %v", err)
	}
	c.Memory = train.MemoryIgnore
	if err := c.FitsDevice(); err != nil {
		t.Error(err)
	}
}
