package table

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// NPY is an array of NumPy: (rows), (rows, columns) or (sequences, rows, columns), of any numbers.
var NPY = &Format{
	Name: "npy", About: "an array of NumPy: rows and columns, or sequences of them", Extensions: []string{".npy"},
	Open: func(in *Input, opt *Options) (Source, error) {
		a, err := readArray(in.R, "value")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", in.Name, err)
		}
		return newArrays(in.Name, []*array{a}, opt)
	},
}

// NPZ is arrays of NumPy in a zip file, with equal first dimensions. If one has three dimensions, or with --wide, the
// first dimension counts sequences: arrays of one dimension, such as y, then hold for a sequence.
var NPZ = &Format{
	Name: "npz", About: "arrays of NumPy in a zip file: sequences and their labels",
	Extensions: []string{".npz"},
	Open:       openNPZ,
}

// array is an array of NumPy.
type array struct {
	name  string
	shape []int
	data  []byte
	kind  byte // f, i, u, b
	size  int
	order binary.ByteOrder
}

// at is an element.
func (a *array) at(i int) float64 {
	b := a.data[i*a.size : (i+1)*a.size]
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

// Limits on arrays, so that a hostile head cannot take much memory before its data is read.
const (
	mostArray    = 1 << 34
	mostNPYHead  = 1 << 16
	arrayRead    = 1 << 20
	mostNPYSides = 3
)

// readArray reads an array of NumPy's format 1 to 3.
func readArray(r io.Reader, name string) (*array, error) {
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
	a := &array{name: name, kind: m[2][0], size: int(m[3][0] - '0'), order: binary.LittleEndian}
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
	for len(a.data) < total { // as much memory as there is data
		part := make([]byte, min(arrayRead, total-len(a.data)))
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, fmt.Errorf("found %d bytes of an array, want %d: the file is cut off", len(a.data), total)
		}
		a.data = append(a.data, part...)
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
	for _, f := range z.File {
		if path.Ext(f.Name) != ".npy" {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", in.Name, f.Name, err)
		}
		a, err := readArray(bufio.NewReader(r), strings.TrimSuffix(f.Name, ".npy"))
		r.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", in.Name, f.Name, err)
		}
		all = append(all, a)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: found no array in it", in.Name)
	}
	return newArrays(in.Name, all, opt)
}

// newArrays returns the rows of arrays with the same first dimension.
func newArrays(name string, all []*array, opt *Options) (Source, error) {
	deepest := slices.MaxFunc(all, func(a, b *array) int { return len(a.shape) - len(b.shape) })
	sequences := len(deepest.shape) == 3 || opt.Wide && len(deepest.shape) == 2
	s := &recordSource{described: described{about: About{Sequences: sequences, Headless: len(all) == 1}}}
	type column struct {
		a     *array
		index int // among the columns of a
		wide  int // columns of a
		step  bool
	}
	var columns []column
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
		for i, title := range numbered(a.name, n) {
			columns = append(columns, column{a, i, n, !sequences || last > 0})
			s.about.Columns = append(s.about.Columns, title)
		}
		if sequences && last == 0 && s.about.Label == "" {
			s.about.Label = a.name
		}
	}
	n, rows := 0, 1
	if sequences {
		rows = deepest.shape[1]
	}
	s.next = func() (*record, error) {
		if n >= deepest.shape[0] || rows == 0 {
			return nil, io.EOF
		}
		at := n
		n++
		r := &record{place: Place{name, "row", int64(n)}, n: rows, name: fmt.Sprintf("sequence %d", n)}
		r.cell = func(row, i int) Cell {
			c := &columns[i]
			where := at
			if sequences && c.step {
				where = at*rows + row
			}
			return RealCell(c.a.at(where*c.wide + c.index))
		}
		return r, nil
	}
	return s, nil
}
