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

// ParamCount is the number of a model's parameters: of all, and of those that are trained. values is the memory of the
// values of all, More that of islands.
type ParamCount struct{ All, Trained, Values, More int }

// bytes is the memory of parameters while they are trained: values of all, and of those that are trained two
// moments, and gradients, of which the shards of an update need several.
func (n ParamCount) Bytes(shards int) int { return n.Values + 4*(2+SumsOf(shards))*n.Trained + n.More }

// MemoryError says that a run needs more memory than there is, and what would make it fit.
type MemoryError struct {
	Need, Weights, Activations int // bytes, in all and of them; no activations where the weights alone are too much
	Free                       status.Memory
	Advice                     string
}

// Error says how much memory the run needs, what for, and what would make it fit.
func (e *MemoryError) Error() string {
	of := fmt.Sprintf("weights, gradients and moments %s", bytesText(e.Weights))
	if e.Activations > 0 {
		of += ", activations " + bytesText(e.Activations)
	}
	return fmt.Sprintf("memory: the run needs about %s (%s), but %s leaves %s; %s; memory=%s tries all the same",
		bytesText(e.Need), of, e.Free.Of, bytesText(int(e.Free.Bytes)), e.Advice, MemoryIgnore)
}

func bytesText(n int) string { return status.Bytes(uint64(max(0, n))) }

// FreeMemory is the memory that is left to a run on an engine, nil for the processor's.
func FreeMemory(on engine.Backend) (status.Memory, bool) {
	if on == nil {
		return status.FreeMemory()
	}
	room, known := engine.Room(on)
	return status.Memory{Bytes: uint64(room), Of: "the device"}, known
}

// OnDevice reports whether a run had better be computed on a device than on the processor: if it fits, as fits says,
// nil or a *MemoryError, and a layer takes less time there. told is why. Any other error of fits is returned.
func OnDevice(fits error, c model.Config, on engine.Backend) (use bool, told string, err error) {
	if lack := (*MemoryError)(nil); errors.As(fits, &lack) {
		return false, fmt.Sprintf("%s: %v", model.OnProcessor, fits), nil
	} else if fits != nil {
		return false, "", fits
	}
	return model.Faster(c, engine.Float32, on, true)
}

// WeightsFit returns a *MemoryError if the parameters of a model alone need more memory to be trained than there is.
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
