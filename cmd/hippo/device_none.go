//go:build !gpu

package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// hasDevices reports that this program has no engine for graphics cards.
const hasDevices = false

// noEngine is the message that explains how to get the program with an engine for graphics cards.
const noEngine = "this hippo computes on the processor only: for graphics cards put the program hippo-gpu of the " +
	"same version beside it, or build it with: go build -tags gpu -o hippo-gpu ./cmd/hippo"

// openDevice runs hippo-gpu, which has an engine for graphics cards, in place of this program. It returns only with an
// error.
func openDevice(int) (failing, error) {
	name := "hippo-gpu"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path, err := os.Executable()
	if err == nil {
		path = filepath.Join(filepath.Dir(path), name)
		_, err = os.Stat(path)
	}
	if err != nil {
		return nil, errors.New("device: " + noEngine)
	}
	return nil, become(path)
}

// devices returns noEngine as an object for JSON and as a line of text, as this program knows no graphics cards.
func devices() (list any, lines []string) {
	return map[string]string{"error": noEngine}, []string{noEngine}
}
