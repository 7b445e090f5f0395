package task

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"strings"
	"testing"
)

// cifarRecords returns n records. Each plane has a single value.
func cifarRecords(n int, class, red, green, blue byte) string {
	plane := func(v byte) string { return strings.Repeat(string([]byte{v}), cifarPixels) }
	return strings.Repeat(string([]byte{class})+plane(red)+plane(green)+plane(blue), n)
}

func somePictures() files {
	f := files{}
	for i, name := range cifarFiles {
		f["cifar-10-batches-bin/"+name] = cifarRecords(4, byte(i), byte(40*i), 100, 7)
	}
	f["cifar-10-batches-bin/batches.meta.txt"] = "airplane\n"
	return f
}

func TestImageIsGreyPictures(t *testing.T) {
	set := mustOpen[ImageOptions](t, Image, somePictures().write(t), nil)
	if set.Channels != 1 || set.Vocab != 0 || set.Outputs != 10 || set.MaxLength != 1024 ||
		len(set.Notes) != len(cifarFiles) {
		t.Fatalf("the set is %+v", set)
	}
	if set.Train.Len() != 18 || set.Valid.Len() != 2 || set.Test.Len() != 4 {
		t.Fatalf("%d, %d and %d pictures, want 18, 2 and 4", set.Train.Len(), set.Valid.Len(), set.Test.Len())
	}
	for _, ex := range append(append(examples(set.Train), examples(set.Valid)...), examples(set.Test)...) {
		gray := math.Round(0.299*40*float64(ex.Targets[0]) + 0.587*100 + 0.114*7)
		if len(ex.Values) != 1024 || math.Abs(float64(ex.Values[1023])-(gray-122.6)/61) > 1e-5 {
			t.Errorf("class %d has %d values, the last %g, want 1024 and %g", ex.Targets[0], len(ex.Values),
				ex.Values[1023], (gray-122.6)/61)
		}
	}
	archive := mustOpen[ImageOptions](t, Image, files{"cifar-10-binary.tar.gz": somePictures().packed(t)}.write(t), nil)
	if !same(examples(archive.Train), examples(set.Train)) {
		t.Error("the archive gives other examples than the folder")
	}
	tokens := mustOpen(t, Image, somePictures().write(t), func(o *ImageOptions) { o.Tokens, o.Valid = true, 0 })
	if tokens.Vocab != 256 || tokens.Channels != 0 || tokens.Valid != nil {
		t.Errorf("the set in tokens is %+v", tokens)
	}
	// 0.299·200 + 0.587·100 + 0.114·7
	if ex := examples(tokens.Test)[0]; len(ex.Tokens) != 1024 || ex.Tokens[0] != 119 {
		t.Errorf("tokens %v", ex.Tokens[:1])
	}
}

// TestGrayValues checks that weights and rounding are those of Pillow's convert("L").
func TestGrayValues(t *testing.T) {
	got := appendGray(nil, []byte{255, 255, 0, 0, 10, 255, 0, 255, 0, 20, 255, 0, 0, 255, 30})
	if want := []byte{255, 76, 150, 29, 18}; !bytes.Equal(got, want) {
		t.Errorf("gray values %v, want %v", got, want)
	}
}

func TestImageSaysWhatIsWrongWithItsFiles(t *testing.T) {
	with := func(name, text string) files {
		f := somePictures()
		f["cifar-10-batches-bin/"+name] = text
		return f
	}
	without := somePictures()
	delete(without, "cifar-10-batches-bin/data_batch_3.bin")
	for _, c := range []struct {
		name  string
		files files
		words []string
	}{
		{"nothing", files{}, []string{"cifar-10-batches-bin/data_batch_1.bin",
			"cifar-10-binary.tar.gz", "cs.toronto.edu"}},
		{"cut", with("data_batch_2.bin", cifarRecords(2, 0, 0, 0, 0)[:4000]),
			[]string{"data_batch_2.bin: picture 1, at byte 3073"}},
		{"class", with("test_batch.bin", cifarRecords(1, 10, 0, 0, 0)),
			[]string{"test_batch.bin: picture 0", "class 10"}},
		{"missing", without, []string{"data_batch_3.bin"}},
		{"missing in the archive", files{"cifar-10-binary.tar.gz": without.packed(t)},
			[]string{"data_batch_3.bin is missing or empty"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := openTask[ImageOptions](t, Image, c.files.write(t), nil)
			wantError(t, err, append(c.words, "task image:")...)
		})
	}
}

func FuzzImage(f *testing.F) {
	f.Add([]byte(cifarRecords(2, 3, 1, 2, 3)))
	f.Add([]byte{9, 1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		r := &cifarReader{}
		err := r.add("test_batch.bin", bytes.NewReader(text))
		b := r.batches[cifarTest]
		if err == nil && len(b.labels)*cifarRecord != len(text) {
			t.Fatalf("%d pictures in %d bytes", len(b.labels), len(text))
		}
		if len(b.pixels) != cifarPixels*len(b.labels) {
			t.Fatalf("%d pixels of %d pictures", len(b.pixels), len(b.labels))
		}
	})
}

// packedPicture returns a PNG picture with one gray value, in color or not.
func packedPicture(t testing.TB, side int, gray byte, inColor bool) string {
	t.Helper()
	var picture interface {
		image.Image
		Set(x, y int, c color.Color)
	} = image.NewGray(image.Rect(0, 0, side, side))
	if inColor {
		picture = image.NewNRGBA(image.Rect(0, 0, side, side))
	}
	for i := range side * side {
		picture.Set(i%side, i/side, color.Gray{gray})
	}
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// somePaths returns 20 pictures in two lists. Picture i has the gray value i and the class i mod 2.
func somePaths(t *testing.T) files {
	f := files{}
	for i := range 20 {
		list, name := []string{"10", "9"}[i/10], fmt.Sprintf("sample_%d.png", i)
		f["pathfinder32/curv_contour_length_14/imgs/"+list+"/"+name] = packedPicture(t, 32, byte(i), i%3 == 0)
		f["pathfinder32/curv_contour_length_14/metadata/"+list+".npy"] += fmt.Sprintf(
			"imgs/%s %s %d %d 1.0 14 4 2 0.5 1 1\n", list, name, i%10, i%2)
	}
	return f
}

func TestPathfinderReadsTheArena(t *testing.T) {
	set := mustOpen[PathfinderOptions](t, Pathfinder, somePaths(t).write(t), nil)
	if set.Channels != 1 || set.Outputs != 2 || set.MaxLength != 1024 || len(set.Notes) != 1 {
		t.Fatalf("the set is %+v", set)
	}
	if set.Train.Len() != 16 || set.Valid.Len() != 2 || set.Test.Len() != 2 {
		t.Fatalf("%d, %d and %d pictures, want 16, 2 and 2", set.Train.Len(), set.Valid.Len(), set.Test.Len())
	}
	order := torchPermutation(20, 42)
	for i, ex := range append(append(examples(set.Train), examples(set.Valid)...), examples(set.Test)...) {
		number := (order[i] + 10) % 20 // list 9 comes before list 10
		if want := (float32(number) - 127.5) / 127.5; len(ex.Values) != 1024 || ex.Values[500] != want ||
			ex.Targets[0] != int32(number%2) {
			t.Errorf("example %d: %d values of %g, class %d; want 1024 of %g, class %d", i, len(ex.Values),
				ex.Values[500], ex.Targets[0], want, number%2)
		}
	}
}

func TestPathfinderSaysWhatIsWrongWithItsFiles(t *testing.T) {
	const list = "pathfinder32/curv_contour_length_14/metadata/9.npy"
	for _, c := range []struct {
		name, line string
		words      []string
	}{
		{"columns", "imgs/9 sample_10.png 0\n", []string{"9.npy, line 1", "found 3 columns"}},
		{"class", "imgs/9 sample_10.png 0 2 1.0\n", []string{"9.npy, line 1", `class: found "2"`}},
		{"numpy", "\x93NUMPY\x01\x00", []string{"9.npy", "array of NumPy"}},
		{"missing", "imgs/9 sample_11.png 0 1\nimgs/9 none.png 0 1\n", []string{"9.npy, line 2", "none.png"}},
		{"outside", "../.. sample_11.png 0 1\n", []string{"9.npy, line 1", "points outside"}},
		{"size", "imgs/9 big.png 0 1\n", []string{"big.png", "64 by 64 pixels, want 32 by 32"}},
		{"damaged", "imgs/9 cut.png 0 1\n", []string{"cut.png", "unexpected EOF"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := somePaths(t)
			f[list] = c.line
			f["pathfinder32/curv_contour_length_14/imgs/9/big.png"] = packedPicture(t, 64, 0, false)
			f["pathfinder32/curv_contour_length_14/imgs/9/cut.png"] = packedPicture(t, 32, 0, false)[:60]
			_, err := openTask[PathfinderOptions](t, Pathfinder, f.write(t), nil)
			wantError(t, err, append(c.words, "task pathfinder:")...)
		})
	}
	_, err := openTask[PathfinderOptions](t, PathX, somePaths(t).write(t), nil)
	wantError(t, err, "pathfinder128/curv_contour_length_14/metadata", "task path-x", "lra_release.gz", "generate=true")
	f := somePaths(t)
	f["pathfinder32/curv_contour_length_14/metadata/about.npy"] = ""
	_, err = openTask[PathfinderOptions](t, Pathfinder, f.write(t), nil)
	wantError(t, err, "about.npy", "number")
	_, err = openTask(t, Pathfinder, "", func(o *PathfinderOptions) { o.Side = 33 })
	wantError(t, err, "side: found 33")
}

func FuzzDecodeGrey(f *testing.F) {
	for _, inColor := range []bool{false, true} {
		f.Add([]byte(packedPicture(f, 32, 77, inColor)))
	}
	f.Add([]byte("\x89PNG\r\n\x1a\n"))
	f.Fuzz(func(t *testing.T, packed []byte) {
		if pixels, err := decodeGray(packed, 32); err == nil && len(pixels) != 1024 {
			t.Fatalf("%d pixels", len(pixels))
		}
	})
}

func FuzzPathfinderLines(f *testing.F) {
	f.Add("imgs/0 sample_0.png 0 1 1.0 14 4 2 0.5 1 1")
	f.Add("/ . 0 0")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, line string) {
		s := &pngSplit{side: 32}
		if err := s.readPicture(dir, line); err == nil {
			t.Fatalf("%q names a picture in an empty folder", line)
		}
	})
}

// somePathsDrawn opens a task with drawn pictures.
func somePathsDrawn(t *testing.T, side int, change func(*PathfinderOptions)) *Set {
	return mustOpen(t, Pathfinder, "", func(o *PathfinderOptions) {
		o.Generate, o.Side, o.Train, o.Test = true, side, 300, 100
		if change != nil {
			change(o)
		}
	})
}

func TestDrawnPicturesAreTheSameEveryTime(t *testing.T) {
	for side := range pathKinds {
		a, b := somePathsDrawn(t, side, nil), somePathsDrawn(t, side, nil)
		if a.MaxLength != side*side || !strings.Contains(a.Notes[0], "not scores of the Long Range Arena") {
			t.Fatalf("the set is %+v", a)
		}
		var last, first Example
		b.Train.Example(299, &last)
		a.Train.Example(0, &first)
		a.Train.Example(299, &first) // memory of an earlier example
		if !same([]Example{first}, []Example{last}) {
			t.Errorf("side %d: picture 299 depends on what was drawn before it", side)
		}
		var valid, test, other Example
		b.Valid.Example(299%100, &valid)
		b.Test.Example(299%100, &test)
		somePathsDrawn(t, side, func(o *PathfinderOptions) { o.Seed = 2 }).Train.Example(299, &other)
		if same([]Example{valid}, []Example{test}) || same([]Example{last}, []Example{other}) {
			t.Errorf("side %d: two splits or two seeds give the same picture", side)
		}
	}
}

// TestDrawnPicturesCanBeSolved walks from one dot to the next lit pixels within the distance of the gap between the
// dashes of a path. It checks that the walk arrives at the other dot exactly if the class says so.
func TestDrawnPicturesCanBeSolved(t *testing.T) {
	set := somePathsDrawn(t, 128, nil)
	joined, wrong := 0, 0
	for _, ex := range examples(set.Train)[:200] {
		joined += int(ex.Targets[0])
		if dotsJoined(ex.Values, 128, 4.5) != (ex.Targets[0] == 1) {
			wrong++
		}
	}
	if joined < 75 || joined > 125 {
		t.Errorf("%d of 200 pictures have a path between the dots, want about half", joined)
	}
	if wrong > 4 {
		t.Errorf("%d of 200 pictures do not look like their class, want 2 %% at most", wrong)
	}
}

// dotsJoined reports whether steps of length step over lit pixels lead from one dot to the other. Only dots are white.
func dotsJoined(values []float32, side int, step float64) bool {
	seen := make([]bool, len(values))
	walk := func(from int) (dots int) {
		queue := []int{from}
		seen[from] = true
		for len(queue) > 0 {
			at := queue[0]
			queue = queue[1:]
			if values[at] > 0.98 {
				dots++
			}
			for to, v := range values {
				if v >= 0 && !seen[to] && math.Hypot(float64(to%side-at%side), float64(to/side-at/side)) <= step {
					seen[to] = true
					queue = append(queue, to)
				}
			}
		}
		return dots
	}
	white, last := 0, 0
	for i, v := range values {
		if v > 0.98 {
			white++
			last = i
		}
	}
	return walk(last) == white
}

func TestPathfinderStopsWhenItIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Pathfinder.Open(ctx, somePaths(t).write(t), Pathfinder.Options()); err == nil {
		t.Error("a canceled context opens the task")
	}
}
