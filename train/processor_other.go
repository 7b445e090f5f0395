//go:build !darwin

package train

import "os"

// processorName returns the system's name of the processor, which Windows sets, or "".
func processorName() string { return os.Getenv("PROCESSOR_IDENTIFIER") }
