//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// userSignal is the signal that a batch system sends before it ends a job.
var userSignal os.Signal = syscall.SIGUSR1

// isUnread reports whether the reader of a pipe or connection has closed it.
func isUnread(f *os.File) bool {
	unread := false
	c, err := f.SyscallConn()
	if err == nil {
		err = c.Control(func(fd uintptr) {
			at := []unix.PollFd{{Fd: int32(fd)}}
			n, err := unix.Poll(at, 0)
			unread = err == nil && n > 0 && at[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
		})
	}
	return err == nil && unread
}
