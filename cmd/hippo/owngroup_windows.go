package main

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl-C on the terminal from reaching a child process, which this process ends itself.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
