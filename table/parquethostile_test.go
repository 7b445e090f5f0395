package table_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/hippo-ssm/hippo/table"
)

// forged is a file of one column with the given pages, written without checks.
type forged struct {
	kind     format.Type
	optional bool
	codec    format.CompressionCodec
	rows     int64
	pages    []forgedPage
	offset   int64 // offset of the first page; 0 for the real one
}

type forgedPage struct {
	head format.PageHeader
	data []byte
}

// dataPage returns a page of n values.
func dataPage(n int32, encoding format.Encoding, full int, data []byte) forgedPage {
	return forgedPage{format.PageHeader{
		Type: format.DataPage, UncompressedPageSize: int32(full), CompressedPageSize: int32(len(data)),
		DataPageHeader: thrift.New(format.DataPageHeader{NumValues: n, Encoding: encoding,
			DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE}),
	}, data}
}

func (f forged) String() string {
	var b bytes.Buffer
	b.WriteString("PAR1")
	marshal := func(v any) []byte {
		data, err := thrift.Marshal(&thrift.CompactProtocol{}, v)
		if err != nil {
			panic(err)
		}
		return data
	}
	for _, p := range f.pages {
		b.Write(marshal(&p.head))
		b.Write(p.data)
	}
	e := format.SchemaElement{Name: "x", Type: thrift.New(f.kind), RepetitionType: thrift.New(format.Required)}
	if f.optional {
		e.RepetitionType = thrift.New(format.Optional)
	}
	if f.kind == format.ByteArray {
		e.ConvertedType = thrift.New(deprecated.UTF8)
	}
	offset := f.offset
	if offset == 0 {
		offset = 4
	}
	meta := format.FileMetaData{Version: 1, NumRows: f.rows}
	meta.Schema = []format.SchemaElement{{Name: "r", NumChildren: thrift.New(int32(1))}, e}
	chunk := format.ColumnChunk{FileOffset: 4, MetaData: format.ColumnMetaData{
		Type: f.kind, Encoding: []format.Encoding{format.Plain}, PathInSchema: []string{"x"}, Codec: f.codec,
		NumValues: f.rows, DataPageOffset: offset, TotalCompressedSize: int64(b.Len() - 4),
	}}
	meta.RowGroups = []format.RowGroup{{Columns: []format.ColumnChunk{chunk}, NumRows: f.rows}}
	footer := marshal(&meta)
	b.Write(footer)
	binary.Write(&b, binary.LittleEndian, uint32(len(footer)))
	b.WriteString("PAR1")
	return b.String()
}

// bomb returns compressed zeros.
func bomb(codec format.CompressionCodec, n int) []byte {
	var b bytes.Buffer
	zeros := make([]byte, n)
	if codec == format.Gzip {
		w := gzip.NewWriter(&b)
		w.Write(zeros)
		w.Close()
		return b.Bytes()
	}
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(zeros, nil)
}

// page returns an uncompressed page of n values.
func page(n int32, encoding format.Encoding, data ...byte) forgedPage {
	return dataPage(n, encoding, len(data), data)
}

// doubles returns a file of numbers.
func doubles(rows int64, pages ...forgedPage) string {
	return forged{kind: format.Double, rows: rows, pages: pages}.String()
}

// single returns a file with one value of a kind.
func single(kind format.Type, p forgedPage) string {
	return forged{kind: kind, rows: 1, pages: []forgedPage{p}}.String()
}

// packed returns a file with one number in a page that claims an uncompressed size of full bytes.
func packed(codec format.CompressionCodec, full int, data ...byte) string {
	pages := []forgedPage{dataPage(1, format.Plain, full, data)}
	return forged{kind: format.Double, codec: codec, rows: 1, pages: pages}.String()
}

func uvarints(x ...uint64) (b []byte) {
	for _, v := range x {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// footer returns a file that consists of a footer.
func footer(body string) string {
	return "PAR1" + body + string(binary.LittleEndian.AppendUint32(nil, uint32(len(body)))) + "PAR1"
}

// hostile is a small file that asks for much memory or contains false claims, and the expected error.
type hostile struct{ text, want string }

func hostileFiles() map[string]hostile {
	number := page(1, format.Plain, make([]byte, 8)...)
	huge, wide, crc, two, three := number, number, number, number, number
	huge.head.CompressedPageSize, wide.head.UncompressedPageSize, crc.head.CRC = 1<<30, 1<<30, 5
	two.head.DataPageHeader.V.NumValues, three.head.DataPageHeader.V.NumValues = 2, 3
	one := forgedPage{format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: 8, CompressedPageSize: 8,
		DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: 1})}, make([]byte, 8)}
	dictionary := one
	dictionary.head.DictionaryPageHeader.V.NumValues = 1 << 30
	indices := append(append([]byte{32}, uvarints(1<<32)...), 7, 0, 0, 0) // a run of 2^31 times index 7
	nulls := append(append([]byte{6, 0, 0, 0}, uvarints(1<<32)...), 0)
	run := forged{kind: format.Double, optional: true, rows: 1 << 33}
	run.pages = []forgedPage{page(1<<31-1, format.Plain, nulls...)}
	far := forged{kind: format.Double, rows: 1, offset: 1 << 40}
	before := forged{kind: format.Double, rows: 1, offset: -8}
	count := page(1, format.DeltaBinaryPacked, append(uvarints(128, 4, 1<<31), 0, 0)...)
	blocks := page(1, format.DeltaBinaryPacked, append(uvarints(1<<40, 4, 1), 0)...)
	lengths := page(1, format.DeltaLengthByteArray, append(uvarints(128, 4, 1), 0xff, 0xff, 0xff, 0x7f)...)
	return map[string]hostile{
		"empty":          {"", "found 0 bytes, want a Parquet file"},
		"a text":         {"x,y\n1,2\n3,4\n", "want the PAR1 of a Parquet file"},
		"cut off":        {"PAR1 no footer", "at the end, want the PAR1 of a Parquet file: it is cut off"},
		"encrypted":      {"PARE....PARE", "encrypted"},
		"huge footer":    {"PAR1\xff\xff\xff\xffPAR1", "found a footer of 4294967295 bytes in a file of 12"},
		"huge schema":    {footer("\x15\x02\x19\xfc\xff\xff\xff\xff\x07"), "found a length of 2147483647 where"},
		"huge name":      {footer("\x48\xff\xff\xff\xff\x07"), "found a length of 2147483647"},
		"deep footer":    {footer(strings.Repeat("\x1c", 100)), "deep in each other"},
		"huge page":      {doubles(1, huge), "want 0 to 134217728"},
		"huge unpacked":  {doubles(1, wide), "want 0 to 134217728"},
		"far":            {far.String(), "found the offset 1099511627776"},
		"before":         {before.String(), "found the offset -8"},
		"more rows":      {doubles(1<<40, number), "row 2, column x"},
		"more values":    {doubles(2, three), "found a page of 3 values where 2 rows are left"},
		"few values":     {doubles(2, two), "row 2, column x: it is cut off"},
		"dictionary":     {doubles(1, dictionary), "found a dictionary of 1073741824 values in 8 bytes"},
		"no dictionary":  {doubles(1, page(1, format.RLEDictionary, 1, 2)), "no dictionary before them"},
		"place":          {doubles(9, one, page(9, format.RLEDictionary, indices...)), "found value 7 of a dictionary"},
		"long run":       {run.String(), "found a page of 2147483647 values"},
		"delta count":    {single(format.Int64, count), "found 2147483648 differences, want at most 1"},
		"delta blocks":   {single(format.Int64, blocks), "found blocks of 1099511627776"},
		"delta lengths":  {single(format.ByteArray, lengths), "it is cut off"},
		"text":           {single(format.ByteArray, page(1, format.Plain, 255, 255, 255, 127)), "it is cut off"},
		"no UTF-8":       {single(format.ByteArray, page(1, format.Plain, 1, 0, 0, 0, 255)), "want a text in UTF-8"},
		"gzip bomb":      {packed(format.Gzip, 8, bomb(format.Gzip, 16<<20)...), "to 9 bytes, want 8 as its head says"},
		"zstd bomb":      {packed(format.Zstd, 8, bomb(format.Zstd, 16<<20)...), "as its head says"},
		"snappy":         {packed(format.Snappy, 100<<20, append(uvarints(100<<20), 0)...), "as its head says"},
		"LZ4":            {packed(format.Lz4Raw, 100<<20, 0x1f, 0), "as its head says"},
		"LZO":            {packed(format.LZO, 8, 1), "found pages packed by LZO (3), want SNAPPY"},
		"checksum":       {doubles(1, crc), "found the checksum"},
		"other encoding": {doubles(1, page(1, format.DeltaByteArray, 1)), "found DOUBLE values encoded as DELTA_BYTE"},
	}
}

// TestParquetHostile checks that small files that ask for much memory give errors with a place, and need little memory.
func TestParquetHostile(t *testing.T) {
	for name, c := range hostileFiles() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := open(t, "x.parquet", c.text, table.DefaultOptions())
		if err == nil {
			_, err = read(r)
		}
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.parquet") {
			t.Errorf("%s: found %v, want %q", name, err, c.want)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 40 {
			t.Errorf("%s: took %d MB for a file of %d bytes", name, took, len(c.text))
		}
	}
}

// TestParquetDamaged checks that a file that is cut off anywhere or has a changed byte is read or is an error.
func TestParquetDamaged(t *testing.T) {
	text := parquetOf(t, typedRows(40), parquet.PageBufferSize(64), parquet.Compression(&parquet.Snappy))
	dir := t.TempDir()
	try := func(name, text string) error {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := table.Open([]string{path}, nil, table.DefaultOptions(), nil)
		if err == nil {
			_, err = read(r)
			r.Close()
		}
		return err
	}
	for n := 0; n < len(text); n += 211 {
		if err := try("cut.parquet", text[:n]); err == nil {
			t.Errorf("found no error at %d of %d bytes", n, len(text))
		}
	}
	for n := 0; n < len(text); n += 37 {
		_ = try("changed.parquet", fmt.Sprintf("%s%c%s", text[:n], text[n]^0x55, text[n+1:]))
	}
}

// FuzzParquet checks that any file is read to its end or is an error.
func FuzzParquet(f *testing.F) {
	for version := 1; version <= 2; version++ {
		f.Add([]byte(parquetOf(f, typedRows(20), parquet.DataPageVersion(version), parquet.PageBufferSize(128))))
	}
	for _, c := range hostileFiles() {
		f.Add([]byte(c.text))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(dir, fmt.Sprint(os.Getpid(), ".parquet"))
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		opt := table.DefaultOptions()
		r, err := table.Open([]string{path}, nil, opt, nil)
		if err != nil {
			return
		}
		defer r.Close()
		var v table.Values
		for range 10_000 { // a run of two billion values is valid
			if r.Next(&v) != nil {
				return
			}
		}
	})
}
