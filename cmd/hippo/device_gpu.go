//go:build gpu

package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/hippo-ssm/hippo/engine/gpu"
	"github.com/hippo-ssm/hippo/internal/status"
)

// hasDevices says that this program has an engine for graphics cards.
const hasDevices = true

// openDevice opens a graphics card by its number, the best one for -1. HIPPO_VALIDATE=1 has the validation layer check
// how it is used.
func openDevice(number int) (failing, error) {
	if number < 0 {
		all, err := gpu.Devices()
		if err != nil {
			return nil, err
		}
		if number, err = gpu.Best(all); err != nil {
			return nil, err
		}
	}
	b, err := gpu.Open(number, os.Getenv("HIPPO_VALIDATE") == "1")
	if err != nil {
		return nil, err
	}
	return b, nil
}

// devices are the graphics cards, or what is missing.
func devices() any {
	all, err := gpu.Devices()
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return all
}

// deviceLines describe them, a line each.
func deviceLines() (lines []string) {
	all, err := gpu.Devices()
	if err != nil {
		return []string{"gpu: " + err.Error()}
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
	return lines
}
