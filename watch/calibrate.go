package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// CalibrationFile is the file in the folder of a model with the scores of lines that it was not trained on.
const CalibrationFile = "watch.json"

// Calibration are scores of lines that are known to be ordinary: what thresholds start from.
type Calibration struct {
	Model  string     `json:"model"` // its fingerprint
	Score  string     `json:"score"` // how scores come about
	Lines  int64      `json:"lines"`
	Scores *Quantiles `json:"scores"`
}

// Calibrate reads the lines of in to their end, and returns their scores. progress is called after each line.
func (w *Watcher) Calibrate(ctx context.Context, in io.Reader, maxLine int, progress func()) (*Calibration,
	error) {
	s := w.Stream("")
	lines := (&Reader{MaxLine: maxLine}).lines(in)
	for {
		err := lines.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if err != nil && lines.read == 0 {
			return &Calibration{w.model.Fingerprint(), w.o.scoring(), s.Lines, s.scores}, nil
		}
		l, _ := lines.take(s)
		if _, err := w.Read(ctx, l); err != nil {
			return nil, err
		}
		progress()
	}
}

// Save writes the calibration into the folder of its model.
func (c *Calibration) Save(dir string) error {
	return disk.WriteFile(filepath.Join(dir, CalibrationFile), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(c)
	})
}

// ReadCalibration reads the calibration of a model, by its fingerprint, from its folder: nil if there is none for it
// and for scores of these options.
func ReadCalibration(dir, model string, o Options) (*Calibration, error) {
	path := filepath.Join(dir, CalibrationFile)
	var c Calibration
	err := disk.ReadJSON(path, &c)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && c.Scores == nil {
		err = fmt.Errorf("%s: scores: found none, want the counts of scores", path)
	}
	if err != nil || c.Model != model || c.Score != o.scoring() {
		return nil, err
	}
	return &c, nil
}
