//go:build unix

package bench

import (
	"syscall"
	"time"
)

// shortest is how long a repetition takes at least, so that the ticks of the clocks, of a microsecond, weigh nothing.
const shortest = 5 * time.Millisecond

// processTime is the CPU time that all threads of this process have used.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no failure that a caller could cause
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
