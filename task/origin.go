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

// origin is the source of a task's files. It is used in messages about missing or damaged files.
type origin struct {
	task string // name of the task in commands
	data string // name of the data set
	url  string // where it can be downloaded
}

// about returns the name of the data set and its URL.
func (o origin) about() string { return o.data + ", " + o.url }

// find returns the first of layouts that exists. Layouts are paths under dir with slashes. A path that ends in a slash
// is a folder. The error lists all layouts.
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

// layouts returns the paths of a file, compressed or not, in each of the folders.
func layouts(name string, folders ...string) (all []string) {
	for _, folder := range folders {
		all = append(all, folder+name, folder+name+".gz")
	}
	return all
}

// missing returns the error that none of layouts exists under dir.
func (o origin) missing(dir string, layouts ...string) error {
	if dir == "" {
		return fmt.Errorf("task %s: it reads files of the data set %s: "+
			"name their folder with --data; the data is at %s (found none of %s in the current folder either)", o.task,
			o.data, o.url, strings.Join(layouts, ", "))
	}
	return fmt.Errorf("task %s: found none of %s in the folder %s: they are part of the data set %s, available at %s",
		o.task, strings.Join(layouts, ", "), dir, o.data, o.url)
}

// folder returns the name of the data folder for messages.
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
// file to errors of parse.
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

// readExactly reads n bytes. It allocates memory only as bytes are read, so that a damaged length needs little memory.
// It returns an error if there are fewer bytes.
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
