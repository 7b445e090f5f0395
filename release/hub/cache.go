package hub

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Cache is a folder of downloaded models. Its layout is:
//
//	models--ORG--NAME/blobs/SUM              contents, by their SHA-256, or their git id for small files
//	models--ORG--NAME/blobs/SUM.incomplete   bytes received so far
//	models--ORG--NAME/snapshots/COMMIT/FILE  link to ../../blobs/SUM; on systems without links, the file itself
//	models--ORG--NAME/refs/main              the commit of a branch or a tag
//	.locks/models--ORG--NAME/SUM.lock        locked during the download
type Cache struct {
	Dir string

	symlink func(target, at string) error // nil: os.Symlink; tests disable links
}

const (
	repoPrefix = "models--"
	locksDir   = ".locks"
	incomplete = ".incomplete"
)

// DefaultCache returns the folder that HF_HUB_CACHE, HF_HOME or XDG_CACHE_HOME names, or ~/.cache/huggingface/hub.
func DefaultCache() (Cache, error) {
	if dir := cmp.Or(os.Getenv("HF_HUB_CACHE"), os.Getenv("HUGGINGFACE_HUB_CACHE")); dir != "" {
		return Cache{Dir: underHome(dir)}, nil
	}
	home, err := hubHome()
	return Cache{Dir: filepath.Join(home, "hub")}, err
}

// hubHome returns the folder of the hub's tools, which holds the cache and the token.
func hubHome() (string, error) {
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return underHome(dir), nil
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(underHome(dir), "huggingface"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("the folder of published models: %w; HF_HOME or HF_HUB_CACHE can name another", err)
	}
	return filepath.Join(home, ".cache", "huggingface"), nil
}

// underHome replaces ~/ at the start of a path.
func underHome(dir string) string {
	if rest, ok := strings.CutPrefix(dir, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return dir
}

// repo is the folder of a repository in a cache.
type repo struct {
	cache Cache
	name  string // org/name
}

func (c Cache) repo(name string) repo { return repo{c, name} }

func (r repo) folder() string { return repoPrefix + strings.ReplaceAll(r.name, "/", "--") }

func (r repo) dir() string { return filepath.Join(r.cache.Dir, r.folder()) }

func (r repo) blobs() string { return filepath.Join(r.dir(), "blobs") }

func (r repo) blob(sum string) string { return filepath.Join(r.blobs(), sum) }

func (r repo) snapshot(commit string) string { return filepath.Join(r.dir(), "snapshots", commit) }

func (r repo) pointer(commit, file string) string {
	return filepath.Join(r.snapshot(commit), filepath.FromSlash(file))
}

func (r repo) ref(revision string) string {
	return filepath.Join(r.dir(), "refs", filepath.FromSlash(revision))
}

func (r repo) locks() string { return filepath.Join(r.cache.Dir, locksDir, r.folder()) }

func (r repo) lock(sum string) string { return filepath.Join(r.locks(), sum+".lock") }

// commit returns the commit of a revision. The error is fs.ErrNotExist if the cache does not know the revision.
func (r repo) commit(revision string) (string, error) {
	if commitPattern.MatchString(revision) {
		_, err := os.Stat(r.snapshot(revision))
		return revision, err
	}
	text, err := disk.ReadText(r.ref(revision), 1<<10)
	if err != nil {
		return "", err
	}
	commit := strings.TrimSpace(string(text))
	if !commitPattern.MatchString(commit) {
		return "", fmt.Errorf("%s: found %.50q, want a commit of 40 hexadecimal digits", r.ref(revision), commit)
	}
	return commit, nil
}

// setRef records the commit of a branch or a tag.
func (r repo) setRef(revision, commit string) error {
	if revision == commit {
		return nil
	}
	at := r.ref(revision)
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
		return err
	}
	return disk.WriteBytes(at, []byte(commit)) // without a newline, as Python writes it
}

// refs returns the known branches and tags with their commits.
func (r repo) refs() (map[string]string, error) {
	found := map[string]string{}
	root := filepath.Join(r.dir(), "refs")
	err := filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.Contains(entry.Name(), disk.TmpMark) {
			return err
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		revision := filepath.ToSlash(rel)
		if commit, err := r.commit(revision); err == nil { // an incomplete file of another program names no commit
			found[revision] = commit
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return found, err
}

// has reports whether a file of a commit exists with its size.
func (r repo) has(commit string, f File) bool {
	info, err := os.Stat(r.pointer(commit, f.Path))
	return err == nil && info.Mode().IsRegular() && info.Size() == f.Size
}

// link adds a file in blobs to a snapshot by a relative link. On a system without links it moves the file, as Python's
// tools do.
func (r repo) link(commit string, f File) error {
	at := r.pointer(commit, f.Path)
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
		return err
	}
	up := strings.Repeat("../", 2+strings.Count(f.Path, "/"))
	target := filepath.FromSlash(path.Join(up, "blobs", f.sum()))
	if old, err := os.Readlink(at); err == nil && old == target {
		return nil
	}
	symlink := r.cache.symlink
	if symlink == nil {
		symlink = os.Symlink
	}
	var made string
	_, err := disk.Unique(at+disk.TmpMark, func(name string) error {
		made = name
		return symlink(target, name)
	})
	if err != nil {
		return os.Rename(r.blob(f.sum()), at)
	}
	if err := os.Rename(made, at); err != nil {
		return errors.Join(err, os.Remove(made))
	}
	return nil
}

// files returns the files of a snapshot whose contents exist, in order of their paths. It does not follow links to
// folders.
func (r repo) files(commit string) ([]File, error) {
	root := r.snapshot(commit)
	var found []File
	err := filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(entry.Name(), disk.TmpMark) {
			return err
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() && isSafePath(filepath.ToSlash(rel)) {
			found = append(found, File{Path: filepath.ToSlash(rel), Size: info.Size()})
		}
		return nil
	})
	return found, err
}

// repos returns the repositories of models in the cache, in order of their names.
func (c Cache) repos() ([]repo, error) {
	entries, err := os.ReadDir(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []repo
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), repoPrefix)
		if !ok {
			continue
		}
		r := c.repo(strings.Replace(rest, "--", "/", 1))
		info, err := os.Stat(r.dir()) // it may be a link to a larger disk
		if n, bad := ParseName(r.name); err == nil && bad == nil && info.IsDir() && n.Repo == r.name {
			found = append(found, r)
		}
	}
	return found, nil
}
