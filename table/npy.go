package table

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// NPY is a NumPy array of any numbers: (rows), (rows, columns) or (sequences, rows, columns).
var NPY = &Format{
	Name: "npy", About: "an array of NumPy: rows and columns, or sequences of them", Extensions: []string{".npy"},
	Open: func(in *Input, opt *Options) (Source, error) {
		a, err := openArray(in.R, "value")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", in.Name, err)
		}
		return newArrays(in.Name, []*array{a}, opt)
	},
}

// NPZ is a zip file of NumPy arrays with equal first dimensions. If an array has three dimensions, or with --wide, the
// first dimension counts sequences. Arrays of one dimension, such as y, then apply to a whole sequence.
var NPZ = &Format{
	Name: "npz", About: "arrays of NumPy in a zip file: sequences and their labels",
	Extensions: []string{".npz"},
	Open:       openNPZ,
}

// array is a NumPy array that is read row by row: a few bytes in a file can decompress to a huge array.
type array struct {
	name  string
	shape []int
	kind  byte // f, i, u, b
	size  int
	order binary.ByteOrder
	r     io.Reader
	close func() error
	row   []byte // elements of the last dimension, or one element
	n     int    // number of rows read
}

// read reads until row at is the last row that was read.
func (a *array) read(at int) error {
	for ; a.n <= at; a.n++ {
		if n, err := io.ReadFull(a.r, a.row); err == io.EOF || err == io.ErrUnexpectedEOF {
			return fmt.Errorf("found %d bytes of an array, want %d: the file is cut off", a.n*len(a.row)+n, a.bytes())
		} else if err != nil {
			return err
		}
	}
	return nil
}

// bytes returns the size of all elements.
func (a *array) bytes() int {
	n := a.size
	for _, side := range a.shape {
		n *= side
	}
	return n
}

// at returns element i of the row.
func (a *array) at(i int) float64 {
	b := a.row[i*a.size : (i+1)*a.size]
	var bits uint64
	switch a.size {
	case 1:
		bits = uint64(b[0])
	case 2:
		bits = uint64(a.order.Uint16(b))
	case 4:
		bits = uint64(a.order.Uint32(b))
	default:
		bits = a.order.Uint64(b)
	}
	switch {
	case a.kind == 'f' && a.size == 8:
		return math.Float64frombits(bits)
	case a.kind == 'f':
		return float64(math.Float32frombits(uint32(bits)))
	case a.kind == 'i':
		shift := 64 - 8*a.size
		return float64(int64(bits<<shift) >> shift)
	}
	return float64(bits)
}

var npyHead = regexp.MustCompile(`'descr': *'([<>|=])([fiub])([1248])'.*'fortran_order': *(True|False).*` +
	`'shape': *\(([0-9, ]*)\)`)

// Limits on arrays.
const (
	mostArray    = 1 << 40
	mostNPYHead  = 1 << 16
	mostNPYSides = 3
	arrayBuffer  = 64 << 10
)

// openArray reads the header of an array in NumPy's format 1 to 3.
func openArray(r io.Reader, name string) (*array, error) {
	var start [10]byte
	if _, err := io.ReadFull(r, start[:]); err != nil || string(start[:6]) != "\x93NUMPY" {
		return nil, fmt.Errorf("found no array of NumPy (%q)", start[:6])
	}
	n := int(binary.LittleEndian.Uint16(start[8:]))
	if start[6] >= 2 {
		var more [2]byte
		if _, err := io.ReadFull(r, more[:]); err != nil {
			return nil, err
		}
		n |= int(binary.LittleEndian.Uint16(more[:])) << 16
	}
	if n > mostNPYHead {
		return nil, fmt.Errorf("found a head of %d bytes, want at most %d", n, mostNPYHead)
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, fmt.Errorf("the head of an array: %w", err)
	}
	m := npyHead.FindSubmatch(head)
	if m == nil || string(m[4]) == "True" || m[2][0] == 'f' && m[3][0] < '4' {
		return nil, fmt.Errorf("found the array %.120q, want numbers of 1 to 8 bytes in the order of C", head)
	}
	a := &array{name: name, kind: m[2][0], size: int(m[3][0] - '0'), order: binary.LittleEndian, r: r}
	if m[1][0] == '>' {
		a.order = binary.BigEndian
	}
	total := a.size
	for _, text := range strings.FieldsFunc(string(m[5]), func(r rune) bool { return r == ',' || r == ' ' }) {
		side, err := strconv.Atoi(text)
		if err != nil || side < 0 || side > mostArray/max(1, total) {
			return nil, fmt.Errorf("found an array of %.60q, want at most %d bytes", m[5], mostArray)
		}
		a.shape = append(a.shape, side)
		total *= side
	}
	if len(a.shape) < 1 || len(a.shape) > mostNPYSides {
		return nil, fmt.Errorf("found an array with %d dimensions, want 1 to %d", len(a.shape), mostNPYSides)
	}
	return a, nil
}

func openNPZ(in *Input, opt *Options) (Source, error) {
	if in.File == nil {
		return nil, fmt.Errorf("%s: found a stream, want a file", in.Name)
	}
	z, err := zip.NewReader(in.File, in.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	var all []*array
	closeAll := func() (err error) {
		for _, a := range all {
			err = errors.Join(err, a.close())
		}
		return err
	}
	for _, f := range z.File {
		if path.Ext(f.Name) != ".npy" {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %s: %w", in.Name, f.Name, err), closeAll())
		}
		a, err := openArray(bufio.NewReaderSize(r, arrayBuffer), strings.TrimSuffix(f.Name, ".npy"))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %s: %w", in.Name, f.Name, err), r.Close(), closeAll())
		}
		a.close = r.Close
		all = append(all, a)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: found no array in it", in.Name)
	}
	src, err := newArrays(in.Name, all, opt)
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	return src, nil
}

// arrays reads the rows of arrays with the same first dimension.
type arrays struct {
	described
	name      string
	all       []*array
	steps     []bool // whether an array has a row for each step of a sequence
	rows      int    // of a sequence
	n, at, of int    // number of started sequences, next row of the last one, and total number of sequences
}

// newArrays returns the rows of arrays.
func newArrays(name string, all []*array, opt *Options) (Source, error) {
	deepest := slices.MaxFunc(all, func(a, b *array) int { return len(a.shape) - len(b.shape) })
	sequences := len(deepest.shape) == 3 || opt.Wide && len(deepest.shape) == 2
	s := &arrays{described: described{about: About{Sequences: sequences, Headless: len(all) == 1}}, name: name,
		all: all, rows: 1, of: deepest.shape[0]}
	if sequences {
		s.rows = deepest.shape[1]
	}
	for _, a := range all {
		if a.shape[0] != deepest.shape[0] || sequences && len(a.shape) > 1 && a.shape[1] != deepest.shape[1] {
			return nil, fmt.Errorf("%s: found arrays of %v (%s) and %v (%s), want equal first dimensions",
				name, a.shape, a.name, deepest.shape, deepest.name)
		}
		n := 1
		last := len(a.shape) - 1
		if sequences && last == 2 || !sequences && last == 1 {
			n = a.shape[last]
		}
		if n < 1 || n > mostColumns {
			return nil, fmt.Errorf("%s: found %d columns in %s, want 1 to %d", name, n, a.name, mostColumns)
		}
		a.row = make([]byte, n*a.size)
		s.steps = append(s.steps, sequences && last > 0)
		s.about.Columns = append(s.about.Columns, numbered(a.name, n)...)
		if sequences && last == 0 && s.about.Label == "" {
			s.about.Label = a.name
		}
	}
	return s, nil
}

// Next reads the next row of all arrays.
func (s *arrays) Next(row *Row) error {
	if s.n == 0 || s.at == s.rows {
		if s.n == s.of || s.rows == 0 {
			return io.EOF
		}
		s.n, s.at = s.n+1, 0
	}
	row.Place, row.Sequence, row.Name, row.Step = Place{s.name, "row", int64(s.n)}, 0, "", 0
	if s.about.Sequences {
		row.Sequence, row.Name = s.n-1, fmt.Sprintf("sequence %d", s.n)
	}
	row.Cells = row.Cells[:0]
	for i, a := range s.all {
		at := s.n - 1
		if s.steps[i] {
			at = at*s.rows + s.at
		}
		if err := a.read(at); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		for k := range len(a.row) / a.size {
			row.Cells = append(row.Cells, RealCell(a.at(k)))
		}
	}
	s.at++
	return nil
}

// Close closes the arrays of a zip file.
func (s *arrays) Close() (err error) {
	for _, a := range s.all {
		if a.close != nil {
			err = errors.Join(err, a.close())
		}
	}
	return err
}
