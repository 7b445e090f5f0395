//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl-C on the terminal from reaching a child process, which this process stops itself.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
