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

// Folder stores sessions by name, one file each. Any number of processes may use it.
type Folder struct{ dir string }

// suffix is the suffix of the names of the files.
const suffix = ".session"

// validName matches the names of sessions. They cannot be paths, hidden files or temporary files on any system.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$`)

// maxName is the maximum length of a name in bytes.
const maxName = 100

// OpenFolder returns the folder dir, or DefaultFolder if dir is empty. The folder is created when a session is saved.
func OpenFolder(dir string) (Folder, error) {
	if dir == "" {
		var err error
		if dir, err = DefaultFolder(); err != nil {
			return Folder{}, err
		}
	}
	return Folder{dir}, nil
}

// DefaultFolder returns the folder that the environment variable HIPPO_SESSIONS names, or hippo/sessions in the user's
// data folder.
func DefaultFolder() (string, error) {
	if dir := os.Getenv("HIPPO_SESSIONS"); dir != "" {
		return dir, nil
	}
	dir, err := dataFolder()
	return filepath.Join(dir, "sessions"), err
}

// dataFolder returns hippo's folder in the user's data folder.
func dataFolder() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "hippo"), nil
	}
	switch runtime.GOOS {
	case "windows", "darwin":
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "hippo"), err
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "share", "hippo"), err
}

// Path returns the path of the file of a name. The file need not exist.
func (f Folder) Path(name string) (string, error) {
	if len(name) > maxName || !validName.MatchString(name) {
		return "", fmt.Errorf("session: found the name %.*q, want letters, digits, _ and -, and dots between them",
			maxName, name)
	}
	return filepath.Join(f.dir, name+suffix), nil
}

// Lock is an exclusive lock on a name.
type Lock struct {
	Name, Path string
	lock       *disk.Lock
}

// Lock locks a name for this process until Release. If another process holds the lock, the error names that process.
func (f Folder) Lock(name string) (*Lock, error) {
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
	return &Lock{name, path, lock}, nil
}

// Exists reports whether a session of that name exists.
func (h *Lock) Exists() bool {
	_, err := os.Lstat(h.Path)
	return err == nil
}

// Release unlocks the name and removes the folder of the lock.
func (h *Lock) Release() error {
	err := h.lock.Release()
	_ = os.Remove(h.Path + ".lock") // fails if another process has locked it by now
	return err
}

// List returns the sessions of the folder, sorted by name. For a file that is encrypted or cannot be read, only the
// name, size and time are set. List removes the temporary files of killed processes.
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

// Fork stores a copy of a session under another name. Both continue from the same position.
func (f Folder) Fork(from, to string, key []byte) error {
	path, err := f.Path(from)
	if err != nil {
		return err
	}
	return f.create(to, func(w io.Writer) error { return rewrite(w, path, FileOptions{Key: key}, (*header).fork) })
}

// create creates a session. It returns an error if the name exists.
func (f Folder) create(name string, write func(io.Writer) error) error {
	h, err := f.Lock(name)
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

// Import copies the file of a session into the folder under a new name. It verifies the whole file first. An encrypted
// file needs its key, and the copy is encrypted, too. For a signed file, Import calls trusts with the signer and
// returns its error.
func (f Folder) Import(name, path string, key []byte, trusts func(PublicKey) error) error {
	if _, err := Inspect(path, key); err != nil {
		return err
	}
	x, err := Check(path, key)
	if err == nil && x.Signer != (PublicKey{}) {
		err = trusts(x.Signer)
	}
	if err != nil {
		return err
	}
	return f.create(name, func(w io.Writer) error { return copyFile(w, path) })
}

// Export writes the file of a session to a path, signed by the signer of the options and encrypted with their key. If
// the key of an encrypted file is not given, the file is copied unchanged.
func (f Folder) Export(name, path string, o FileOptions) error {
	from, err := f.Path(name)
	if err != nil {
		return err
	}
	if _, err := os.Stat(from); err != nil {
		return err
	}
	return disk.WriteFile(path, func(w io.Writer) error {
		if err := rewrite(w, from, o, func(*header) {}); o.Key != nil || !errors.Is(err, ErrKey) {
			return err
		}
		return copyFile(w, from)
	})
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

// Remove removes a session, and its text in a library. It fails if a process has locked the session.
func (f Folder) Remove(name string) error {
	h, err := f.Lock(name)
	if err != nil {
		return err
	}
	text := os.Remove(strings.TrimSuffix(h.Path, suffix) + textSuffix)
	err = os.Remove(h.Path)
	if errors.Is(text, fs.ErrNotExist) {
		text = nil
	} else if text == nil && errors.Is(err, fs.ErrNotExist) { // the text had no session yet
		err = nil
	}
	return errors.Join(err, text, h.Release())
}
