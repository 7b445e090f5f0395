package checkpoint

import (
	"path/filepath"
	"slices"
	"strings"
)

// Endings are the extensions, without the dot, of files that hold tensors.
var Endings = []string{"pt", "pth", "bin", "ckpt", "safetensors", "gguf"}

// HasEnding reports whether a file has the extension of a checkpoint.
func HasEnding(name string) bool {
	return slices.Contains(Endings, strings.TrimPrefix(filepath.Ext(name), "."))
}
