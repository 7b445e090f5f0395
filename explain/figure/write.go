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

// writers maps file name extensions to functions that write a page.
var writers = map[string]func(*Page, io.Writer) error{
	".html": (*Page).WriteHTML, ".json": (*Page).WriteJSON, ".npz": (*Page).WriteNPZ,
}

// drawers maps file name extensions to functions that draw one figure.
var drawers = map[string]func(f *Figure, frame int, w io.Writer) error{
	".png": (*Figure).WritePNG, ".svg": (*Figure).WriteSVG,
}

// Endings returns the extensions of the files that Write can write, in the order of the help text.
func Endings() []string { return []string{".html", ".png", ".svg", ".json", ".npz"} }

// CheckEnding returns an error if the extension of a file name does not determine a format.
func CheckEnding(path string) error {
	if !slices.Contains(Endings(), strings.ToLower(filepath.Ext(path))) {
		return fmt.Errorf("%s: found the ending %q, want one of %s", path, filepath.Ext(path),
			strings.Join(Endings(), ", "))
	}
	return nil
}

// Write writes a page atomically to the file at path. The extension determines the format. PNG and SVG show one frame
// of each figure. If there are several figures, each has its own file, NAME-FIGURE.png. Write returns the names of the
// files.
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
		// A figure with one frame is the same at every frame of the others.
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

// WriteJSON writes a page as JSON, which Read can read.
func (p *Page) WriteJSON(w io.Writer) error {
	if err := p.Check(); err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(p)
}

// Read reads a page that WriteJSON has written. The file may come from anyone: if something is invalid, the error names
// it.
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
