package table

import (
	"bufio"
	"encoding/csv"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sameRecords compares all records of a text with those of encoding/csv.
func sameRecords(t *testing.T, text string, separator rune) {
	t.Helper()
	ours := newRecords(bufio.NewReaderSize(strings.NewReader(text), 16), separator)
	theirs := csv.NewReader(strings.NewReader(text))
	theirs.Comma, theirs.FieldsPerRecord = separator, -1
	theirs.TrimLeadingSpace, theirs.LazyQuotes = separator != '\t', separator == '\t'
	var before, copied []string
	for n := 1; ; n++ {
		cells, line, err := ours.next()
		if !slices.Equal(before, copied) {
			t.Fatalf("%q: record %d: the one before has become %q, was %q", text, n, before, copied)
		}
		want, wantErr := theirs.Read()
		wantLine := int64(0)
		var syntax, wantSyntax *csv.ParseError
		if errors.As(wantErr, &wantSyntax) {
			if !errors.As(err, &syntax) || syntax.Err != wantSyntax.Err || line != int64(wantSyntax.StartLine) {
				t.Fatalf("%q: record %d: found line %d, %v, want %v", text, n, line, err, wantErr)
			}
			continue
		}
		if err != wantErr {
			t.Fatalf("%q: record %d: found %v, want %v", text, n, err, wantErr)
		}
		if err != nil {
			return
		}
		first, _ := theirs.FieldPos(0)
		if wantLine = int64(first); line != wantLine || !slices.Equal(cells, want) {
			t.Fatalf("%q: record %d: found %q in line %d, want %q in line %d", text, n, cells, line, want, wantLine)
		}
		before, copied = slices.Clone(cells), nil
		for _, c := range cells {
			copied = append(copied, strings.Clone(c))
		}
	}
}

// TestRecords checks that records are the same as those of encoding/csv, and that cells do not change when others are
// read.
func TestRecords(t *testing.T) {
	for _, text := range recordTexts {
		for _, separator := range ",;\t|é" {
			sameRecords(t, text, separator)
		}
	}
	r := newRecords(bufio.NewReader(strings.NewReader("a,b\n"+strings.Repeat("c,d\n", 3000))), ',')
	first, _, _ := r.next()
	a := first[0]
	for range 3000 {
		if _, _, err := r.next(); err != nil {
			t.Fatal(err)
		}
	}
	if a != "a" {
		t.Errorf("a cell has become %q", a)
	}
}

var recordTexts = []string{
	"", "\n", "a", "a,b\n1,2\n", "a;b\r\n\r\n1;2\r\n", "a,b\r", "\r", "  \n", " a,  b ,\n,\n", "\"a\"\n",
	"\"a,\"\"b\"\"\",c\n", "\"two\nlines\",x\ny,z\n", "\"two\r\nlines\",x\r\n", "\"open", "\"open\n\n", "a\"b,c\nd,e\n",
	"\"a\"b,c\nd\n", "\"\"\n", " \"a\", \"b\"\n", "\"a\"\t\"b\"\n", "a\t\"b\"c\t\"\n", "x\t\"y\nz\t1\n", "é\"é\"\n",
	"\"a\"é\"b\"\n", "1,2,\n", "\"a\",\n",
	"a long line that does not fit into a small reader at all,and more\n\"and a quoted one that does not fit\",x\n",
}

// FuzzRecords checks that the records of any text are the same as those of encoding/csv.
func FuzzRecords(f *testing.F) {
	for _, text := range recordTexts {
		f.Add(text, uint8(0))
		f.Add(text, uint8(2))
	}
	f.Fuzz(func(t *testing.T, text string, separator uint8) {
		sameRecords(t, strings.ToValidUTF8(text, "?"), []rune(",;\t|é")[separator%5])
	})
}

// TestShortNumbers checks that the fast path for numbers gives the same bits as strconv.
func TestShortNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	read := 0
	for range 20_000 {
		text := strconv.FormatFloat(rng.NormFloat64()*1e3, 'f', rng.IntN(13), 64)
		got, ok := shortNumber(text, '.')
		if want, _ := strconv.ParseFloat(text, 64); ok && got != want {
			t.Fatalf("%s: found %v, want %v", text, got, want)
		}
		if comma, same := shortNumber(strings.Replace(text, ".", ",", 1), ','); same != ok || comma != got {
			t.Fatalf("%s: found %v with a comma, want %v", text, comma, got)
		}
		if ok {
			read++
		}
	}
	if read < 15_000 {
		t.Errorf("%d of 20000 numbers were read the short way", read)
	}
	for _, text := range []string{"-", "+", ".", "1e5", "1.2.3", "1,2", "0x1", "1234567890123456", " 1", "inf"} {
		if x, ok := shortNumber(text, '.'); ok {
			t.Errorf("%q was read as %v", text, x)
		}
	}
}

// TestPlainTimes checks that the fast path for times gives the same times as package time.
func TestPlainTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05"} {
		for range 20_000 {
			text := time.Unix(rng.Int64N(1<<38)-1<<35, 0).UTC().Format(layout)
			whole := rng.IntN(4) > 0
			if !whole { // some of the texts are not times
				at := rng.IntN(len(text))
				text = text[:at] + string("0123456789-: T"[rng.IntN(14)]) + text[at+1:]
			}
			want, err := time.ParseInLocation(layout, text, time.UTC)
			got, ok := plainTime(text, layout)
			if ok && (err != nil || got != float64(want.Unix())) {
				t.Fatalf("%s: found %f, want %v, %v", text, got, want.Unix(), err)
			}
			if whole && !ok && want.Year() < 10_000 {
				t.Fatalf("%s was not read the short way", text)
			}
		}
	}
}
