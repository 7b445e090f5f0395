package disk

import "os"

// alive reports whether a process of that number runs.
func alive(pid int) bool {
	p, err := os.FindProcess(pid) // finds running processes only
	if err != nil {
		return false
	}
	p.Release()
	return true
}
