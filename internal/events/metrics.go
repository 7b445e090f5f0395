package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Metrics appends measurements to a file of JSON lines, one object each, whose first field is the step:
//
//	{"step":100,"loss":3.25,"lr":0.0006}
//
// Every line is passed to the operating system in one write, so that a killed process leaves at most its last line
// torn. Metrics is not safe for concurrent use.
type Metrics struct {
	file *os.File
	line bytes.Buffer // reused from line to line
}

// OpenMetrics opens the file of a run, or creates it. It removes lines of step first and later, which a killed run
// wrote beyond its last checkpoint, and a torn last line; the file is replaced as a whole or not at all. first is 0 for
// a new run, or one more than the checkpoint's step for a resumed one.
func OpenMetrics(path string, first int64) (*Metrics, error) {
	if err := purge(path, first); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	return &Metrics{file: file}, nil
}

// Append writes one line: the step, then the fields of v, a struct (in the order of declaration) or a map (in the order
// of the keys), as encoding/json writes them. v must not have a field "step" of its own. Numbers that may be NaN or
// infinite, which JSON cannot hold, should be of type [Float].
func (m *Metrics) Append(step int64, v any) error {
	object, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: step %d: %w", m.file.Name(), step, err)
	}
	if object[0] != '{' {
		return fmt.Errorf("%s: step %d: found %T, want a struct or a map", m.file.Name(), step, v)
	}
	m.line.Reset()
	m.line.WriteString(`{"step":`)
	m.line.WriteString(strconv.FormatInt(step, 10))
	if len(object) > len("{}") {
		m.line.WriteByte(',')
	}
	m.line.Write(object[1:])
	m.line.WriteByte('\n')
	_, err = m.file.Write(m.line.Bytes())
	return err
}

// Close makes the lines durable and closes the file.
func (m *Metrics) Close() error { return errors.Join(m.file.Sync(), m.file.Close()) }

// Float is a float64 that is null in JSON when NaN or infinite.
type Float float64

// MarshalJSON implements [json.Marshaler].
func (f Float) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// purge removes the lines that OpenMetrics describes from the file.
func purge(path string, first int64) error {
	// The file is read as a whole: a line has some 200 bytes and stands for a second of training or more.
	old, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	before, err := earlier(old, first)
	if err != nil {
		return fmt.Errorf("%s:%w", path, err)
	}
	if len(before) == len(old) {
		return nil
	}
	return disk.WriteBytes(path, before)
}

// earlier returns the lines of steps before first. Errors begin with the line's number.
func earlier(old []byte, first int64) ([]byte, error) {
	before := make([]byte, 0, len(old))
	for n := 1; len(old) > 0; n++ {
		line, rest, ended := bytes.Cut(old, []byte{'\n'})
		old = rest
		if !ended {
			break // torn
		}
		var at struct {
			Step *int64 `json:"step"`
		}
		if err := json.Unmarshal(line, &at); err != nil || at.Step == nil {
			if len(old) == 0 {
				break // after a crash of the machine, a last line may have its end and still be garbage
			}
			return nil,
				fmt.Errorf(`%d: found %.60q, want a JSON object with an integer "step"; mend or remove the line`,
					n, line)
		}
		if *at.Step < first {
			before = append(append(before, line...), '\n')
		}
	}
	return before, nil
}
