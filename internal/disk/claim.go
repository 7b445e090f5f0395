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

// A claim is a file beside what it claims, PATH.claim-N, or in the folder that it claims, on a file system that
// machines share. Whoever claims creates the next number with O_EXCL, which one alone can do, NFS included, and then
// looks again: another file than the one of a dead holder means that somebody else claims, and both of those give way.
// So a slow process cannot take what others have taken, given back and taken again while it looked. The holder keeps
// the file locked and writes it again several times a term. A file that no lock covers (many network file systems have
// none, or none that others see) is dead a term after that, by its time beside the time of a new file in the same
// folder: both are the file server's.

// ClaimTerm is how long the claim of a process on another machine stands without a sign of life.
const ClaimTerm = time.Minute

// Inside is the path by which a folder is claimed: the file of the claim is in the folder.
func Inside(dir string) string { return filepath.Clean(dir) + string(filepath.Separator) }

// claimBeats is how often a holder gives a sign of life in a term.
const claimBeats = 6

const claimMark = ".claim-"

// claimant is the content of a claim's file.
type claimant struct {
	Holder
	Machine string `json:"machine"` // that started once: see machineName
	Locked  bool   `json:"locked"`  // the file is locked while the holder lives
}

// ClaimLostError is the cause of the end of a context whose claim another process has taken over.
type ClaimLostError struct{ Path string }

// Error says what is lost.
func (e *ClaimLostError) Error() string {
	return fmt.Sprintf("%s: another process has taken it over: this one gave no sign of life for %v", e.Path, ClaimTerm)
}

// Claim does something while no other process that claims the same path, on any machine, does. The context of do ends
// with a ClaimLostError if this process has slept for more than ClaimTerm and another has taken over. If another
// process has the path, the error is a *LockedError. If patient is set and that process is on another machine, Claim
// first waits until it gives a sign of life, or is dead.
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
		if errors.Is(err, fs.ErrNotExist) { // the folder
			return nil
		}
		return err
	})
}

// EachFree does something for each of all that no other process has, and returns who has the rest. What others have
// is tried once more in the end, patiently: see Claim. do returns a *LockedError for what another process has; any
// other error ends all.
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

// settle calls look until it is known whether the process that it finds lives, or once unless patient is set.
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

// unsureError is a LockedError of a process that may be dead.
type unsureError struct {
	LockedError
	written time.Time // its last sign of life
}

// Unwrap returns the LockedError.
func (e *unsureError) Unwrap() error { return &e.LockedError }

// taken is a claim of this process.
type taken struct {
	name string
	file *os.File
	info fs.FileInfo // of the file
	text []byte
	made []string // folders made for it
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

// try is take in a folder that is there.
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
			_ = os.Remove(claimName(path, n)) // else the next one does
		}
	}
	return nil
}

// standing returns the claims of dead holders, with nil for files that are gone, and the number of the next claim. The
// claim of one that lives is an error.
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

// sign locks and writes the file. On a full disk it stays empty, which others judge by its time alone.
func (c *taken) sign() error {
	me := claimant{Holder: here(), Machine: machineName()}
	for range 200 { // somebody may be looking at the new file, with a shared lock
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

// claimLock is TryLock. Tests take it away.
var claimLock = TryLock

// beat writes the file from time to time, until stop or until it has been taken away.
func (c *taken) beat(stop chan struct{}, every time.Duration, lost func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		_ = c.write() // if this fails for a term, others take over, which the next lines see
		if at, err := os.Stat(c.name); errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(at, c.info) {
			lost()
			return
		}
	}
}

// release gives the path back.
func (c *taken) release() error {
	err := c.remove()
	removeEmpty(c.made)
	return err
}

// remove removes the file, unless another process has.
func (c *taken) remove() error {
	mine := IsAt(c.file, c.name)
	err := c.file.Close()
	if mine { // Windows removes no open file
		if gone := os.Remove(c.name); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// judge returns the file of a claim whose holder is dead. It is nil if the file is gone. The claim of one that lives is
// an error.
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

// folderTime is the time by the clock of the machine that has a folder's files.
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
	if gone := os.Remove(f.Name()); !errors.Is(gone, fs.ErrNotExist) { // Temp of another process removes it, too
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

// readClaim reads who has a claim. It returns the zero claimant if that cannot be read.
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

// machineName is the name of this machine since its start. Linux has a number for that: two machines of one name differ
// in it.
func machineName() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return hostName() + " " + strings.TrimSpace(string(boot))
}
