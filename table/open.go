package table

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// Format is a file format.
type Format struct {
	Name       string
	About      string   // one line
	Extensions []string // lower-case file name extensions with the dot
	Kin        string   // formats of the same kin have the same columns and may be mixed in a folder; "" for none
	// Open reads the header of a file. The caller closes in.File.
	Open func(in *Input, opt *Options) (Source, error)
}

// Input is a file to read.
type Input struct {
	Name string        // for errors
	R    *bufio.Reader // decompressed content
	File *os.File      // for formats that need random access; may be nil
	Size int64         // size of File
}

// Formats returns all formats.
func Formats() []*Format { return formats }

// formatOf returns the format of a file: the one in the options, or by its extension.
func formatOf(name string, opt *Options) (*Format, error) {
	var known []string
	for _, f := range formats {
		if opt.Format == f.Name || opt.Format == "" && slices.Contains(f.Extensions, extension(name)) {
			return f, nil
		}
		known = append(known, f.Name)
	}
	if opt.Format != "" {
		return nil, fmt.Errorf("format: found %.40q, want one of %s", opt.Format, strings.Join(known, ", "))
	}
	return nil, fmt.Errorf("%s: found the ending %q%s, want that of one of the formats %s (--format names it)",
		name, extension(name), elsewhere[extension(name)], strings.Join(known, ", "))
}

// elsewhere maps extensions of files of other programs to advice.
var elsewhere = map[string]string{
	".zip": " of an archive (unpack it)", ".tar": " of an archive (unpack it)", ".tgz": " of an archive (unpack it)",
	".7z": " of an archive (unpack it)", ".bz2": " of a compressed file (unpack it)",
	".xz": " of a compressed file (unpack it)", ".zst": " of a compressed file (unpack it)",
	".xlsx": " of a spreadsheet (save it as CSV)", ".xls": " of a spreadsheet (save it as CSV)",
	".ods": " of a spreadsheet (save it as CSV)", ".mat": " of a MATLAB file (save it as CSV or NPY)",
	".h5": " of an HDF5 file (save it as CSV, NPY or Parquet)", ".json": " of JSON (want an object a line, .jsonl)",
}

// extension returns the extension of a file, in lower case, without .gz.
func extension(name string) string {
	return filepath.Ext(strings.TrimSuffix(strings.ToLower(name), ".gz"))
}

// openSource opens the rows of files.
func openSource(paths []string, stdin io.Reader, opt *Options) (Source, error) {
	if len(paths) == 1 && paths[0] == "-" {
		f, err := formatOf("standard input.csv", opt)
		if err != nil {
			return nil, err
		}
		src, err := f.Open(&Input{Name: "standard input", R: bufio.NewReaderSize(stdin, peekSize)}, opt)
		if err != nil {
			return nil, err
		}
		return hear(src, opt.mono, 0, nil)
	}
	var files []entry
	var skipped []string
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case !info.IsDir():
			files = append(files, entry{path: path})
			continue
		}
		inside, others, err := filesIn(path, opt)
		if err != nil {
			return nil, err
		}
		files, skipped = append(files, inside...), append(skipped, others...)
	}
	if len(paths) == 1 && len(files) == 1 && files[0].root == "" {
		src, err := openFile(files[0].path, opt)
		if err != nil {
			return nil, err
		}
		return hear(src, opt.mono, 0, nil)
	}
	note := ""
	if n := len(skipped); n > 0 {
		note = fmt.Sprintf("files of other formats are left out (%d): %s", n,
			strings.Join(skipped[:min(n, mostSkipped)], ", "))
		if n > mostSkipped {
			note += ", ..."
		}
	}
	return newFolder(files, note, opt)
}

// mostSkipped is the maximum number of skipped files that are named.
const mostSkipped = 10

// entry is a file to read.
type entry struct {
	path string
	root string // folder that the user named, "" if the user named the file
}

// filesIn returns the files below a folder, sorted by name: those of --format, or of the most frequent format. skipped
// contains the other files, except for hidden ones.
func filesIn(dir string, opt *Options) (files []entry, skipped []string, err error) {
	var all []string
	found := map[string][]string{} // by format or kin
	named := opt.Format
	err = filepath.WalkDir(dir, func(path string, file fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(file.Name(), ".") && path != dir && file.IsDir():
			return fs.SkipDir
		case file.IsDir() || strings.HasPrefix(file.Name(), "."):
			return nil
		}
		all = append(all, path)
		kind := ""
		if f, err := formatOf(path, &Options{}); err == nil {
			if kind = f.Name; f.Kin != "" && named == "" {
				kind = f.Kin
			}
		}
		found[kind] = append(found[kind], path)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	take := found[named]
	switch {
	case named != "" && len(take) == 0:
		take = found[""] // files of the format without its extension
	case named == "":
		take = nil
		kinds := slices.Sorted(maps.Keys(found))
		for _, kind := range kinds {
			if kind != "" && len(found[kind]) > len(take) {
				take, named = found[kind], kind
			}
		}
		for _, kind := range kinds {
			these := found[kind]
			if kind != "" && kind != named && 2*len(these) > len(take) {
				return nil, nil, fmt.Errorf("%s: found %d files of %s (%s) beside %d of %s (%s); "+
					"want files of one format (--format chooses)", dir, len(these), kind, these[0], len(take), named,
					take[0])
			}
		}
	}
	if len(take) == 0 {
		return nil, nil, fmt.Errorf("%s: found %d files, none of a format that can be read; "+
			"want files such as .csv or .wav", dir, len(all))
	}
	for _, path := range all {
		if len(files) < len(take) && path == take[len(files)] {
			files = append(files, entry{path, dir})
		} else if inside, err := filepath.Rel(dir, path); err == nil {
			skipped = append(skipped, filepath.ToSlash(inside))
		}
	}
	return files, skipped, nil
}

// fileSource is a source that closes its file.
type fileSource struct {
	Source
	file *os.File
}

func (s *fileSource) Close() error {
	err := s.Source.Close()
	if e := s.file.Close(); err == nil {
		err = e
	}
	return err
}

// openFile opens the rows of a file.
func openFile(path string, opt *Options) (Source, error) {
	f, err := formatOf(path, opt)
	if err != nil {
		return nil, err
	}
	file, info, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	in := &Input{Name: path, R: bufio.NewReaderSize(file, peekSize), File: file, Size: info.Size()}
	if strings.HasSuffix(strings.ToLower(path), ".gz") {
		z, err := gzip.NewReader(in.R)
		if err != nil {
			file.Close()
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		in.R, in.File = bufio.NewReaderSize(z, peekSize), nil
	}
	src, err := f.Open(in, opt)
	if err != nil {
		file.Close()
		return nil, brief.Error(err)
	}
	return &fileSource{src, file}, nil
}
