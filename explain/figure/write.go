package figure

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// writers write a page as a file, by its ending.
var writers = map[string]func(*Page, io.Writer) error{
	".html": (*Page).WriteHTML, ".json": (*Page).WriteJSON, ".npz": (*Page).WriteNPZ,
}

// drawers write one figure as a file, by its ending.
var drawers = map[string]func(f *Figure, frame int, w io.Writer) error{
	".png": (*Figure).WritePNG, ".svg": (*Figure).WriteSVG,
}

// Endings are the endings of the names of files that Write can write, in the order in which help lists them.
func Endings() []string { return []string{".html", ".png", ".svg", ".json", ".npz"} }

// CheckEnding says what is wrong with the name of a file to write to: an ending that says no format.
func CheckEnding(path string) error {
	if !slices.Contains(Endings(), strings.ToLower(filepath.Ext(path))) {
		return fmt.Errorf("%s: found the ending %q, want one of %s", path, filepath.Ext(path),
			strings.Join(Endings(), ", "))
	}
	return nil
}

// Write writes a page into the file at path, in the format that its ending says, all of it or nothing. PNG and SVG have
// one frame of each figure: with several figures there is a file for each, NAME-FIGURE.png. It returns the files that
// were written.
func (p *Page) Write(path string, frame int) (files []string, err error) {
	if err := CheckEnding(path); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	ending := strings.ToLower(filepath.Ext(path))
	if write, ok := writers[ending]; ok {
		return []string{path}, disk.WriteFile(path, func(w io.Writer) error { return write(p, w) })
	}
	for _, f := range p.Figures {
		// A figure of one frame is the same at every frame of the others.
		if n := len(f.Frames); n > 1 && (frame < 0 || frame >= n) {
			return nil, fmt.Errorf("figure %s: found frame %d, want one from 0 to %d", f.Name, frame, n-1)
		}
	}
	for _, f := range p.Figures {
		to := path
		if len(p.Figures) > 1 {
			to = strings.TrimSuffix(path, filepath.Ext(path)) + "-" + f.Name + filepath.Ext(path)
		}
		at := min(frame, len(f.Frames)-1)
		if err := disk.WriteFile(to, func(w io.Writer) error { return drawers[ending](f, at, w) }); err != nil {
			return files, err
		}
		files = append(files, to)
	}
	return files, nil
}

// WriteJSON writes a page as JSON, which Read reads.
func (p *Page) WriteJSON(w io.Writer) error {
	if err := p.Check(); err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(p)
}

// Read reads a page that WriteJSON has written. The file may be anybody's: what does not fit is an error that names it.
func Read(path string) (*Page, error) {
	p := new(Page)
	if err := disk.ReadJSON(path, p); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}
