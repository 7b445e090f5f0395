//go:build unix

package disk

import (
	"errors"
	"os"
	"syscall"
)

// alive reports whether a process of that number runs.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, syscall.EPERM) // it is another user's
}
