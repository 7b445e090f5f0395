package table

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/brief"
)

// The columns that a folder adds to those of its files.
const (
	FolderColumn = "folder" // folder of a file, relative to the folder that was opened; only if there are subfolders
	FileColumn   = "file"
)

// folder reads the rows of files, one file after another. Each file is a sequence, unless it has several.
type folder struct {
	files   []string
	names   []string // of files in predictions: the path from the named folder, or the name that was given
	labels  []string // folder of each file
	opt     *Options
	about   About
	own     int // number of columns of a file
	labeled bool
	mono    bool // mix recordings down to one channel
	rate    int  // rate to which recordings are resampled, 0 for none
	filters map[int]*filter

	at    int // index of the current file
	now   Source
	base  int // number of sequences before those of the file
	most  int // number of the last sequence so far
	notes []string
}

// newFolder opens files that were found in folders, or were named. note is a note about the folders.
func newFolder(found []entry, note string, opt *Options) (Source, error) {
	s := &folder{opt: opt, most: -1, filters: map[int]*filter{}}
	if note != "" {
		s.notes = append(s.notes, note)
	}
	one := !slices.ContainsFunc(found, func(e entry) bool { return e.root != found[0].root })
	for _, e := range found {
		dir, name := "", e.path
		if e.root != "" {
			if inside, err := filepath.Rel(e.root, e.path); err == nil {
				if dir = filepath.ToSlash(filepath.Dir(inside)); dir == "." {
					dir = ""
				}
				if one {
					name = inside
				}
			}
		}
		s.files, s.names = append(s.files, e.path), append(s.names, filepath.ToSlash(name))
		s.labels, s.labeled = append(s.labels, dir), s.labeled || dir != ""
	}
	if err := s.unify(found); err != nil {
		return nil, err
	}
	first, err := s.open(0)
	if err != nil {
		return nil, err
	}
	s.now, s.about = first, first.About()
	s.about.Columns, s.about.Units = slices.Clone(s.about.Columns), slices.Clone(s.about.Units)
	s.own = len(s.about.Columns)
	add := func(name string) {
		if !slices.Contains(s.about.Columns, name) {
			s.about.Columns = append(s.about.Columns, name)
			if s.about.Units != nil {
				s.about.Units = append(s.about.Units, "")
			}
		}
	}
	if !s.about.Sequences {
		add(FileColumn)
	}
	if s.labeled {
		add(FolderColumn)
		if s.about.Label == "" {
			s.about.Label = FolderColumn
		}
	}
	s.about.Sequences = true
	return s, nil
}

// unify finds out whether the files are recordings that differ. It removes some unreadable files of a folder.
func (s *folder) unify(found []entry) error {
	if f, err := formatOf(s.files[0], s.opt); err != nil || f.Kin != recordings {
		return err
	}
	var all []About
	var broken []string
	files, names, labels := s.files, s.names, s.labels
	s.files, s.names, s.labels = nil, nil, nil
	for i, path := range files {
		src, err := openFile(path, s.opt)
		var unread *fs.PathError
		switch {
		case err == nil:
			s.files, s.names, s.labels = append(s.files, path), append(s.names, names[i]), append(s.labels, labels[i])
			all = append(all, src.About())
			err = src.Close()
		case found[i].root != "" && !errors.As(err, &unread):
			broken, err = append(broken, err.Error()), nil
		}
		if err != nil {
			return err
		}
	}
	if len(broken) > len(files)/2 {
		return errors.New(broken[0])
	} else if len(broken) > 0 {
		s.notes = append(s.notes, fmt.Sprintf("recordings that cannot be read are left out (%d): %s", len(broken),
			brief.List(broken, "; ")))
	}
	note := ""
	s.mono, s.rate, note = unify(all, s.opt)
	if note != "" {
		s.notes = append(s.notes, note)
	}
	return nil
}

// open opens a file.
func (s *folder) open(i int) (Source, error) {
	src, err := openFile(s.files[i], s.opt)
	if err != nil {
		return nil, err
	}
	heard, err := hear(src, s.mono, s.rate, s.filters)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", s.files[i], err), src.Close())
	}
	return heard, nil
}

// About describes the files, based on the first one.
func (s *folder) About() About { return s.about }

// Notes returns the notes of all files so far.
func (s *folder) Notes() []string {
	if s.now == nil {
		return s.notes
	}
	return slices.Concat(s.notes, s.now.Notes())
}

// Next reads the next row, from the next file if needed.
func (s *folder) Next(row *Row) error {
	for {
		if s.now == nil {
			if s.at++; s.at >= len(s.files) {
				s.at = len(s.files)
				return io.EOF
			}
			next, err := s.open(s.at)
			if err != nil {
				return err
			}
			s.now, s.base = next, s.most+1
			if err := s.sameColumns(next.About()); err != nil {
				return err
			}
		}
		err := s.now.Next(row)
		if err == io.EOF {
			s.notes = append(s.notes, s.now.Notes()...)
			err, s.now = s.now.Close(), nil
			if err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		return s.add(row)
	}
}

// sameColumns returns an error unless a file has the columns of the first one.
func (s *folder) sameColumns(about About) error {
	if want := s.about.Columns[:s.own]; !slices.Equal(about.Columns, want) {
		return fmt.Errorf("%s: found the columns %s; want those of %s: %s", s.files[s.at],
			brief.List(about.Columns, ", "), s.files[0], brief.List(want, ", "))
	}
	return nil
}

// add appends the columns of the folder to a row.
func (s *folder) add(row *Row) error {
	row.Sequence += s.base
	s.most = max(s.most, row.Sequence)
	name := s.names[s.at]
	switch base := filepath.Base(name); row.Name {
	case "", base, strings.TrimSuffix(base, filepath.Ext(base)): // the file has one sequence
		row.Name = name
	default:
		row.Name = name + ": " + row.Name
	}
	for _, column := range s.about.Columns[len(row.Cells):] {
		text := filepath.Base(name)
		if column == FolderColumn {
			text = s.labels[s.at]
		}
		row.Cells = append(row.Cells, Cell{Form: Text, Text: text})
	}
	return nil
}

// Close closes the current file.
func (s *folder) Close() error {
	if s.now == nil {
		return nil
	}
	return s.now.Close()
}
