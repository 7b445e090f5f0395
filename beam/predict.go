package hippobeam

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/fileio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/hippo-ssm/hippo/fit"
)

func init() {
	register.DoFn3x1[context.Context, fileio.ReadableFile, func(string), error](&predictFn{})
}

// Predict predicts the rows of files, which are results of fileio.ReadMatches, with the network of a folder. For each
// row of hippo predict it emits a line {"file": PATH, "row": {...}}. It reads each file in order, as its rows may be a
// series. For a file that cannot be read it emits a line {"file": PATH, "error": TEXT}.
func Predict(s beam.Scope, files beam.PCollection, dir string) beam.PCollection {
	return beam.ParDo(s.Scope("hippobeam.Predict"), &predictFn{Dir: dir}, files)
}

// predictFn predicts files.
type predictFn struct {
	Dir string

	model *fit.Model
}

var networks once[*fit.Model]

// Setup opens the network, unless this process has already opened it.
func (f *predictFn) Setup(context.Context) (err error) {
	f.model, err = networks.open(f.Dir, func() (*fit.Model, error) { return fit.Open(f.Dir) })
	return err
}

// predicted is a line of the output.
type predicted struct {
	File  string          `json:"file"`
	Row   json.RawMessage `json:"row,omitempty"`
	Error string          `json:"error,omitempty"`
}

// ProcessElement predicts a file.
func (f *predictFn) ProcessElement(ctx context.Context, file fileio.ReadableFile, emit func(string)) error {
	out := &rows{file: file.Metadata.Path, emit: emit}
	err := f.predict(ctx, file, out)
	switch {
	case out.err != nil || ctx.Err() != nil:
		return errors.Join(out.err, ctx.Err())
	case err != nil:
		return out.line(predicted{File: out.file, Error: err.Error()})
	}
	return nil
}

func (f *predictFn) predict(ctx context.Context, file fileio.ReadableFile, out *rows) error {
	local, remove, err := here(ctx, file)
	if err != nil {
		return err
	}
	defer remove()
	w := fit.NewWriter(out, f.model.Plan(), fit.WriteOptions{As: fit.AsJSONL})
	err = f.model.Predict(ctx, []string{local}, nil, fit.PredictOptions{Options: fit.DefaultReadOptions()}, w.Write)
	if err != nil {
		return err
	}
	return w.Close()
}

// here returns the path of a file on this machine, to which it copies the file if necessary.
func here(ctx context.Context, file fileio.ReadableFile) (local string, remove func(), err error) {
	if _, err := os.Stat(file.Metadata.Path); err == nil {
		return file.Metadata.Path, func() {}, nil
	}
	in, err := file.Open(ctx)
	if err != nil {
		return "", nil, err
	}
	defer in.Close()
	tmp, err := os.CreateTemp("", "hippo-beam-*"+path.Ext(file.Metadata.Path)) // the extension determines the format
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.Remove(tmp.Name()) }
	if _, err = io.Copy(tmp, in); err == nil {
		err = tmp.Close()
	}
	if err != nil {
		tmp.Close()
		remove()
	}
	return tmp.Name(), remove, err
}

// rows emits each line that is written to it.
type rows struct {
	file string
	emit func(string)
	part []byte // incomplete line
	err  error
}

func (r *rows) Write(p []byte) (int, error) {
	r.part = append(r.part, p...)
	for r.err == nil {
		text, rest, ok := bytes.Cut(r.part, []byte("\n"))
		if !ok {
			break
		}
		r.err = r.line(predicted{File: r.file, Row: bytes.Clone(text)})
		r.part = rest
	}
	return len(p), r.err
}

func (r *rows) line(p predicted) error {
	text, err := json.Marshal(p)
	if err == nil {
		r.emit(string(text))
	}
	return err
}
