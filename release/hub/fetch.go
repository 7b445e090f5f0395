package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// hash returns a new hash for the file's sum: SHA-256 or, for a small file, git's SHA-1, which starts with the size.
func (f File) hash() hash.Hash {
	if f.SHA256 != "" {
		return sha256.New()
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", f.Size)
	return h
}

// errSum reports that the content differs from what the hub announced.
var errSum = errors.New("the content is not the one that the hub announced")

// check compares the received size and sum with the announced ones.
func (f File) check(size int64, sum hash.Hash) error {
	if size != f.Size {
		return fmt.Errorf("%s: %w: found %d bytes, want %d", f.Path, errSum, size, f.Size)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.sum() {
		return fmt.Errorf("%s: %w: found the sum %s, want %s", f.Path, errSum, got, f.sum())
	}
	return nil
}

// download is a file that is being downloaded into the cache.
type download struct {
	c       *Client
	file    File
	address string
	part    *os.File // SUM.incomplete
	at      int64    // bytes received so far
	sum     hash.Hash
	came    func(at int64)
}

// fetch downloads a file into the cache and resumes an interrupted download. It waits for another program that
// downloads the same file. It reports whether anything had to be downloaded.
func (c *Client) fetch(ctx context.Context, n Name, commit string, f File, force bool,
	came func(at int64)) (fetched bool, err error) {
	r := c.Cache.repo(n.Repo)
	unlock, err := c.lock(ctx, r.lock(f.sum()), f.Path)
	if err != nil {
		return false, err
	}
	defer unlock()
	if here := isFile(r.blob(f.sum()), f.Size); !force && (here || r.has(commit, f)) {
		came(f.Size)
		if here {
			err = r.link(commit, f)
		}
		return false, err
	}
	if err := os.MkdirAll(r.blobs(), 0o777); err != nil {
		return false, err
	}
	part, err := os.OpenFile(r.blob(f.sum())+incomplete, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return false, err
	}
	d := &download{c: c, file: f, address: c.fileAddress(n, commit, f.Path), part: part, came: came}
	if err = d.begin(force); err == nil {
		err = d.run(ctx)
	}
	if err == nil {
		err = part.Sync()
	}
	if err := errors.Join(err, part.Close()); err != nil {
		if errors.Is(err, errSum) || d.at == 0 { // it cannot become valid, or is empty
			err = errors.Join(err, os.Remove(part.Name()))
		}
		return false, err
	}
	if err := os.Rename(part.Name(), r.blob(f.sum())); err != nil {
		return false, err
	}
	return true, errors.Join(disk.SyncDir(r.blobs()), r.link(commit, f))
}

func isFile(path string, size int64) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == size
}

// begin computes the sum of the bytes that exist already.
func (d *download) begin(force bool) error {
	d.sum = d.file.hash()
	info, err := d.part.Stat()
	if err != nil {
		return err
	}
	if force || info.Size() > d.file.Size {
		return d.restart()
	}
	d.at, err = io.Copy(d.sum, d.part)
	d.came(d.at)
	return err
}

// restart discards the bytes received so far.
func (d *download) restart() error {
	d.at, d.sum = 0, d.file.hash()
	if err := d.part.Truncate(0); err != nil {
		return err
	}
	_, err := d.part.Seek(0, io.SeekStart)
	d.came(0)
	return err
}

// run downloads the missing bytes and checks the whole file. If bytes of an earlier pull turn out to be invalid, it
// starts over once.
func (d *download) run(ctx context.Context) error {
	suspect := d.at > 0
	best := d.at
	for try := 0; ; {
		for d.at < d.file.Size {
			err := d.more(ctx)
			// Only this counts as progress: a hub without ranges starts over each time, and a hub that sends a few
			// bytes and then disconnects is as slow as one that trickles.
			if d.at-best >= max(1, int64(d.c.stall.Seconds()*float64(d.c.slow))) {
				best, try = d.at, 0
			}
			if err == nil {
				continue
			}
			if err := d.c.again(ctx, d.file.Path, err, try); err != nil {
				return d.withStored(err)
			}
			try++
		}
		err := d.file.check(d.at, d.sum)
		if err == nil || !suspect {
			return err
		}
		d.c.note("%s: the bytes of an earlier pull are invalid; starting over", d.file.Path)
		suspect, best = false, 0
		if err := d.restart(); err != nil {
			return err
		}
	}
}

// withStored adds the number of stored bytes to an error.
func (d *download) withStored(err error) error {
	if d.at == 0 || errors.Is(err, errSum) {
		return fmt.Errorf("%s: %w", d.file.Path, err)
	}
	return fmt.Errorf("%s: %w; %d of %d bytes are stored; the same command resumes there", d.file.Path, err, d.at,
		d.file.Size)
}

// more requests the missing bytes and writes them.
func (d *download) more(ctx context.Context) error {
	var header http.Header
	if d.at > 0 {
		header = http.Header{"Range": {fmt.Sprintf("bytes=%d-", d.at)}}
	}
	a, err := d.c.get(ctx, d.address, header)
	if errors.Is(err, errRange) && d.at > 0 {
		return errors.Join(d.restart(), &transient{err: err})
	}
	if err != nil {
		return err
	}
	defer a.close()
	switch n := a.ContentLength; {
	case a.StatusCode == http.StatusPartialContent:
		err = d.checkRange(a.Header.Get("Content-Range"))
	case n >= 0 && n != d.file.Size: // an unrelated page: keep the stored bytes
		return fmt.Errorf("the hub does not send what it listed: it sends %d bytes, want %d", n, d.file.Size)
	case d.at > 0: // a hub without ranges sends the whole file
		err = d.restart()
	}
	if err != nil {
		return err
	}
	return d.copy(a)
}

// checkRange checks that a response starts at the requested byte: "bytes FROM-TO/TOTAL".
func (d *download) checkRange(text string) error {
	rest, _ := strings.CutPrefix(text, "bytes ")
	span, total, _ := strings.Cut(rest, "/")
	from, _, _ := strings.Cut(span, "-")
	if n, err := strconv.ParseInt(from, 10, 64); err != nil || n != d.at {
		return &transient{err: fmt.Errorf("the hub sends the part %.50q, want a part from byte %d", text, d.at)}
	}
	if n, err := strconv.ParseInt(total, 10, 64); err == nil && n != d.file.Size {
		return fmt.Errorf("the hub sends a part of another file: it has %d bytes, want %d", n, d.file.Size)
	}
	return nil
}

// copy appends the bytes that arrive to the file.
func (d *download) copy(a io.Reader) error {
	buffer := make([]byte, 1<<18)
	for {
		n, err := a.Read(buffer)
		if d.at+int64(n) > d.file.Size {
			return fmt.Errorf("%w: it sends more than %d bytes", errSum, d.file.Size)
		}
		if n > 0 {
			if _, err := d.c.write(d.part, buffer[:n]); err != nil {
				return fmt.Errorf("writing %s: %w", filepath.Base(d.part.Name()), err)
			}
			d.sum.Write(buffer[:n])
			d.at += int64(n)
			d.came(d.at)
		}
		switch {
		case err == io.EOF && d.at < d.file.Size:
			return &transient{err: io.ErrUnexpectedEOF}
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// lock waits until no other program downloads the file. On a file system without locks it does nothing.
func (c *Client) lock(ctx context.Context, path, what string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	for told := false; ; {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		locked, err := disk.TryLock(f, false)
		if errors.Is(err, errors.ErrUnsupported) || err == nil && locked && disk.IsAt(f, path) {
			return func() { f.Close() }, nil // closing it releases the lock; Python's tools leave the file, too
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if !told && !locked {
			told = true
			c.note("%s: waiting for another program that downloads it", what)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
