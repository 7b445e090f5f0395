package bench

import "os/exec"

// endTogether would make the end of a command's context end all that the command has started. Here only the shell ends.
func endTogether(*exec.Cmd) {}
