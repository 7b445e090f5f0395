package table

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/snappy"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Moment is a time for ParquetWriter, in seconds since 1970. It is stored in microseconds.
type Moment float64

// ParquetWriter writes rows as a Parquet file, one group of rows at a time. nil and NaN are missing values.
type ParquetWriter struct {
	w       io.Writer
	at      int64
	columns []*parquetOut
	rows    int // rows of the group
	bytes   int
	all     int64
	groups  []format.RowGroup
	err     error
}

// parquetOut holds the values of a column that have not been written yet.
type parquetOut struct {
	schema format.SchemaElement
	levels []byte // 1 for a value, 0 for a missing one
	values []byte
	count  int // number of values that are not missing
}

// Maximum number of rows and bytes in a group.
const (
	groupRows  = 64 << 10
	groupBytes = 16 << 20
)

// NewParquetWriter starts a file with the named columns. The elements of like give their types: each is a string,
// float64, int64, bool or Moment.
func NewParquetWriter(w io.Writer, names []string, like []any) (*ParquetWriter, error) {
	p := &ParquetWriter{w: w}
	for i, name := range names {
		e := format.SchemaElement{Name: name, RepetitionType: thrift.New(format.Optional)}
		switch like[i].(type) {
		case string:
			e.Type, e.ConvertedType = thrift.New(format.ByteArray), thrift.New(deprecated.UTF8)
			e.LogicalType.Value = &format.StringType{}
		case float64:
			e.Type = thrift.New(format.Double)
		case int64:
			e.Type = thrift.New(format.Int64)
		case bool:
			e.Type = thrift.New(format.Boolean)
		case Moment:
			e.Type, e.ConvertedType = thrift.New(format.Int64), thrift.New(deprecated.TimestampMicros)
			e.LogicalType.Value = &format.TimestampType{
				IsAdjustedToUTC: true, Unit: format.TimeUnit{Value: &format.MicroSeconds{}},
			}
		default:
			return nil, fmt.Errorf("column %s: found a %T, want a string, float64, int64, bool or Moment", name,
				like[i])
		}
		p.columns = append(p.columns, &parquetOut{schema: e})
	}
	return p, p.write([]byte("PAR1"))
}

// write writes bytes. After an error, it only returns that error.
func (p *ParquetWriter) write(data []byte) error {
	if p.err == nil {
		var n int
		n, p.err = p.w.Write(data)
		p.at += int64(n)
	}
	return p.err
}

// Write writes a row: one value for each column.
func (p *ParquetWriter) Write(row []any) error {
	if len(row) != len(p.columns) {
		return fmt.Errorf("found %d values, want one for each of %d columns", len(row), len(p.columns))
	}
	for i, c := range p.columns {
		before := len(c.values)
		if err := c.add(row[i]); err != nil {
			return fmt.Errorf("column %s: %w", c.schema.Name, err)
		}
		p.bytes += len(c.values) - before
	}
	p.rows++
	if p.rows >= groupRows || p.bytes >= groupBytes {
		return p.flush()
	}
	return p.err
}

// add appends a value.
func (c *parquetOut) add(value any) error {
	integer := func(x int64) { c.values = binary.LittleEndian.AppendUint64(c.values, uint64(x)) }
	kind := c.schema.Type.V
	_, moments := c.schema.LogicalType.Value.(*format.TimestampType)
	switch x := value.(type) {
	case nil:
		c.levels = append(c.levels, 0)
		return nil
	case float64:
		if kind != format.Double {
			return fmt.Errorf("found the number %g in a column of type %s", x, kind)
		}
		if math.IsNaN(x) {
			return c.add(nil)
		}
		integer(int64(math.Float64bits(x)))
	case Moment:
		if !moments {
			return fmt.Errorf("found a time in a column of type %s", kind)
		}
		if micros := math.Round(float64(x) * 1e6); math.Abs(micros) < math.MaxInt64 {
			integer(int64(micros))
		} else {
			return c.add(nil) // also for NaN
		}
	case int64:
		if kind != format.Int64 || moments {
			return fmt.Errorf("found the whole number %d in a column of type %s", x, kind)
		}
		integer(x)
	case bool:
		if kind != format.Boolean {
			return fmt.Errorf("found a boolean in a column of type %s", kind)
		}
		if c.count%8 == 0 {
			c.values = append(c.values, 0)
		}
		if x {
			c.values[len(c.values)-1] |= 1 << (c.count % 8)
		}
	case string:
		if kind != format.ByteArray {
			return fmt.Errorf("found a text in a column of type %s", kind)
		}
		c.values = binary.LittleEndian.AppendUint32(c.values, uint32(len(x)))
		c.values = append(c.values, x...)
	default:
		return fmt.Errorf("found a %T", value)
	}
	c.levels = append(c.levels, 1)
	c.count++
	return nil
}

// page returns the compressed page with the values of the column, and the uncompressed size of the page.
func (c *parquetOut) page() (data []byte, full int) {
	var levels []byte
	for at := 0; at < len(c.levels); {
		end := at + 1
		for end < len(c.levels) && c.levels[end] == c.levels[at] {
			end++
		}
		levels = binary.AppendUvarint(levels, uint64(end-at)<<1)
		levels = append(levels, c.levels[at])
		at = end
	}
	page := binary.LittleEndian.AppendUint32(nil, uint32(len(levels)))
	page = append(append(page, levels...), c.values...)
	return snappy.Encode(nil, page), len(page)
}

// flush writes a group of rows.
func (p *ParquetWriter) flush() error {
	if p.rows == 0 || p.err != nil {
		return p.err
	}
	group := format.RowGroup{
		NumRows: int64(p.rows), Ordinal: int16(min(len(p.groups), math.MaxInt16)), FileOffset: p.at,
	}
	for _, c := range p.columns {
		data, full := c.page()
		n := int32(len(c.levels))
		h := format.PageHeader{
			Type: format.DataPage, UncompressedPageSize: int32(full), CompressedPageSize: int32(len(data)),
			DataPageHeader: thrift.New(format.DataPageHeader{
				NumValues: n, Encoding: format.Plain, DefinitionLevelEncoding: format.RLE,
				RepetitionLevelEncoding: format.RLE,
			}),
		}
		head, err := thrift.Marshal(&thrift.CompactProtocol{}, &h)
		if err != nil {
			return err
		}
		begin := p.at
		if p.write(head) != nil || p.write(data) != nil {
			return p.err
		}
		chunk := format.ColumnChunk{FileOffset: begin}
		chunk.MetaData = format.ColumnMetaData{
			Type: c.schema.Type.V, Encoding: []format.Encoding{format.Plain, format.RLE},
			PathInSchema: []string{c.schema.Name}, Codec: format.Snappy, NumValues: int64(n),
			TotalUncompressedSize: int64(len(head) + full), TotalCompressedSize: p.at - begin, DataPageOffset: begin,
		}
		group.Columns = append(group.Columns, chunk)
		group.TotalByteSize += chunk.MetaData.TotalUncompressedSize
		group.TotalCompressedSize += chunk.MetaData.TotalCompressedSize
		c.levels, c.values, c.count = c.levels[:0], c.values[:0], 0
	}
	p.groups, p.all = append(p.groups, group), p.all+int64(p.rows)
	p.rows, p.bytes = 0, 0
	return nil
}

// Close writes the remaining rows and the footer. The caller must close the file.
func (p *ParquetWriter) Close() error {
	if err := p.flush(); err != nil {
		return err
	}
	meta := format.FileMetaData{Version: 2, NumRows: p.all, RowGroups: p.groups, CreatedBy: "hippo"}
	meta.Schema = append(meta.Schema, format.SchemaElement{
		Name: "schema", NumChildren: thrift.New(int32(len(p.columns))),
	})
	for _, c := range p.columns {
		meta.Schema = append(meta.Schema, c.schema)
	}
	footer, err := thrift.Marshal(&thrift.CompactProtocol{}, &meta)
	if err != nil {
		return err
	}
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	return p.write(append(footer, "PAR1"...))
}
