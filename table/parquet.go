package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Parquet is Apache Parquet: columns of numbers, booleans, texts and times in groups of rows. Only the needed columns
// are read, page by page.
var Parquet = &Format{
	Name: "parquet", About: "columns of Apache Parquet: numbers, booleans, texts, times and decimals",
	Extensions: []string{".parquet", ".pq", ".parq"}, Open: openParquet,
}

// mostFooter is the maximum size of the footer of a file, which holds the metadata of its columns and groups of rows.
const mostFooter = 64 << 20

// parquetSource reads the rows of a Parquet file.
type parquetSource struct {
	described
	name   string
	f      *parquetFile
	groups []format.RowGroup
	reads  []*parquetColumn // parallel to about.Columns; nil for a column that is not read

	left int64 // remaining rows of the group
	row  int64
}

func openParquet(in *Input, opt *Options) (Source, error) {
	if in.File == nil {
		return nil, fmt.Errorf("%s: found a stream, want a file that is not compressed as a whole: "+
			"the index of a Parquet file is at its end", in.Name)
	}
	zone, err := opt.zone()
	if err != nil {
		return nil, err
	}
	meta, end, err := readFooter(in.File, in.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	s := &parquetSource{name: in.Name, f: &parquetFile{r: in.File, end: end}, groups: meta.RowGroups}
	if err := s.findColumns(meta.Schema, opt, zone); err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	leaves := 0
	for _, e := range meta.Schema {
		if e.Type.Valid {
			leaves++
		}
	}
	for i, g := range s.groups {
		if len(g.Columns) != leaves || g.NumRows < 0 {
			return nil, fmt.Errorf("%s: found %d columns and %d rows in row group %d, "+
				"want %d columns and 0 rows or more", in.Name, len(g.Columns), g.NumRows, i+1, leaves)
		}
	}
	if opt.Wide {
		return newWide(s, opt)
	}
	return s, nil
}

// readFooter reads the metadata of a file. It also returns the offset at which the pages end.
func readFooter(r io.ReaderAt, size int64) (*format.FileMetaData, int64, error) {
	var magic [4]byte
	var tail [8]byte
	if size < int64(len(magic)+len(tail)) {
		return nil, 0, fmt.Errorf("found %d bytes, want a Parquet file, which has 12 or more", size)
	}
	_, err := r.ReadAt(magic[:], 0)
	if err == nil {
		_, err = r.ReadAt(tail[:], size-int64(len(tail)))
	}
	if err != nil && err != io.EOF {
		return nil, 0, err
	}
	switch begin, end := string(magic[:]), string(tail[4:]); {
	case begin == "PARE" || end == "PARE":
		return nil, 0, errors.New("found an encrypted Parquet file, want one that is not")
	case begin != "PAR1":
		return nil, 0, fmt.Errorf("found %q at the beginning, want the PAR1 of a Parquet file", begin)
	case end != "PAR1":
		return nil, 0, fmt.Errorf(
			"found %q at the end, want the PAR1 of a Parquet file: it is cut off, or its writer did not close it", end)
	}
	n := int64(binary.LittleEndian.Uint32(tail[:4]))
	if n > mostFooter || n > size-int64(len(magic)+len(tail)) {
		return nil, 0, fmt.Errorf("found a footer of %d bytes in a file of %d, want at most %d", n, size,
			min(mostFooter, size-int64(len(magic)+len(tail))))
	}
	end := size - int64(len(tail)) - n
	data := make([]byte, n)
	if _, err := r.ReadAt(data, end); err != nil && err != io.EOF {
		return nil, 0, err
	}
	used, err := thriftSize(data)
	meta := &format.FileMetaData{}
	if err == nil {
		err = thrift.Unmarshal(&thrift.CompactProtocol{}, data[:used], meta) // a signature may follow
	}
	if err != nil {
		return nil, 0, fmt.Errorf("the footer: %w", err)
	}
	if meta.EncryptionAlgorithm.Value != nil {
		return nil, 0, errors.New("found an encrypted Parquet file, want one that is not")
	}
	return meta, end, nil
}

// findColumns finds the columns of a schema: a list that starts with the root; each element is followed by its
// children.
func (s *parquetSource) findColumns(schema []format.SchemaElement, opt *Options, zone *time.Location) error {
	if len(schema) < 2 || schema[0].Type.Valid {
		return fmt.Errorf("found a schema of %d elements, want a root and a column or more", len(schema))
	}
	var nested []string
	leaf := 0
	for i := 1; i < len(schema); {
		e := &schema[i]
		name := e.Name
		end, leaves := subtree(schema, i)
		switch {
		case name == "":
			name = fmt.Sprintf("column%d", len(s.about.Columns)+1)
		case len(s.about.Columns) >= mostColumns:
			return fmt.Errorf("found more than %d columns, want at most that", mostColumns)
		case slices.Contains(s.about.Columns, name):
			return fmt.Errorf("found two columns named %.60q, want each to have a name of its own", name)
		}
		var c *parquetColumn
		if opt.reads(name) {
			k, err := parquetKind(e, zone)
			if err != nil {
				nested = append(nested, fmt.Sprintf("column %s: %v", name, err))
			}
			if k.local {
				s.about.Local = append(s.about.Local, name)
			}
			c = &parquetColumn{f: s.f, name: name, leaf: leaf, convert: k.convert,
				physical: physical{e.Type.V, sizeOf(e.Type.V, int(e.TypeLength.V))},
				optional: e.RepetitionType.V == format.Optional}
		}
		s.about.Columns, s.reads = append(s.about.Columns, name), append(s.reads, c)
		leaf += leaves
		i = end
	}
	if len(nested) > 0 {
		more := ""
		if len(nested) > mostShown {
			more = fmt.Sprintf("\nand %d more such columns", len(nested)-mostShown)
		}
		return fmt.Errorf("%s%s\n--ignore leaves columns out", strings.Join(nested[:min(len(nested), mostShown)], "\n"),
			more)
	}
	if local := s.about.Local; len(local) > 0 && opt.Zone == "" {
		s.notes = append(s.notes, fmt.Sprintf(
			"column %s: its times name no zone: they are read as those of UTC (--zone otherwise)", local[0]))
	}
	return nil
}

// subtree returns the index after an element of a schema and its descendants, and the number of leaves among them.
func subtree(schema []format.SchemaElement, at int) (end, leaves int) {
	for open := 1; open > 0 && at < len(schema); at++ {
		open--
		if schema[at].Type.Valid {
			leaves++
		} else {
			open += int(max(0, schema[at].NumChildren.V))
		}
	}
	return at, leaves
}

// Close releases memory.
func (s *parquetSource) Close() error {
	s.f.close()
	return nil
}

// Next reads a row: one value of each column.
func (s *parquetSource) Next(row *Row) error {
	for s.left == 0 {
		if len(s.groups) == 0 {
			return io.EOF
		}
		group := &s.groups[0]
		s.left, s.groups = group.NumRows, s.groups[1:]
		for _, c := range s.reads {
			if c == nil || s.left == 0 {
				continue
			}
			if err := c.begin(&group.Columns[c.leaf], s.left); err != nil {
				return s.wrong(c, err)
			}
		}
	}
	*row = Row{Place: Place{s.name, "row", s.row + 1}, Cells: row.Cells[:0]}
	var bad *RowError
	for _, c := range s.reads {
		if c == nil {
			row.Cells = append(row.Cells, Cell{})
			continue
		}
		cell, err := c.next()
		if err != nil {
			var value badValue
			if !errors.As(err, &value) {
				return s.wrong(c, err)
			}
			if bad == nil {
				bad = &RowError{Place: row.Place, Column: c.name, Text: string(value)}
			}
		}
		row.Cells = append(row.Cells, cell)
	}
	s.left--
	s.row++
	if bad != nil {
		return bad
	}
	return nil
}

// wrong adds the row and column to an error.
func (s *parquetSource) wrong(c *parquetColumn, err error) error {
	return fmt.Errorf("%s, row %d, column %s: %w", s.name, s.row+1, c.name, err)
}
