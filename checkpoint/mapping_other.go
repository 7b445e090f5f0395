//go:build !unix

package checkpoint

import "os"

// mapFile reads the file. Windows can map files too, but a mapped file there cannot be replaced by a new checkpoint.
func mapFile(f *os.File, size int) (*mapping, error) { return readMapping(f, size) }
