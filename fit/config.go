// Package fit trains networks on users' own data: tables, signals, recordings, sequences of letters. It infers the task
// from the data unless the user names it, trains a network, compares it with simple forecasts, and predicts. Everything
// that prediction needs is saved with the network (see Plan). Package table reads the files. Progress is reported
// through Events.
package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/table"
	"github.com/hippo-ssm/hippo/train/labelled"
)

// The tasks.
const (
	Auto     = "auto"     // inferred from the data
	Classify = "classify" // a class for each sequence
	Regress  = "regress"  // numbers for each sequence
	Steps    = "steps"    // a class or numbers for each row, from the rows up to it
	Next     = "next"     // the numbers of the next row
	Forecast = "forecast" // the numbers of the next rows, as many as the horizon
	Fill     = "fill"     // missing numbers, from the rows before and after them
	Anomaly  = "anomaly"  // how unexpected each row is
)

// Config holds all settings of a run.
type Config struct {
	Data []string `json:"data" config:"-"` // files, or a folder
	Task string   `json:"task" enum:"auto,classify,regress,steps,next,forecast,fill,anomaly" help:"the task"`

	Target  []string `json:"target" help:"columns to predict"`
	Inputs  []string `json:"inputs" help:"input columns; empty: all useful ones"`
	Ignore  []string `json:"ignore" help:"columns to leave out"`
	Known   []string `json:"known" help:"inputs known ahead of time, such as holidays"`
	TimeCol string   `json:"time_column" help:"column of the time of a row; empty: the first column of times"`
	Series  string   `json:"series" help:"column that names the sequence of a row; empty: the file's own sequences"`
	Group   string   `json:"group" help:"column whose groups are not divided between parts, such as a patient"`

	Split      string `json:"split" help:"sizes of training, validation and test set: fractions, rows, or auto"`
	Rows       int    `json:"rows" min:"0" help:"rows to read; 0 for all"`
	Duplicates string `json:"duplicates" enum:"error,first" help:"rows of a series with equal times: the first counts"`

	Length    int    `json:"length" min:"0" help:"rows of a training window; 0: automatic"`
	Stride    int    `json:"stride" min:"0" help:"rows between starts of training windows; 0: automatic"`
	Horizon   int    `json:"horizon" min:"0" help:"rows to forecast; 0: one season, or 24"`
	Lookback  int    `json:"lookback" min:"0" help:"rows that a forecast sees; 0: automatic"`
	Season    int    `json:"season" min:"0" help:"season length in rows; 0: automatic"`
	Calendar  string `json:"calendar" enum:"none,auto" help:"auto: add hour, weekday and time of the year as inputs"`
	Refit     int    `json:"refit" min:"0" help:"forecasts: also retrain and measure every n origins of the test part"`
	Log       string `json:"log" enum:"auto,on,off" help:"forecast logarithms; auto: if better on the validation set"`
	Scale     string `json:"scale" enum:"auto,window,series" help:"scale of forecasts: the rows seen, or the series"`
	Dt        string `json:"dt" enum:"auto,input,steps,both,none" help:"how the network takes the time between rows"`
	Base      string `json:"base" enum:"linear,last" help:"baseline that a network's forecast is added to"`
	Levels    string `json:"levels" help:"quantile levels to learn, increasing, with 0.5"`
	Intervals string `json:"intervals" enum:"recent,valid,learnt" help:"calibrate on recent rows, validation, or not"`
	Use       string `json:"use" help:"what predicts: best on the validation set, network, or a baseline's name"`
	Final     string `json:"final" enum:"all,train" help:"rows of the last fit: all, or the training set"`
	Alarms    string `json:"alarms" help:"anomalies: fraction of ordinary rows that may raise an alarm"`

	Spectrum     string `json:"spectrum" enum:"auto,none,mel" help:"recordings: log-mel frames of samples, or samples"`
	Importance   int    `json:"importance" min:"0" help:"validation windows that show which column matters; 0: none"`
	ClassWeights string `json:"class_weights" help:"auto: by validation; none, balanced, or such as rare=10,other=2"`

	table.Options
	labelled.Config
}

// DefaultConfig returns the default settings.
func DefaultConfig() Config {
	c := Config{
		Task: Auto, Split: "0.7,0.15,0.15", Duplicates: "error", Calendar: "none", Scale: scaleAuto, Base: "linear",
		Log: "auto", Dt: "auto", Levels: "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9", Alarms: "0.001",
		Intervals: recentIntervals, Use: useBest, Final: finalAll, ClassWeights: weightsAuto, Importance: 200,
		Spectrum: spectrumAuto, Options: table.DefaultOptions(), Config: labelled.Default(),
	}
	c.Epochs, c.BatchSize = 0, 0                                                    // chosen
	c.Model.Layers, c.Model.DModel, c.Model.MLP, c.Model.DState = "", 0, "none", 32 // chosen
	c.Model.ResidDropout = 0.1
	c.Optim.LR, c.Optim.SSMLR, c.Optim.WeightDecay, c.Optim.Schedule = 0.002, 0.001, 0.01, "cosine"
	c.Optim.Clip = 1
	return c
}

// Values of the setting for scaling the numbers of a forecast.
const (
	scaleAuto   = "auto"   // window, or series if the horizon is longer than the lookback
	scaleWindow = "window" // the deviation of the rows of the lookback
)

// mostLevels is the maximum number of quantiles.
const mostLevels = 99

// Check returns all problems that can be found without the data.
func (c *Config) Check() error {
	var p config.Problems
	own := *c // parts with their own Check are checked below
	own.Config = labelled.Default()
	p.Add(config.Check(own))
	if len(c.Data) == 0 {
		p.Addf("data", "found none, want a file or a folder")
	}
	if _, err := c.levels(); err != nil {
		p.Addf("levels", "%v", err)
	}
	if _, err := c.split(); err != nil {
		p.Addf("split", "%v", err)
	}
	if a, err := strconv.ParseFloat(c.Alarms, 64); err != nil || !(a > 0 && a < 1) {
		p.Addf("alarms", "found %.20q, want a number between 0 and 1", c.Alarms)
	}
	if err := checkClassWeights(c.ClassWeights); err != nil {
		p.Addf("class_weights", "%v", err)
	}
	for _, name := range c.Target {
		if slices.Contains(c.Ignore, name) {
			p.Addf("ignore", "found %s, which is the target", name)
		}
		if slices.Contains(c.Known, name) {
			p.Addf("known", "found %s, which is the target", name)
		}
	}
	if c.Refit > 0 && c.Task != Forecast {
		p.Addf("refit", "found %d for the task %s, want the task %s", c.Refit, c.Task, Forecast)
	}
	shape := c.Config
	shape.Epochs, shape.BatchSize = cmp.Or(shape.Epochs, 1), cmp.Or(shape.BatchSize, shape.Shards)
	if shape.Model.Layers == "" {
		shape.Model.Layers = causalLayers
	}
	if shape.Model.DModel == 0 {
		shape.Model.DModel = usualWidth
	}
	p.Add(shape.Validate())
	return p.Err()
}

// levels parses the levels of the quantiles.
func (c *Config) levels() (levels []float64, err error) {
	for _, text := range strings.Split(c.Levels, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(x > 0 && x < 1) || len(levels) > 0 && x <= levels[len(levels)-1] ||
			len(levels) >= mostLevels {
			return nil, fmt.Errorf("found %.60q, want increasing numbers between 0 and 1", c.Levels)
		}
		levels = append(levels, x)
	}
	if !slices.Contains(levels, 0.5) {
		return nil, fmt.Errorf("found %.60q, want 0.5 among them", c.Levels)
	}
	return levels, nil
}

// split parses the sizes of the three parts.
func (c *Config) split() (parts [3]float64, err error) {
	if c.Split == autoSplit {
		return [3]float64{0.7, 0.1, 0.2}, nil
	}
	texts := strings.Split(c.Split, ",")
	wrong := fmt.Errorf("found %.60q, want three numbers such as 0.7,0.15,0.15, which make 1 in all, "+
		"or numbers of rows such as 8640,2880,2880", c.Split)
	if len(texts) != len(parts) {
		return parts, wrong
	}
	sum := 0.0
	for i, text := range texts {
		x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(x > 0 && x < 1e15) {
			return parts, wrong
		}
		parts[i] = x
		sum += x
	}
	if math.Abs(sum-1) > 1e-6 && (sum < 3 || slices.ContainsFunc(parts[:], func(x float64) bool {
		return x != math.Trunc(x)
	})) {
		return parts, wrong
	}
	return parts, nil
}

// ReadOptions is the type of the options for reading data.
type ReadOptions = table.Options

// DefaultReadOptions returns options that detect everything from the data.
func DefaultReadOptions() ReadOptions { return table.DefaultOptions() }
