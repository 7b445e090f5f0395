//go:build gpu

package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/engine/gpu"
	"github.com/hippo-ssm/hippo/internal/status"
)

// hasDevices reports that this program has an engine for graphics cards.
const hasDevices = true

// openDevice opens the graphics card with a number, or the best one if number is -1. With HIPPO_VALIDATE=1 Vulkan's
// validation layer checks its use. HIPPO_GPU_MEMORY limits the memory that is taken on the card.
func openDevice(number int) (failing, error) {
	most := int64(0)
	if text := os.Getenv("HIPPO_GPU_MEMORY"); text != "" {
		var err error
		if most, err = data.ParseSize(text); err != nil || most <= 0 {
			return nil, fmt.Errorf("HIPPO_GPU_MEMORY: found %q, want a size such as 8GB", text)
		}
	}
	b, err := gpu.Open(number, os.Getenv("HIPPO_VALIDATE") == "1", uint64(most))
	if err != nil {
		return nil, err
	}
	return b, nil
}

// devices returns the graphics cards as a list for JSON and as one line of text each. If there are none, both hold the
// reason.
func devices() (list any, lines []string) {
	all, err := gpu.Devices()
	if err != nil {
		return map[string]string{"error": err.Error()}, []string{"gpu: " + err.Error()}
	}
	for i, d := range all {
		memory := status.Bytes(int(d.Memory)) + " of memory"
		if d.Free > 0 {
			memory += ", " + status.Bytes(int(d.Free)) + " free"
		}
		line := fmt.Sprintf("gpu:%d: %s (%s), %s, %s, Vulkan %s; has %s", i, d.Name, d.Kind, memory, d.Driver, d.API,
			cmp.Or(d.Has(), "nothing more than is needed"))
		if len(d.Lacks) > 0 {
			line += "; cannot be used: it lacks " + strings.Join(d.Lacks, ", ")
		}
		lines = append(lines, line)
	}
	return all, lines
}
