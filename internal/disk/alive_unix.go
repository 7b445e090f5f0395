//go:build unix

package disk

import (
	"errors"
	"os"
	"syscall"
)

// alive reports whether a process with that number is running.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, syscall.EPERM) // the process is another user's
}
