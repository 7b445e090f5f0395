package status

import (
	"fmt"
	"os"
)

// RSS returns the number of bytes of memory that the process holds now, or 0 if the system does not tell.
func RSS() uint64 {
	data, err := os.ReadFile("/proc/self/statm") // size and resident set in pages, then more; proc(5)
	if err != nil {
		return 0
	}
	var size, resident uint64
	if _, err := fmt.Sscan(string(data), &size, &resident); err != nil {
		return 0
	}
	return resident * uint64(os.Getpagesize())
}
