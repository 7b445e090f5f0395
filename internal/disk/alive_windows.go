package disk

import "os"

// alive reports whether a process with that number is running.
func alive(pid int) bool {
	p, err := os.FindProcess(pid) // finds running processes only
	if err != nil {
		return false
	}
	p.Release()
	return true
}
