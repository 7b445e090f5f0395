package train

import "syscall"

// processorName returns the system's name of the processor, or "".
func processorName() string {
	name, err := syscall.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return ""
	}
	return name
}
