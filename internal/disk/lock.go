package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/gofrs/flock"
)

// LockFile is the name of the file by which a process locks a folder.
const LockFile = ".lock"

// Lock is a folder that this process has locked. The system releases the lock when the process ends, even if it is
// killed.
type Lock struct {
	path string
	file *flock.Flock // nil if the file system has no locks
	made []string     // the folders created for it, the innermost first
}

// Holder describes the process that has locked a folder, as that process wrote in the LockFile.
type Holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Since   time.Time `json:"since"`
	Command string    `json:"command"`
}

// LockedError reports that another process has locked a folder.
type LockedError struct {
	Dir    string
	Holder Holder // zero if unknown
}

// Error names the folder, and its holder if known.
func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is in use by %s; wait until that has ended, or choose another folder", e.Dir, e.Holder)
}

// String names the process.
func (h Holder) String() string {
	if h.PID == 0 {
		return "another process"
	}
	since := h.Since.Local().Format(time.DateTime)
	return fmt.Sprintf("process %d on %s, since %s (%s)", h.PID, h.Host, since, h.Command)
}

// LockDir creates the folder dir if needed and locks it for this process until Release. If another process has locked
// it, or this one already has, the error is a *LockedError. On a file system without locks it locks nothing and returns
// no error. On a full disk the lock may lack the name of its holder.
func LockDir(dir string) (*Lock, error) {
	l := &Lock{path: filepath.Join(dir, LockFile), made: missing(dir)}
	for tries := 0; ; tries++ {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			if tries < 100 && (errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist)) {
				continue // its previous holder has just removed it
			}
			return nil, errors.Join(err, l.Release())
		}
		file := flock.New(l.path, flock.SetPermissions(0o666))
		got, err := file.TryLock()
		switch {
		case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK):
			return l, file.Close()
		case errors.Is(err, fs.ErrNotExist) && tries < 100:
			continue
		case err != nil:
			return nil, errors.Join(err, l.Release())
		case !got:
			return nil, errors.Join(&LockedError{dir, readHolder(l.path)}, file.Close())
		}
		if IsAt(file, l.path) {
			l.file = file
			return l, l.sign()
		}
		if err := file.Close(); err != nil { // the file was removed by its holder on release
			return nil, err
		}
	}
}

// ClaimDir is LockDir for a folder that this process will write to: it also removes temporary files that killed
// processes left there.
func ClaimDir(dir string) (*Lock, error) {
	lock, err := LockDir(dir)
	if err != nil {
		return nil, err
	}
	if err := Sweep(dir); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return lock, nil
}

// holderAt is the offset of the holder in the LockFile. Windows locks the first byte, so that no other process can read
// it.
const holderAt = 1

// missing returns the folders on the path dir that do not exist, the innermost first.
func missing(dir string) (all []string) {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return all
		}
		all = append(all, dir)
	}
}

// removeEmpty removes folders until it finds one that is not empty.
func removeEmpty(dirs []string) {
	for _, dir := range dirs {
		if os.Remove(dir) != nil { // the folder is not empty
			return
		}
	}
}

// here returns the Holder of this process.
func here() Holder {
	const most = 300 // maximum length of a command line in a message
	command := strings.Join(os.Args, " ")
	if len(command) > most {
		command = command[:most] + "..."
	}
	return Holder{os.Getpid(), hostName(), time.Now().Truncate(time.Second), command}
}

func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	return host
}

// sign writes the holder into the LockFile.
func (l *Lock) sign() error {
	text, err := json.Marshal(here())
	if err != nil {
		return errors.Join(err, l.Release())
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY, 0)
	if err != nil {
		return errors.Join(err, l.Release())
	}
	_, err = f.WriteAt(append(text, '\n'), holderAt)
	if err := errors.Join(err, f.Close()); err != nil && !IsFull(err) {
		return errors.Join(err, l.Release())
	}
	return nil
}

// readHolder reads what sign wrote. It returns the zero Holder if it cannot be read.
func readHolder(path string) Holder {
	f, err := os.Open(path)
	if err != nil {
		return Holder{}
	}
	defer f.Close()
	var h Holder
	if err := json.NewDecoder(io.NewSectionReader(f, holderAt, 4<<10)).Decode(&h); err != nil {
		return Holder{}
	}
	h.Host, h.Command = printable(h.Host), printable(h.Command)
	return h
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// Release unlocks the folder, and removes it if LockDir created it and it is empty. The Lock must not be used
// afterwards.
func (l *Lock) Release() error {
	var err error
	if l.file != nil {
		// The file is removed while it is locked. A process that has already opened it sees that it is not the file in
		// the folder, and tries again. Windows cannot remove an open file, so an empty one stays behind.
		_ = os.Remove(l.path)
		err = l.file.Close()
	}
	removeEmpty(l.made)
	return err
}
