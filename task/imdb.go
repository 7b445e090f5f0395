package task

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Text is the byte-level text task of the Long Range Arena (arXiv:2011.04006, §2.2): is a film review of IMDb, read
// letter by letter, positive? The letters, the length and the splits follow state-spaces/s4, src/dataloaders/lra.py,
// which gave the published results of state-space models. There are 25,000 reviews for training and 25,000 for testing,
// of at most 4,096 characters including the end mark. A character that occurs fewer than 15 times in training is
// unknown.
var Text = &Task{
	Name: "text", Group: "long range arena",
	About:   "a film review, letter by letter: is it positive?",
	Source:  "Long Range Arena, arXiv:2011.04006; reviews of Maas et al. 2011",
	Files:   "aclImdb/train/pos/*.txt and so on, or aclImdb_v1.tar.gz: " + textOrigin.about(),
	Options: func() any { return &textOptions{Units: "characters", MaxLength: 4096, MinCount: 15} },
	Open: func(ctx context.Context, dir string, options any) (*Set, error) {
		return openText(ctx, dir, *options.(*textOptions))
	},
}

var textOrigin = origin{"text", "Large Movie Review Dataset", "https://ai.stanford.edu/~amaas/data/sentiment/"}

type textOptions struct {
	Units     string  `json:"units" enum:"characters,bytes" help:"characters as in S4, or bytes as in the first LRA"`
	MaxLength int     `json:"max_length" min:"2" max:"65536" help:"positions with the end mark; longer reviews are cut"`
	MinCount  int     `json:"min_count" min:"1" max:"1000000" help:"characters rarer in training become unknown"`
	Valid     float64 `json:"valid" min:"0" max:"0.9" help:"fraction of the training reviews held out; officially 0"`
}

// openText reads the data of Text.
func openText(ctx context.Context, dir string, o textOptions) (*Set, error) {
	reviews, err := readIMDb(ctx, dir, o.MaxLength)
	if err != nil {
		return nil, err
	}
	bytes := o.Units == "bytes"
	var counts characterCounts
	set := &Set{Outputs: 2, MaxLength: o.MaxLength, Classes: []string{"negative", "positive"}}
	var splits [2]*textSplit
	for i, name := range imdbSplits {
		s := &textSplit{limit: o.MaxLength}
		for _, r := range reviews[i] {
			s.texts.add(r.text)
			s.labels = append(s.labels, r.label)
			if i == 0 {
				counts.add(cutText(r.text, o.MaxLength-1, bytes), 1)
			}
		}
		splits[i] = s
		if n := len(s.labels); n != imdbReviews {
			set.Notes = append(set.Notes, fmt.Sprintf("%s has %d reviews and not the %d of the published data: "+
				"scores do not compare with the paper's", name, n, imdbReviews))
		}
	}
	codes := &characters{bytes: bytes}
	if !bytes {
		codes = counts.characters(o.MinCount)
	}
	set.Vocab = codes.size()
	for _, s := range splits {
		s.codes = codes
	}
	set.Train, set.Test = splits[0], splits[1]
	if held := int(o.Valid * float64(splits[0].Len())); held > 0 {
		set.Train, set.Valid = heldOut(splits[0], held)
	}
	return set, nil
}

// imdbReviews is the number of reviews in each split.
const imdbReviews = 25000

var imdbSplits = [2]string{"train", "test"}

// review is one file of the data set.
type review struct {
	label int32  // 1 if the review is positive
	name  string // name of the file, without its folder
	text  []byte // only the part that is used
}

// imdbReader collects the reviews of both splits, in any order of the files.
type imdbReader struct {
	reviews   [2][]review
	maxLength int
}

// readIMDb reads the reviews from the archive or from the folder. The reviews of a split are sorted by label and name,
// so that an archive and a folder give the same order.
func readIMDb(ctx context.Context, dir string, maxLength int) ([2][]review, error) {
	r := &imdbReader{maxLength: maxLength}
	at, err := textOrigin.find(dir, "aclImdb/train/pos/", "train/pos/", "aclImdb_v1.tar.gz")
	switch {
	case err == nil && filepath.Ext(at) == ".gz":
		err = textOrigin.read(at, func(from io.Reader) error { return eachInTar(ctx, from, r.add) })
	case err == nil:
		err = r.readFolder(ctx, filepath.Dir(filepath.Dir(at)))
	}
	if err != nil {
		return r.reviews, err
	}
	for i, split := range imdbSplits {
		if err := r.check(split, r.reviews[i]); err != nil {
			return r.reviews, textOrigin.damaged(folder(dir), "%w", err)
		}
		slices.SortFunc(r.reviews[i], func(a, b review) int {
			if a.label != b.label {
				return int(a.label - b.label)
			}
			return strings.Compare(a.name, b.name)
		})
	}
	return r.reviews, nil
}

// check returns an error if a split has no positive or no negative reviews.
func (r *imdbReader) check(split string, reviews []review) error {
	var n [2]int
	for _, x := range reviews {
		n[x.label]++
	}
	if n[0] == 0 || n[1] == 0 {
		return fmt.Errorf("found %d reviews in %s/neg and %d in %s/pos, want both", n[0], split, n[1], split)
	}
	return nil
}

func (r *imdbReader) readFolder(ctx context.Context, folder string) error {
	for _, split := range imdbSplits {
		for _, kind := range []string{"neg", "pos"} {
			at := filepath.Join(folder, split, kind)
			entries, err := os.ReadDir(at)
			if err != nil {
				return textOrigin.damaged(at, "%w", err)
			}
			for _, e := range entries {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := r.addFile(filepath.Join(at, e.Name()), path.Join(split, kind, e.Name())); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *imdbReader) addFile(file, name string) error {
	return textOrigin.read(file, func(from io.Reader) error { return r.add(name, from) })
}

// add stores a file of the data set if the last three parts of its path are the name of a review with a label.
func (r *imdbReader) add(name string, from io.Reader) error {
	parts := strings.Split(path.Clean(name), "/")
	if len(parts) < 3 || path.Ext(name) != ".txt" {
		return nil
	}
	parts = parts[len(parts)-3:]
	split := slices.Index(imdbSplits[:], parts[0])
	label := slices.Index([]string{"neg", "pos"}, parts[1])
	if split < 0 || label < 0 {
		return nil // reviews in train/unsup have no labels
	}
	text, err := io.ReadAll(io.LimitReader(from, int64(4*r.maxLength))) // a character has at most four bytes
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(text) == 0 {
		return fmt.Errorf("%s: the file is empty, want a review", name)
	}
	r.reviews[split] = append(r.reviews[split], review{int32(label), parts[2], text})
	return nil
}

// eachInTar calls use for each file of an archive. Errors contain the name of the last entry that was read.
func eachInTar(ctx context.Context, from io.Reader, use func(name string, from io.Reader) error) error {
	archive := tar.NewReader(from)
	last := "its start"
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && header.Typeflag == tar.TypeReg {
			err = use(header.Name, archive)
		}
		if err != nil {
			return fmt.Errorf("after %s: %w", last, err)
		}
		last = header.Name
	}
}
