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
	"github.com/hippo-ssm/hippo/internal/fault"
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

// span is a tensor in a header, with the range of its data.
type span struct {
	tensor     *Tensor
	begin, end uint64
}

// ParseSafetensors is OpenSafetensors for the content of a file, which must not change as long as the File is in use.
func ParseSafetensors(data []byte) (*File, error) {
	f := &File{
		mapping: &mapping{data: data, unmap: func() error { return nil }}, tensors: map[string]*Tensor{},
		meta: map[string]string{},
	}
	if err := fault.Catch(f.readSafetensors); err != nil {
		return nil, brief.Error(fmt.Errorf("safetensors: %w", err))
	}
	return f, nil
}

func (f *File) readSafetensors() {
	f.format = FormatSafetensors
	d := f.mapping.data
	n, ok := uint64At(d, 0)
	if !ok {
		fault.Raisef("found %d bytes, want at least the 8 of the header length", len(d))
	}
	if n > uint64(len(d)-8) {
		fault.Raisef("the header length is %d, but only %d bytes follow it"+brokenOff, n, len(d)-8)
	}
	if n > maxHeaderLen {
		fault.Raisef("the header length is %d, want at most %d", n, maxHeaderLen)
	}
	header, data := d[8:8+n], d[8+n:]
	var spans []span
	fault.Within("header", func() { spans = f.readHeader(header) })
	place(spans, data)
	fault.Check(f.readIntegersMeta())
}

// place checks that the tensors fill data without gaps or overlaps, and gives each tensor its part.
func place(spans []span, data []byte) {
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at := uint64(0)
	for _, s := range spans {
		switch {
		case s.begin < at:
			fault.Raisef("tensor %q starts at byte %d of the data, inside the tensor that ends at %d",
				s.tensor.Name, s.begin, at)
		case s.begin > at:
			fault.Raisef("tensor %q starts at byte %d of the data, want %d: gaps are not allowed",
				s.tensor.Name, s.begin, at)
		case s.end > uint64(len(data)):
			fault.Raisef("tensor %q ends at byte %d of the data, but the file has only %d"+brokenOff,
				s.tensor.Name, s.end, len(data))
		}
		s.tensor.Data = data[s.begin:s.end:s.end]
		fault.Must(s.tensor.check())
		at = s.end
	}
	if at != uint64(len(data)) {
		fault.Raisef("the tensors end at byte %d of the data, but the file has %d", at, len(data))
	}
}

// readHeader reads the JSON header. Tensors have no data yet.
func (f *File) readHeader(header []byte) (spans []span) {
	if !utf8.Valid(header) {
		fault.Raisef("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(header))
	object(dec, func(name string) {
		if name == metadataKey {
			object(dec, func(key string) {
				var value *string
				if err := dec.Decode(&value); err != nil || value == nil {
					fault.Raisef("%s: %q is not a string", metadataKey, key)
				}
				f.meta[key] = *value
			})
			return
		}
		fault.Within(fmt.Sprintf("tensor %q", name), func() { spans = append(spans, readSpan(dec, name)) })
		fault.Check(f.add(spans[len(spans)-1].tensor))
	})
	if _, err := dec.Token(); err != io.EOF {
		fault.Raisef("more text after the JSON object, want only spaces")
	}
	return spans
}

// readSpan reads the description of one tensor.
func readSpan(dec *json.Decoder, name string) span {
	var dtype *string
	var shape, offsets *[]uint64
	object(dec, func(key string) {
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
			fault.Raisef("%q: %w", key, err)
		}
	})
	switch {
	case dtype == nil, shape == nil, offsets == nil:
		fault.Raisef(`want all of "dtype", "shape" and "data_offsets"`)
	case len(*offsets) != 2 || (*offsets)[0] > (*offsets)[1]:
		fault.Raisef("data_offsets are %v, want begin and end in this order", *offsets)
	case DType(*dtype).Size() == 0:
		fault.Raisef("unknown element type %q, want one of %s", *dtype, knownTypes)
	}
	t := &Tensor{Name: name, DType: DType(*dtype), Shape: make([]int, len(*shape))}
	for i, s := range *shape {
		if s > math.MaxInt {
			fault.Raisef("shape %v is not possible", *shape)
		}
		t.Shape[i] = int(s)
	}
	return span{t, (*offsets)[0], (*offsets)[1]}
}

// object reads a JSON object. It calls field after each key, to read the value. A repeated key is an error.
func object(dec *json.Decoder, field func(key string)) {
	next := func() json.Token {
		token, err := dec.Token()
		fault.Check(wholeJSON(err))
		return token
	}
	if open := next(); open != json.Delim('{') {
		fault.Raisef("found %v, want a JSON object", open)
	}
	seen := map[string]bool{}
	for dec.More() {
		key := next().(string) // the decoder accepts nothing else here
		if seen[key] {
			fault.Raisef("%q comes twice", key)
		}
		seen[key] = true
		field(key)
	}
	next() // the closing brace
}

// wholeJSON replaces io.EOF, which is not clear in the middle of an object.
func wholeJSON(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the JSON ends too early")
	}
	return err
}
