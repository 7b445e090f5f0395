package fit_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/fit"
)

// TestAnswerReadsAsTrained checks that a server reads a column as in training, even if a single value suggests
// otherwise.
func TestAnswerReadsAsTrained(t *testing.T) {
	var b strings.Builder
	b.WriteString("x;y\n")
	for i := range 80 {
		fmt.Fprintf(&b, "1.%03d;0,5\n", 10+i*7%90)
	}
	res := run(t, small(t, write(t, "x.csv", b.String()), func(c *fit.Config) {
		c.Task, c.Target, c.Length, c.Epochs = fit.Next, []string{"x"}, 8, 1
	}))
	m, err := fit.Open(res.Config.Out)
	if err != nil {
		t.Fatal(err)
	}
	for value, far := range map[string]bool{"1.062": false, "1062": false, "1.062,5": false, "1,062": true} {
		told := ""
		err := m.Answer(context.Background(), fit.Query{Rows: strings.NewReader("x,y\n\"" + value + "\",\"0,5\"\n"),
			Format: "csv", As: fit.AsCSV, Out: io.Discard, Note: func(text string) { told += text }})
		if err != nil || strings.Contains(told, "far from") != far {
			t.Errorf("%s: found %v, told %q", value, err, told)
		}
	}
}
