package fit

import (
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/table"
)

// Values of Config.Spectrum.
const (
	spectrumAuto = "auto" // frames if classes or numbers are predicted for recordings at audio rates
	spectrumMel  = "mel"  // frames for any recordings
)

// audioRate is the minimum sampling rate in hertz of recordings that are treated as sound.
const audioRate = 4000

// spectrum returns how to read recordings; nil for samples.
func (c *Config) spectrum() *table.Spectrum {
	samples := slices.ContainsFunc(slices.Concat(c.Target, c.Inputs, c.Ignore, c.Known), func(name string) bool {
		return strings.HasPrefix(name, "sample")
	})
	switch {
	case c.Spectrum == spectrumMel:
		return &table.Spectrum{}
	case c.Spectrum == spectrumAuto && !samples && slices.Contains([]string{Auto, Classify, Regress}, c.Task):
		return &table.Spectrum{MinRate: audioRate, Labelled: true}
	}
	return nil
}
