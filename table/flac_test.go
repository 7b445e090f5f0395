package table_test

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// flacWriter writes bits, most significant first.
type flacWriter struct {
	data []byte
	n    int // number of bits
}

func (w *flacWriter) bits(x uint64, n int) {
	for n--; n >= 0; n-- {
		if w.n%8 == 0 {
			w.data = append(w.data, 0)
		}
		w.data[w.n/8] |= byte(x>>n&1) << (7 - w.n%8)
		w.n++
	}
}

// flacSum returns the remainder of data modulo a polynomial of the given number of bits.
func flacSum(data []byte, polynomial uint64, bits int) (x uint64) {
	for _, c := range data {
		for i := 7; i >= 0; i-- {
			top := x>>(bits-1)&1 ^ uint64(c>>i&1)
			x = x << 1 & (1<<bits - 1)
			x ^= top * polynomial
		}
	}
	return x
}

// rice writes numbers in partitions of 16: the first Rice-coded with a lower part of the given number of bits, the
// second unencoded.
func (w *flacWriter) rice(lower int, x []int64) {
	w.bits(1, 2)
	w.bits(1, 4)
	for k, v := range x {
		part := 0
		if len(x)-k <= 16 {
			part = 1
		}
		if k == 0 {
			w.bits(uint64(lower), 5)
		}
		if len(x)-k == 16 {
			w.bits(31, 5)
			w.bits(31, 5)
		}
		if part == 1 {
			w.bits(uint64(v)&(1<<31-1), 31)
			continue
		}
		folded := uint64(v<<1 ^ v>>63)
		w.bits(0, int(folded>>lower))
		w.bits(1, 1)
		w.bits(folded&(1<<lower-1), lower)
	}
}

// channel writes 32 samples in one of several ways: verbatim, or predicted by a polynomial or by weights.
func (w *flacWriter) channel(way, bits int, x []int64) {
	order, weights, shift := 2, []int64{2, -1}, 0
	switch way % 3 {
	case 0:
		w.bits(1<<1, 8)
		for _, v := range x {
			w.bits(uint64(v)&(1<<bits-1), bits)
		}
		return
	case 1:
		w.bits(10<<1, 8)
	default:
		order, weights, shift = 1, []int64{7}, 3
		w.bits(32<<1, 8)
	}
	for _, v := range x[:order] {
		w.bits(uint64(v)&(1<<bits-1), bits)
	}
	if way%3 == 2 {
		w.bits(4-1, 4)
		w.bits(uint64(shift), 5)
		w.bits(uint64(weights[0]), 4)
	}
	var rest []int64
	for k := order; k < len(x); k++ {
		sum := int64(0)
		for j, a := range weights {
			sum += a * x[k-1-j]
		}
		rest = append(rest, x[k]-sum>>shift)
	}
	w.rice(bits-4, rest)
}

// flacOf returns a recording of the samples of each channel, in frames of 32 samples, each encoded in a different way.
func flacOf(rate, bits int, channels [][]int32) string {
	n, count := len(channels[0]), len(channels)
	sum := md5.New()
	for k := range n {
		for _, c := range channels {
			var b [4]byte
			binary.LittleEndian.PutUint32(b[:], uint32(c[k]))
			sum.Write(b[:bits/8])
		}
	}
	var w flacWriter
	w.data, w.n = []byte("fLaC"), 32
	w.bits(0, 8)
	w.bits(34, 24)
	w.bits(16<<16|4096, 32)
	w.bits(0, 48)
	w.bits(uint64(rate), 20)
	w.bits(uint64(count-1), 3)
	w.bits(uint64(bits-1), 5)
	w.bits(uint64(n), 36)
	w.data, w.n = sum.Sum(w.data), w.n+128
	w.bits(0x81, 8) // padding, the last block
	w.bits(3, 24)
	w.bits(0, 24)
	for at := 0; at < n; at += 32 {
		way, end := at/32, min(n, at+32)
		var x [2][]int64
		for c := range channels {
			for _, v := range channels[c][at:end] {
				x[c] = append(x[c], int64(v))
			}
		}
		begin, mode, depth := len(w.data), count-1, [2]int{bits, bits}
		if count == 2 && way%4 > 0 { // channel differences
			mode = 7 + way%4
			for k := range x[0] {
				left, right := x[0][k], x[1][k]
				switch mode {
				case 8:
					x[1][k] = left - right
				case 9:
					x[0][k] = left - right
				default:
					x[0][k], x[1][k] = (left+right)>>1, left-right
				}
			}
			depth[map[bool]int{true: 1}[mode != 9]]++
		}
		if end-at < 32 {
			way = 0
		}
		w.bits(0xFFF8, 16)
		w.bits(6<<4, 8)
		w.bits(uint64(mode), 4)
		w.bits(0, 4)
		w.bits(uint64(at/32), 8)
		w.bits(uint64(end-at-1), 8)
		w.bits(flacSum(w.data[begin:], 0x07, 8), 8)
		for c := range count {
			w.channel(way+c, depth[c], x[c])
			if end-at < 32 {
				way = -c - 1 // verbatim
			}
		}
		w.n = 8 * len(w.data)
		w.bits(flacSum(w.data[begin:], 0x8005, 16), 16)
	}
	return string(w.data)
}

// tone returns n samples with the given number of bits.
func tone(n, bits int, period float64) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(math.Round((math.Ldexp(1, bits-1) - 1) * math.Sin(float64(i)/period)))
	}
	return x
}

// wavOf returns the same recording as a WAV file.
func wavOf(bits int, channels [][]int32) string {
	var data []byte
	for i := range channels[0] {
		for _, c := range channels {
			x := c[i]
			if bits == 8 {
				x += 128
			}
			for k := range bits / 8 {
				data = append(data, byte(x>>(8*k)))
			}
		}
	}
	return wav(1, len(channels), bits, data)
}

// TestFLAC checks that a recording gives the same samples as FLAC and as WAV, with one or two channels, of 8, 16, 24 or
// 32 bits, and with its own rate.
func TestFLAC(t *testing.T) {
	for _, bits := range []int{8, 16, 24, 32} {
		for n := 1; n <= 2; n++ {
			channels := [][]int32{tone(100, bits, 5), tone(100, bits, 7)}[:n]
			name := fmt.Sprintf("%d bits, %d channels", bits, n)
			var all [2][]string
			for i, c := range []struct{ name, text string }{
				{"a.flac", flacOf(8000, bits, channels)}, {"a.wav", wavOf(bits, channels)},
			} {
				r, err := open(t, c.name, c.text, table.DefaultOptions())
				if err != nil {
					t.Fatalf("%s: %s: %v", name, c.name, err)
				}
				err = table.Each(r, func(v *table.Values) error {
					all[i] = append(all[i], fmt.Sprint(v.Numbers, v.Sequence, v.Name, v.Step, v.At, v.Unit, r.About()))
					return nil
				})
				if err != nil {
					t.Fatalf("%s: %s: %v", name, c.name, err)
				}
			}
			if got, want := strings.Join(all[0], "\n"), strings.Join(all[1], "\n"); got != want {
				t.Errorf("%s: found %.200s, want %.200s", name, got, want)
			}
		}
	}
	r, err := open(t, "a.flac", flacOf(44100, 16, [][]int32{tone(3, 16, 5)}), table.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	var v table.Values
	if err := r.Next(&v); err != nil || v.Step != 1/44100.0 {
		t.Errorf("found a step of %g, %v", v.Step, err)
	}
}

// TestFLACBesideWAV checks that a folder may contain both formats.
func TestFLACBesideWAV(t *testing.T) {
	dir := t.TempDir()
	channels := [][]int32{tone(4, 16, 5)}
	for name, text := range map[string]string{"x/a.flac": flacOf(8000, 16, channels),
		"y/b.wav": wavOf(16, channels)} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777),
			os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := table.Open([]string{dir}, nil, table.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rows, err := read(r)
	if err != nil || len(rows) != 8 || strings.Replace(rows[1], "x", "y", 1) != rows[5] || r.About().Label != "folder" {
		t.Errorf("found %q, %v", rows, err)
	}
}

// TestFLACProblems checks that errors contain the file and the sample, and that a recording that is cut off is read up
// to there.
func TestFLACProblems(t *testing.T) {
	text := flacOf(8000, 16, [][]int32{tone(100, 16, 5)})
	damaged := []byte(text)
	damaged[len(damaged)-90] ^= 1
	for name, c := range map[string]struct{ text, want string }{
		"empty":   {"", "want the fLaC of a FLAC file"},
		"ogg":     {"OggS....", `found "OggS", want the fLaC`},
		"head":    {text[:20], "the head of a FLAC file"},
		"damaged": {string(damaged), "x.flac, sample 65: found a frame with the checksum"},
		"more":    {strings.Replace(text, "\x00\x00\x00\x64", "\x00\x00\x00\x21", 1), "found more than 33 samples"},
	} {
		r, err := open(t, "x.flac", c.text, table.DefaultOptions())
		if err == nil {
			_, err = read(r)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.flac") {
			t.Errorf("%s: found %v, want %q", name, err, c.want)
		}
	}
	r, err := open(t, "x.flac", text[:len(text)-40], table.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := read(r)
	if notes := strings.Join(r.Notes(), ""); err != nil || len(rows) != 64 && len(rows) != 96 ||
		!strings.Contains(notes, "want 100: the recording is cut off") {
		t.Errorf("found %d rows, %v, %q", len(rows), err, notes)
	}
}

// FuzzFLAC checks that any file is read to its end or is an error.
func FuzzFLAC(f *testing.F) {
	for _, bits := range []int{8, 16, 24, 32} {
		f.Add([]byte(flacOf(8000, bits, [][]int32{tone(70, bits, 5), tone(70, bits, 6)})))
	}
	opt := table.DefaultOptions()
	opt.Format = "flac"
	f.Fuzz(func(_ *testing.T, text []byte) {
		r, err := table.Open([]string{"-"}, bytes.NewReader(text), opt, nil)
		if err != nil {
			return
		}
		defer r.Close()
		var v table.Values
		for range 1 << 20 {
			if r.Next(&v) != nil {
				return
			}
		}
	})
}
