package table

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// Limits for a Parquet file: the bytes of a page, of the pages and dictionaries of all columns in memory and of a page
// header, and the number of values in a page. Writers usually produce pages of about 1 MB.
const (
	mostPage       = 128 << 20
	mostPages      = 512 << 20
	mostPageHead   = 4 << 20
	mostPageValues = 1 << 24
	cellBytes      = 32 // size of a Cell in a dictionary
)

// oldDictionary is the encoding of a dictionary, and of indices into it, in files of format version 1.
const oldDictionary format.Encoding = 2

// parquetFile is the state shared by the columns of a file.
type parquetFile struct {
	r      io.ReaderAt
	end    int64 // end of the pages
	memory int   // size of pages and dictionaries in memory
	in     []byte
	zstd   *zstd.Decoder
}

// account records that pages take n instead of *before bytes of memory.
func (f *parquetFile) account(before *int, n int) error {
	f.memory += n - *before
	*before = n
	if f.memory > mostPages {
		return fmt.Errorf("found pages that take more than %d MB at a time, want less", mostPages>>20)
	}
	return nil
}

// read reads n bytes of a page. They are valid until the next call.
func (f *parquetFile) read(at int64, n int) ([]byte, error) {
	if at < 0 || int64(n) > f.end-at {
		return nil, fmt.Errorf("found %d bytes at offset %d, want some before %d: "+
			"the file is cut off or its footer is wrong", n, at, f.end)
	}
	if cap(f.in) < n {
		f.in = make([]byte, n)
	}
	got, err := f.r.ReadAt(f.in[:n], at)
	if got == n {
		err = nil
	}
	return f.in[:n], err
}

// head reads the page header at an offset. It also returns the length of the header.
func (f *parquetFile) head(at int64) (*format.PageHeader, int64, error) {
	left := f.end - at
	if at < 4 || left < 1 { // the file begins with 4 magic bytes
		return nil, 0, fmt.Errorf(
			"found the offset %d of a page, want one of 4 to %d: the file is cut off or its footer is wrong", at, f.end)
	}
	for n := int64(1 << 9); ; n *= 8 {
		data, err := f.read(at, int(min(n, left)))
		if err != nil {
			return nil, 0, err
		}
		size, err := thriftSize(data)
		if errors.Is(err, errCutOff) && n < min(left, mostPageHead) {
			continue
		}
		h := &format.PageHeader{}
		if err == nil {
			err = thrift.Unmarshal(&thrift.CompactProtocol{}, data[:size], h)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("the head of the page at offset %d: %w", at, err)
		}
		return h, int64(size), nil
	}
}

// parquetColumn reads the values of a column.
type parquetColumn struct {
	physical
	f        *parquetFile
	name     string
	leaf     int // index among the columns with values
	optional bool
	convert  func(raw) (Cell, error)

	codec      format.CompressionCodec
	at         int64 // offset of the next page
	rows       int64 // rows of the group that are not in the pages read so far
	dictionary []Cell
	bad        map[int]error // conversion errors by index in dictionary

	left       int     // number of remaining values of the page
	levels     *hybrid // 1 if there is a value, 0 if it is missing; nil if no value is missing
	places     *hybrid // indices into the dictionary; nil if values is used
	values     decoder
	data       []byte
	page, dict int // bytes passed to account
}

// badValue is an error in a single value. The values after it can be read.
type badValue string

func (b badValue) Error() string { return string(b) }

// begin starts a group of rows.
func (c *parquetColumn) begin(chunk *format.ColumnChunk, rows int64) error {
	m := &chunk.MetaData
	switch {
	case chunk.FilePath != "":
		return fmt.Errorf("found values in another file, %.60q, want them in this one", chunk.FilePath)
	case len(chunk.EncryptedColumnMetadata) > 0 || chunk.CryptoMetadata.Value != nil:
		return errors.New("found encrypted values, want plain ones")
	case m.Type != c.kind:
		return fmt.Errorf("found values of type %s, want %s as the schema says", m.Type, c.kind)
	}
	c.codec, c.rows, c.left, c.dictionary, c.bad = m.Codec, rows, 0, nil, nil
	c.at = m.DataPageOffset
	if d := m.DictionaryPageOffset; d > 0 && d < c.at {
		c.at = d
	}
	return c.f.account(&c.dict, 0)
}

// next returns the value of the next row.
func (c *parquetColumn) next() (Cell, error) {
	for c.left == 0 {
		if err := c.nextPage(); err != nil {
			return Cell{}, err
		}
	}
	c.left--
	if c.levels != nil {
		if there, err := c.levels.next(); err != nil || there == 0 {
			return Cell{}, err
		}
	}
	if c.places == nil {
		v, err := c.values.next()
		if err != nil {
			return Cell{}, err
		}
		return c.convert(v)
	}
	i, err := c.places.next()
	if err != nil {
		return Cell{}, err
	}
	if i >= uint64(len(c.dictionary)) {
		return Cell{}, fmt.Errorf("found value %d of a dictionary, want one of its %d", i, len(c.dictionary))
	}
	if c.bad != nil && c.bad[int(i)] != nil {
		return Cell{}, c.bad[int(i)]
	}
	return c.dictionary[i], nil
}

// nextPage reads a page.
func (c *parquetColumn) nextPage() error {
	h, size, err := c.f.head(c.at)
	if err != nil {
		return err
	}
	begin := c.at + size
	packed, full := int(h.CompressedPageSize), int(h.UncompressedPageSize)
	if packed < 0 || full < 0 || packed > mostPage || full > mostPage {
		return fmt.Errorf("found a page of %d bytes, %d unpacked, want 0 to %d", packed, full, mostPage)
	}
	data, err := c.f.read(begin, packed)
	if err != nil {
		return err
	}
	if h.CRC != 0 && crc32.ChecksumIEEE(data) != uint32(h.CRC) {
		return fmt.Errorf("found the checksum %08x of the page at offset %d, want %08x: the file is damaged",
			crc32.ChecksumIEEE(data), c.at, uint32(h.CRC))
	}
	c.at = begin + int64(packed)
	switch {
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		return c.readDictionary(&h.DictionaryPageHeader.V, data, full)
	case h.Type == format.DataPage && h.DataPageHeader.Valid:
		return c.readPage(&h.DataPageHeader.V, data, full)
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		return c.readPage2(&h.DataPageHeaderV2.V, data, full)
	case h.Type == format.IndexPage:
		return nil
	}
	return fmt.Errorf("found a page of type %d, want values or a dictionary", h.Type)
}

// readDictionary reads the dictionary of a group.
func (c *parquetColumn) readDictionary(h *format.DictionaryPageHeader, data []byte, full int) error {
	if h.Encoding != format.Plain && h.Encoding != oldDictionary || c.kind == format.Boolean {
		return fmt.Errorf("found a dictionary of %s encoded as %s, want PLAIN texts or numbers", c.kind, h.Encoding)
	}
	n := int(h.NumValues)
	if n < 0 || n > max(full, len(data)) {
		return fmt.Errorf("found a dictionary of %d values in %d bytes", n, max(full, len(data)))
	}
	if err := c.f.account(&c.dict, n*cellBytes+full); err != nil {
		return err
	}
	data, err := c.f.unpack(c.codec, nil, data, full)
	if err != nil {
		return err
	}
	c.dictionary, c.bad = make([]Cell, n), nil
	values := plain{physical: &c.physical, data: data}
	for i := range c.dictionary {
		v, err := values.next()
		if err != nil {
			return err
		}
		if c.dictionary[i], err = c.convert(v); err != nil {
			if c.bad == nil {
				c.bad = map[int]error{}
			}
			c.bad[i] = err
		}
	}
	return nil
}

// readPage reads a data page of version 1: levels are compressed together with the values.
func (c *parquetColumn) readPage(h *format.DataPageHeader, data []byte, full int) error {
	data, err := c.unpack(data, full)
	if err != nil {
		return err
	}
	var levels []byte
	if c.optional {
		if h.DefinitionLevelEncoding != format.RLE {
			return fmt.Errorf("found levels encoded as %s, want RLE", h.DefinitionLevelEncoding)
		}
		if levels, data, err = sized(data); err != nil {
			return err
		}
	}
	return c.take(int(h.NumValues), h.Encoding, levels, data)
}

// readPage2 reads a data page of version 2: uncompressed levels precede the values.
func (c *parquetColumn) readPage2(h *format.DataPageHeaderV2, data []byte, full int) error {
	repeats, there := int(h.RepetitionLevelsByteLength), int(h.DefinitionLevelsByteLength)
	if repeats < 0 || there < 0 || repeats > len(data) || there > len(data)-repeats || full < repeats+there {
		return fmt.Errorf("found levels of %d and %d bytes in a page of %d, %d unpacked", repeats, there, len(data),
			full)
	}
	levels := bytes.Clone(data[repeats : repeats+there])
	data, full = data[repeats+there:], full-repeats-there
	codec := c.codec
	if h.IsCompressed.Valid && !h.IsCompressed.V {
		codec = format.Uncompressed
	}
	if err := c.f.account(&c.page, full+len(data)+there); err != nil {
		return err
	}
	data, err := c.f.unpack(codec, c.data, data, full)
	if err != nil {
		return err
	}
	c.data = data
	if !c.optional {
		levels = nil
	}
	return c.take(int(h.NumValues), h.Encoding, levels, data)
}

// unpack decompresses a page. It reuses the memory of the previous page.
func (c *parquetColumn) unpack(data []byte, full int) ([]byte, error) {
	if err := c.f.account(&c.page, full+len(data)); err != nil {
		return nil, err
	}
	data, err := c.f.unpack(c.codec, c.data, data, full)
	c.data = data
	return data, err
}

// take sets the page from which values are read.
func (c *parquetColumn) take(n int, encoding format.Encoding, levels, data []byte) (err error) {
	if n < 0 || n > mostPageValues || int64(n) > c.rows {
		return fmt.Errorf("found a page of %d values where %d rows are left, want at most that, and at most %d", n,
			c.rows, mostPageValues)
	}
	c.rows -= int64(n)
	c.left, c.levels, c.places, c.values = n, nil, nil, nil
	if c.optional {
		c.levels = &hybrid{data: levels, width: 1}
	}
	if encoding == oldDictionary || encoding == format.RLEDictionary {
		c.places = &hybrid{}
		switch {
		case len(data) == 0: // all values are missing
		case data[0] > 32:
			return fmt.Errorf("found places of %d bits in a dictionary, want at most 32", data[0])
		case c.dictionary == nil:
			return errNoDictionary
		default:
			c.places.width, c.places.data = uint(data[0]), data[1:]
		}
		return nil
	}
	c.values, err = newDecoder(&c.physical, encoding, data, n)
	if err != nil && len(data) == 0 { // all values are missing
		c.values, err = &plain{physical: &c.physical}, nil
	}
	return err
}

// Maximum number of bytes to which one byte of a compressed page can decompress.
const (
	mostSnappy = 32
	mostLZ4    = 256
)

// unpack decompresses a page to full bytes in dst, which grows if needed.
func (f *parquetFile) unpack(codec format.CompressionCodec, dst, data []byte, full int) (out []byte, err error) {
	lies := func(n int) error {
		return fmt.Errorf("found a page that unpacks from %d to %d bytes, want %d as its head says", len(data), n, full)
	}
	dst = dst[:0]
	switch {
	case codec == format.Uncompressed || len(data) == 0:
		out = append(dst, data...)
	case codec == format.Snappy:
		n, err := snappy.DecodedLen(data)
		if err == nil && (n != full || n > mostSnappy*len(data)) {
			return nil, lies(n)
		}
		if out, err = snappy.Decode(dst[:cap(dst)], data); err != nil {
			return nil, err
		}
	case codec == format.Lz4Raw:
		if full > mostLZ4*len(data) {
			return nil, lies(mostLZ4 * len(data))
		}
		if cap(dst) < full {
			dst = make([]byte, full)
		}
		n, err := lz4.UncompressBlock(data, dst[:full])
		if err != nil {
			return nil, err
		}
		out = dst[:n]
	case codec == format.Zstd:
		if f.zstd == nil {
			f.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxMemory(mostPage))
			if err != nil {
				return nil, err
			}
		}
		out, err = f.zstd.DecodeAll(data, dst)
	case codec == format.Gzip:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			out, err = readUpTo(z, dst, full)
		}
	case codec == format.Brotli:
		out, err = readUpTo(brotli.NewReader(bytes.NewReader(data)), dst, full)
	default:
		return nil, fmt.Errorf("found pages packed by %s (%d), want SNAPPY, GZIP, ZSTD, BROTLI, LZ4_RAW or none", codec,
			int(codec))
	}
	if err == nil && len(out) != full {
		return nil, lies(len(out))
	}
	return out, err
}

// readUpTo appends the content of r to dst, up to most+1 bytes.
func readUpTo(r io.Reader, dst []byte, most int) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	_, err := b.ReadFrom(io.LimitReader(r, int64(most)+1))
	return b.Bytes(), err
}

// close releases memory.
func (f *parquetFile) close() {
	if f.zstd != nil {
		f.zstd.Close()
	}
}
