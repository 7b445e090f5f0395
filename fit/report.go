package fit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
)

// ReportFile is the name of the report in the folder of a run: one self-contained file. Its pictures are also saved
// next to it.
const ReportFile = "report.html"

// picture is a chart of a report.
type picture struct {
	File    string
	Chart   figure.Chart
	Caption string       // below it
	Data    template.URL // contents of the file
}

// pictures returns the charts of a run.
func (r *Result) pictures() []picture {
	about := fmt.Sprintf("%s, seed %d", filepath.Base(r.Config.Data[0]), r.Config.Seed)
	var epochs, training, valid []float64
	for _, p := range r.Curve {
		epochs, training, valid = append(epochs, p.Epoch), append(training, p.TrainLoss), append(valid, p.Valid.Loss)
	}
	unit := "pinball loss"
	if r.Classes != nil {
		unit = "cross-entropy, nats"
	}
	all := []picture{{File: "curve.png", Chart: figure.Chart{
		Title: "Loss by epoch", Subtitle: about, X: "epoch", Y: unit,
		Lines: []figure.Line{{Name: "training", X: epochs, Y: training}, {Name: "validation", X: epochs, Y: valid}},
	}}}
	for i, f := range r.Forecasts {
		all = append(all, picture{File: fmt.Sprintf("forecast-%d.png", i+1), Chart: f.chart(r.Plan)})
	}
	if steps := r.stepChart(about); len(steps.Lines) > 0 {
		all = append(all, picture{File: "horizon.png", Chart: steps})
	}
	if r.Classes != nil {
		all = append(all, picture{File: "calibration.png", Chart: r.Classes.chart(about)})
	}
	if r.Scales != nil && len(r.Scales.Network) > 0 {
		all = append(all, picture{File: ScalesFile, Chart: r.Scales.chart(about), Caption: r.Scales.Summary})
	}
	return all
}

// chart draws a forecast with its interval and the truth.
func (f *ForecastChart) chart(p *Plan) figure.Chart {
	line := func(name string, from int, values []float64) figure.Line {
		l := figure.Line{Name: name, Y: values}
		for i := range values {
			l.X = append(l.X, float64(from+i))
		}
		return l
	}
	interval := func(level float64) string { return fmt.Sprintf("%g %%", 100*level) }
	truth := append(f.Known[:len(f.Known):len(f.Known)], f.Truth...)
	return figure.Chart{
		Title: "Forecast of " + f.Target, Subtitle: f.Series, X: "rows from the first predicted one",
		Y: f.Target,
		Lines: []figure.Line{
			line("truth", -len(f.Known), truth), line("median", 0, f.Median),
			line(interval(p.Levels[0]), 0, f.Low), line(interval(p.Levels[len(p.Levels)-1]), 0, f.High),
		},
	}
}

// stepChart draws the errors of forecasts of the first target at each step of the horizon.
func (r *Result) stepChart(about string) figure.Chart {
	c := figure.Chart{Title: "Mean absolute error by row ahead", Subtitle: about, X: "rows ahead", Y: "error"}
	for _, e := range r.Errors {
		if len(e.Steps) < 2 || e.Target != r.Errors[0].Target {
			continue
		}
		l := figure.Line{Name: e.Name}
		for h, s := range e.Steps {
			l.X, l.Y = append(l.X, float64(h+1)), append(l.Y, s.MAE)
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

// chart draws the share of right predictions by the probability of the predicted class.
func (s *ClassScore) chart(about string) figure.Chart {
	l := figure.Line{Name: "network"}
	for _, b := range s.Bins {
		if b.Count > 0 {
			l.X, l.Y = append(l.X, b.Probability), append(l.Y, b.Right)
		}
	}
	return figure.Chart{
		Title: "Calibration", Subtitle: about, X: "probability of the predicted class", Y: "fraction that was right",
		Lines: []figure.Line{l, {Name: "as it should be", X: []float64{0, 1}, Y: []float64{0, 1}}},
	}
}

// page is the content of the report.
type page struct {
	*Result
	Pictures []picture
	Command  string
	Settings string
}

// shade returns the color of a cell of the confusion matrix, by its share of the row.
func shade(count int, row []int) template.CSS {
	sum := 0
	for _, n := range row {
		sum += n
	}
	return template.CSS(fmt.Sprintf("background:rgba(31,119,180,%.2f)", 0.8*float64(count)/float64(max(1, sum))))
}

// mostShownClasses is the maximum number of classes for which the confusion matrix is shown.
const mostShownClasses = 30

var reportPage = template.Must(template.New("report").Funcs(template.FuncMap{
	"shade": shade,
	"g":     func(x float64) string { return fmt.Sprintf("%.4g", x) },
	"count": func(n int) string { return status.Count(float64(n)) },
	"reach": func(s *TimeScales, r Reach) string { return s.reach(r) },
	"rise":  ColumnImportance.rise,
	"small": func(s *ClassScore) bool { return len(s.Classes) <= mostShownClasses },
}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>hippo: {{.Task}}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .7rem;text-align:right}
td:first-child,th:first-child{text-align:left}img{max-width:100%}pre{overflow:auto;background:#f4f4f4;padding:.7rem}
</style></head><body>
<h1>{{.Task}}: {{range $i, $n := .Plan.TargetNames}}{{if $i}}, {{end}}{{$n}}{{end}}</h1>
<p>{{count .Rows}} rows, {{.Series}} series; {{index .Windows 0}} windows to train on,
{{index .Windows 1}} to choose by and {{index .Windows 2}} to test on. The data is divided {{.Divided}}.
The network has {{count .Params}} parameters
({{.Model}}); {{.Steps}} updates, {{g .Epochs}} epochs, {{g .TrainSeconds}} s; {{.Machine}}, {{.Version}},
{{.Date}}.</p>
{{with .Choice}}<p>{{.}}.</p>{{end}}{{with .Final}}<p>{{.}}.</p>{{end}}
{{with .Errors}}<h2>Test part</h2><table><tr><th>target</th><th></th><th>MAE</th><th>RMSE</th><th>CRPS</th>
<th>MSE/variance</th><th>in the {{printf "%.0f" (index . 0).Nominal}} % interval</th></tr>
{{range .}}<tr><td>{{.Target}}</td><td>{{.Name}}</td><td>{{g .MAE}}</td><td>{{g .RMSE}}</td><td>{{g .CRPS}}</td>
<td>{{g .MSE}}</td><td>{{printf "%.1f" .Coverage}} %</td></tr>{{end}}</table>{{end}}
{{with .Importance}}<h2>Which column matters</h2><p>What matters {{.How}}. The loss is {{g .Loss}} with all
columns as they are.</p><table><tr><th>column</th><th>loss rises by</th><th>accuracy falls by</th></tr>
{{range .Columns}}<tr><td>{{.Column}}</td><td>{{rise .}}</td><td>{{printf "%.1f" .Accuracy}}</td></tr>{{end}}
</table>{{end}}
{{with .Calibration}}<ul>{{range .}}<li>{{.Sentence}}</li>{{end}}</ul>{{end}}
{{with .Classes}}<h2>Test part</h2><p>{{printf "%.2f" .Accuracy}} % of {{.Count}} right; the class most frequent in
training would be right in {{printf "%.2f" .Majority}} %. Balanced accuracy {{printf "%.2f" .Balanced}} %, macro F1
{{g .F1}}, cross-entropy {{g .Loss}} nats, expected calibration error {{g .ECE}}.</p>
{{with .Floor}}<p><b>Note:</b> {{.}}.</p>{{end}}
{{end}}{{with .Predicting}}{{if small .}}<p>Each class, by the {{.Name}}:</p>
<table><tr><th>class</th><th>test part</th><th>predicted</th><th>recall</th><th>precision</th>
<th>F1</th></tr>{{range .PerClass}}<tr><td>{{.Class}}</td><td>{{.Count}}</td><td>{{.Predicted}}</td>
<td>{{printf "%.1f" .Recall}} %</td><td>{{printf "%.1f" .Precision}} %</td><td>{{g .F1}}</td></tr>{{end}}</table>{{end}}
{{end}}{{with .Classes}}
{{if small .}}<table><tr><th>true \ predicted</th>{{range .Classes}}<th>{{.}}</th>{{end}}</tr>
{{$names := .Classes}}{{range $i, $row := .Confusion}}<tr><td>{{index $names $i}}</td>
{{range $row}}<td style="{{shade . $row}}">{{.}}</td>{{end}}</tr>{{end}}</table>{{end}}
{{with $.Rivals}}<table><tr><th></th><th>right</th><th>balanced</th><th>macro F1</th><th>cross-entropy</th></tr>
{{range .}}<tr><td>{{.Name}}</td><td>{{printf "%.2f" .Accuracy}} %</td><td>{{printf "%.2f" .Balanced}} %</td>
<td>{{g .F1}}</td><td>{{g .Loss}}</td></tr>{{end}}</table>{{end}}
{{with .Wrong}}<h3>Most wrong</h3><table><tr><th>sequence</th><th>row</th><th>true</th><th>predicted</th>
<th>probability</th></tr>{{range .}}<tr><td>{{.Name}}</td><td>{{if .Row}}{{.Row}}{{end}}</td><td>{{.Truth}}</td>
<td>{{.Predicted}}</td><td>{{printf "%.3f" .Probability}}</td></tr>{{end}}</table>{{end}}{{end}}
{{range .Pictures}}<p><img src="{{.Data}}" alt="{{.Chart.Title}}"></p>{{with .Caption}}<p>{{.}}</p>{{end}}
{{end}}{{with .Scales}}{{$scales := .}}<table><tr><th>look-back</th><th>10 %</th><th>median</th><th>90 %</th>
<th>longest</th></tr>{{range .Network}}<tr><td>layer {{.Layer}}, {{.Kind}}{{with .Part}} {{.}}{{end}}: {{.Count}}
{{.Of}}</td><td>{{reach $scales .Rows.Low}}</td><td>{{reach $scales .Rows.Median}}</td>
<td>{{reach $scales .Rows.High}}</td><td>{{reach $scales .Rows.Longest}}</td></tr>{{end}}</table>
<p>Modes: their time constants, after which they have faded to 1/e. Kernels: the lag up to which 90 % of the energy of
each is, in a window of {{.Window}} rows.</p>{{end}}
<h2>Notes</h2><ul>{{range .Notes}}<li>{{.}}</li>{{end}}</ul>
<h2>Again</h2><pre>{{.Command}}</pre><pre>{{.Settings}}</pre></body></html>
`))

// WriteReport writes the page of a run, and its pictures.
func (r *Result) WriteReport() error {
	dir := r.Config.Out
	p := page{Result: r, Pictures: r.pictures(), Command: "hippo fit"}
	if r.Task == Forecast {
		p.Command = "hippo forecast"
	}
	for _, name := range r.Config.Data {
		p.Command += " " + config.Quote(name)
	}
	p.Command += " --config config.yaml --out again"
	settings, err := config.Marshal(&r.Config)
	if err != nil {
		return err
	}
	p.Settings = string(settings)
	for i := range p.Pictures {
		path := filepath.Join(dir, p.Pictures[i].File)
		if err := p.Pictures[i].Chart.WritePNG(path); err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		p.Pictures[i].Data = template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(data))
	}
	var b bytes.Buffer
	if err := reportPage.Execute(&b, p); err != nil {
		return errors.Join(errors.New("report"), err)
	}
	return disk.WriteBytes(filepath.Join(dir, ReportFile), b.Bytes())
}
