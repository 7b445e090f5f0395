package status

import (
	"fmt"
	"os"
	"strings"
)

// PeakRSS returns the largest number of bytes of memory that the process has held, since ResetPeakRSS if that was
// called, or 0 if the system does not tell.
func PeakRSS() uint64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		var kb uint64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	return 0
}

// ResetPeakRSS makes PeakRSS start again. It does nothing if the system does not allow it.
func ResetPeakRSS() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200) }
