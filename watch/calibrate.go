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

// CalibrationFile is the name of the file, in the folder of a model, with the scores of lines on which the model was
// not trained.
const CalibrationFile = "watch.json"

// Calibration holds the scores of lines that are known to be ordinary. Thresholds start from them.
type Calibration struct {
	Model  string     `json:"model"` // its fingerprint
	Score  string     `json:"score"` // how scores are computed: see Options.scoring
	Lines  int64      `json:"lines"`
	Scores *Quantiles `json:"scores"`
}

// Calibrate reads all lines of in and returns their scores. It calls progress after each line.
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

// Save writes the calibration to the folder of its model.
func (c *Calibration) Save(dir string) error {
	return disk.WriteFile(filepath.Join(dir, CalibrationFile), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(c)
	})
}

// ReadCalibration reads the calibration in the folder of a model. model is the fingerprint of the model. It returns nil
// if there is no calibration for that model and for scores with these options.
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
