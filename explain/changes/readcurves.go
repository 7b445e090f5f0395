package changes

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hippo-ssm/hippo/model"
)

// MetricsOf returns the file with the metrics of a run, "" if there is none. dir is the folder of the run, or that of
// its best or last checkpoint.
func MetricsOf(dir string) string {
	for _, at := range []string{dir, filepath.Dir(filepath.Clean(dir))} {
		path := filepath.Join(at, "metrics.jsonl")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
		if base := filepath.Base(dir); base != model.BestDir && base != model.LastDir {
			break
		}
	}
	return ""
}

// ReadCurves reads the losses in a file of metrics, line by line. It skips an incomplete last line.
func ReadCurves(path string) (c RunCurves, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer f.Close()
	lines := bufio.NewReader(io.LimitReader(f, maxMetrics))
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		if err != nil {
			return c, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		var x struct {
			Step  *float64 `json:"step"`
			Loss  *float64 `json:"loss"`
			Valid *float64 `json:"valid_loss"`
		}
		if err := json.Unmarshal(line, &x); err != nil || x.Step == nil {
			return c, fmt.Errorf("%s:%d: found %.60q, want a JSON object with a step", path, n, line)
		}
		if x.Loss != nil {
			c.Train.Step, c.Train.Loss = append(c.Train.Step, *x.Step), append(c.Train.Loss, *x.Loss)
		}
		if x.Valid != nil {
			c.Valid.Step, c.Valid.Loss = append(c.Valid.Step, *x.Step), append(c.Valid.Loss, *x.Valid)
		}
	}
}

// maxMetrics limits the bytes read of a run's metrics: enough for a line for each of a million steps.
const maxMetrics = 256 << 20
