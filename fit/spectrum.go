package fit

import (
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/table"
)

// Values of Config.Spectrum.
const (
	spectrumAuto = "auto" // frames if classes or numbers of recordings at audio rates are learnt
	spectrumMel  = "mel"  // frames of any recordings
)

// audioRate is the rate in hertz from which recordings are taken for sound.
const audioRate = 4000

// spectrum is how recordings are read; nil for samples.
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
