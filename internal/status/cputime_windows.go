package status

import (
	"syscall"
	"time"
)

// CPUTime returns the CPU time of all threads of this process. Its clock ticks 64 times a second.
func CPUTime() time.Duration {
	self, err := syscall.GetCurrentProcess()
	var created, ended, kernel, user syscall.Filetime
	if err == nil {
		err = syscall.GetProcessTimes(self, &created, &ended, &kernel, &user)
	}
	if err != nil {
		panic(err) // no caller can cause it to fail
	}
	return 100 * time.Duration(ticks(kernel)+ticks(user))
}

// ticks returns a duration in units of 100 ns.
func ticks(t syscall.Filetime) int64 { return int64(t.HighDateTime)<<32 | int64(t.LowDateTime) }
