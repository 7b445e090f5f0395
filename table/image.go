package table

import (
	"fmt"
	"image"
	"image/color"
	_ "image/gif"  // formats of images
	_ "image/jpeg" // likewise
	_ "image/png"  // likewise
	"io"
	"path/filepath"
)

// Image is a picture as a sequence with one row per pixel, line by line: its gray value, 0 to 255, or red, green and
// blue.
var Image = &Format{
	Name: "image", About: "pictures as sequences of pixels; in folders, whose names are the classes",
	Extensions: []string{".png", ".jpg", ".jpeg", ".gif"}, Open: openImage,
}

// mostPixels is the maximum number of pixels of a picture in memory.
const mostPixels = 1 << 26

// mostImage is the maximum size of a picture's file, in bytes.
const mostImage = 1 << 28

func openImage(in *Input, _ *Options) (Source, error) {
	if in.File == nil {
		return nil, fmt.Errorf("%s: found a stream, want a file", in.Name)
	}
	if in.Size > mostImage {
		return nil, fmt.Errorf("%s: found %d bytes, want a picture of at most %d", in.Name, in.Size, mostImage)
	}
	c, _, err := image.DecodeConfig(io.NewSectionReader(in.File, 0, in.Size))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	if c.Width < 1 || c.Height < 1 || c.Width > mostPixels/c.Height {
		return nil, fmt.Errorf("%s: found %d x %d pixels, want at most %d in all", in.Name, c.Width, c.Height,
			mostPixels)
	}
	m, _, err := image.Decode(io.NewSectionReader(in.File, 0, in.Size))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	gray := c.ColorModel == color.GrayModel || c.ColorModel == color.Gray16Model
	s := &recordSource{unit: "pixel"}
	s.about = About{Columns: []string{"red", "green", "blue"}, Sequences: true}
	if gray {
		s.about.Columns = []string{"gray"}
	}
	b := m.Bounds()
	s.next = once(&record{
		place: Place{in.Name, "pixel", 1}, name: filepath.Base(in.Name), n: b.Dx() * b.Dy(),
		cell: func(row, i int) Cell {
			red, green, blue, _ := m.At(b.Min.X+row%b.Dx(), b.Min.Y+row/b.Dx()).RGBA() // 16 bits each
			return RealCell(float64([]uint32{red, green, blue}[i]) / 257)
		},
	})
	return s, nil
}
