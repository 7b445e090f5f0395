// Command notice lists the dependencies of a hippo program: the modules at the end of NOTICE, and in
// internal/licenses/licenses.txt the full texts that licenses require in a binary, which hippo version --licenses
// prints. It asks the go command for the packages of the program on every system for which it is released, and reads
// their licenses from the module cache. It is its own module, so that its dependencies are not hippo's. Run it here:
//
//	go generate ./...
package main

import (
	"bytes"
	"log"
	"os"
	"path/filepath"
)

//go:generate go run .

const (
	root         = "../.." // of hippo's module
	noticeFile   = "NOTICE"
	licensesFile = "internal/licenses/licenses.txt"
)

func main() {
	log.SetFlags(0)
	files, err := generate()
	if err != nil {
		log.Fatal("notice: ", err)
	}
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
			continue
		}
		if err := os.WriteFile(path, text, 0o666); err != nil {
			log.Fatal("notice: ", err)
		}
	}
}

// generate returns the contents that the files should have, by their paths relative to the root.
func generate() (map[string][]byte, error) {
	modules, err := linked()
	if err != nil {
		return nil, err
	}
	for i := range modules {
		if err := modules[i].read(); err != nil {
			return nil, err
		}
	}
	written, err := os.ReadFile(filepath.Join(root, noticeFile))
	if err != nil {
		return nil, err
	}
	ours, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	notice, err := withModules(written, modules)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{noticeFile: notice, licensesFile: licenses(ours, notice, modules)}, nil
}
