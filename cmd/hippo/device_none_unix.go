//go:build unix && !gpu

package main

import (
	"fmt"
	"os"
	"syscall"
)

// become replaces this process by another program, with the same arguments. So signals reach that program, and its exit
// status is that of this process.
func become(path string) error {
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, os.Args, os.Environ()))
}
