package dashboard

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// series holds the values of a measurement. A value that is not finite is NaN.
type series struct {
	step    []int64
	seconds []float64 // since the start of the run
	value   []float64
}

// Sample is a text that a model in training has generated.
type Sample struct {
	Step int64  `json:"step"`
	Text string `json:"text"`
}

// metrics holds the measurements of a run that have been read so far.
type metrics struct {
	file    os.FileInfo
	read    int64  // number of bytes read, up to the end of a line
	tail    []byte // the last of these bytes, which reveal a replaced file
	version int64  // grows with each change
	series  map[string]*series
	samples []Sample
	bad     int // invalid lines
}

const (
	maxLine    = 1 << 20
	maxTail    = 256
	maxSamples = 200 // the latest ones are kept
	maxSeries  = 64
)

// measured reads the measurements written since the last call, and returns all of them.
func (r *folder) measured() (*metrics, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	file, info, err := disk.Open(filepath.Join(r.dir, metricsFile))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	before := r.metrics
	m := &metrics{series: map[string]*series{}}
	if before != nil && before.continues(file, info) { // otherwise a resumed run has replaced it
		m = before.clone()
	}
	m.file = info
	if err := m.add(io.NewSectionReader(file, m.read, info.Size()-m.read)); err != nil {
		return nil, err
	}
	if before == nil || m.version == 0 || m.read != before.read {
		m.version = time.Now().UnixMicro() // unique, even if the program was restarted
		if before != nil {
			m.version = max(m.version, before.version+1)
		}
		m.tail = make([]byte, min(m.read, maxTail))
		if _, err := file.ReadAt(m.tail, m.read-int64(len(m.tail))); err != nil {
			return nil, err
		}
	}
	r.metrics = m
	return m, nil
}

// continues reports whether a file starts with the bytes that these metrics were read from. It compares bytes, as a new
// file may have the same inode as the old one.
func (m *metrics) continues(file io.ReaderAt, info os.FileInfo) bool {
	if !os.SameFile(m.file, info) || info.Size() < m.read {
		return false
	}
	tail := make([]byte, len(m.tail))
	_, err := file.ReadAt(tail, m.read-int64(len(tail)))
	return err == nil && bytes.Equal(tail, m.tail)
}

// clone returns a copy of the metrics to which lines can be added while other goroutines read m.
func (m *metrics) clone() *metrics {
	c := *m
	c.series = make(map[string]*series, len(m.series))
	for name, s := range m.series {
		copied := *s
		c.series[name] = &copied
	}
	c.samples = slices.Clone(m.samples)
	return &c
}

// add reads lines. It leaves an incomplete last line for the next call.
func (m *metrics) add(r io.Reader) error {
	lines := bufio.NewReaderSize(r, 1<<16)
	var text []byte
	size := 0 // bytes of the line; text has at most the first maxLine of them
	for {
		part, err := lines.ReadSlice('\n')
		size += len(part)
		text = append(text, part[:min(len(part), max(0, maxLine-len(text)))]...)
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF: // the last line is still being written
			return nil
		case err != nil:
			return err
		}
		if size > maxLine || !m.line(bytes.TrimSpace(text)) {
			m.bad++
		}
		m.read += int64(size)
		text, size = text[:0], 0
	}
}

// line adds the numbers of a line, and its text if it is a sample. It reports whether the line is valid.
func (m *metrics) line(text []byte) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return false
	}
	var at struct {
		Step    *int64  `json:"step"`
		Seconds float64 `json:"elapsed_s"`
		Sample  *string `json:"sample"`
	}
	if json.Unmarshal(text, &at) != nil || at.Step == nil {
		return false
	}
	if at.Sample != nil {
		m.samples = append(m.samples, Sample{*at.Step, *at.Sample})
		m.samples = m.samples[max(0, len(m.samples)-maxSamples):]
	}
	for name, raw := range fields {
		if name == "step" || name == "elapsed_s" || name == "sample" {
			continue
		}
		var v *float64
		if json.Unmarshal(raw, &v) != nil {
			continue // not a number
		}
		s := m.series[name]
		if s == nil {
			if len(m.series) == maxSeries {
				continue
			}
			s = &series{}
			m.series[name] = s
		}
		if v == nil { // the value is not finite
			nan := math.NaN()
			v = &nan
		}
		s.step, s.seconds, s.value = append(s.step, *at.Step), append(s.seconds, at.Seconds), append(s.value, *v)
	}
	return true
}
