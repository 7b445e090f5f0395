package data

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// CacheNone as a cache folder keeps no cache: tokens are held in memory and every file is hashed at every start.
const CacheNone = "none"

// DefaultCacheDir is the folder hippo/tokens in the user's cache folder (os.UserCacheDir).
func DefaultCacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("data: no default cache folder: %w", err)
	}
	return filepath.Join(dir, "hippo", "tokens"), nil
}

// cacheDir resolves the option CacheDir. "" means no cache.
func cacheDir(option string) (string, error) {
	switch option {
	case "":
		return DefaultCacheDir()
	case CacheNone:
		return "", nil
	}
	return option, nil
}

const partialSuffix = ".partial"

// writeAtomic makes the file at path hold what fill writes, or leaves it as it was: it writes a temporary file
// beside it, syncs that, renames it and syncs the folder. A run killed in between leaves a *.partial file,
// which a later write removes once it is a day old. An error of fill comes back as it is.
func writeAtomic(path string, fill func(f *os.File) error) error {
	dir := filepath.Dir(path)
	removeStalePartials(dir)
	f, err := os.CreateTemp(dir, filepath.Base(path)+"-*"+partialSuffix)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if err := fill(f); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("data: %w", err), os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return errors.Join(fmt.Errorf("data: %w", err), os.Remove(f.Name()))
	}
	if err := disk.SyncDir(dir); err != nil {
		return fmt.Errorf("data: sync folder: %w", err)
	}
	return nil
}

// removeStalePartials removes what killed runs left. A live run writes to its file all the time, so a day is far away.
func removeStalePartials(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the write that follows will say what is wrong
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), partialSuffix) && time.Since(info.ModTime()) > 24*time.Hour {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
