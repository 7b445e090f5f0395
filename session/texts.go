package session

import (
	"os"
	"path/filepath"
	"strings"
)

// A library is a Folder that also stores the texts that were read. Next to each NAME.txt is the session NAME. It ends
// near the end of the text, at a position that does not depend on the text that follows.

// textSuffix is the suffix of the names of the texts of a library.
const textSuffix = ".txt"

// TextPath returns the path of a text of a library. The file need not exist.
func (f Folder) TextPath(name string) (string, error) {
	path, err := f.Path(name)
	return strings.TrimSuffix(path, suffix) + textSuffix, err
}

// Texts returns the names of the texts of a library, sorted.
func (f Folder) Texts() (names []string, err error) {
	entries, err := os.ReadDir(f.dir)
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), textSuffix)
		if ok && e.Type().IsRegular() && validName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// String returns the path of the folder.
func (f Folder) String() string { return filepath.Clean(f.dir) }
