// Package events writes the measurements of a training run in two forms: TensorBoard event files ([Writer]) and lines
// of JSON ([Metrics]). Both support a run that is killed and resumed: records beyond its last checkpoint are purged
// when it resumes.
//
// An event file is a sequence of TFRecord frames (record.go), each with one Event protocol buffer (proto.go). The
// formats are TensorBoard's, tensorboard/compat/proto/{event,summary,tensor}.proto.
package events

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// fileVersion is the content of the first event of every file.
const fileVersion = "brain.Event:2"

// A Writer writes one event file. It is not safe for concurrent use. After an error all its methods return that error.
type Writer struct {
	file     *os.File
	buf      *bufio.Writer
	wallTime func() time.Time
	event    []byte // reused from event to event
	err      error
}

// NewWriter starts a new event file in dir, which it creates if needed. first is the first step that will be written: 0
// for a new run, or one more than the checkpoint's for a resumed one. TensorBoard then drops the steps from there on
// that earlier files contain. wallTime is the clock of the events, usually [time.Now].
func NewWriter(dir string, first int64, wallTime func() time.Time) (*Writer, error) {
	if first < 0 {
		return nil, fmt.Errorf("events: first step: found %d, want at least 0", first)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	file, err := createNext(dir, wallTime().Unix())
	if err != nil {
		return nil, err
	}
	w := &Writer{file: file, buf: bufio.NewWriter(file), wallTime: wallTime}
	w.write(appendFileVersion(w.start(first), fileVersion))
	// TensorBoard takes the first START of a folder as the start of the run and every later one as a restart, which
	// purges (EventAccumulator._CheckForRestartAndMaybePurge).
	w.write(appendSessionStart(w.start(first)))
	if err := w.Flush(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return w, nil
}

// createNext creates the file that comes after all event files of dir. TensorBoard reads them in the order of their
// names, which begin with the time in seconds. A file started in the same second, or after the clock was set back,
// takes the next free number.
func createNext(dir string, second int64) (*os.File, error) {
	const pattern = "events.out.tfevents.%010d.hippo"
	old, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range old {
		var s int64
		if _, err := fmt.Sscanf(f.Name(), "events.out.tfevents.%d.", &s); err == nil && s >= second {
			second = s + 1
		}
	}
	name := filepath.Join(dir, fmt.Sprintf(pattern, second))
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// Scalar writes one point of the curve named tag. TensorBoard keeps it as a float32.
func (w *Writer) Scalar(step int64, tag string, v float64) error {
	return w.write(appendScalar(w.start(step), tag, float32(v)))
}

// Text writes a text, for example a sample of the model, which TensorBoard shows as Markdown.
func (w *Writer) Text(step int64, tag, text string) error {
	return w.write(appendText(w.start(step), tag, text))
}

// start begins an event at a step, in the reused buffer.
func (w *Writer) start(step int64) []byte {
	now := w.wallTime()
	return appendEventHead(w.event[:0], float64(now.UnixNano())/1e9, step)
}

func (w *Writer) write(event []byte) error {
	w.event = event
	if w.err == nil {
		w.err = writeRecord(w.buf, event)
	}
	return w.err
}

// Flush passes everything written so far to the operating system.
func (w *Writer) Flush() error {
	if w.err == nil {
		w.err = w.buf.Flush()
	}
	return w.err
}

// Close flushes and closes the file.
func (w *Writer) Close() error {
	err := errors.Join(w.Flush(), w.file.Close())
	if w.err == nil {
		w.err = os.ErrClosed
	}
	return err
}
