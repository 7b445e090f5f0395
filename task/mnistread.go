package task

import (
	"encoding/binary"
	"fmt"
	"io"
)

// mnistPixels is the number of pixels of an image with 28 rows.
const mnistPixels = 28 * 28

// readMNIST reads the images and labels of one of the two pairs of files under dir.
func readMNIST(from origin, dir, pair string) (*mnistImages, error) {
	m := &mnistImages{}
	for _, file := range []struct {
		name  string
		magic uint32 // two zeros, 8 for bytes, the number of dimensions
		size  []int  // dimensions after the number of entries
		to    *[]byte
	}{
		{pair + "-images-idx3-ubyte", 0x803, []int{28, 28}, &m.pixels},
		{pair + "-labels-idx1-ubyte", 0x801, nil, &m.labels},
	} {
		path, err := from.find(dir, layouts(file.name, "", "mnist/", "MNIST/raw/")...)
		if err != nil {
			return nil, err
		}
		err = from.read(path, func(r io.Reader) (err error) {
			*file.to, err = readIDX(r, file.magic, file.size...)
			return err
		})
		if err != nil {
			return nil, err
		}
		if file.size != nil {
			continue
		}
		if images := len(m.pixels) / mnistPixels; len(m.labels) != images {
			return nil, from.damaged(path, "found %d labels, want one for each of the %d images", len(m.labels), images)
		}
		for i, label := range m.labels {
			if label > 9 {
				return nil, from.damaged(path, "label %d, at offset %d: found %d, want 0 to 9", i, 8+i, label)
			}
		}
	}
	return m, nil
}

// readIDX reads a file in the format of MNIST: the magic number, the number of entries, the size of an entry (all
// big-endian, 4 bytes each), then the entries, one byte for each number. It returns an error for another magic number
// or size, for a file without entries, and for fewer or more bytes than the header says.
func readIDX(r io.Reader, magic uint32, size ...int) ([]byte, error) {
	head := make([]uint32, 2+len(size))
	if err := binary.Read(r, binary.BigEndian, head); err != nil {
		return nil, fmt.Errorf("the head of %d bytes: %w", 4*len(head), err)
	}
	if head[0] != magic {
		return nil, fmt.Errorf("found the magic number %#08x, want %#08x", head[0], magic)
	}
	entry := int64(1)
	for i, want := range size {
		if head[2+i] != uint32(want) {
			return nil, fmt.Errorf("found entries of the size %d, want %d", head[2:], size)
		}
		entry *= int64(want)
	}
	if head[1] == 0 {
		return nil, fmt.Errorf("found no entries")
	}
	data, err := readExactly(r, int64(head[1])*entry)
	if err != nil {
		return nil, fmt.Errorf("%d entries: %w", head[1], err)
	}
	if n, err := io.ReadFull(r, make([]byte, 1)); n > 0 || err != io.EOF {
		return nil, fmt.Errorf("found more than %d entries (%v)", head[1], err)
	}
	return data, nil
}
