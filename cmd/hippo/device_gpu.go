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

// hasDevices says that this program has an engine for graphics cards.
const hasDevices = true

// openDevice opens a graphics card by its number, the best one for -1. HIPPO_VALIDATE=1 has the validation layer check
// how it is used, HIPPO_GPU_MEMORY is the most of its memory to take.
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

// devices are the graphics cards, or what is missing: a list for JSON, and a line for each.
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
