package data

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// CacheNone, as the name of the cache folder, disables the cache: tokens are kept in memory and every file is hashed at
// every start.
const CacheNone = "none"

// DefaultCacheDir returns the folder hippo/tokens in the user's cache folder (os.UserCacheDir).
func DefaultCacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("data: no default cache folder: %w", err)
	}
	return filepath.Join(dir, "hippo", "tokens"), nil
}

// cacheDir resolves the option CacheDir to a folder. It returns "" for no cache.
func cacheDir(option string) (string, error) {
	switch option {
	case "":
		return DefaultCacheDir()
	case CacheNone:
		return "", nil
	}
	return option, nil
}

// A cache folder holds token files KEY.tok, which are locked while in use; for each a file KEY.json, which describes
// its source and whose modification time is the time of the last use; the index of content hashes; and temporary files.
const (
	tokenSuffix = ".tok"
	aboutSuffix = ".json"
)

// CacheEntry is a token file in a cache folder.
type CacheEntry struct {
	Path      string    `json:"path"`
	Source    string    `json:"source"`    // the name of the text; "" if unknown
	Tokenizer string    `json:"tokenizer"` // kind of the tokenizer; "" if unknown
	Bytes     int64     `json:"bytes"`     // size of the file
	Tokens    int64     `json:"tokens"`    // 0 if the file is damaged
	Used      time.Time `json:"used"`      // last use
}

// aboutTokens is the content of KEY.json.
type aboutTokens struct {
	Source    string `json:"source"`
	Tokenizer string `json:"tokenizer,omitempty"`
}

// aboutPath returns the path of KEY.json for the token file at path.
func aboutPath(path string) string { return strings.TrimSuffix(path, tokenSuffix) + aboutSuffix }

// touch records that the token file at path is in use now.
func (a aboutTokens) touch(path string) error {
	now := time.Now()
	about := aboutPath(path)
	if err := os.Chtimes(about, now, now); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return disk.Replace(about, func(f *os.File) error {
		_, err := f.Write(append(text, '\n'))
		return err
	})
}

// ListCache lists the token files in a cache folder ("" is DefaultCacheDir), most recently used first. If there is no
// such folder the list is empty.
func ListCache(dir string) ([]CacheEntry, error) {
	dir, err := cacheDir(dir)
	if err != nil || dir == "" {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("data: token cache: %w", err)
	}
	var list []CacheEntry
	for _, file := range files {
		info, err := file.Info()
		if err != nil || !info.Mode().IsRegular() || !isTokenFile(file.Name()) {
			continue // not a token file, or just removed
		}
		e := CacheEntry{Path: filepath.Join(dir, file.Name()), Bytes: info.Size(), Used: info.ModTime()}
		e.describe()
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b CacheEntry) int {
		return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.Path, b.Path))
	})
	return list, nil
}

// isTokenFile reports whether name is that of a token file: 32 hexadecimal digits and a suffix.
func isTokenFile(name string) bool {
	key, ok := strings.CutSuffix(name, tokenSuffix)
	return ok && len(key) == 32 && disk.IsID(key[:16]) && disk.IsID(key[16:])
}

// describe sets the fields from the file's header and from KEY.json.
func (e *CacheEntry) describe() {
	if f, err := os.Open(e.Path); err == nil {
		b := make([]byte, headerSize)
		if _, err := f.ReadAt(b, 0); err == nil {
			if h, err := parseHeader(b, e.Bytes); err == nil {
				e.Tokens = h.tokens
			}
		}
		f.Close() // it was only read
	}
	about := aboutPath(e.Path)
	if info, err := os.Stat(about); err == nil && info.Mode().IsRegular() && info.Size() < 1<<16 {
		e.Used = info.ModTime()
		var a aboutTokens
		if text, err := os.ReadFile(about); err == nil && json.Unmarshal(text, &a) == nil {
			e.Source, e.Tokenizer = a.Source, a.Tokenizer
		}
	}
}

// remove removes the token file and its KEY.json, unless the file is in use.
func (e *CacheEntry) remove() (removed bool, err error) {
	removed, err = disk.RemoveUnused(e.Path)
	if errors.Is(err, fs.ErrNotExist) {
		removed, err = true, nil
	}
	if removed {
		if aboutErr := os.Remove(aboutPath(e.Path)); !errors.Is(aboutErr, fs.ErrNotExist) {
			err = aboutErr
		}
	}
	return removed, err
}

// CleanCache removes the token files in a cache folder ("" is DefaultCacheDir) that were last used before the given
// time and are not in use, and everything that killed processes left behind. It returns the removed entries, and the
// entries that are old enough but in use.
func CleanCache(dir string, before time.Time) (removed, inUse []CacheEntry, err error) {
	dir, err = cacheDir(dir)
	if err != nil || dir == "" {
		return nil, nil, err
	}
	list, err := ListCache(dir)
	if err != nil {
		return nil, nil, err
	}
	errs := []error{sweepCache(dir)}
	for _, e := range list {
		if !e.Used.Before(before) {
			continue
		}
		ok, err := e.remove()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("data: token cache: %w", err))
		case ok:
			removed = append(removed, e)
		default:
			inUse = append(inUse, e)
		}
	}
	return removed, inUse, errors.Join(errs...)
}

// oldPartial is the suffix of temporary files of earlier versions, which did not lock them.
const oldPartial = ".partial"

// sweepCache removes the files that killed processes left behind in a cache folder.
func sweepCache(dir string) error {
	if err := disk.Sweep(dir); err != nil {
		return fmt.Errorf("data: token cache: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data: token cache: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasSuffix(e.Name(), oldPartial) && time.Since(info.ModTime()) > 24*time.Hour {
			os.Remove(filepath.Join(dir, e.Name())) // ignores the error: another process may have removed it
		}
	}
	return nil
}
