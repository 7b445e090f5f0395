package convert

import (
	"io"
	"strings"

	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
)

// ONNXForms lists the forms of ToONNX.
var ONNXForms = fit.ONNXForms

// ONNXReport describes a written ONNX file.
type ONNXReport struct {
	path string
	size int
	card *fit.ONNXCard
}

// ToONNX writes the network of a run of hippo fit or hippo forecast as an ONNX file.
func ToONNX(dir, out string, o Options) (*ONNXReport, error) {
	if err := notThere(out, o.Force); err != nil {
		return nil, err
	}
	file, card, err := fit.ONNX(dir, o.Form)
	if err != nil {
		return nil, err
	}
	return &ONNXReport{out, len(file), card}, disk.WriteBytes(out, file)
}

// Print prints the report as a table.
func (r *ONNXReport) Print(out io.Writer) error {
	t := status.NewTable(out)
	t.Row("task", "%s, in the form %s", r.card.Task, r.card.Form)
	t.Row("rows", "%s", strings.Join(r.card.Rows, ", "))
	if len(r.card.Classes) > 0 {
		t.Row("classes", "%s", strings.Join(r.card.Classes, ", "))
	}
	t.Row("wrote", "%s, %s", r.path, status.Bytes(int64(r.size)))
	if r.card.Rival != "" {
		t.Row("note", "this is the network; hippo predict uses the %s, which was better on the validation set",
			r.card.Rival)
	}
	return t.Flush()
}
