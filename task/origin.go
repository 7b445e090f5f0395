package task

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// origin is the source of a task's files, for messages about missing or damaged ones.
type origin struct {
	task string // its name in commands
	data string // the name of the data set
	url  string // where to get it
}

// about is the name of the data set and where to get it.
func (o origin) about() string { return o.data + ", " + o.url }

// find returns the first of layouts that exists. They are paths under dir, written with slashes; one that ends in a
// slash is a folder. The error names all of them.
func (o origin) find(dir string, layouts ...string) (string, error) {
	for _, layout := range layouts {
		path := filepath.Join(dir, filepath.FromSlash(layout))
		info, err := os.Stat(path)
		switch {
		case err == nil && info.IsDir() == strings.HasSuffix(layout, "/"):
			return path, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("task %s: %w", o.task, err)
		}
	}
	return "", o.missing(dir, layouts...)
}

// layouts are a file, compressed or not, in each of some folders.
func layouts(name string, folders ...string) (all []string) {
	for _, folder := range folders {
		all = append(all, folder+name, folder+name+".gz")
	}
	return all
}

// missing is the error that none of layouts exists under dir.
func (o origin) missing(dir string, layouts ...string) error {
	if dir == "" {
		return fmt.Errorf("task %s: it reads files of the data set %s: "+
			"name their folder with --data; the data is at %s (found none of %s in the current folder either)", o.task,
			o.data, o.url, strings.Join(layouts, ", "))
	}
	return fmt.Errorf("task %s: found none of %s in the folder %s: they are part of the data set %s, available at %s",
		o.task, strings.Join(layouts, ", "), dir, o.data, o.url)
}

// folder is the name of the data folder in messages.
func folder(dir string) string {
	if dir == "" {
		return "the current folder"
	}
	return dir
}

// damaged returns an error about the content of the file at path.
func (o origin) damaged(path, format string, args ...any) error {
	return fmt.Errorf("task %s: %s: %w", o.task, path, fmt.Errorf(format, args...))
}

// read passes the content of the file at path to parse, decompressed if its name ends in .gz. It adds the name of the
// file to the error of parse.
func (o origin) read(path string, parse func(r io.Reader) error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("task %s: %w", o.task, err)
	}
	defer f.Close()
	var r io.Reader = bufio.NewReaderSize(f, 1<<16)
	if strings.HasSuffix(path, ".gz") || strings.HasSuffix(path, ".tgz") {
		zip, err := gzip.NewReader(r)
		if err != nil {
			return o.damaged(path, "%w", err)
		}
		r = zip
	}
	if err := parse(r); err != nil {
		return o.damaged(path, "%w", err)
	}
	return nil
}

// readExactly reads n bytes. Memory grows with the bytes that are read, so that a damaged length allocates little.
// Errors: fewer bytes.
func readExactly(r io.Reader, n int64) ([]byte, error) {
	var data bytes.Buffer
	got, err := io.Copy(&data, io.LimitReader(r, n))
	if err != nil {
		return nil, fmt.Errorf("after %d of %d bytes: %w", got, n, err)
	}
	if got < n {
		return nil, fmt.Errorf("found %d bytes, want %d: the file is cut off", got, n)
	}
	return data.Bytes(), nil
}
