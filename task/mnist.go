package task

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// SMNIST and PSMNIST ask for the class of handwritten digits that are read pixel by pixel: either row by row ("A Simple
// Way to Initialize Recurrent Networks of Rectified Linear Units", arXiv:1504.00941), or in an order that is the same
// for all images but separates neighboring pixels.
//
// A pixel p of 0 to 255 becomes (p/255 - 0.1307)/0.3081, with the mean and the deviation of the training images. The
// validation part is the last images of the training files.
var (
	SMNIST = mnist("smnist", "784 pixels of a handwritten digit, line by line; which digit it is",
		mnistOptions{Valid: 5000, Order: "lines"})
	PSMNIST = mnist("psmnist", "784 pixels of a handwritten digit, in a fixed random order; which digit it is",
		mnistOptions{Valid: 5000, Order: "random", Seed: 42})
)

func mnist(name, about string, defaults mnistOptions) *Task {
	from := origin{task: name, data: "MNIST",
		url: "http://yann.lecun.com/exdb/mnist or https://ossci-datasets.s3.amazonaws.com/mnist"}
	return &Task{
		Name: name, Group: "classification", About: about,
		Source: "arXiv:1504.00941, as in S4, arXiv:2111.00396",
		Files: "the four files of MNIST, train-images-idx3-ubyte.gz and so on (" + from.url +
			"), as they are or in the folders mnist or MNIST/raw, compressed or not",
		Options: func() any { o := defaults; return &o },
		Open: func(ctx context.Context, dir string, options any) (*Set, error) {
			return openMNIST(ctx, from, dir, options.(*mnistOptions))
		},
	}
}

// mnistOptions holds the options of SMNIST and PSMNIST.
type mnistOptions struct {
	Valid int    `json:"valid" min:"0" max:"50000" help:"images of the training files to validate on"`
	Order string `json:"order" enum:"lines,random,bitreversal" help:"pixels by rows, permuted by seed, or bit-reversed"`
	Seed  uint64 `json:"seed" help:"seed of the random order: that of PCG(seed, 784)"`
	Test  int    `json:"test" min:"0" max:"10000" help:"images of the test files to score; 0: all 10,000"`
}

// Mean and deviation of the training pixels on a scale from 0 to 1.
const mnistMean, mnistDeviation = 0.1307, 0.3081

// openMNIST reads the files under dir.
func openMNIST(ctx context.Context, from origin, dir string, o *mnistOptions) (*Set, error) {
	train, err := readMNIST(from, dir, "train")
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	test, err := readMNIST(from, dir, "t10k")
	if err != nil {
		return nil, err
	}
	if o.Valid < 0 || o.Valid >= train.Len() {
		return nil, fmt.Errorf("task %s: valid: found %d, want fewer than the %d training images",
			from.task, o.Valid, train.Len())
	}
	if o.Test > 0 {
		test = test.part(0, min(o.Test, test.Len()))
	}
	order := mnistOrder(o)
	train.order, test.order = order, order
	set := &Set{Channels: 1, Outputs: 10, MaxLength: mnistPixels, Train: train.part(0, train.Len()-o.Valid), Test: test,
		Inputs: pixel(255*mnistMean, 255*mnistDeviation), Classes: numerals(10)}
	if o.Valid > 0 {
		set.Valid = train.part(train.Len()-o.Valid, train.Len())
	}
	set.Notes = append(set.Notes,
		fmt.Sprintf("%d images to train, %d to validate, %d to test", set.Train.Len(), o.Valid, test.Len()))
	return set, nil
}

// mnistOrder returns the order in which pixels are read, or nil for row by row.
func mnistOrder(o *mnistOptions) []int {
	switch o.Order {
	case "random":
		return rand.New(rand.NewPCG(o.Seed, mnistPixels)).Perm(mnistPixels)
	case "bitreversal": // bit reversal of 10 bits; numbers above the last pixel are left out
		var order []int
		for i := range 1024 {
			if p := int(bits.Reverse16(uint16(i)) >> 6); p < mnistPixels {
				order = append(order, p)
			}
		}
		return order
	}
	return nil
}

// mnistImages is a Split of images. Each image is an example.
type mnistImages struct {
	pixels []byte // (n, 784)
	labels []byte
	order  []int
}

// part returns the images lo to hi.
func (m *mnistImages) part(lo, hi int) *mnistImages {
	return &mnistImages{m.pixels[lo*mnistPixels : hi*mnistPixels], m.labels[lo:hi], m.order}
}

// Len returns the number of images.
func (m *mnistImages) Len() int { return len(m.labels) }

// Example fills ex with image i as a sequence.
func (m *mnistImages) Example(i int, ex *Example) {
	ex.Reset()
	image := m.pixels[i*mnistPixels : (i+1)*mnistPixels]
	for j := range image {
		if m.order != nil {
			j = m.order[j]
		}
		ex.Values = append(ex.Values, (float32(image[j])/255-mnistMean)/mnistDeviation)
	}
	ex.Targets = append(ex.Targets, int32(m.labels[i]))
}
