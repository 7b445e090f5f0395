package task

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"
)

// idx returns a file in the format of MNIST.
func idx(magic uint32, head []uint32, data []byte) []byte {
	var b []byte
	for _, x := range append([]uint32{magic}, head...) {
		b = binary.BigEndian.AppendUint32(b, x)
	}
	return append(b, data...)
}

// mnistPair returns n images and their labels. Image i holds the bytes i, i+1, ..., and has the label i mod 10.
func mnistPair(n int) (images, labels []byte) {
	for i := range n {
		for j := range mnistPixels {
			images = append(images, byte(i+j))
		}
		labels = append(labels, byte(i%10))
	}
	return idx(0x803, []uint32{uint32(n), 28, 28}, images), idx(0x801, []uint32{uint32(n)}, labels)
}

// mnistDir returns a folder with 12 images for training and 3 for testing.
func mnistDir(t *testing.T) string {
	dir := t.TempDir()
	images, labels := mnistPair(12)
	putFile(t, dir, "mnist/train-images-idx3-ubyte.gz", images)
	putFile(t, dir, "mnist/train-labels-idx1-ubyte.gz", labels)
	images, labels = mnistPair(3)
	putFile(t, dir, "t10k-images-idx3-ubyte", images)
	putFile(t, dir, "MNIST/raw/t10k-labels-idx1-ubyte", labels)
	return dir
}

func TestMNIST(t *testing.T) {
	dir := mnistDir(t)
	set, err := openTask(t, SMNIST, dir, func(o *mnistOptions) { o.Valid = 2 })
	if err != nil {
		t.Fatal(err)
	}
	if set.Train.Len() != 10 || set.Valid.Len() != 2 || set.Test.Len() != 3 {
		t.Fatalf("found %d, %d, %d images; want 10, 2, 3", set.Train.Len(), set.Valid.Len(), set.Test.Len())
	}
	if set.Channels != 1 || set.Outputs != 10 || set.Everywhere || set.Numbers || set.MaxLength != 784 {
		t.Errorf("found %+v", set)
	}
	var ex Example
	set.Valid.Example(1, &ex) // image 11 of the file
	if len(ex.Targets) != 1 || ex.Targets[0] != 1 || len(ex.Values) != 784 {
		t.Fatalf("found the targets %v and %d values, want 1 and 784", ex.Targets, len(ex.Values))
	}
	for j, x := range ex.Values {
		if want := (float64(byte(11+j))/255 - 0.1307) / 0.3081; math.Abs(float64(x)-want) > 1e-5 {
			t.Fatalf("pixel %d is %g, want %g", j, x, want)
		}
	}
}

func TestMNISTOrders(t *testing.T) {
	dir := mnistDir(t)
	var lines, ex Example
	plain, err := openTask(t, SMNIST, dir, func(o *mnistOptions) { o.Valid = 0 })
	if err != nil {
		t.Fatal(err)
	}
	plain.Test.Example(2, &lines)
	if plain.Valid != nil {
		t.Error("found a validation part that nobody asked for")
	}
	var orders [][]float32
	for _, o := range []mnistOptions{{Order: "random", Seed: 42}, {Order: "random", Seed: 43}, {Order: "bitreversal"}} {
		set, err := openTask(t, PSMNIST, dir, func(to *mnistOptions) { *to = o })
		if err != nil {
			t.Fatal(err)
		}
		set.Test.Example(2, &ex)
		for _, other := range append(orders, lines.Values) {
			if slices.Equal(ex.Values, other) {
				t.Errorf("%+v: found the order of another", o)
			}
		}
		orders = append(orders, slices.Clone(ex.Values))
		slices.Sort(ex.Values)
		want := slices.Sorted(slices.Values(lines.Values))
		if !slices.Equal(ex.Values, want) {
			t.Errorf("%+v: found other pixels than those of the image", o)
		}
	}
	// The reversed bits of 0, 1, 2, 3 give 0, 512, 256 and 768.
	if got := mnistOrder(&mnistOptions{Order: "bitreversal"})[:4]; !slices.Equal(got, []int{0, 512, 256, 768}) {
		t.Errorf("found the first places %v, want 0, 512, 256, 768", got)
	}
	// The order is part of the task: it must not change between releases.
	if got := mnistOrder(&mnistOptions{Order: "random", Seed: 42})[:4]; !slices.Equal(got, []int{511, 308, 216, 359}) {
		t.Errorf("found the first places %v of seed 42", got)
	}
}

func TestMNISTErrors(t *testing.T) {
	images, labels := mnistPair(2)
	for name, c := range map[string]struct {
		data  []byte
		magic uint32
		want  string
	}{
		"empty":      {nil, 0x803, "the head of 16 bytes: EOF"},
		"short head": {images[:9], 0x803, "the head of 16 bytes"},
		"swapped":    {labels, 0x803, "the head of 16 bytes"},
		"magic":      {idx(0x903, []uint32{2, 28, 28}, nil), 0x803, "magic number 0x00000903"},
		"size":       {idx(0x803, []uint32{2, 28, 29}, nil), 0x803, "size [28 29], want [28 28]"},
		"none":       {idx(0x803, []uint32{0, 28, 28}, nil), 0x803, "no entries"},
		"cut off":    {images[:len(images)-1], 0x803, "2 entries: found 1567 bytes, want 1568: the file is cut off"},
		"too long":   {append(images[:len(images):len(images)], 0), 0x803, "more than 2 entries"},
		"huge":       {idx(0x803, []uint32{1<<32 - 1, 28, 28}, []byte{1}), 0x803, "found 1 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readIDX(bytes.NewReader(c.data), c.magic, 28, 28)
			wantError(t, err, c.want)
		})
	}

	dir := mnistDir(t)
	_, err := openTask(t, SMNIST, dir, func(o *mnistOptions) { o.Valid = 12 })
	wantError(t, err, "task smnist", "valid: found 12, want fewer than the 12")
	_, three := mnistPair(3)
	putFile(t, dir, "mnist/train-labels-idx1-ubyte.gz", three)
	_, err = openTask[mnistOptions](t, SMNIST, dir, nil)
	wantError(t, err, "train-labels-idx1-ubyte.gz", "found 3 labels, want one for each of the 12 images")
	putFile(t, dir, "mnist/train-labels-idx1-ubyte.gz",
		idx(0x801, []uint32{12}, []byte{0, 1, 2, 3, 4, 10, 6, 7, 8, 9, 0, 1}))
	_, err = openTask[mnistOptions](t, PSMNIST, dir, nil)
	wantError(t, err, "task psmnist", "label 5, at offset 13: found 10, want 0 to 9")
}

func FuzzReadIDX(f *testing.F) {
	images, labels := mnistPair(1)
	f.Add(images)
	f.Add(labels)
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := readIDX(bytes.NewReader(data), 0x803, 28, 28); err == nil && len(got)%mnistPixels != 0 {
			t.Errorf("found %d bytes, want whole images", len(got))
		}
	})
}
