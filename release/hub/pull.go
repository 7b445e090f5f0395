package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/hippo-ssm/hippo/internal/brief"
)

// Plan lists the files of a pull.
type Plan struct {
	Name   Name
	Commit string
	Files  []File // the weights first

	choice choice
	other  []File // other files of the repository
}

// Bytes returns the size of all files, and of those that are not in the cache.
func (p *Plan) Bytes() (all, missing int64) {
	for _, f := range p.Files {
		all += f.Size
		if !f.Cached {
			missing += f.Size
		}
	}
	return all, missing
}

// Plan asks the hub which files a name needs. It writes nothing.
func (c *Client) Plan(ctx context.Context, n Name) (*Plan, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	l, err := c.list(ctx, n)
	if err != nil {
		return nil, err
	}
	choose := newChooser(n, l.files, func(f File) ([]byte, error) { return c.content(ctx, n, l.commit, f) })
	found, err := choose.choose()
	if err != nil {
		if len(l.unsafe) > 0 {
			err = fmt.Errorf("%w; %d names of files were refused: %q", err, len(l.unsafe),
				l.unsafe[:min(len(l.unsafe), 3)])
		}
		var none missing
		if errors.As(err, &none) {
			return nil, notFound("%v", brief.Error(err))
		}
		return nil, brief.Error(err)
	}
	p := &Plan{Name: n, Commit: l.commit, choice: found}
	r := c.Cache.repo(n.Repo)
	for _, path := range found.all() {
		f := choose.files[path]
		if err := f.checkable(); err != nil {
			return nil, err
		}
		f.Cached = r.has(l.commit, f) || isFile(r.blob(f.sum()), f.Size)
		p.Files = append(p.Files, f)
	}
	chosen := found.all()
	for _, f := range l.files {
		if !slices.Contains(chosen, f.Path) && f.checkable() == nil {
			p.other = append(p.other, f)
		}
	}
	return p, nil
}

// Pull downloads the files of a plan that are not cached or, with force, all of them. A file gets its name only after
// its size and sum are verified, and the branch gets its new commit only after all files are complete. An interrupted
// pull leaves its bytes in the cache, and the next pull resumes there.
func (c *Client) Pull(ctx context.Context, p *Plan, force bool) (Found, error) {
	r := c.Cache.repo(p.Name.Repo)
	if err := os.MkdirAll(r.dir(), 0o777); err != nil {
		return Found{}, err
	}
	if err := c.checkSpace(r, p, force); err != nil {
		return Found{}, err
	}
	total, _ := p.Bytes()
	var before int64 // bytes of the completed files
	for _, f := range p.Files {
		fetched, err := c.fetch(ctx, p.Name, p.Commit, f, force, func(at int64) {
			if c.Watch.Bytes != nil {
				c.Watch.Bytes(before+at, total)
			}
		})
		if err != nil {
			return Found{}, err
		}
		before += f.Size
		if c.Watch.File != nil {
			c.Watch.File(f, fetched)
		}
	}
	if err := c.linkUnchanged(r, p); err != nil {
		return Found{}, err
	}
	if err := r.setRef(p.Name.revision(), p.Commit); err != nil {
		return Found{}, err
	}
	return foundIn(r, p.Name, p.Commit, p.choice), nil
}

// linkUnchanged links files that were pulled for the previous commit and have not changed. So other parts of a
// repository stay usable.
func (c *Client) linkUnchanged(r repo, p *Plan) error {
	before, err := r.commit(p.Name.revision())
	if err != nil || before == p.Commit {
		return nil // there is no other commit
	}
	for _, f := range p.other {
		if !r.has(before, f) || !isFile(r.blob(f.sum()), f.Size) || r.has(p.Commit, f) {
			continue
		}
		if err := r.link(p.Commit, f); err != nil {
			return err
		}
	}
	return nil
}

// checkSpace returns an error if the disk has no space for the missing files.
func (c *Client) checkSpace(r repo, p *Plan, force bool) error {
	var need int64
	for _, f := range p.Files {
		if !f.Cached || force {
			need += f.Size
			if part, err := os.Stat(r.blob(f.sum()) + incomplete); err == nil {
				need -= min(part.Size(), f.Size)
			}
		}
	}
	free, err := c.space(r.dir())
	if err != nil || free >= need { // if unknown, writing reports the error
		return nil
	}
	return fmt.Errorf("%s needs %d bytes, and %d are free on the disk of %s: free some space, or choose another disk "+
		"with HF_HUB_CACHE; the bytes received so far stay", p.Name, need, free, c.Cache.Dir)
}

// Found is a model in the cache.
type Found struct {
	Name    Name
	Commit  string
	Dir     string   // of the snapshot
	Weights []string // the first is the one to open
	Files   []string // paths of all

	whole bool
}

func foundIn(r repo, n Name, commit string, c choice) Found {
	f := Found{Name: n, Commit: commit, Dir: r.snapshot(commit), whole: c.whole}
	for _, file := range c.all() {
		f.Files = append(f.Files, r.pointer(commit, file))
	}
	f.Weights = f.Files[:len(c.weights):len(c.weights)]
	return f
}

// Path returns the path for a loader: the folder, or the file if the file was named or contains everything.
func (f Found) Path() string {
	if f.whole || len(f.Weights) == 0 {
		return f.Dir
	}
	return f.Weights[0]
}

// NotCachedError reports that a model is not in the cache.
type NotCachedError struct {
	Name Name
	Dir  string // of the cache
	Why  error
}

// Error also explains how to download the model.
func (e *NotCachedError) Error() string {
	text := fmt.Sprintf("no model %s in %s", e.Name, e.Dir)
	if e.Why != nil && !errors.Is(e.Why, os.ErrNotExist) {
		text = fmt.Sprintf("the model %s in %s is incomplete (%v)", e.Name, e.Dir, e.Why)
	}
	return text + ": hippo pull " + e.Name.String() + " fetches it"
}

// Unwrap returns the cause.
func (e *NotCachedError) Unwrap() error { return e.Why }

// Find finds a model in the cache, without contacting a hub. If files are missing, the error is a *NotCachedError.
func (c Cache) Find(n Name) (Found, error) {
	r := c.repo(n.Repo)
	commit, err := r.commit(n.revision())
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = &NotCachedError{n, c.Dir, err}
		}
		return Found{}, err
	}
	return r.find(n, commit)
}

// find finds the files of a name in a snapshot.
func (r repo) find(n Name, commit string) (Found, error) {
	files, err := r.files(commit)
	if errors.Is(err, os.ErrNotExist) {
		return Found{}, &NotCachedError{n, r.cache.Dir, err}
	}
	if err != nil {
		return Found{}, err
	}
	choose := newChooser(n, files, func(f File) ([]byte, error) {
		return os.ReadFile(r.pointer(commit, f.Path)) // choose has checked its size
	})
	found, err := choose.choose()
	var none missing
	switch {
	case errors.As(err, &none):
		return Found{}, &NotCachedError{n, r.cache.Dir, err}
	case err != nil:
		return Found{}, brief.Error(err)
	}
	return foundIn(r, n, commit, found), nil
}
