package session

import (
	"os"
	"path/filepath"
	"strings"
)

// A library is a Folder with texts that were read: beside each NAME.txt is the session NAME, which stands near the end
// of the text, at a place that does not depend on what follows.

// textSuffix ends the names of the texts of a library.
const textSuffix = ".txt"

// TextPath returns the file of a text of a library, which need not exist.
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
