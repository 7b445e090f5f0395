package main

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a child process into its own process group, so that Ctrl-C on the terminal does not reach it. This
// process ends the child itself.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
