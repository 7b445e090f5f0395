package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// ManifestFile is the name of the file with the list of files, their sizes and checksums that WriteDirAtomic writes
// into a folder.
const ManifestFile = "manifest.json"

// manifest is the content of ManifestFile. The checksum is CRC-32C: it detects damage but not malice, and adds almost
// nothing to the time of a load.
type manifest struct {
	Version int                `json:"version"`
	Files   map[string]fileSum `json:"files"`
}

// fileSum is the size and checksum of a file when it was written.
type fileSum struct {
	Size   int64  `json:"size"`
	CRC32C string `json:"crc32c"` // eight hexadecimal digits
}

const manifestVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writeManifest lists the regular files of a folder in its manifest.
func writeManifest(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	m := manifest{Version: manifestVersion, Files: map[string]fileSum{}}
	for _, e := range entries {
		if e.Type().IsRegular() && e.Name() != ManifestFile {
			if m.Files[e.Name()], err = sumFile(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ManifestFile), append(text, '\n'), 0o666)
}

func sumFile(path string) (fileSum, error) {
	f, _, err := disk.Open(path)
	if err != nil {
		return fileSum{}, err
	}
	defer f.Close()
	sum := crc32.New(castagnoli)
	n, err := io.CopyBuffer(sum, struct{ io.Reader }{f}, make([]byte, 1<<20))
	return fileSum{n, fmt.Sprintf("%08x", sum.Sum32())}, err
}

// ReadDir compares files in a folder that WriteDirAtomic wrote with the manifest, the named files or all, and then
// calls read, which reads them. A folder without a manifest, such as an older one, is not compared. If the folder is
// replaced by a newer one meanwhile, ReadDir reads the newer one.
func ReadDir(dir string, read func() error, names ...string) error {
	for {
		m, err := readManifest(dir)
		if err == nil {
			err = m.check(dir, names)
		}
		if err == nil {
			err = read()
		}
		if err == nil {
			return nil
		}
		if now, again := readManifest(dir); again != nil || maps.Equal(now.Files, m.Files) {
			return err
		}
	}
}

// readManifest reads the manifest of a folder. It returns an empty manifest if there is none.
func readManifest(dir string) (manifest, error) {
	var m manifest
	path := filepath.Join(dir, ManifestFile)
	err := disk.ReadJSON(path, &m)
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{}, nil
	}
	if err == nil && m.Version != manifestVersion {
		err = fmt.Errorf("%s: found version %d, want %d", path, m.Version, manifestVersion)
	}
	return m, err
}

// check compares files with the manifest, the named files or all. A missing file is not an error here, as its reader
// will report it.
func (m manifest) check(dir string, names []string) error {
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		path := filepath.Join(dir, name)
		if filepath.Base(path) != name {
			return brief.Error(fmt.Errorf("%s: found the file %q, want names of files in the folder",
				filepath.Join(dir, ManifestFile), name))
		}
		want := m.Files[name]
		got, err := sumFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			failed = append(failed, err)
		case got.Size != want.Size:
			failed = append(failed, fmt.Errorf("%s: found %d bytes, want the %d that it was written with%s", path,
				got.Size, want.Size, changed))
		case got.CRC32C != want.CRC32C:
			failed = append(failed, fmt.Errorf("%s: found the checksum %s, want %s: it is not as it was written%s",
				path, got.CRC32C, want.CRC32C, changed))
		}
	}
	return brief.Error(errors.Join(failed...))
}

// changed is the part of an error that says how to read a file that was changed on purpose.
const changed = " (if it was changed on purpose, remove " + ManifestFile + " beside it)"
