//go:build unix && !gpu

package main

import (
	"fmt"
	"os"
	"syscall"
)

// become makes this process another program, with the same arguments: so signals reach it, and its status is its own.
func become(path string) error {
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, os.Args, os.Environ()))
}
