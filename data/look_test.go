package data

import (
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

// wide returns text in UTF-16, with a byte order mark if mark is true.
func wide(text string, order binary.AppendByteOrder, mark bool) []byte {
	var b []byte
	if mark {
		b = order.AppendUint16(b, 0xfeff)
	}
	for _, u := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, u)
	}
	return b
}

// TestNotText checks that data that are not UTF-8 text are reported, with what they are and how to convert them, and
// that text of any language is accepted.
func TestNotText(t *testing.T) {
	texts := map[string]string{
		"english": strings.Repeat("Call me Ishmael.\r\n", 40),
		"russian": strings.Repeat("Зовите меня Измаил. Несколько лет тому назад\n", 20),
		"chinese": strings.Repeat("管我叫以实玛利吧。几年前，我没有钱\n", 20),
		"emoji":   strings.Repeat("whale 🐋 and ship 🚢\n", 20),
	}
	random := make([]byte, 5000)
	for i, rng := 0, rand.New(rand.NewPCG(1, 2)); i < len(random); i++ {
		random[i] = byte(rng.Uint32())
	}
	// Random bytes contain NULs; other binary data, such as pixels, need not.
	noNUL := []byte(strings.ReplaceAll(string(random), "\x00", "\x01"))
	sparse := []byte(strings.Repeat("text ", 1000) + "\x00\x00")
	type row struct {
		content []byte
		want    string // part of the error; "" for none
		note    string
	}
	rows := map[string]row{
		"random": {random, "control characters", "control characters"},
		"no NUL": {noNUL, "control characters", "control characters"},
		"pdf":    {[]byte("%PDF-1.7\n%\xe2\xe3\n" + texts["english"]), "a PDF", "a PDF"},
		"gz":     {gzipBytes(t, []byte(texts["english"])), ".gz", ".gz"},
		"ansi":   {[]byte(strings.Repeat("\x1b[1mbold\x1b[0m\t\f\n", 50)), "", ""},
		"latin1": {[]byte(strings.Repeat("d\xe9j\xe0 vu \xe0 la carte\n", 50)), "", "WINDOWS-1252"},
		"cp1251": {[]byte(strings.Repeat("\xc7\xee\xe2\xe8\xf2\xe5 \xec\xe5\xed\xff\n", 50)), "", "not UTF-8"},
		"sparse": {sparse, "", ""},
		"utf32":  {append([]byte{0xff, 0xfe, 0, 0}, 'a', 0, 0, 0), "UTF-32LE", "UTF-32LE"},
	}
	for name, text := range texts {
		rows[name] = row{[]byte(text), "", ""}
		for _, mark := range []bool{false, true} {
			for suffix, order := range map[string]binary.AppendByteOrder{"UTF-16LE": binary.LittleEndian,
				"UTF-16BE": binary.BigEndian} {
				key := name + suffix
				if mark {
					key += "BOM"
				}
				rows[key] = row{wide(text, order, mark), suffix + ": convert it with iconv -f " + suffix + " -t UTF-8",
					suffix}
			}
		}
	}
	dir := t.TempDir()
	for name, r := range rows {
		path := write(t, filepath.Join(dir, name), r.content)
		opt := noCache
		opt.AllowNUL = true
		c, err := Open([]string{path}, opt)
		if r.want == "" && err != nil || r.want != "" &&
			(err == nil || !strings.Contains(err.Error(), r.want) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %v, want %q", name, err, r.want)
		}
		if c != nil {
			c.Close()
		}
		opt.Binary = true
		if notes := strings.Join(open(t, opt, path).Notes(), "\n"); !strings.Contains(notes, r.note) ||
			r.note == "" && notes != "" {
			t.Errorf("%s: notes %q, want %q", name, notes, r.note)
		}
	}
}

// TestLookLater checks that a file that is binary only after its first megabytes is detected, from the file or from the
// index.
func TestLookLater(t *testing.T) {
	dir := t.TempDir()
	b := append([]byte(strings.Repeat("text ", 1<<15)), []byte(strings.Repeat("\x01\x02", 1<<22))...)
	path := write(t, dir+"/late", b)
	age(t, path, 1e10)
	for range 2 {
		_, err := Open([]string{path}, SourceOptions{CacheDir: dir + "/cache"})
		wantError(t, err, path, "control characters")
	}
}
