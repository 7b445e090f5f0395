//go:build unix

package bench

import (
	"os/exec"
	"syscall"
)

// endTogether makes the end of a command's context end the command and all processes that it has started.
func endTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
