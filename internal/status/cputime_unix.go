//go:build unix

package status

import (
	"syscall"
	"time"
)

// CPUTime returns the CPU time of all threads of this process.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // no caller can cause it to fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
