//go:build !gpu

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// become runs another program with the same arguments and returns its exit status as a statusError.
func become(path string) error {
	other := exec.Command(path, os.Args[1:]...)
	other.Stdin, other.Stdout, other.Stderr = os.Stdin, os.Stdout, os.Stderr
	var exit *exec.ExitError
	switch err := other.Run(); {
	case err == nil:
		return statusError(0)
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return statusError(exit.ExitCode())
	default:
		return fmt.Errorf("%s: %w", path, err)
	}
}
