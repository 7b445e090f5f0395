package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/generate"
)

// sampleJSON is one line of --json.
type sampleJSON struct {
	Sample int            `json:"sample"`
	Seed   uint64         `json:"seed"`
	Prompt string         `json:"prompt"`
	Text   string         `json:"text"`
	IDs    []int32        `json:"ids"`
	End    string         `json:"end"`
	Stats  generate.Stats `json:"stats"`
}

// sampleWriter writes samples in their order. A single sample is written as it comes, several samples each when it and
// those before it are complete: it holds no more samples than are drawn side by side.
type sampleWriter struct {
	out      *bufio.Writer
	terminal bool // out goes to one
	session  *hippo.Session
	prompt   string
	seed     uint64
	echo     bool // write the prompt before the text
	single   bool
	json     bool
	begun    bool                // a text without its newline
	open     map[int]*sampleJSON // those that have begun or wait for their turn
	next     int                 // whose turn it is
}

func newSampleWriter(f *os.File, s *hippo.Session, prompt string, seed uint64) *sampleWriter {
	return &sampleWriter{
		out: bufio.NewWriter(f), terminal: isTerminal(f), session: s, prompt: prompt, seed: seed,
		open: map[int]*sampleJSON{},
	}
}

// write takes the next piece of a sample.
func (w *sampleWriter) write(p generate.Piece) error {
	if w.single && !w.json {
		return w.stream(p)
	}
	a := w.open[p.Sample]
	if a == nil {
		a = &sampleJSON{Sample: p.Sample, Seed: w.seed + uint64(p.Sample), Prompt: w.prompt}
		w.open[p.Sample] = a
	}
	a.Text += string(p.Text)
	a.IDs, a.End = append(a.IDs, p.IDs...), p.End
	for a = w.open[w.next]; a != nil && a.End != ""; a = w.open[w.next] {
		if err := w.whole(a); err != nil {
			return err
		}
		delete(w.open, w.next)
		w.next++
	}
	return w.out.Flush()
}

// stream writes the next piece of a single sample.
func (w *sampleWriter) stream(p generate.Piece) error {
	if !w.begun {
		w.begun = true
		w.text(w.echoed())
	}
	w.text(string(p.Text))
	if p.End != "" {
		return w.close()
	}
	return w.out.Flush()
}

// whole writes a complete sample.
func (w *sampleWriter) whole(a *sampleJSON) error {
	if !w.json {
		w.text(fmt.Sprintf("--- sample %d ---\n%s%s\n", a.Sample+1, w.echoed(), a.Text))
		return nil
	}
	a.Stats = w.session.Stats()
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	w.text(string(line) + "\n")
	return nil
}

// echoed is the prompt if it is to be written before the text.
func (w *sampleWriter) echoed() string {
	if w.echo {
		return w.prompt
	}
	return ""
}

func (w *sampleWriter) text(text string) {
	if w.terminal {
		text = printable(text)
	}
	w.out.WriteString(text) // Flush tells of errors
}

// close ends a text that has begun, so that what others print begins on a line of its own.
func (w *sampleWriter) close() error {
	if w.begun {
		w.begun = false
		w.out.WriteString("\n")
	}
	return w.out.Flush()
}
