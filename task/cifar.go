package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
)

// Image is the image task of the Long Range Arena (arXiv:2011.04006, §2.4): classify a picture of CIFAR-10, read as a
// sequence of gray values. Gray values, their normalization and the 5,000 held-out pictures follow state-spaces/s4,
// src/dataloaders/basic.py: 45,000 sequences of 1,024 numbers for training and 10,000 for testing.
var Image = &Task{
	Name: "image", Group: "long range arena",
	About:  "a gray picture of 32 by 32, pixel by pixel: which of ten things is it?",
	Source: "Long Range Arena, arXiv:2011.04006; CIFAR-10, Krizhevsky 2009",
	Files: "cifar-10-batches-bin/data_batch_1.bin to data_batch_5.bin and test_batch.bin, or " +
		"cifar-10-binary.tar.gz: " + imageOrigin.about(),
	Options: func() any { return &ImageOptions{Valid: 0.1} },
	Open: func(ctx context.Context, dir string, options any) (*Set, error) {
		return openImage(ctx, dir, *options.(*ImageOptions))
	},
}

var imageOrigin = origin{"image", "CIFAR-10 (binary version)", "https://www.cs.toronto.edu/~kriz/cifar.html"}

// ImageOptions holds the options of Image.
type ImageOptions struct {
	Tokens bool    `json:"tokens" help:"gray values are 256 tokens, as for LRA's transformers, not numbers"`
	Valid  float64 `json:"valid" min:"0" max:"0.9" help:"fraction of the training pictures held out; officially 0.1"`
}

const (
	cifarSide    = 32
	cifarPixels  = cifarSide * cifarSide
	cifarRecord  = 1 + 3*cifarPixels // the class, then the red, green and blue values
	cifarClasses = 10
	cifarBatch   = 10000 // records per published file
)

// openImage reads the data of Image.
func openImage(ctx context.Context, dir string, o ImageOptions) (*Set, error) {
	r := &cifarReader{}
	at, err := imageOrigin.find(dir, "cifar-10-batches-bin/data_batch_1.bin",
		"data_batch_1.bin", "cifar-10-binary.tar.gz")
	switch {
	case err == nil && filepath.Ext(at) == ".gz":
		err = imageOrigin.read(at, func(from io.Reader) error { return eachInTar(ctx, from, r.add) })
	case err == nil:
		err = r.readFolder(ctx, filepath.Dir(at))
	}
	if err == nil {
		err = r.check(at)
	}
	if err != nil {
		return nil, err
	}
	set := &Set{Channels: 1, Outputs: cifarClasses, MaxLength: cifarPixels, Notes: r.notes,
		Inputs:  pixel(cifarMean, cifarDeviation),
		Classes: []string{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"},
	}
	if o.Tokens {
		set.Vocab, set.Channels, set.Inputs = 256, 0, nil
	}
	test := &graySplit{r.batches[cifarTest].pixels, r.batches[cifarTest].labels, o.Tokens, cifarMean, cifarDeviation}
	train := &graySplit{tokens: o.Tokens, mean: cifarMean, deviation: cifarDeviation}
	for _, b := range r.batches[:cifarTest] {
		train.pixels, train.labels = append(train.pixels, b.pixels...), append(train.labels, b.labels...)
	}
	set.Train, set.Test = train, test
	if held := train.Len() - int(float64(train.Len())*(1-o.Valid)); held > 0 {
		set.Train, set.Valid = heldOut(train, held)
	}
	return set, nil
}

// Mean and deviation of the gray values in the official pipeline.
const cifarMean, cifarDeviation = 122.6, 61.0

// cifarFiles lists the files of the data set. The last is the test file.
var cifarFiles = [...]string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
	"data_batch_5.bin", "test_batch.bin"}

// cifarTest is the index of the test file.
const cifarTest = len(cifarFiles) - 1

// cifarReader collects the pictures of all files, in any order of the files.
type cifarReader struct {
	batches [len(cifarFiles)]struct {
		pixels []byte
		labels []int32
	}
	notes []string
}

func (r *cifarReader) readFolder(ctx context.Context, folder string) error {
	for _, name := range cifarFiles {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := imageOrigin.read(filepath.Join(folder, name),
			func(from io.Reader) error { return r.add(name, from) }); err != nil {
			return err
		}
	}
	return nil
}

// add reads a file of the data set. Other files are ignored.
func (r *cifarReader) add(name string, from io.Reader) error {
	for i, known := range cifarFiles {
		if path.Base(name) != known {
			continue
		}
		b := &r.batches[i]
		b.labels, b.pixels = b.labels[:0], b.pixels[:0]
		var record [cifarRecord]byte
		for n := 0; ; n++ {
			if _, err := io.ReadFull(from, record[:]); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("%s: picture %d, at byte %d, is cut short, want records of %d bytes: %w", name, n,
					n*cifarRecord, cifarRecord, err)
			}
			if record[0] >= cifarClasses {
				return fmt.Errorf("%s: picture %d, at byte %d, has class %d, want 0 to %d", name, n,
					n*cifarRecord, record[0], cifarClasses-1)
			}
			b.labels = append(b.labels, int32(record[0]))
			b.pixels = appendGray(b.pixels, record[1:])
		}
	}
	return nil
}

// check returns an error if files are missing or empty in the folder or archive at. It adds a note for each incomplete
// file.
func (r *cifarReader) check(at string) error {
	for i, name := range cifarFiles {
		switch n := len(r.batches[i].labels); {
		case n == 0:
			return imageOrigin.damaged(at, "%s is missing or empty", name)
		case n != cifarBatch:
			r.notes = append(r.notes,
				fmt.Sprintf("%s has %d pictures and not %d: scores do not compare with the paper's",
					name, n, cifarBatch))
		}
	}
	return nil
}

// appendGray appends the gray values of a picture. Its red, green and blue planes follow one another. They are weighted
// as in ITU-R 601-2 and rounded as in Pillow, which the official pipeline uses.
func appendGray(dst, planes []byte) []byte {
	n := len(planes) / 3
	for i := range n {
		red, green, blue := uint32(planes[i]), uint32(planes[n+i]), uint32(planes[2*n+i])
		dst = append(dst, byte((19595*red+38470*green+7471*blue+1<<15)>>16))
	}
	return dst
}

// graySplit is a Split of pictures of the same size. Each pixel is a position.
type graySplit struct {
	pixels          []byte // one picture after another
	labels          []int32
	tokens          bool
	mean, deviation float32
}

func (s *graySplit) Len() int { return len(s.labels) }

func (s *graySplit) Example(i int, ex *Example) {
	n := len(s.pixels) / len(s.labels)
	ex.Reset()
	ex.addGray(s.pixels[i*n:(i+1)*n], s.tokens, s.mean, s.deviation)
	ex.Targets = append(ex.Targets, s.labels[i])
}

// addGray appends gray values from 0 to 255, either as tokens or as the numbers (value - mean)/deviation.
func (ex *Example) addGray(pixels []byte, tokens bool, mean, deviation float32) {
	for _, p := range pixels {
		if tokens {
			ex.Tokens = append(ex.Tokens, int32(p))
		} else {
			ex.Values = append(ex.Values, (float32(p)-mean)/deviation)
		}
	}
}
