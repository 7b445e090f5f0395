// Package fit learns from people's own data: tables, signals, recordings, sequences of letters. What is asked of the
// data is inferred from it, and can be said. It trains a network of package model by package train, measures it beside
// simple forecasts, and predicts: all that prediction needs to know is kept with the network. Package table reads the
// files. It may import what stands below it, and explain for charts, and never prints: what happens is told to the
// functions of Events.
package fit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/table"
	"github.com/hippo-ssm/hippo/train"
)

// The tasks.
const (
	Auto     = "auto"     // as the data says
	Classify = "classify" // the class of each sequence
	Regress  = "regress"  // numbers of each sequence
	Steps    = "steps"    // the class or the numbers of each row, from the rows up to it
	Next     = "next"     // the numbers of the next row
	Forecast = "forecast" // the numbers of the next rows, as many as the horizon
	Fill     = "fill"     // numbers that are missing, from the rows around them
	Anomaly  = "anomaly"  // how unlike what was expected each row is
)

// Config is everything that a run depends on but the data.
type Config struct {
	Data []string `json:"data" config:"-"` // files, or a folder
	Task string   `json:"task" enum:"auto,classify,regress,steps,next,forecast,fill,anomaly" help:"what is asked"`

	Target  []string `json:"target" help:"columns to predict"`
	Inputs  []string `json:"inputs" help:"columns that go in; empty: all that are of use"`
	Ignore  []string `json:"ignore" help:"columns that are left out"`
	Known   []string `json:"known" help:"inputs whose future is known when a forecast is made, such as holidays"`
	TimeCol string   `json:"time_column" help:"column of the time of a row; empty: the first that holds times"`
	Series  string   `json:"series" help:"column whose rows of one value are a sequence; empty: the file's own"`
	Group   string   `json:"group" help:"column whose rows of one value stay in one part: a patient, say"`

	Split      string `json:"split" help:"sizes of the training, validation and test part: shares, or rows of a series"`
	Rows       int    `json:"rows" min:"0" help:"rows to read; 0 for all"`
	Duplicates string `json:"duplicates" enum:"error,first" help:"rows of one time in a series: the first counts"`

	Length    int    `json:"length" min:"0" help:"rows of a training window; 0: chosen"`
	Stride    int    `json:"stride" min:"0" help:"rows from a training window to the next; 0: chosen"`
	Horizon   int    `json:"horizon" min:"0" help:"rows to forecast; 0: a season, or 24"`
	Lookback  int    `json:"lookback" min:"0" help:"rows that a forecast sees; 0: chosen"`
	Season    int    `json:"season" min:"0" help:"rows after which a series is alike; 0: found out"`
	Calendar  string `json:"calendar" enum:"none,auto" help:"auto: hour, weekday, season of the year go in"`
	Refit     int    `json:"refit" min:"0" help:"forecasts: measure refits too, every so many origins of the test part"`
	Scale     string `json:"scale" enum:"auto,window,series" help:"forecasts are measured by the rows seen, or by all"`
	Dt        string `json:"dt" enum:"auto,input,steps,both,none" help:"how the time between rows goes in"`
	Base      string `json:"base" enum:"linear,last" help:"what a network's forecast is added to"`
	Levels    string `json:"levels" help:"of the quantiles that are learnt, in increasing order, 0.5 among them"`
	Intervals string `json:"intervals" enum:"recent,valid,learnt" help:"by last forecasts, the validation part, or not"`
	Alarms    string `json:"alarms" help:"anomalies: part of ordinary rows that may raise an alarm"`

	table.Options
	train.LabelledConfig
}

// DefaultConfig is what settings start from.
func DefaultConfig() Config {
	c := Config{
		Task: Auto, Split: "0.7,0.15,0.15", Duplicates: "error", Calendar: "none", Scale: scaleAuto, Base: "linear",
		Dt: "auto", Levels: "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9", Alarms: "0.001",
		Intervals: recentIntervals,
		Options:   table.DefaultOptions(), LabelledConfig: train.DefaultLabelled(),
	}
	c.Epochs, c.BatchSize = 0, 0 // chosen
	c.Model.Layers, c.Model.DModel, c.Model.MLP, c.Model.DState = "", 32, "none", 32
	c.Model.ResidDropout = 0.1
	c.Optim.LR, c.Optim.SSMLR, c.Optim.WeightDecay, c.Optim.Schedule = 0.002, 0.001, 0.01, "cosine"
	c.Optim.Clip = 1
	return c
}

// What numbers of a forecast are measured by.
const (
	scaleAuto   = "auto"   // the rows seen, or all where the horizon is longer than what is seen
	scaleWindow = "window" // the deviation of the rows seen
)

// mostLevels bounds the quantiles of a number.
const mostLevels = 99

// Check returns every problem that can be told without the data.
func (c *Config) Check() error {
	var p config.Problems
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
	for _, name := range c.Target {
		if slices.Contains(c.Ignore, name) {
			p.Addf("ignore", "found %s, which is the target", name)
		}
	}
	if c.Refit > 0 && c.Task != Forecast {
		p.Addf("refit", "found %d for the task %s, want the task %s", c.Refit, c.Task, Forecast)
	}
	for _, name := range c.Known {
		if slices.Contains(c.Target, name) {
			p.Addf("known", "found %s, which is the target", name)
		}
	}
	shape := c.LabelledConfig
	shape.Epochs, shape.BatchSize = max(1, shape.Epochs), max(shape.BatchSize, shape.Shards)
	if shape.Model.Layers == "" {
		shape.Model.Layers = causalLayers
	}
	p.Add(shape.Validate())
	return p.Err()
}

// levels are the levels of the quantiles.
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

// split is the sizes of the three parts.
func (c *Config) split() (parts [3]float64, err error) {
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

// ReadOptions say how data is read.
type ReadOptions = table.Options

// DefaultReadOptions leave everything to be found out.
func DefaultReadOptions() ReadOptions { return table.DefaultOptions() }
