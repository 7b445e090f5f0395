package generate

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// sampleJSON is one line of the output of --json.
type sampleJSON struct {
	Sample int     `json:"sample"`
	Seed   uint64  `json:"seed"`
	Prompt string  `json:"prompt"`
	Text   string  `json:"text"`
	IDs    []int32 `json:"ids"`
	End    string  `json:"end"`
	Stats  Stats   `json:"stats"`
}

// SampleWriter writes samples in order. A single sample is written as it is generated. Of several samples, each is
// written when it and all samples before it are complete, so at most as many are held as are generated in parallel.
type SampleWriter struct {
	Prompt string
	Seed   uint64              // of the first sample
	Echo   bool                // write the prompt before the text
	Single bool                // there is one sample
	JSON   bool                // write each sample as an object when it is complete
	Stats  func() Stats        // of the session, for JSON
	Safe   func(string) string // makes text safe for the output; nil: text is not changed

	out   *bufio.Writer
	begun bool                // a text has been started and lacks its newline
	open  map[int]*sampleJSON // samples that are not written yet
	next  int                 // the sample to write next
}

// Start sets the destination of the output. It must be called first.
func (w *SampleWriter) Start(out io.Writer) {
	w.out, w.open = bufio.NewWriter(out), map[int]*sampleJSON{}
}

// Write adds the next piece of a sample and writes the samples that are due.
func (w *SampleWriter) Write(p Piece) error {
	if w.Single && !w.JSON {
		return w.stream(p)
	}
	a := w.open[p.Sample]
	if a == nil {
		a = &sampleJSON{Sample: p.Sample, Seed: w.Seed + uint64(p.Sample), Prompt: w.Prompt}
		w.open[p.Sample] = a
	}
	a.Text += string(p.Text)
	a.IDs, a.End = append(a.IDs, p.IDs...), p.End
	for a = w.open[w.next]; a != nil && a.End != ""; a = w.open[w.next] {
		if err := w.complete(a); err != nil {
			return err
		}
		delete(w.open, w.next)
		w.next++
	}
	return w.out.Flush()
}

// stream writes the next piece of a single sample.
func (w *SampleWriter) stream(p Piece) error {
	if !w.begun {
		w.begun = true
		w.text(w.echoed())
	}
	w.text(string(p.Text))
	if p.End != "" {
		return w.Close()
	}
	return w.out.Flush()
}

// complete writes a complete sample.
func (w *SampleWriter) complete(a *sampleJSON) error {
	if !w.JSON {
		w.text(fmt.Sprintf("--- sample %d ---\n%s%s\n", a.Sample+1, w.echoed(), a.Text))
		return nil
	}
	a.Stats = w.Stats()
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	w.text(string(line) + "\n")
	return nil
}

// echoed returns the prompt if Echo is set, otherwise "".
func (w *SampleWriter) echoed() string {
	if w.Echo {
		return w.Prompt
	}
	return ""
}

func (w *SampleWriter) text(text string) {
	if w.Safe != nil {
		text = w.Safe(text)
	}
	w.out.WriteString(text) // Flush returns the error
}

// Close ends a text that has been started, so that later output starts on a new line.
func (w *SampleWriter) Close() error {
	if w.begun {
		w.begun = false
		w.out.WriteString("\n")
	}
	return w.out.Flush()
}
