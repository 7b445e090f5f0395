package table_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"

	"github.com/hippo-ssm/hippo/table"
)

// parquetRow has a column of each supported type.
type parquetRow struct {
	B    bool      `parquet:"b"`
	I32  int32     `parquet:"i32"`
	I64  int64     `parquet:"i64"`
	U32  uint32    `parquet:"u32"`
	U64  uint64    `parquet:"u64"`
	F    float32   `parquet:"f"`
	D    float64   `parquet:"d"`
	S    string    `parquet:"s"`
	Dict string    `parquet:"dict,dict"`
	Opt  *float64  `parquet:"opt,optional"`
	Ms   int64     `parquet:"ms,timestamp(millisecond)"`
	Us   time.Time `parquet:"us,timestamp(microsecond)"`
	Ns   int64     `parquet:"ns,timestamp(nanosecond)"`
	Day  int32     `parquet:"day,date"`
	Dec  int64     `parquet:"dec,decimal(2:10)"`
	ID   [16]byte  `parquet:"id,uuid"`
}

// parquetOf returns a file that the library writes with the given rows.
func parquetOf[T any](t testing.TB, rows []T, options ...parquet.WriterOption) string {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, options...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func typedRows(n int) (rows []parquetRow) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 250e6, time.UTC)
	for i := range n {
		x := float64(i) / 4
		r := parquetRow{
			B: i%2 == 1, I32: int32(-i), I64: int64(i) << 20, U32: math.MaxUint32 - uint32(i), U64: math.MaxUint64,
			F: float32(x), D: -x, S: fmt.Sprintf("größe %d", i), Dict: []string{"off", "on"}[i/3%2],
			Ms: at.UnixMilli() + int64(i), Us: at, Ns: at.UnixNano(), Day: 20484, Dec: int64(1234 + i),
			ID: [16]byte{1, 0xAB},
		}
		if i%3 != 0 {
			r.Opt = &x
		}
		rows = append(rows, r)
	}
	return rows
}

// TestParquetTypes checks the values and kinds of each type.
func TestParquetTypes(t *testing.T) {
	for version := 1; version <= 2; version++ {
		text := parquetOf(t, typedRows(7), parquet.DataPageVersion(version), parquet.MaxRowsPerRowGroup(3))
		r, err := open(t, "x.parquet", text, table.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, c := range r.Columns() {
			kinds = append(kinds, c.Name+":"+string(c.Kind))
		}
		if got, want := strings.Join(kinds, " "), "b:category i32:number i64:number u32:number u64:number f:number "+
			"d:number s:category dict:category opt:number ms:time us:time ns:time day:time dec:number "+
			"id:category"; got != want {
			t.Errorf("found %s, want %s", got, want)
		}
		rows, err := read(r)
		want := "true -4 4.194304e+06 4.294967291e+09 1.8446744073709552e+19 1 -1 größe 4 on 1 1.769860800254e+09 " +
			"1.76986080025e+09 1.76986080025e+09 1.7698176e+09 12.38 01ab0000-0000-0000-0000-000000000000"
		want = strings.Replace(want, "true", "false", 1)
		if err != nil || len(rows) != 7 || rows[4] != want {
			t.Errorf("version %d: found %d rows, %v\n%q, want\n%q", version, len(rows), err, rows[4], want)
		}
		if !strings.Contains(rows[3], " off . ") && !strings.Contains(rows[3], " on . ") {
			t.Errorf("found %q, want a value that is missing", rows[3])
		}
	}
}

// parquetCell returns a value for a kind of column, and the expected result of reading it.
func parquetCell(rng *rand.Rand, kind parquet.Kind) (parquet.Value, string) {
	switch kind {
	case parquet.Boolean:
		x := rng.IntN(5) > 0
		return parquet.ValueOf(x), fmt.Sprint(x)
	case parquet.Int32:
		x := int32(rng.IntN(2000) - 1000)
		return parquet.ValueOf(x), fmt.Sprint(float64(x))
	case parquet.Int64:
		x := rng.Int64N(1<<40) - 1<<39
		return parquet.ValueOf(x), fmt.Sprint(float64(x))
	case parquet.Float:
		x := rng.Float32()
		return parquet.ValueOf(x), fmt.Sprint(float64(x))
	case parquet.Double:
		x := rng.NormFloat64()
		return parquet.ValueOf(x), fmt.Sprint(x)
	}
	x := "a shared beginning "[:rng.IntN(19)] + string(rune('a'+rng.IntN(26))) + "z"
	return parquet.ValueOf(x), x
}

// TestParquetEncodings checks that files that the library writes in any encoding and compression, in small pages and
// groups, are read back unchanged.
func TestParquetEncodings(t *testing.T) {
	texts := []encoding.Encoding{&parquet.Plain, &parquet.RLEDictionary, &parquet.DeltaLengthByteArray,
		&parquet.DeltaByteArray}
	integers := []encoding.Encoding{&parquet.Plain, &parquet.RLEDictionary, &parquet.DeltaBinaryPacked,
		&parquet.ByteStreamSplit}
	floats := []encoding.Encoding{&parquet.Plain, &parquet.RLEDictionary, &parquet.ByteStreamSplit}
	codecs := []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Zstd, &parquet.Brotli,
		&parquet.Lz4Raw}
	n := 0
	for _, c := range []struct {
		node      parquet.Node
		kind      parquet.Kind
		encodings []encoding.Encoding
	}{
		{parquet.Leaf(parquet.BooleanType), parquet.Boolean, []encoding.Encoding{&parquet.Plain, &parquet.RLE}},
		{parquet.Leaf(parquet.Int32Type), parquet.Int32, integers},
		{parquet.Leaf(parquet.Int64Type), parquet.Int64, integers},
		{parquet.Leaf(parquet.FloatType), parquet.Float, floats},
		{parquet.Leaf(parquet.DoubleType), parquet.Double, floats},
		{parquet.String(), parquet.ByteArray, texts},
	} {
		for _, e := range c.encodings {
			for optional := range 2 {
				codec := codecs[n%len(codecs)]
				n++
				node := parquet.Compressed(parquet.Encoded(c.node, e), codec)
				if optional == 1 {
					node = parquet.Optional(node)
				}
				name := fmt.Sprintf("%v, %v, %v, optional %d", c.node, e, codec, optional)
				var b bytes.Buffer
				w := parquet.NewWriter(&b, parquet.NewSchema("x", parquet.Group{"x": node}),
					parquet.PageBufferSize(300), parquet.MaxRowsPerRowGroup(150), parquet.DataPageVersion(1+n%2))
				rng := rand.New(rand.NewPCG(uint64(n), 1))
				var want []string
				for range 400 {
					v, text := parquetCell(rng, c.kind)
					v = v.Level(0, optional, 0)
					if optional == 1 && rng.IntN(4) == 0 {
						v, text = parquet.Value{}.Level(0, 0, 0), "."
					}
					want = append(want, text)
					if _, err := w.WriteRows([]parquet.Row{{v}}); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
				}
				if err := w.Close(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				r, err := open(t, "x.parquet", b.String(), table.DefaultOptions())
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				got, err := read(r)
				if err != nil || strings.Join(got, "|") != strings.Join(want, "|") {
					t.Errorf("%s: %v, found\n%.300q, want\n%.300q", name, err, got, want)
				}
			}
		}
	}
}

// TestParquetNested checks that columns of lists and groups are refused by name, and that they can be ignored.
func TestParquetNested(t *testing.T) {
	type inner struct{ A, B int32 }
	type row struct {
		X    float64          `parquet:"x"`
		Tags []string         `parquet:"tags,list"`
		In   inner            `parquet:"in"`
		M    map[string]int32 `parquet:"m"`
		R    []int32          `parquet:"r"`
		Y    float64          `parquet:"y"`
	}
	text := parquetOf(t, []row{{1, []string{"a", "b"}, inner{1, 2}, nil, []int32{5, 6}, 3},
		{2, nil, inner{}, nil, nil, 4}})
	_, err := open(t, "x.parquet", text, table.DefaultOptions())
	for _, want := range []string{"x.parquet: column tags: found a list, want a number",
		"column in: found a group of 2 columns", "column m: found a map", "and 1 more such columns", "--ignore"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q", err, want)
		}
	}
	opt := table.DefaultOptions()
	opt.Unread = []string{"tags", "in", "m", "r"}
	r, err := open(t, "x.parquet", text, opt)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := read(r)
	if got := strings.Join(rows, "|"); err != nil || got != "1 . . . . 3|2 . . . . 4" {
		t.Errorf("found %s, %v", got, err)
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err = table.Open([]string{path}, nil, table.DefaultOptions(), []table.Column{{Name: "Y", Kind: table.Number}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if rows, err = read(r); err != nil || strings.Join(rows, "|") != "3|4" {
		t.Errorf("found %v, %v", rows, err)
	}
}

// TestParquetLocalTimes checks that times without a zone are read in --zone, with a note if that is not set.
func TestParquetLocalTimes(t *testing.T) {
	node := parquet.Group{"t": parquet.TimestampAdjusted(parquet.Microsecond, false)}
	var b bytes.Buffer
	w := parquet.NewWriter(&b, parquet.NewSchema("x", node))
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	if _, err := w.WriteRows([]parquet.Row{{parquet.ValueOf(at.UnixMicro()).Level(0, 0, 0)}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for zone, hours := range map[string]int{"": 0, "Europe/Berlin": 2} {
		opt := table.DefaultOptions()
		opt.Zone = zone
		r, err := open(t, "x.parquet", b.String(), opt)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := read(r)
		want := fmt.Sprint(float64(at.Unix() - int64(hours*3600)))
		if told := len(r.Notes()) > 0; err != nil || len(rows) != 1 || rows[0] != want || told != (zone == "") {
			t.Errorf("zone %q: found %v, %v, %v, want %s", zone, rows, err, r.Notes(), want)
		}
	}
}

// TestParquetFolder checks that the files of a folder are sequences, as with other formats, and that a pipe is refused
// with the reason.
func TestParquetFolder(t *testing.T) {
	dir := t.TempDir()
	type row struct{ X float64 }
	for i, name := range []string{"a", "b"} {
		text := parquetOf(t, []row{{float64(i)}, {5}})
		if err := os.WriteFile(filepath.Join(dir, name+".parquet"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	r, err := table.Open([]string{dir}, nil, table.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := "0 a.parquet|5 a.parquet|1 b.parquet|5 b.parquet"
	if rows, err := read(r); err != nil || strings.Join(rows, "|") != want {
		t.Errorf("found %v, %v", rows, err)
	}
	opt := table.DefaultOptions()
	opt.Format = "parquet"
	if _, err := table.Open([]string{"-"}, strings.NewReader("PAR1"), opt, nil); err == nil ||
		!strings.Contains(err.Error(), "standard input: found a stream, want a file") {
		t.Errorf("found %v", err)
	}
}

// TestFolderOfMany checks that each file of a folder is one sequence with the name of the file, also with more rows
// than are used to infer the column types, and also if these are known.
func TestFolderOfMany(t *testing.T) {
	type row struct{ X float64 }
	text := parquetOf(t, slices.Repeat([]row{{1}}, 700))
	for ext, text := range map[string]string{".csv": "X\n" + strings.Repeat("1\n", 700), ".parquet": text} {
		dir := folderOf(t, map[string]string{"a" + ext: text, "b" + ext: text})
		for _, want := range [][]table.Column{nil, {{Name: "X", Kind: table.Number}}} {
			r, err := table.Open([]string{dir}, nil, table.DefaultOptions(), want)
			if err != nil {
				t.Fatal(err)
			}
			count := map[string]int{}
			err = table.Each(r, func(v *table.Values) error {
				count[fmt.Sprint(v.Sequence, " ", v.Name)]++
				return nil
			})
			if err = errors.Join(err, r.Close()); err != nil || len(count) != 2 || count["0 a"+ext] != 700 ||
				count["1 b"+ext] != 700 {
				t.Errorf("%s: found %d sequences, %v, want two of 700 rows", ext, len(count), err)
			}
		}
	}
}

// TestParquetWriter checks that the library reads written files, including missing values, and that package table reads
// them back.
func TestParquetWriter(t *testing.T) {
	const n = 70_000 // more than one group
	var b bytes.Buffer
	names := []string{"temp 10%", "ü", "n", "ok", "t"}
	var w *table.ParquetWriter
	for i := range n {
		row := []any{float64(i) / 8, fmt.Sprint("s", i%7), int64(i), i%3 == 0, table.Moment(1e9 + float64(i)/4)}
		if i%5 == 0 {
			row[0], row[4] = math.NaN(), table.Moment(math.NaN())
		}
		if w == nil {
			var err error
			if w, err = table.NewParquetWriter(&b, names, row); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Write(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.NumRows(); got != n || len(f.RowGroups()) != 2 {
		t.Errorf("found %d rows in %d groups", got, len(f.RowGroups()))
	}
	rows := f.RowGroups()[0].Rows()
	defer rows.Close()
	buffer := make([]parquet.Row, 8)
	if _, err := rows.ReadRows(buffer); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(buffer[6]), "[0.75 s6 6 true 1000000001500000]"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if !buffer[5][0].IsNull() || !buffer[5][4].IsNull() || buffer[5][1].IsNull() {
		t.Errorf("found %v, want two values missing", buffer[5])
	}
	r, err := open(t, "x.parquet", b.String(), table.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	got, err := read(r)
	if err != nil || len(got) != n || got[6] != "0.75 s6 6 true 1.0000000015e+09" || got[5] != ". s5 5 false ." ||
		got[n-1] != "8749.875 s6 69999 true 1.00001749975e+09" {
		t.Errorf("found %d rows, %v, %q", len(got), err, got[5])
	}
	if err := w.Write([]any{1.0}); err == nil {
		t.Error("found no error for a row of one value")
	}
}
