package data

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
)

// ParseSize parses a number of bytes such as 20GB, 512MiB or 1e9. It returns 0 for "".
func ParseSize(text string) (int64, error) {
	digits := strings.TrimRight(text, "BKMGTbkmgtiI ")
	unit := strings.ToUpper(strings.TrimSpace(text[len(digits):]))
	factor, ok := map[string]float64{
		"": 1, "B": 1, "K": 1e3, "KB": 1e3, "KIB": 1 << 10, "M": 1e6, "MB": 1e6, "MIB": 1 << 20,
		"G": 1e9, "GB": 1e9, "GIB": 1 << 30, "T": 1e12, "TB": 1e12, "TIB": 1 << 40,
	}[unit]
	n, err := strconv.ParseFloat(digits, 64)
	switch {
	case text == "":
		return 0, nil
	case err != nil || !ok || !(n > 0) || n*factor >= math.MaxInt64:
		return 0, fmt.Errorf("found %.40q, want a number of bytes above 0, such as 20GB or 512MiB", text)
	}
	return int64(max(1, n*factor)), nil
}

// cacheQuota keeps a cache folder within its limit while a token file is written: before a write that would exceed the
// limit, it evicts the least recently used token files. Files in use are not evicted.
type cacheQuota struct {
	dir     string
	text    string // name of the text whose tokens are written
	limit   int64
	written int64 // bytes written so far
	others  int64 // bytes of all other token files and temporary files
	removed []CacheEntry
	share   func() float64 // fraction of the work done, from 0 to 1
}

// newCacheQuota returns a quota for writing the tokens of text to the cache folder dir. A limit of 0 means half of the
// space that is free or used by the cache.
func newCacheQuota(dir, text string, limit int64, share func() float64) (*cacheQuota, error) {
	r := &cacheQuota{dir: dir, text: text, limit: limit, share: share}
	if err := r.measure(); err != nil {
		return nil, err
	}
	if limit > 0 {
		return r, nil
	}
	free, err := disk.Space(dir)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		r.limit = math.MaxInt64
	case err != nil:
		return nil, err
	default:
		r.limit = max(1, (free+r.others)/2)
	}
	return r, nil
}

// measure sums up the files in the folder, except the one being written.
func (r *cacheQuota) measure() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	r.others = 0
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			r.others += info.Size()
		}
	}
	r.others = max(0, r.others-r.written)
	return nil
}

// estimateFrom is the fraction of the work after which the final size is predicted from the bytes written.
const estimateFrom = 1.0 / 64

// reserve reserves n more bytes.
func (r *cacheQuota) reserve(n int64) error {
	if r.written+n > r.limit-r.others {
		if err := r.evict(n); err != nil {
			return err
		}
	}
	r.written += n
	return nil
}

// evict frees space for n more bytes. It removes nothing if the file would exceed the limit even in an empty folder.
func (r *cacheQuota) evict(n int64) error {
	need := r.written + n
	if share := r.share(); share >= estimateFrom && share < 1 {
		need = max(need, int64(float64(need)/share))
	}
	if need > r.limit {
		return r.tooLarge(need)
	}
	list, err := ListCache(r.dir)
	if err != nil {
		return err
	}
	if err := r.measure(); err != nil {
		return err
	}
	for i := len(list) - 1; i >= 0 && r.written+n > r.limit-r.others; i-- {
		ok, err := list[i].remove()
		if err != nil {
			return fmt.Errorf("data: token cache: %w", err)
		}
		if ok {
			r.others -= list[i].Bytes
			r.removed = append(r.removed, list[i])
		}
	}
	if r.written+n > r.limit-r.others {
		return fmt.Errorf("%s of it are in use: %w", status.Bytes(uint64(r.others)), r.tooLarge(need))
	}
	return nil
}

func (r *cacheQuota) tooLarge(need int64) error {
	return fmt.Errorf("the tokens need about %s, more than the limit of %s of the folder %s: raise cache_limit, "+
		"choose another folder with cache, or keep tokens in memory with cache none", status.Bytes(uint64(need)),
		status.Bytes(uint64(r.limit)), r.dir)
}

// notes returns remarks for the user, after the file has been written.
func (r *cacheQuota) notes() []string {
	var notes []string
	if n := len(r.removed); n > 0 {
		var bytes int64
		for _, e := range r.removed {
			bytes += e.Bytes
		}
		last := r.removed[n-1]
		notes = append(notes,
			fmt.Sprintf("token cache: removed %d files of %s, last used on %s or before, to stay within %s", n,
				status.Bytes(uint64(bytes)), last.Used.Format("2006-01-02"), status.Bytes(uint64(r.limit))))
	}
	if total := r.written + r.others; len(r.removed) == 0 && float64(total) > 0.9*float64(r.limit) {
		notes = append(notes, fmt.Sprintf("token cache: %s holds %s of the %s it may hold; "+
			"the least recently used is evicted first (hippo cache list, hippo cache clean)", r.dir,
			status.Bytes(uint64(total)), status.Bytes(uint64(r.limit))))
	}
	return notes
}

// cacheError is an error of the token cache, not of the text.
type cacheError struct {
	text string // the name of the text
	err  error
}

func (e *cacheError) Error() string { return "data: token cache of " + e.text + ": " + e.err.Error() }

func (e *cacheError) Unwrap() error { return e.err }

// quotaWriter writes to a file within the limit of its cache. Its errors are *cacheErrors.
type quotaWriter struct {
	f     *os.File
	quota *cacheQuota
}

func (w *quotaWriter) Write(p []byte) (int, error) {
	if err := w.quota.reserve(int64(len(p))); err != nil {
		return 0, &cacheError{w.quota.text, err}
	}
	n, err := w.f.Write(p)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		err = fmt.Errorf("%w (after %s of tokens, which are removed again: hippo cache clean makes room in %s, "+
			"and cache names another folder)", err, status.Bytes(uint64(w.quota.written)), filepath.Dir(w.f.Name()))
		fallthrough
	case err != nil:
		err = &cacheError{w.quota.text, err}
	}
	return n, err
}
