package labelled

import (
	"errors"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/smallengine"
	"github.com/hippo-ssm/hippo/internal/testkit/toytask"
)

// tight is a device without memory.
type tight struct{ smallengine.Backend[float32] }

func (tight) Room() int64 { return 1 }

// broken is a device that fails.
type broken struct{ smallengine.Backend[float32] }

func (broken) Err() error { return errors.New("it is lost") }

// TestFasterDevice checks that, with Faster set, a network does not use a device that is slower, too small or broken,
// and that the reason is reported. Without Faster it uses the device, or returns an error.
func TestFasterDevice(t *testing.T) {
	set := toytask.Made("numbers")
	tiny, slow := tight{smallengine.New[float32]()}, smallengine.New[float32]()
	c := small()
	told := ""
	c.Faster = func(text string) { told = text }
	c.Device = slow
	if _, err := c.choose(set); err != nil || c.Device != nil || !strings.HasPrefix(told, "a layer takes ") {
		t.Errorf("slower: %v, on %v: %s", err, c.Device, told)
	}
	c.Device = tiny
	if _, err := c.choose(set); err != nil || c.Device != nil || !strings.HasPrefix(told,
		"computing on the processor: memory: the run needs about ") {
		t.Errorf("too small: %v, on %v: %s", err, c.Device, told)
	}
	c.Device = broken{slow}
	if _, err := c.choose(set); err != nil || c.Device != nil ||
		told != "computing on the processor: no layer could be measured: it is lost" {
		t.Errorf("broken: %v, on %v: %s", err, c.Device, told)
	}
	c.Faster, c.Device = nil, slow
	if _, err := c.choose(set); err != nil || c.Device == nil {
		t.Errorf("no choice: %v, on %v", err, c.Device)
	}
	if c.Device = tiny; errOf(newNetwork(&c, set)) == nil {
		t.Error("a device without memory is enough")
	}
}
