//go:build unix

package bench

import (
	"os/exec"
	"syscall"
)

// endTogether kills a command and all processes that it has started when its context ends.
func endTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
