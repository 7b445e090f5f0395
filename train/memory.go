package train

import (
	"errors"
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
)

// Values of Config.Memory.
const (
	MemoryCheck  = "check"
	MemoryIgnore = "ignore"
)

var MemoryChoices = []string{MemoryCheck, MemoryIgnore}

// ParamCount holds the number of all parameters of a model and of its trained ones. Values is the size in bytes of all
// parameters, and More that of the state of islands.
type ParamCount struct{ All, Trained, Values, More int }

// Bytes returns the memory that parameters need in training: the values of all, and for each trained one two moments
// and as many gradients as SumsOf(shards).
func (n ParamCount) Bytes(shards int) int { return n.Values + 4*(2+SumsOf(shards))*n.Trained + n.More }

// MemoryError reports that a run needs more memory than is free.
type MemoryError struct {
	Need, Weights, Activations int // bytes; Activations is 0 if the weights alone are too much
	Free                       status.Memory
	Advice                     string
}

// Error returns how much memory the run needs, for what, and how to make it fit.
func (e *MemoryError) Error() string {
	of := fmt.Sprintf("weights, gradients and moments %s", bytesText(e.Weights))
	if e.Activations > 0 {
		of += ", activations " + bytesText(e.Activations)
	}
	return fmt.Sprintf("memory: the run needs about %s (%s), but %s leaves %s; %s; memory=%s tries all the same",
		bytesText(e.Need), of, e.Free.Of, bytesText(int(e.Free.Bytes)), e.Advice, MemoryIgnore)
}

func bytesText(n int) string { return status.Bytes(uint64(max(0, n))) }

// FreeMemory returns the memory that is free for a run on an engine, or on the processor if on is nil.
func FreeMemory(on engine.Backend) (status.Memory, bool) {
	if on == nil {
		return status.FreeMemory()
	}
	room, known := engine.Room(on)
	return status.Memory{Bytes: uint64(room), Of: "the device"}, known
}

// OnDevice reports whether a run should use a device instead of the processor: if it fits and a layer takes less time
// there. fits is nil if the run fits, else a *MemoryError; any other error is returned. told is the reason for the
// choice.
func OnDevice(fits error, c model.Config, on engine.Backend) (use bool, told string, err error) {
	if lack := (*MemoryError)(nil); errors.As(fits, &lack) {
		return false, fmt.Sprintf("%s: %v", model.OnProcessor, fits), nil
	} else if fits != nil {
		return false, "", fits
	}
	return model.Faster(c, engine.Float32, on, true)
}

// WeightsFit returns a *MemoryError if training the parameters alone, without activations, needs more memory than is
// free.
func WeightsFit(params ParamCount, shards int, free status.Memory) error {
	need := params.Bytes(shards)
	if need <= int(free.Bytes) {
		return nil
	}
	e := &MemoryError{Need: need, Weights: need, Free: free,
		Advice: "a smaller model.d_model or fewer layers need less"}
	if params.Bytes(1) <= int(free.Bytes) {
		e.Advice = fmt.Sprintf("fewer shards (found %d), which are larger, need less", shards)
	}
	return e
}
