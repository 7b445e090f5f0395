package train

import "syscall"

// processorName is what the system calls the processor, or "".
func processorName() string {
	name, err := syscall.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return ""
	}
	return name
}
