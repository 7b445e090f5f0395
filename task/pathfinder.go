package task

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Pathfinder is the task of that name of the Long Range Arena (arXiv:2011.04006, §2.5), after Linsley et al. 2018
// (arXiv:1805.08315): does one path connect the two dots in a picture of dashed paths, read pixel by pixel? Gray
// values, the difficulty and the splits follow state-spaces/s4, src/dataloaders/lra.py: 160,000 sequences of 1,024
// numbers for training, 20,000 held out and 20,000 for testing.
//
// Without the files, generate=true draws similar pictures. Their scores are not scores of the benchmark.
var Pathfinder = &Task{
	Name: "pathfinder", Group: "long range arena",
	About:   "a picture of 32 by 32, pixel by pixel: does a dashed path join the two dots?",
	Source:  "Long Range Arena, arXiv:2011.04006; Linsley et al. 2018, arXiv:1805.08315",
	Files:   pathfinderFiles(32),
	Options: func() any { o := pathfinderDefaults; return &o },
	Open: func(ctx context.Context, dir string, options any) (*Set, error) {
		return openPathfinder(ctx, dir, pathfinderOrigin, 32, *options.(*PathfinderOptions))
	},
}

// PathX is Pathfinder on pictures of 128 by 128: sequences of 16,384 numbers (arXiv:2011.04006, §2.6).
var PathX = &Task{
	Name: "path-x", Group: "long range arena",
	About:   "a picture of 128 by 128, pixel by pixel: does a dashed path join the two dots?",
	Source:  Pathfinder.Source,
	Files:   pathfinderFiles(128),
	Options: Pathfinder.Options,
	Open: func(ctx context.Context, dir string, options any) (*Set, error) {
		return openPathfinder(ctx, dir, pathXOrigin, 128, *options.(*PathfinderOptions))
	},
}

// PathfinderOptions holds the options of Pathfinder and PathX.
type PathfinderOptions struct {
	Side     int    `json:"side" min:"0" max:"128" help:"side of the pictures: 32, 64 or 128; 0: the task's"`
	Tokens   bool   `json:"tokens" help:"gray values are 256 tokens, as for LRA's transformers, not numbers"`
	Generate bool   `json:"generate" help:"draw pictures like the benchmark's; scores do not compare with it"`
	Train    int    `json:"train" min:"1" max:"10000000" help:"pictures drawn to train"`
	Test     int    `json:"test" min:"1" max:"1000000" help:"pictures drawn to test, and as many held out"`
	Seed     uint64 `json:"seed" help:"seed of the drawings"`
}

// pathfinderDefaults sets the numbers of pictures of the benchmark.
var pathfinderDefaults = PathfinderOptions{Train: 160000, Test: 20000, Seed: 1}

// pathfinderLevel is the folder of the arena's level of difficulty: paths of 14 dashes.
const pathfinderLevel = "curv_contour_length_14"

var (
	pathfinderOrigin = origin{"pathfinder",
		"Long Range Arena (lra_release.gz; without it generate=true draws pictures like them)", arenaURL}
	pathXOrigin = origin{"path-x", pathfinderOrigin.data, arenaURL}
)

func pathfinderFiles(side int) string {
	return fmt.Sprintf("pathfinder%d/%s/imgs/*/*.png and metadata/*.npy: %s", side,
		pathfinderLevel, pathfinderOrigin.about())
}

// openPathfinder reads or draws the data of both tasks.
func openPathfinder(ctx context.Context, dir string, from origin, side int, o PathfinderOptions) (*Set, error) {
	if o.Side != 0 {
		side = o.Side
	}
	kind, ok := pathKinds[side]
	if !ok {
		return nil, fmt.Errorf("side: found %d, want 32, 64 or 128", side)
	}
	set := &Set{Outputs: 2, Channels: 1, MaxLength: side * side, Inputs: pixel(127.5, 127.5),
		Classes: []string{"apart", "joined"}}
	if o.Tokens {
		set.Vocab, set.Channels, set.Inputs = 256, 0, nil
	}
	if o.Generate {
		set.Notes = []string{
			"the pictures are drawn by this program: scores on them are not scores of the Long Range Arena"}
		split := func(stream uint64, n int) Split { return drawnPaths(kind, o.Tokens, o.Seed, stream, n) }
		set.Train, set.Valid, set.Test = split(trainStream, o.Train), split(validStream, o.Test),
			split(testStream, o.Test)
		return set, nil
	}
	all := &pngSplit{side: side, tokens: o.Tokens}
	folder, err := all.find(from, dir)
	if err != nil {
		return nil, err
	}
	if err := all.readFolder(ctx, folder); err != nil {
		return nil, from.damaged(folder, "%w", err)
	}
	part := all.Len() / 10
	if part == 0 {
		return nil, from.damaged(folder,
			"found %d pictures, want at least 10: one tenth is held out, one for testing", all.Len())
	}
	if all.Len() != pathfinderPictures {
		set.Notes = append(set.Notes,
			fmt.Sprintf("found %d pictures and not the %d of the benchmark: scores do not compare with the paper's",
				all.Len(), pathfinderPictures))
	}
	order := torchPermutation(all.Len(), officialSeed) // divided as by random_split
	train := all.Len() - 2*part
	set.Train, set.Valid, set.Test = picked{all, order[:train]}, picked{all, order[train : train+part]},
		picked{all, order[train+part:]}
	return set, nil
}

// pathfinderPictures is the number of pictures for each size and difficulty.
const pathfinderPictures = 200000

// pngSplit is a Split of pictures that stay compressed in memory and are decoded on demand. A compressed picture takes
// a hundredth of the memory of its pixels.
type pngSplit struct {
	side   int
	tokens bool
	files  textList
	labels []int32
}

func (s *pngSplit) Len() int { return len(s.labels) }

func (s *pngSplit) Example(i int, ex *Example) {
	ex.Reset()
	pixels, _ := decodeGray(s.files.at(i), s.side) // no error: it was decoded before, when it was read
	ex.addGray(pixels, s.tokens, 127.5, 127.5)
	ex.Targets = append(ex.Targets, s.labels[i])
}

// find returns the folder of the pictures.
func (s *pngSplit) find(from origin, dir string) (string, error) {
	var layouts []string
	for _, above := range []string{"", "lra_release/", "lra_release/lra_release/"} {
		layouts = append(layouts, fmt.Sprintf("%spathfinder%d/%s/metadata/", above, s.side, pathfinderLevel))
	}
	at, err := from.find(dir, append(layouts, pathfinderLevel+"/metadata/")...)
	return filepath.Dir(at), err
}

// readFolder reads the pictures of the arena in the order of the official pipeline: by the number of the metadata file.
func (s *pngSplit) readFolder(ctx context.Context, folder string) error {
	lists, err := filepath.Glob(filepath.Join(folder, "metadata", "*.npy"))
	if err != nil {
		return err
	}
	type list struct {
		number int
		name   string
	}
	var numbered []list
	for _, name := range lists {
		number, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), ".npy"))
		if err != nil {
			return fmt.Errorf("%s: want a number for a name, such as 0.npy", name)
		}
		numbered = append(numbered, list{number, name})
	}
	if len(numbered) == 0 {
		return errors.New("metadata has no *.npy")
	}
	slices.SortFunc(numbered, func(a, b list) int { return cmp.Compare(a.number, b.number) })
	for _, l := range numbered {
		if err := s.readList(ctx, folder, l.name); err != nil {
			return err
		}
	}
	return nil
}

// readList reads the pictures listed in a metadata file. The file is text in spite of its extension. Each line contains
// the folder, the file, a number, the class and more.
func (s *pngSplit) readList(ctx context.Context, folder, list string) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(text, []byte("\x93NUMPY")) {
		return fmt.Errorf("%s: is an array of NumPy, want the lines of text of lra_release.gz", list)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.readPicture(folder, lines.Text()); err != nil {
			return fmt.Errorf("%s, line %d: %w", list, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	return nil
}

// readPicture reads the picture that is named in a line of metadata.
func (s *pngSplit) readPicture(folder, line string) error {
	fields := strings.Fields(line)
	if len(fields) < 4 {
		return fmt.Errorf("found %d columns, want folder, file, number, class and more", len(fields))
	}
	name := filepath.Join(filepath.FromSlash(fields[0]), fields[1])
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%.80q points outside of the data set", name)
	}
	label, err := strconv.Atoi(fields[3])
	if err != nil || label < 0 || label > 1 {
		return fmt.Errorf("class: found %.40q, want 0 or 1", fields[3])
	}
	packed, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return err
	}
	if _, err := decodeGray(packed, s.side); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.files.add(packed)
	s.labels = append(s.labels, int32(label))
	return nil
}

// decodeGray decodes a picture of side by side pixels.
func decodeGray(packed []byte, side int) ([]byte, error) {
	header, err := png.DecodeConfig(bytes.NewReader(packed))
	if err == nil && (header.Width != side || header.Height != side) { // check before memory is allocated
		err = fmt.Errorf("found %d by %d pixels, want %d by %d", header.Width, header.Height, side, side)
	}
	if err != nil {
		return nil, err
	}
	picture, err := png.Decode(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	if gray, ok := picture.(*image.Gray); ok && gray.Stride == side {
		return gray.Pix, nil
	}
	if picture.Bounds().Empty() {
		return nil, errors.New("the picture is empty")
	}
	pixels := make([]byte, 0, side*side)
	for y := range side {
		for x := range side {
			at := picture.Bounds().Min.Add(image.Pt(x, y))
			pixels = append(pixels, color.GrayModel.Convert(picture.At(at.X, at.Y)).(color.Gray).Y)
		}
	}
	return pixels, nil
}
