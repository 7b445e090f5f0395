package session

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Folder holds sessions under names, a file for each. Any number of processes may use it.
type Folder struct{ dir string }

// suffix is the end of the names of the files.
const suffix = ".session"

// validName is what a session may be called: what is no path, no hidden file and no temporary one on any system.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$`)

// maxName is the longest name in bytes.
const maxName = 100

// OpenFolder returns the folder dir, or DefaultFolder where dir is empty. It is made when something is saved there.
func OpenFolder(dir string) (Folder, error) {
	if dir == "" {
		var err error
		if dir, err = DefaultFolder(); err != nil {
			return Folder{}, err
		}
	}
	return Folder{dir}, nil
}

// DefaultFolder is the one of the variable HIPPO_SESSIONS, or hippo/sessions in the user's folder of data.
func DefaultFolder() (string, error) {
	if dir := os.Getenv("HIPPO_SESSIONS"); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "hippo", "sessions"), nil
	}
	switch runtime.GOOS {
	case "windows", "darwin":
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "hippo", "sessions"), err
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "share", "hippo", "sessions"), err
}

// Path is the file of a name, whether it is there or not.
func (f Folder) Path(name string) (string, error) {
	if len(name) > maxName || !validName.MatchString(name) {
		return "", fmt.Errorf("session: found the name %.*q, want letters, digits, _ and -, and dots between them",
			maxName, name)
	}
	return filepath.Join(f.dir, name+suffix), nil
}

// Held is a name that no other process can take.
type Held struct {
	Name, Path string
	lock       *disk.Lock
}

// Hold takes a name for this process until Release. The error names who has it.
func (f Folder) Hold(name string) (*Held, error) {
	path, err := f.Path(name)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(f.dir, 0o777); err != nil {
		return nil, err
	}
	lock, err := disk.LockDir(path + ".lock")
	var locked *disk.LockedError
	if errors.As(err, &locked) {
		who := "another process"
		if h := locked.Holder; h.PID != 0 {
			who = fmt.Sprintf("process %d on %s (%s)", h.PID, h.Host, h.Command)
		}
		return nil, fmt.Errorf("session %s is in use by %s: wait until that has ended, or fork the session", name, who)
	}
	if err != nil {
		return nil, err
	}
	return &Held{name, path, lock}, nil
}

// Exists reports whether a session of that name exists.
func (h *Held) Exists() bool {
	_, err := os.Lstat(h.Path)
	return err == nil
}

// Release gives the name back. What a killed process left of it is removed.
func (h *Held) Release() error {
	err := h.lock.Release()
	_ = os.Remove(h.Path + ".lock") // it stays if somebody has it by now
	return err
}

// List returns the sessions of the folder by name. Of a file that cannot be read, or is encrypted, there are only name,
// size and time. What killed processes left is removed.
func (f Folder) List() ([]Info, error) {
	if err := disk.Sweep(f.dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Info
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if stat, err := e.Info(); ok && err == nil && stat.Mode().IsRegular() {
			info, err := Inspect(filepath.Join(f.dir, e.Name()), nil)
			if err != nil {
				info = Info{}
			}
			info.Name, info.Bytes, info.Saved = name, stat.Size(), stat.ModTime()
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// Fork makes a session of another name that continues from the same place.
func (f Folder) Fork(from, to string, key []byte) error {
	path, err := f.Path(from)
	if err != nil {
		return err
	}
	return f.create(to, func(w io.Writer) error { return forkFile(w, path, key) })
}

// create makes a session of a name that is not there.
func (f Folder) create(name string, write func(io.Writer) error) error {
	h, err := f.Hold(name)
	if err != nil {
		return err
	}
	if h.Exists() {
		err = fmt.Errorf("session %s is there already, want another name", name)
	} else {
		err = disk.WriteFile(h.Path, write)
	}
	return errors.Join(err, h.Release())
}

// Import takes a file of a session over, under a name that is not there. Its bits are checked; key is that of an
// encrypted one, of which there is a copy then.
func (f Folder) Import(name, path string, key []byte) error {
	if _, err := Inspect(path, key); err != nil {
		return err
	}
	return f.create(name, func(w io.Writer) error { return copyFile(w, path) })
}

// Export copies the file of a session to a path.
func (f Folder) Export(name, path string) error {
	from, err := f.Path(name)
	if err != nil {
		return err
	}
	if _, err := os.Stat(from); err != nil {
		return err
	}
	return disk.WriteFile(path, func(w io.Writer) error { return copyFile(w, from) })
}

func copyFile(w io.Writer, path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(w, in)
	return err
}

// Remove removes a session that no process has.
func (f Folder) Remove(name string) error {
	h, err := f.Hold(name)
	if err != nil {
		return err
	}
	return errors.Join(os.Remove(h.Path), h.Release())
}
