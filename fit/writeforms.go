package fit

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/hippo-ssm/hippo/table"
)

// rowWriter writes rows: a string, float64, int64, bool or table.Moment in each column. NaN means a missing value. All
// rows have the same columns.
type rowWriter interface {
	write(names []string, values []any) error
	flush() error
	close() error
}

// Output formats of predictions.
const (
	AsCSV     = "csv"
	AsJSONL   = "jsonl"
	AsParquet = "parquet"
)

// newRowWriter returns a writer of rows in a format.
func newRowWriter(form string, out io.Writer) rowWriter {
	switch form {
	case AsJSONL:
		return &jsonRows{out: bufio.NewWriter(out)}
	case AsParquet:
		return &parquetRows{out: out}
	}
	return &csvRows{csv: csv.NewWriter(out)}
}

// csvRows writes CSV with a header.
type csvRows struct {
	csv   *csv.Writer
	begun bool
	cells []string
}

func (w *csvRows) write(names []string, values []any) error {
	if !w.begun {
		w.begun = true
		if err := w.csv.Write(names); err != nil {
			return err
		}
	}
	w.cells = w.cells[:0]
	for _, x := range values {
		w.cells = append(w.cells, cellText(x))
	}
	return w.csv.Write(w.cells)
}

func (w *csvRows) flush() error {
	w.csv.Flush()
	return w.csv.Error()
}

func (w *csvRows) close() error { return w.flush() }

// jsonRows writes one object per line.
type jsonRows struct{ out *bufio.Writer }

// write writes an object with its fields in order.
func (w *jsonRows) write(names []string, values []any) error {
	for i, x := range values {
		switch y := x.(type) {
		case float64:
			if math.IsNaN(y) {
				x = nil
			}
		case table.Moment:
			x = timeText(float64(y))
		}
		name, err := json.Marshal(names[i])
		if err != nil {
			return err
		}
		value, err := json.Marshal(x)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.out, "%s%s:%s", map[bool]string{true: "{", false: ","}[i == 0], name, value)
	}
	_, err := io.WriteString(w.out, "}\n")
	return err
}

func (w *jsonRows) flush() error { return w.out.Flush() }
func (w *jsonRows) close() error { return w.flush() }

// parquetRows writes a Parquet file.
type parquetRows struct {
	out     io.Writer
	parquet *table.ParquetWriter
}

func (w *parquetRows) write(names []string, values []any) (err error) {
	if w.parquet == nil {
		if w.parquet, err = table.NewParquetWriter(w.out, names, values); err != nil {
			return err
		}
	}
	return w.parquet.Write(values)
}

func (w *parquetRows) flush() error { return nil } // groups are written when they are full

func (w *parquetRows) close() error {
	if w.parquet == nil {
		return errors.New("found nothing to write, want predictions")
	}
	return w.parquet.Close()
}

// timeText formats a time as RFC 3339, "" if it is unknown.
func timeText(seconds float64) string {
	if math.IsNaN(seconds) || math.Abs(seconds) > 1e11 {
		return ""
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(math.Round(part*1e6))*1000).UTC().Format(time.RFC3339Nano)
}

// cellText formats a value as a cell of CSV.
func cellText(value any) string {
	switch x := value.(type) {
	case float64:
		if math.IsNaN(x) {
			return ""
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	case bool:
		return strconv.Itoa(map[bool]int{true: 1}[x])
	case table.Moment:
		return timeText(float64(x))
	}
	return fmt.Sprint(value)
}
