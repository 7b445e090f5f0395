//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a child process into its own process group, so that Ctrl-C on the terminal does not reach it. This
// process stops the child itself.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
