//go:build !darwin

package train

import "os"

// processorName is what the system calls the processor, as Windows does, or "".
func processorName() string { return os.Getenv("PROCESSOR_IDENTIFIER") }
