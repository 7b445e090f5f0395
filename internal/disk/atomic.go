package disk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile writes a file so that a crash at any moment leaves at path either the old file or the whole new one. It is
// Replace through a buffer. The permissions of an existing file are kept. An error is a *WriteError or a *SyncError.
func WriteFile(path string, write func(io.Writer) error) error {
	return writeFile(path, write, func(f *os.File) io.Writer { return f })
}

// WriteBytes is WriteFile for data in memory.
func WriteBytes(path string, data []byte) error {
	return WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// writeFile is WriteFile through sink, which tests use to simulate a full disk.
func writeFile(path string, write func(io.Writer) error, sink func(*os.File) io.Writer) error {
	out := &countingWriter{}
	err := Replace(path, func(f *os.File) error {
		out.w = sink(f)
		buffer := bufio.NewWriterSize(out, 1<<20)
		if err := write(buffer); err != nil {
			return err
		}
		return buffer.Flush()
	})
	var unsynced *SyncError
	if err == nil || errors.As(err, &unsynced) {
		return err
	}
	var of *fs.PathError
	if errors.As(err, &of) && of.Op == "write" { // it names the temporary file
		err = of.Err
	}
	return &WriteError{path, out.n, err}
}

// WriteError reports that a file was not replaced.
type WriteError struct {
	Path    string
	Written int64 // number of bytes that had been written
	Err     error
}

func (e *WriteError) Error() string {
	return fmt.Sprintf("writing %s: %v (after %d bytes; %s is as it was before)", e.Path, e.Err, e.Written, e.Path)
}

func (e *WriteError) Unwrap() error { return e.Err }

// countingWriter counts the bytes that were written to w.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// SyncTree syncs every file and folder under root to disk.
func SyncTree(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return SyncDir(path)
		case entry.Type().IsRegular():
			return SyncFile(path)
		}
		return nil
	})
}
