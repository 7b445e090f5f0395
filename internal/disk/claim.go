package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A claim is a file beside the claimed path, PATH.claim-N, or in the claimed folder, on a file system that machines
// share. To claim a path, a process creates the file with the next number with O_EXCL, which only one process can do,
// even on NFS, and then looks again. If it finds any file other than those of dead holders, another process is claiming
// as well, and both give up. So a slow process cannot take a path that others have claimed, released and claimed again
// while it looked. The holder keeps the file locked, and rewrites it several times a term. A file that cannot be locked
// (many network file systems have no locks, or none that others see) is dead a term after its last write. Its time is
// compared with that of a new file in the same folder, because both are the file server's.

// ClaimTerm is how long the claim of a process on another machine is valid after its last heartbeat.
const ClaimTerm = time.Minute

// Inside returns the path by which a folder is claimed, with the file of the claim in the folder.
func Inside(dir string) string { return filepath.Clean(dir) + string(filepath.Separator) }

// claimBeats is the number of heartbeats of a holder in a term.
const claimBeats = 6

const claimMark = ".claim-"

// claimant is the content of the file of a claim.
type claimant struct {
	Holder
	Machine string `json:"machine"` // machine and its boot: see machineName
	Locked  bool   `json:"locked"`  // the file is locked while the holder lives
}

// ClaimLostError reports that another process has taken over a claim. It is the cause of the cancelled context.
type ClaimLostError struct{ Path string }

// Error names the path.
func (e *ClaimLostError) Error() string {
	return fmt.Sprintf("%s: another process has taken it over: this one gave no sign of life for %v", e.Path, ClaimTerm)
}

// Claim calls do while no other process that claims the same path, on any machine, does. The context of do ends with a
// ClaimLostError if this process has slept for more than ClaimTerm and another has taken over. If another process holds
// the path, the error is a *LockedError. If patient is set and that process is on another machine, Claim first waits
// for its next heartbeat, or until it is dead.
func Claim(ctx context.Context, path string, patient bool, do func(context.Context) error) error {
	var c *taken
	err := settle(ctx, patient, func() (err error) {
		c, err = take(path, ClaimTerm)
		return err
	})
	if err != nil {
		return err
	}
	ctx, lose := context.WithCancelCause(ctx)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		c.beat(stop, ClaimTerm/claimBeats, func() { lose(&ClaimLostError{path}) })
	}()
	err = do(ctx)
	close(stop)
	<-stopped
	if lost := (*ClaimLostError)(nil); err != nil && errors.As(context.Cause(ctx), &lost) {
		err = lost
	}
	lose(nil)
	return errors.Join(err, c.release())
}

// Claimed returns a *LockedError if a process has claimed the path, as Claim does, and otherwise nil. It claims
// nothing.
func Claimed(ctx context.Context, path string, patient bool) error {
	return settle(ctx, patient, func() error {
		_, _, err := standing(path, ClaimTerm)
		if errors.Is(err, fs.ErrNotExist) { // the folder does not exist
			return nil
		}
		return err
	})
}

// EachFree calls do for each item that no other process holds, and returns the holders of the rest. Items that others
// hold are tried once more at the end, patiently: see Claim. do returns a *LockedError if another process holds an
// item; any other error ends the loop.
func EachFree[T any](all []T, do func(one T, patient bool) error) (held []*LockedError, err error) {
	for _, patient := range []bool{false, true} {
		var left []T
		held = nil
		for _, one := range all {
			err := do(one, patient)
			var locked *LockedError
			if errors.As(err, &locked) {
				left, held = append(left, one), append(held, locked)
			} else if err != nil {
				return nil, err
			}
		}
		all = left
	}
	return held, nil
}

// settle calls look until it is known whether the process that it finds is alive, or only once unless patient is set.
func settle(ctx context.Context, patient bool, look func() error) error {
	err := look()
	var first *unsureError
	for patient && errors.As(err, &first) {
		select {
		case <-time.After(ClaimTerm / claimBeats / 4):
		case <-ctx.Done():
			return ctx.Err()
		}
		var now *unsureError
		if err = look(); errors.As(err, &now) && !now.written.Equal(first.written) {
			return err
		}
	}
	return err
}

// unsureError is a LockedError for a process that may be dead.
type unsureError struct {
	LockedError
	written time.Time // its last heartbeat
}

// Unwrap returns the LockedError.
func (e *unsureError) Unwrap() error { return &e.LockedError }

// taken is a claim of this process.
type taken struct {
	name string
	file *os.File
	info fs.FileInfo // of the file
	text []byte
	made []string // folders created for it
}

// take claims a path.
func take(path string, term time.Duration) (c *taken, err error) {
	dir := filepath.Dir(path)
	c = &taken{made: missing(dir)}
	for tries := 0; ; tries++ {
		if err = os.MkdirAll(dir, 0o777); err == nil {
			err = c.try(path, term)
		}
		if err == nil || tries >= 100 || !errors.Is(err, fs.ErrNotExist) { // others remove an empty folder
			break
		}
	}
	if err != nil {
		removeEmpty(c.made)
		return nil, err
	}
	return c, nil
}

// try is take in a folder that exists.
func (c *taken) try(path string, term time.Duration) error {
	dead, next, err := standing(path, term)
	if err != nil {
		return err
	}
	c.name = claimName(path, next)
	c.file, err = os.OpenFile(c.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return lockedBy(path, readClaim(c.name).Holder)
	}
	if err != nil {
		return err
	}
	if c.info, err = c.file.Stat(); err == nil {
		err = c.sign()
	}
	var files []int
	if err == nil {
		files, err = claimsOf(path)
	}
	for _, n := range files {
		if name := claimName(path, n); err == nil && name != c.name {
			if info, gone := os.Stat(name); gone == nil && (dead[n] == nil || !os.SameFile(info, dead[n])) {
				err = lockedBy(path, readClaim(name).Holder)
			}
		}
	}
	if err != nil {
		return errors.Join(err, c.remove())
	}
	for n, info := range dead {
		if info != nil {
			_ = os.Remove(claimName(path, n)) // otherwise the next claim removes it
		}
	}
	return nil
}

// standing returns the claims of dead holders, with nil for files that no longer exist, and the number of the next
// claim. A claim of a live holder is an error.
func standing(path string, term time.Duration) (dead map[int]fs.FileInfo, next int, err error) {
	files, err := claimsOf(path)
	dead, next = map[int]fs.FileInfo{}, 1
	for _, n := range files {
		next = max(next, n+1)
		if dead[n], err = judge(path, n, term); err != nil {
			return nil, 0, err
		}
	}
	return dead, next, err
}

// sign locks and writes the file. On a full disk it stays empty; other processes then judge it by its time only.
func (c *taken) sign() error {
	me := claimant{Holder: here(), Machine: machineName()}
	for range 200 { // another process may be reading the new file under a shared lock
		var err error
		if me.Locked, err = claimLock(c.file, false); me.Locked || err != nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	text, err := json.Marshal(me)
	if err != nil {
		return err
	}
	c.text = append(text, '\n')
	return c.write()
}

func (c *taken) write() error {
	_, err := c.file.WriteAt(c.text, 0)
	if err == nil {
		err = c.file.Sync()
	}
	if IsFull(err) {
		return nil
	}
	return err
}

// claimLock is TryLock. Tests replace it.
var claimLock = TryLock

// beat rewrites the file periodically, until stop is closed or the file has been taken away.
func (c *taken) beat(stop chan struct{}, every time.Duration, lost func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		_ = c.write() // if this fails for a term, others take over, which is detected below
		if at, err := os.Stat(c.name); errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(at, c.info) {
			lost()
			return
		}
	}
}

// release releases the path.
func (c *taken) release() error {
	err := c.remove()
	removeEmpty(c.made)
	return err
}

// remove removes the file, unless another process has removed it.
func (c *taken) remove() error {
	mine := IsAt(c.file, c.name)
	err := c.file.Close()
	if mine { // Windows cannot remove an open file
		if gone := os.Remove(c.name); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// judge returns the file of a claim whose holder is dead, or nil if the file no longer exists. A claim of a live holder
// is an error.
func judge(path string, n int, term time.Duration) (fs.FileInfo, error) {
	f, err := os.Open(claimName(path, n))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	by := decodeClaim(f)
	free, err := claimLock(f, true)
	switch {
	case err == nil && !free:
		return nil, lockedBy(path, by.Holder)
	case err != nil && !errors.Is(err, errors.ErrUnsupported):
		return nil, err
	}
	info, err := f.Stat()
	if err != nil || free && by.Locked && by.Machine == machineName() {
		return info, err
	}
	now, err := folderTime(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if now.Sub(info.ModTime()) <= term {
		return nil, &unsureError{LockedError{filepath.Clean(path), by.Holder}, info.ModTime()}
	}
	return info, nil
}

// folderTime returns the time by the clock of the machine that stores the folder's files.
func folderTime(dir string) (time.Time, error) {
	f, err := Temp(dir, claimMark+"time")
	if err != nil {
		return time.Time{}, err
	}
	_, err = f.WriteString("\n")
	if err == nil {
		err = f.Sync()
	}
	info, gone := f.Stat()
	err = errors.Join(err, gone, f.Close())
	if gone := os.Remove(f.Name()); !errors.Is(gone, fs.ErrNotExist) { // Temp in another process may remove it as well
		err = errors.Join(err, gone)
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// claimsOf returns the numbers of the claims of a path.
func claimsOf(path string) (numbers []int, err error) {
	_, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), base+claimMark)
		if n, wrong := strconv.Atoi(text); ok && wrong == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	return numbers, err
}

func claimName(path string, n int) string { return path + claimMark + strconv.Itoa(n) }

func lockedBy(path string, h Holder) error { return &LockedError{filepath.Clean(path), h} }

// readClaim reads who holds a claim. It returns the zero claimant if the file cannot be read.
func readClaim(name string) claimant {
	f, err := os.Open(name)
	if err != nil {
		return claimant{}
	}
	defer f.Close()
	return decodeClaim(f)
}

func decodeClaim(f io.ReaderAt) (c claimant) {
	if json.NewDecoder(io.NewSectionReader(f, 0, 4<<10)).Decode(&c) != nil {
		return claimant{}
	}
	c.Host, c.Command = printable(c.Host), printable(c.Command)
	return c
}

// machineName returns the name of this machine, with its boot ID on Linux, by which two machines of the same name
// differ.
func machineName() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return hostName() + " " + strings.TrimSpace(string(boot))
}
