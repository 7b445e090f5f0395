//go:build unix

package main

import (
	"os"
	"syscall"
)

// userSignal is the signal that a batch system sends before it ends a job.
var userSignal os.Signal = syscall.SIGUSR1
