package task

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
)

// chunk returns a chunk of a WAV file.
func chunk(name string, data []byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(name), uint32(len(data)))
	b = append(b, data...)
	if len(data)%2 == 1 {
		b = append(b, 0)
	}
	return b
}

// wavFile returns a WAV file with these chunks.
func wavFile(chunks ...[]byte) []byte {
	body := append([]byte("WAVE"), slices.Concat(chunks...)...)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

// wavFormat returns the format chunk.
func wavFormat(kind, channels uint16, rate uint32, bits uint16) []byte {
	b := binary.LittleEndian.AppendUint16(nil, kind)
	b = binary.LittleEndian.AppendUint16(b, channels)
	b = binary.LittleEndian.AppendUint32(b, rate)
	b = binary.LittleEndian.AppendUint32(b, rate*uint32(channels*bits/8))
	b = binary.LittleEndian.AppendUint16(b, channels*bits/8)
	return chunk("fmt ", binary.LittleEndian.AppendUint16(b, bits))
}

// tone returns a WAV file with n samples of a sine with the given number of samples per period.
func tone(n int, period float64) []byte {
	var data []byte
	for i := range n {
		data = binary.LittleEndian.AppendUint16(data, uint16(int16(10000*math.Sin(2*math.Pi*float64(i)/period))))
	}
	return wavFile(chunk("LIST", []byte("odd")), wavFormat(1, 1, 8000, 16), chunk("data", data))
}

// tarred returns an archive of files in a folder.
func tarred(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, data := range files {
		if err := w.WriteHeader(&tar.Header{Name: "fsdd/" + name, Mode: 0o644, Size: int64(len(data)),
			Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// takes returns recordings 3_ann_0.wav to 3_ann_7.wav. Take i has 500 + i samples.
func takes() map[string][]byte {
	files := map[string][]byte{}
	for i := range 8 {
		files[fmt.Sprintf("3_ann_%d.wav", i)] = tone(500+i, 16)
	}
	return files
}

func TestDigits(t *testing.T) {
	folder, archives := t.TempDir(), t.TempDir()
	first, rest := map[string][]byte{}, map[string][]byte{"README.md": []byte("text")}
	for name, data := range takes() {
		putFile(t, folder, "recordings/"+name, data)
		if name < "3_ann_5" {
			first[name] = data
		} else {
			rest[name] = data
		}
	}
	putFile(t, archives, "fsdd/fsdd_test.tar.gz", tarred(t, first))
	putFile(t, archives, "fsdd/fsdd_train.tar.gz", tarred(t, rest))
	for _, dir := range []string{folder, archives} {
		set, err := openTask(t, Digits, dir, func(o *DigitsOptions) { o.Length = 505 })
		if err != nil {
			t.Fatal(err)
		}
		if set.Train.Len() != 2 || set.Valid.Len() != 1 || set.Test.Len() != 5 ||
			set.MaxLength != 505 || set.Outputs != 10 {
			t.Fatalf("found %d, %d, %d recordings, %+v; want 2, 1, 5", set.Train.Len(),
				set.Valid.Len(), set.Test.Len(), set)
		}
		var ex Example
		for i, want := range []int{500, 501, 502, 503, 504} {
			set.Test.Example(i, &ex)
			if len(ex.Values) != want || len(ex.Targets) != 1 || ex.Targets[0] != 3 {
				t.Errorf("recording %d has %d samples and the targets %v, want %d and 3", i,
					len(ex.Values), ex.Targets, want)
			}
			if got := meanSquare(ex.Values); math.Abs(got-1) > 1e-3 {
				t.Errorf("recording %d has the mean square %g, want 1", i, got)
			}
		}
		if set.Train.Example(1, &ex); len(ex.Values) != 505 {
			t.Errorf("found %d samples of 507, want the 505 that the options allow", len(ex.Values))
		}
		if len(set.Extra) != 1 || set.Extra[0].DtScale != 2 {
			t.Fatalf("found %+v, want half the rate with dt doubled", set.Extra)
		}
		// At half the rate, a sine with 16 samples per period has 8, with the same amplitude.
		set.Extra[0].Split.Example(1, &ex)
		if len(ex.Values) != 251 {
			t.Fatalf("found %d samples at half the rate, want 251", len(ex.Values))
		}
		for i := 40; i < 200; i++ {
			if want := math.Sqrt2 * math.Sin(2*math.Pi*float64(i)/8); math.Abs(float64(ex.Values[i])-want) > 5e-3 {
				t.Fatalf("sample %d at half the rate is %g, want %g", i, ex.Values[i], want)
			}
		}
	}
}

func meanSquare(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return sum / float64(len(x))
}

// TestHalfBand filters sines. They pass below a fifth of the rate and vanish above 0.3 of it.
func TestHalfBand(t *testing.T) {
	for _, c := range []struct{ frequency, low, high float64 }{
		{0, 0.9999, 1.0001}, {0.05, 0.999, 1.001}, {0.2, 0.998, 1.002}, {0.25, 0.49, 0.51}, {0.3, 0, 1e-3},
		{0.4, 0, 1e-3}, {0.5, 0, 1e-3},
	} {
		gain := 0.5
		for j, tap := range halfBand {
			gain += 2 * tap * math.Cos(2*math.Pi*c.frequency*float64(2*j+1))
		}
		if gain = math.Abs(gain); gain < c.low || gain > c.high {
			t.Errorf("at %g of the rate the filter lets through %g, want %g to %g", c.frequency, gain, c.low, c.high)
		}
	}
	if got := lowPass(nil, []float32{0, 0, 0, 0, 1, 0, 0}, 2); len(got) != 4 || got[2] != 0.5 || got[1] != 0 {
		t.Errorf("the answer to an impulse is %v: want tap 0, ½, in its middle and 0 beside it", got)
	}
}

func TestDigitsCopies(t *testing.T) {
	dir := t.TempDir()
	for name, data := range takes() {
		putFile(t, dir, "recordings/"+name, data)
	}
	open := func(seed uint64) *Set {
		set, err := openTask(t, Digits, dir, func(o *DigitsOptions) { o.Copies, o.Seed, o.Valid = 3, seed, 0 })
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	set := open(1)
	if set.Train.Len() != 9 || set.Test.Len() != 5 || set.Valid != nil {
		t.Fatalf("found %d and %d examples, want 9 and 5", set.Train.Len(), set.Test.Len())
	}
	var plain, copied, again Example
	set.Train.Example(1, &plain)
	set.Train.Example(4, &copied)
	open(1).Train.Example(4, &again)
	if !slices.Equal(copied.Values, again.Values) {
		t.Error("one seed gave two copies")
	}
	if open(2).Train.Example(4, &again); slices.Equal(copied.Values, again.Values) {
		t.Error("two seeds gave one copy")
	}
	if slices.Equal(plain.Values, copied.Values) || copied.Targets[0] != 3 {
		t.Errorf("the copy is the recording, or another digit: %v", copied.Targets)
	}
	longest := 0
	for _, split := range []Split{set.Train, set.Test, set.Extra[0].Split} {
		for i := range split.Len() {
			split.Example(i, &copied)
			if got := split.(Lengths).Length(i); got != len(copied.Values) {
				t.Errorf("example %d has %d samples, but tells %d", i, len(copied.Values), got)
			}
			longest = max(longest, len(copied.Values))
		}
	}
	if set.MaxLength != longest {
		t.Errorf("found the longest example of %d samples, the set tells %d", longest, set.MaxLength)
	}
	padded, err := openTask(t, Digits, dir, func(o *DigitsOptions) { o.Pad, o.Length = true, 600 })
	if err != nil {
		t.Fatal(err)
	}
	if padded.Test.Example(0, &plain); len(plain.Values) != 600 || plain.Values[599] != 0 || padded.MaxLength != 600 {
		t.Errorf("found %d samples, want 600 with zeros at their end", len(plain.Values))
	}
}

func TestDigitsErrors(t *testing.T) {
	good := tone(4, 4)
	format := wavFormat(1, 1, 8000, 16)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":     {nil, "the head of a WAV file"},
		"other":     {bytes.Repeat([]byte("text"), 9), "want the RIFF and WAVE"},
		"cut head":  {wavFile()[:9], "the head of a WAV file"},
		"no data":   {wavFile(format), "no chunk of data"},
		"no format": {wavFile(chunk("data", []byte{1, 2})), "data before its format"},
		"cut off":   {good[:len(good)-1], `chunk "data": found 7 bytes, want 8: the file is cut off`},
		"odd":       {wavFile(format, chunk("data", []byte{1, 2, 3})), "found 3 bytes, want whole samples"},
		"rate": {wavFile(wavFormat(1, 1, 16000, 16)),
			"16 bits at 16000 Hz, want 1 (plain samples) with 1 channel of 16 bits at 8000 Hz"},
		"stereo":    {wavFile(wavFormat(1, 2, 8000, 16)), "with 2 channels"},
		"µ-law":     {wavFile(wavFormat(7, 1, 8000, 8)), "the format 7"},
		"short fmt": {wavFile(chunk("fmt ", []byte{1})), `chunk "fmt ": found 1 bytes, want 16`},
		"cut chunk": {append(wavFile(format), "da"...), "the head of a chunk"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readWAV(bytes.NewReader(c.data), 8000)
			wantError(t, err, c.want)
		})
	}
	for _, name := range []string{"10_ann_1.wav", "1_ann.wav", "1__2.wav", "x_ann_1.wav",
		"1_ann_-1.wav", "1_ann_1_2.wav"} {
		_, err := parseRecording(name)
		wantError(t, err, name, "want one such as 7_jackson_32.wav")
	}
	for name, c := range map[string]struct {
		file string
		data []byte
		want []string
	}{
		"few": {"recordings/1_ann_7.wav", good,
			[]string{"found 1 recordings to train, 0 to validate, 0 to test"}},
		"damaged": {"recordings/1_ann_7.wav", good[:60], []string{"recordings", "1_ann_7.wav: chunk"}},
		"no samples": {"recordings/1_ann_7.wav", wavFile(format, chunk("data", nil)),
			[]string{"1_ann_7.wav: found no samples"}},
		"name":        {"recordings/one.wav", good, []string{"recordings", "one.wav"}},
		"cut archive": {"fsdd.tar.gz", tarred(t, takes())[:700], []string{"fsdd.tar.gz", "EOF"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			putFile(t, dir, c.file, c.data)
			_, err := openTask[DigitsOptions](t, Digits, dir, nil)
			wantError(t, err, append(c.want, "task digits")...)
		})
	}
	dir := t.TempDir()
	putFile(t, dir, "fsdd_a.tar.gz", tarred(t, takes()))
	putFile(t, dir, "fsdd_b.tar.gz", tarred(t, takes()))
	_, err := openTask[DigitsOptions](t, Digits, dir, nil)
	wantError(t, err, "found 3_ann_0.wav twice")
}

func FuzzReadWAV(f *testing.F) {
	f.Add(tone(4, 4))
	f.Add(wavFile(wavFormat(1, 2, 8000, 16)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if samples, err := readWAV(bytes.NewReader(data), 8000); err == nil && 2*len(samples) > len(data) {
			t.Errorf("found %d samples in %d bytes", len(samples), len(data))
		}
		samples, rate, err := ReadWAV(bytes.NewReader(data), 1<<20)
		if err == nil && (len(samples) > len(data) || rate <= 0) {
			t.Errorf("found %d samples at %d Hz in %d bytes", len(samples), rate, len(data))
		}
	})
}

// TestDigitsFolds checks that the five folds test each of the takes 5 to 19 once, on networks that were not trained on
// it or on a take of the test part. Without a fold, the division is the published one.
func TestDigitsFolds(t *testing.T) {
	tested := map[int]int{}
	for fold := range 6 {
		o := DigitsOptions{Valid: 2, Fold: fold}
		var counts [3]int
		for take := range 20 {
			part := o.part(take)
			if part < 0 {
				continue
			}
			counts[part]++
			if fold > 0 && take < 5 || fold == 0 && (part == 2) != (take < 5) {
				t.Errorf("fold %d has take %d in part %d", fold, take, part)
			}
			if part == 2 {
				tested[take]++
			}
		}
		want := [3]int{10, 2, 3}
		if fold == 0 {
			want = [3]int{13, 2, 5}
		}
		if counts != want {
			t.Errorf("fold %d: found %v takes to train, validate and test, want %v", fold, counts, want)
		}
	}
	for take := range 20 {
		if tested[take] != 1 {
			t.Errorf("take %d is tested %d times, want once", take, tested[take])
		}
	}
}
