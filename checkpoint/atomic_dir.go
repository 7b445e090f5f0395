package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// The marks in the names of a folder that is to replace another, and of the folder that it replaces; see below.
const (
	newMark = ".new-"
	oldMark = ".old-"
)

// Replacing a folder. X is a random id, the same in all names of one replacement:
//
//	dir.tmp-X   being written; or, where names can be exchanged, the old folder being removed. Never needed.
//	dir.new-X   complete and on disk, about to become dir
//	dir.old-X   the folder that dir.new-X replaces
//
// If the system can exchange two names in one step: write and sync dir.tmp-X, exchange it with dir, remove it.
// Otherwise: write and sync dir.tmp-X, rename it to dir.new-X, rename dir to dir.old-X, rename dir.new-X to dir, remove
// dir.old-X. Between the last two renames there is no dir, but dir.new-X and dir.old-X are both complete. If there was
// no dir before: write and sync dir.tmp-X and rename it to dir.
//
// RecoverDir decides by the names alone, so no folder needs a marker inside to show that it is complete.

// WriteDirAtomic writes a folder so that a crash at any moment leaves the whole old folder or the whole new one, which
// RecoverDir finds. write fills an empty folder tmp next to dir, and must not keep files in it open. The files then get
// a manifest (see ReadDir) and are synced to disk. If write returns an error, tmp is removed and dir is unchanged.
// WriteDirAtomic calls RecoverDir first. Two processes must not write a folder at the same time.
func WriteDirAtomic(dir string, write func(tmp string) error) error {
	return dirSwap{exchange, func(string) {}}.write(dir, write)
}

// RecoverDir finishes or rolls back a WriteDirAtomic that was killed, and removes its leftovers. Programs call it
// before they open dir. Without leftovers it does nothing. It is not an error if there is no folder at all.
func RecoverDir(dir string) error {
	return dirSwap{exchange, func(string) {}}.recover(dir)
}

// SettleDir is RecoverDir for programs that only read dir. If a killed WriteDirAtomic left no folder of that name, it
// restores the whole old or new folder. It removes nothing, since another process may be writing the folders next to
// dir.
func SettleDir(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if exists, err := isDir(dir); exists || err != nil {
		return err
	}
	left, err := leftovers(dir)
	if err != nil || len(left[newMark])+len(left[oldMark]) == 0 {
		return err
	}
	return RecoverDir(dir)
}

// dirSwap holds the system functions of WriteDirAtomic. Tests replace exchange, and stop the program at a stage.
type dirSwap struct {
	exchange func(a, b string) error
	at       func(stage string)
}

func (s dirSwap) write(dir string, write func(string) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := s.recover(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return fmt.Errorf("checkpoint: writing %s: %w", dir, err)
	}
	id, err := disk.Unique(dir+disk.TmpMark, func(name string) error { return os.Mkdir(name, 0o777) })
	if err != nil {
		return fmt.Errorf("checkpoint: writing %s: %w", dir, err)
	}
	tmp := dir + disk.TmpMark + id
	s.at("made")
	if err = write(tmp); err == nil {
		err = writeManifest(tmp)
	}
	if err == nil {
		s.at("written")
		err = disk.SyncTree(tmp)
	}
	if err != nil {
		var file *disk.WriteError
		if errors.As(err, &file) { // in the folder that will be removed
			err = fmt.Errorf("%s: %w after %d bytes", filepath.Base(file.Path), file.Err, file.Written)
		}
		return errors.Join(fmt.Errorf("checkpoint: writing %s: %w (%s is as it was before)", dir, err, dir),
			os.RemoveAll(tmp))
	}
	s.at("synced")
	if err := s.swap(dir, id); err != nil {
		return fmt.Errorf("checkpoint: putting %s in place: %w (the next write or RecoverDir tries again)", dir, err)
	}
	return nil
}

// swap replaces dir by the complete folder dir.tmp-X.
func (s dirSwap) swap(dir, id string) error {
	tmp := dir + disk.TmpMark + id
	exists, err := isDir(dir)
	if err != nil {
		return err
	}
	if !exists {
		return s.rename(tmp, dir, "first in place")
	}
	err = s.exchange(tmp, dir)
	if err == nil {
		s.at("exchanged")
		if err := disk.SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
		return os.RemoveAll(tmp)
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if err := s.rename(tmp, dir+newMark+id, "marked as new"); err != nil {
		return err
	}
	return s.finish(dir, id)
}

// finish replaces dir by dir.new-X in two renames.
func (s dirSwap) finish(dir, id string) error {
	if err := s.rename(dir, dir+oldMark+id, "old set aside"); err != nil {
		return err
	}
	if err := s.rename(dir+newMark+id, dir, "new in place"); err != nil {
		return err
	}
	return os.RemoveAll(dir + oldMark + id)
}

// rename renames a folder and waits until the new name is on disk.
func (s dirSwap) rename(from, to, stage string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	s.at(stage)
	return disk.SyncDir(filepath.Dir(to))
}

func (s dirSwap) recover(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := s.tryRecover(dir); err != nil {
		return fmt.Errorf("checkpoint: recovering %s: %w", dir, err)
	}
	return nil
}

func (s dirSwap) tryRecover(dir string) error {
	exists, err := isDir(dir)
	if err != nil {
		return err
	}
	left, err := leftovers(dir)
	if err != nil {
		return err
	}
	fresh, old := left[newMark], left[oldMark]
	if len(fresh) > 1 || !exists && len(fresh) == 0 && len(old) > 1 {
		return fmt.Errorf("several complete folders %v: rename the one to keep to %s and remove the others",
			append(fresh, old...), dir)
	}
	switch {
	case len(fresh) == 1:
		err = s.finishInterrupted(dir, exists, strings.TrimPrefix(fresh[0], dir+newMark))
	case !exists && len(old) == 1:
		err = s.rename(old[0], dir, "rolled back")
	}
	if err != nil {
		return err
	}
	for _, path := range append(left[disk.TmpMark], old...) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// finishInterrupted moves dir.new-X to dir after a stop before or after dir was renamed to dir.old-X.
func (s dirSwap) finishInterrupted(dir string, exists bool, id string) error {
	setAside, err := isDir(dir + oldMark + id)
	if err != nil {
		return err
	}
	if exists && !setAside {
		return s.finish(dir, id)
	}
	if exists {
		// dir was renamed, so this is another folder, for example an empty one from a program that did not recover.
		if err := os.Remove(dir); err != nil {
			return fmt.Errorf("%s is complete, but a folder that is not empty was made in its place: %w",
				dir+newMark+id, err)
		}
	}
	return s.rename(dir+newMark+id, dir, "new in place")
}

// leftovers returns the folders next to dir that an interrupted write can have left, by their marks.
func leftovers(dir string) (map[string][]string, error) {
	parent, base := filepath.Split(dir)
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	left := map[string][]string{}
	for _, e := range entries {
		for _, mark := range []string{disk.TmpMark, newMark, oldMark} {
			id, ok := strings.CutPrefix(e.Name(), base+mark)
			if ok && e.IsDir() && disk.IsID(id) {
				left[mark] = append(left[mark], filepath.Join(parent, e.Name()))
			}
		}
	}
	return left, nil
}

// isDir reports whether path is a folder. Anything else of that name is an error.
func isDir(path string) (bool, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.IsDir():
		return false, fmt.Errorf("%s is a file, want a folder", path)
	}
	return true, nil
}
