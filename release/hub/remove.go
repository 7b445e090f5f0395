package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Removal lists what removing a model deletes.
type Removal struct {
	Name  Name
	Files int   // names of files
	Bytes int64 // bytes that become free

	repo  repo
	whole bool     // the whole repository
	refs  []string // paths
	names []string // paths in snapshots
	blobs []string // paths
}

// PlanRemoval finds the files that belong only to a name: a whole repository, the snapshot of a revision, or a file
// that is given by name or quantisation. Contents that another snapshot uses are kept.
func (c Cache) PlanRemoval(n Name) (*Removal, error) {
	r := c.repo(n.Repo)
	p := &Removal{Name: n, repo: r}
	if _, err := os.Lstat(r.dir()); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no model %s in %s: hippo list shows the cached models", n, c.Dir)
		}
		return nil, err
	}
	named := n.Revision != "" || len(n.Files) > 0 || n.Quant != ""
	commits, err := r.commits()
	if err != nil {
		return nil, err
	}
	if named {
		if err := p.choose(n); err != nil {
			return nil, err
		}
	}
	others := 0
	used := map[string]bool{} // blobs of other names
	for _, commit := range commits {
		err := r.walk(commit, func(at string, blob string) {
			if named && !slices.Contains(p.names, at) {
				used[blob] = true
				others++
			} else if !named {
				p.names = append(p.names, at)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	p.whole = others == 0
	p.Files = len(p.names)
	return p, p.measure(used)
}

// choose returns the files of a snapshot that the name selects.
func (p *Removal) choose(n Name) error {
	commit, err := p.repo.commit(n.revision())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no model %s in %s: hippo list shows the cached models", n, p.repo.cache.Dir)
	}
	if err != nil {
		return err
	}
	if len(n.Files) > 0 || n.Quant != "" {
		found, err := p.repo.find(n, commit)
		p.names = found.Weights
		if len(p.names) == 0 {
			p.names = found.Files
		}
		return err
	}
	refs, err := p.repo.refs()
	if err != nil {
		return err
	}
	for revision, c := range refs {
		if c == commit {
			p.refs = append(p.refs, p.repo.ref(revision))
		}
	}
	return p.repo.walk(commit, func(at, _ string) { p.names = append(p.names, at) })
}

// walk visits the files of a snapshot. blob is the path of the blob that a file links to, or "" if the file links to
// none of this repository.
func (r repo) walk(commit string, visit func(at, blob string)) error {
	err := filepath.WalkDir(r.snapshot(commit), func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		blob := ""
		if target, err := os.Readlink(at); err == nil {
			if target = filepath.Join(filepath.Dir(at), target); filepath.Dir(target) == r.blobs() {
				blob = target
			}
		}
		visit(at, blob)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// measure finds the blobs that nothing else uses, and adds up the sizes.
func (p *Removal) measure(used map[string]bool) error {
	if p.whole {
		return filepath.WalkDir(p.repo.dir(), func(_ string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				if info, err := entry.Info(); err == nil {
					p.Bytes += info.Size()
				}
			}
			return err
		})
	}
	for _, at := range p.names {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			p.Bytes += info.Size()
			continue
		}
		target, err := os.Readlink(at)
		if err != nil {
			return err
		}
		blob := filepath.Join(filepath.Dir(at), target)
		if filepath.Dir(blob) != p.repo.blobs() || used[blob] || slices.Contains(p.blobs, blob) {
			continue
		}
		if info, err := os.Lstat(blob); err == nil {
			p.blobs = append(p.blobs, blob)
			p.Bytes += info.Size()
		}
	}
	return nil
}

// Remove removes the planned files: first the names, then the contents. It returns an error if another program is
// downloading one of them.
func (p *Removal) Remove() error {
	release, err := p.repo.lockAll()
	if err != nil {
		return err
	}
	if p.whole {
		err := os.RemoveAll(p.repo.dir())
		release()
		return errors.Join(err, os.RemoveAll(p.repo.locks()))
	}
	defer release()
	var errs []error
	for _, path := range slices.Concat(p.refs, p.names, p.blobs) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, at := range p.names {
		for dir := filepath.Dir(at); dir != filepath.Join(p.repo.dir(), "snapshots"); dir = filepath.Dir(dir) {
			if os.Remove(dir) != nil { // it is not empty
				break
			}
		}
	}
	return errors.Join(errs...)
}

// lockAll takes the locks of all contents of a repository that were ever downloaded.
func (r repo) lockAll() (release func(), err error) {
	var files []*os.File
	release = func() {
		for _, f := range files {
			f.Close() // nothing was written
		}
	}
	entries, err := os.ReadDir(r.locks())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		f, err := os.OpenFile(filepath.Join(r.locks(), e.Name()), os.O_RDWR, 0)
		if err != nil {
			release()
			return nil, err
		}
		files = append(files, f)
		if locked, err := disk.TryLock(f, false); err == nil && !locked {
			release()
			return nil, fmt.Errorf("%s: another program is downloading it: stop that program, or wait", r.name)
		}
	}
	return release, nil
}
