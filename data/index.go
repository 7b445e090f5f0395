package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// content describes the content of a file, from reading it once.
type content struct {
	Bytes  int64  `json:"bytes"`  // after decompression
	SHA256 []byte `json:"sha256"` // hash of these bytes
	NUL    int64  `json:"nul"`    // position of the first NUL byte, −1 without one
	Look   look   `json:"look"`
}

// valid reports whether a file can have this content, since an index may hold anything.
func (c *content) valid() bool {
	return c.Bytes >= 0 && len(c.SHA256) == sha256.Size && c.NUL >= -1 && c.NUL < max(c.Bytes, 1)
}

// check returns an error if the content is not text, unless the options accept it.
func (c *content) check(path string, opt SourceOptions) error {
	if opt.Binary {
		return nil
	}
	if what := c.Look.notText(); what != "" {
		return fmt.Errorf("data: %s %s (binary true accepts it, with the bytes tokenizer)", path, what)
	}
	if c.NUL >= 0 && !opt.AllowNUL {
		return fmt.Errorf("data: %s looks like a binary file: found a NUL byte at offset %d, "+
			"want text (the bytes tokenizer takes it)", path, c.NUL)
	}
	return nil
}

// index caches the content hashes of files between runs, so that gigabytes are not hashed at every start. It is stored
// in the cache folder. A file counts as unchanged if its size, modification time and inode are unchanged. As in git, a
// file modified within racyWindow before it was read is not recorded: a second change in the same tick of the file
// system's clock would go unnoticed.
type index struct {
	path    string // "" for an index that is not saved
	dirty   bool
	Version int                   `json:"version"`
	Files   map[string]indexEntry `json:"files"` // by absolute path
	// Verified holds the token files whose checksum was verified.
	Verified map[string]fileStat `json:"verified"`
}

type indexEntry struct {
	Stat    fileStat `json:"stat"`
	Content content  `json:"content"`
}

// fileStat holds the properties by which a change of a file is detected.
type fileStat struct {
	Size  int64  `json:"size"`
	MTime int64  `json:"mtime"` // nanoseconds since 1970
	Inode uint64 `json:"inode"` // 0 if the system has none
}

const (
	racyWindow   = 2 * time.Second // the coarsest clock of a common file system (FAT)
	indexMinSize = 1 << 20         // smaller files hash in about a millisecond and need no entry
	indexName    = "index.json"
	indexVersion = 2
	maxIndex     = 64 << 20 // bytes; enough for some 100,000 files
	manyFiles    = 1000     // above this number, missing files are dropped
)

// openIndex reads the index in dir. If it is missing, damaged or of another version, openIndex returns an empty one,
// since the index only saves work.
func openIndex(dir string) *index {
	x := &index{}
	if dir, err := cacheDir(dir); err == nil && dir != "" {
		x.path = filepath.Join(dir, indexName)
		x.read()
	}
	x.Version = indexVersion
	if x.Files == nil {
		x.Files = map[string]indexEntry{}
	}
	if x.Verified == nil {
		x.Verified = map[string]fileStat{}
	}
	return x
}

// read fills x from its file. It leaves x empty if the file is not valid.
func (x *index) read() {
	b, err := disk.ReadText(x.path, maxIndex)
	if err == nil {
		err = x.parse(b)
	}
	if err != nil {
		x.Files, x.Verified = nil, nil
	}
}

// parse decodes an index. It drops invalid entries.
func (x *index) parse(text []byte) error {
	if err := json.Unmarshal(text, x); err != nil {
		return err
	}
	if x.Version != indexVersion {
		return fmt.Errorf("version %d, want %d", x.Version, indexVersion)
	}
	maps.DeleteFunc(x.Files, func(_ string, e indexEntry) bool { return !e.Content.valid() })
	return nil
}

// forget drops the entries of missing files: those of token files always, those of texts if there are many.
func (x *index) forget() {
	gone := func(path string) bool {
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrNotExist)
	}
	maps.DeleteFunc(x.Verified, func(path string, _ fileStat) bool { return gone(path) })
	if len(x.Files) > manyFiles {
		maps.DeleteFunc(x.Files, func(path string, _ indexEntry) bool { return gone(path) })
	}
}

// find returns the recorded content of the file at path, whose current state is stat. A renamed file is found by stat,
// which renaming does not change, if the old name no longer exists.
func (x *index) find(path string, stat fileStat) (content, bool) {
	if e, ok := x.Files[path]; ok && e.Stat == stat {
		return e.Content, true
	}
	if stat.Inode == 0 || stat.Size < indexMinSize {
		return content{}, false
	}
	for old, e := range x.Files {
		if e.Stat != stat {
			continue
		}
		if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
			delete(x.Files, old)
			x.Files[path], x.dirty = e, true
			return e.Content, true
		}
	}
	return content{}, false
}

// save writes the index if it has changed. If two runs save at the same time, the later one wins and the other's
// changes are lost.
func (x *index) save() error {
	if !x.dirty || x.path == "" {
		return nil
	}
	x.forget()
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(x.path), 0o777); err != nil {
		return err
	}
	x.dirty = false
	return disk.Replace(x.path, func(f *os.File) error {
		_, err := f.Write(b)
		return err
	})
}

// contentOf returns the content of s, from the index or by reading it. Reading stops as soon as opt does not accept the
// content.
func (x *index) contentOf(s source, opt SourceOptions) (content, error) {
	if s.spool != nil || s.embed != nil {
		return readContent(s, opt)
	}
	key, err := filepath.Abs(s.path)
	if err != nil {
		return content{}, fmt.Errorf("data: %s: %w", s.path, err)
	}
	before, err := statFile(key)
	if err != nil {
		return content{}, err
	}
	if c, ok := x.find(key, before); ok {
		return c, nil
	}
	c, err := readContent(s, opt)
	if err != nil {
		return content{}, err
	}
	if x.recordable(key, before) {
		x.Files[key], x.dirty = indexEntry{before, c}, true
	}
	return c, nil
}

// recordable reports whether content may be recorded under before, the state of the file before it was read.
func (x *index) recordable(path string, before fileStat) bool {
	after, err := statFile(path)
	return err == nil && after == before && before.Size >= indexMinSize &&
		time.Since(time.Unix(0, before.MTime)) > racyWindow
}

func statFile(path string) (fileStat, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileStat{}, fmt.Errorf("data: %w", err)
	}
	return fileStat{info.Size(), info.ModTime().UnixNano(), inode(info)}, nil
}

func readContent(s source, opt SourceOptions) (content, error) {
	r, err := s.open()
	if err != nil {
		return content{}, err
	}
	defer r.Close()
	c := content{NUL: -1}
	h := sha256.New()
	buf := make([]byte, 1<<17)
	sampled := int64(0) // offset of the last sample
	for {
		n, err := io.ReadFull(r, buf)
		h.Write(buf[:n])
		switch {
		case c.Bytes == 0:
			c.Look.begin(buf[:n])
		case c.Bytes-sampled >= sampleEvery:
			sampled = c.Bytes
			c.Look.add(buf[:min(n, samplePiece)])
		}
		if i := bytes.IndexByte(buf[:n], 0); i >= 0 && c.NUL < 0 {
			c.NUL = c.Bytes + int64(i)
			if err := c.check(s.path, opt); err != nil {
				return content{}, err
			}
		}
		c.Bytes += int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			c.SHA256 = h.Sum(nil)
			return c, nil
		}
		if err != nil {
			return content{}, err
		}
	}
}
