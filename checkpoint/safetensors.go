package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/internal/brief"
)

// The layout of safetensors:
//
//	8 bytes   length of the header, little-endian
//	header    JSON: {"__metadata__": {text: text}, name: {"dtype": D, "shape": [...],
//	          "data_offsets": [begin, end]}, ...}, filled up with spaces
//	data      the tensors one after another with no gaps; offsets count from here

const (
	metadataKey  = "__metadata__"
	maxHeaderLen = 100_000_000 // the limit of the reference implementation
)

// span is one tensor of a header.
type span struct {
	tensor     *Tensor
	begin, end uint64
}

// ParseSafetensors is OpenSafetensors of the contents of a file, which must not change as long as the File is in use.
func ParseSafetensors(data []byte) (*File, error) {
	f := &File{
		mapping: &mapping{data: data, unmap: func() error { return nil }}, tensors: map[string]*Tensor{},
		meta: map[string]string{},
	}
	if err := f.readSafetensors(); err != nil {
		return nil, brief.Error(fmt.Errorf("safetensors: %w", err))
	}
	return f, nil
}

func (f *File) readSafetensors() error {
	f.format = FormatSafetensors
	d := f.mapping.data
	n, ok := uint64At(d, 0)
	if !ok {
		return fmt.Errorf("found %d bytes, want at least the 8 of the header length", len(d))
	}
	if n > uint64(len(d)-8) {
		return fmt.Errorf("the header length is %d, but only %d bytes follow it"+brokenOff, n, len(d)-8)
	}
	if n > maxHeaderLen {
		return fmt.Errorf("the header length is %d, want at most %d", n, maxHeaderLen)
	}
	header, data := d[8:8+n], d[8+n:]
	spans, err := f.readHeader(header)
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if err := place(spans, data); err != nil {
		return err
	}
	return f.readIntegersMeta()
}

// place checks that the tensors fill data with neither gap nor overlap and gives each its part.
func place(spans []span, data []byte) error {
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at := uint64(0)
	for _, s := range spans {
		switch {
		case s.begin < at:
			return fmt.Errorf("tensor %q starts at byte %d of the data, inside the tensor that ends at %d",
				s.tensor.Name, s.begin, at)
		case s.begin > at:
			return fmt.Errorf("tensor %q starts at byte %d of the data, want %d: gaps are not allowed",
				s.tensor.Name, s.begin, at)
		case s.end > uint64(len(data)):
			return fmt.Errorf("tensor %q ends at byte %d of the data, but the file has only %d"+brokenOff,
				s.tensor.Name, s.end, len(data))
		}
		s.tensor.Data = data[s.begin:s.end:s.end]
		if _, err := s.tensor.check(); err != nil {
			return err
		}
		at = s.end
	}
	if at != uint64(len(data)) {
		return fmt.Errorf("the tensors end at byte %d of the data, but the file has %d", at, len(data))
	}
	return nil
}

// readHeader reads the JSON header. Tensors have no data yet.
func (f *File) readHeader(header []byte) ([]span, error) {
	if !utf8.Valid(header) {
		return nil, errors.New("not UTF-8")
	}
	var spans []span
	dec := json.NewDecoder(bytes.NewReader(header))
	err := object(dec, func(name string) error {
		if name == metadataKey {
			return object(dec, func(key string) error {
				var value *string
				if err := dec.Decode(&value); err != nil || value == nil {
					return fmt.Errorf("%s: %q is not a string", metadataKey, key)
				}
				f.meta[key] = *value
				return nil
			})
		}
		s, err := readSpan(dec, name)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		spans = append(spans, s)
		return f.add(s.tensor)
	})
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more text after the JSON object, want only spaces")
	}
	return spans, nil
}

// readSpan reads the description of one tensor.
func readSpan(dec *json.Decoder, name string) (span, error) {
	var dtype *string
	var shape, offsets *[]uint64
	err := object(dec, func(key string) error {
		var target any = new(json.RawMessage) // unknown fields are skipped, as the reference implementation does
		switch key {
		case "dtype":
			target = &dtype
		case "shape":
			target = &shape
		case "data_offsets":
			target = &offsets
		}
		if err := dec.Decode(target); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		return nil
	})
	switch {
	case err != nil:
		return span{}, err
	case dtype == nil, shape == nil, offsets == nil:
		return span{}, errors.New(`want all of "dtype", "shape" and "data_offsets"`)
	case len(*offsets) != 2 || (*offsets)[0] > (*offsets)[1]:
		return span{}, fmt.Errorf("data_offsets are %v, want begin and end in this order", *offsets)
	case DType(*dtype).Size() == 0:
		return span{}, fmt.Errorf("unknown element type %q, want one of %s", *dtype, knownTypes)
	}
	t := &Tensor{Name: name, DType: DType(*dtype), Shape: make([]int, len(*shape))}
	for i, s := range *shape {
		if s > math.MaxInt {
			return span{}, fmt.Errorf("shape %v is not possible", *shape)
		}
		t.Shape[i] = int(s)
	}
	return span{t, (*offsets)[0], (*offsets)[1]}, nil
}

// object reads a JSON object and calls field after each key, to read its value. A key that comes twice is an error.
func object(dec *json.Decoder, field func(key string) error) error {
	if open, err := dec.Token(); err != nil {
		return wholeJSON(err)
	} else if open != json.Delim('{') {
		return fmt.Errorf("found %v, want a JSON object", open)
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return wholeJSON(err)
		}
		key := token.(string) // the decoder accepts nothing else here
		if seen[key] {
			return fmt.Errorf("%q comes twice", key)
		}
		seen[key] = true
		if err := field(key); err != nil {
			return err
		}
	}
	_, err := dec.Token() // the closing brace
	return wholeJSON(err)
}

// wholeJSON replaces io.EOF, which says little in the middle of an object.
func wholeJSON(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the JSON ends too early")
	}
	return err
}
