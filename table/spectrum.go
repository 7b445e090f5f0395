package table

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/dsp/fourier"
)

// Spectrum converts recordings to frames instead of samples: one row per hop, with the energy of mel bands in decibels,
//
//	10 log10( Σ_k w_bk |X_k|² / (Σ_k w_bk · Σ_t h_t² · rate / (2 Top)) )
//
// where X is the discrete Fourier transform of the frame's samples times the Hann window h, and w_b is a triangle whose
// corners are evenly spaced on the mel scale, 2595 log10(1 + f/700). A frame is complete with its last sample, so rows
// can be read as the samples arrive. Lengths are in seconds and bands in hertz, so rows of recordings at other rates
// have the same meaning.
type Spectrum struct {
	Frame float64 `json:"frame"` // seconds
	Hop   float64 `json:"hop"`   // seconds from one frame to the next
	Bands int     `json:"bands"`
	Top   float64 `json:"top"` // hertz: the upper end of the last band

	// MinRate is the rate in hertz below which recordings are read as samples. If Labelled is set, recordings without
	// classes are also read as samples.
	MinRate  float64 `json:"-"`
	Labelled bool    `json:"-"`
}

// Shape of frames. At low rates they are longer, since a frame of few samples has no useful spectrum.
const (
	frameSeconds = 0.025
	frameSamples = 64
	frameHops    = 0.4 // in frames
	mostBands    = 32
	quietest     = -100    // decibels
	mostFrame    = 1 << 18 // samples
)

// Check returns an error unless frames can be computed.
func (s *Spectrum) Check() error {
	if !(s.Frame > 0 && s.Frame <= 60 && s.Hop > 0 && s.Hop <= s.Frame && s.Top > 0 && s.Top <= 1e12) ||
		s.Bands < 1 || s.Bands > 1000 {
		return fmt.Errorf("found frames of %g s every %g s with %d bands up to %g Hz, want frames of at most 60 s, "+
			"hops no longer than them, and 1 to 1000 bands", s.Frame, s.Hop, s.Bands, s.Top)
	}
	return nil
}

// String describes the frames.
func (s *Spectrum) String() string {
	return fmt.Sprintf("log-mel frames: %d bands up to %.5g Hz, %.3g ms long, every %.3g ms", s.Bands, s.Top,
		1000*s.Frame, 1000*s.Hop)
}

// Column returns the name of the column for a band of the samples in the column called name.
func (s *Spectrum) Column(name string, band int) string {
	return strings.TrimPrefix(fmt.Sprintf("%s mel %.0f Hz", name, s.center(band)), "sample ")
}

// Rate returns the rate in hertz of the recording from which the settings were chosen.
func (s *Spectrum) Rate() float64 { return 2 * s.Top }

// Basis returns the computation of frames at a rate as products of matrices, for other programs. A frame x has the
// energies 10 log10(weights (basis x)²), with a minimum of least. Frames are hop samples apart. basis is (2·bins,
// frame), with the real parts above the imaginary ones; the squares of both are added. weights is (bands, bins).
func (s *Spectrum) Basis(rate float64) (basis, weights []float64, frame, hop int, least float64, err error) {
	b, err := s.newBank(rate)
	if err != nil {
		return nil, nil, 0, 0, 0, err
	}
	bins := len(b.bins)
	for i := range 2 * bins {
		for t, h := range b.window {
			sin, cos := math.Sincos(2 * math.Pi * float64(i%bins*t%len(b.x)) / float64(len(b.x)))
			if i < bins {
				sin = cos
			}
			basis = append(basis, h*sin)
		}
	}
	weights = make([]float64, s.Bands*bins)
	for band, ws := range b.weights {
		for k, w := range ws {
			weights[band*bins+b.lo[band]+k] = w / b.power
		}
	}
	return basis, weights, b.frame, b.hop, quietest, nil
}

// settle chooses unset fields from the rate of the first recording.
func (s *Spectrum) settle(rate float64) {
	if s.Top > 0 {
		return
	}
	s.Frame = max(frameSeconds, frameSamples/rate)
	s.Hop, s.Top = frameHops*s.Frame, rate/2
	s.Bands = min(mostBands, int(s.Frame*rate)/4)
}

// isBand reports whether a column is a band of a recording with one channel.
func isBand(name string) bool {
	return strings.HasPrefix(name, "mel ") && strings.HasSuffix(name, " Hz")
}

// spectral is a Source of frames.
type spectral struct {
	Source
	spec  *Spectrum
	about About
	from  []int // columns of samples
	rest  []int // other columns

	row     Row // read but not used yet
	err     error
	now     Row         // first row of the frame
	samples [][]float64 // by channel: samples of the frame, and those after it
	frames  int         // number of frames of the sequence
	bank    *bank
	slow    float64 // lowest rate among those that are too low for the upper bands; 0 for none
}

// frames returns the source with its recordings as frames. Other data, and recordings that spec excludes, stay
// unchanged.
func frames(src Source, spec *Spectrum) (Source, error) {
	s := &spectral{Source: src, spec: spec, about: src.About()}
	if spec == nil || !s.about.Recording || spec.Labelled && s.about.Label == "" {
		return src, nil
	}
	s.err = src.Next(&s.row)
	if s.err != nil || s.row.Step <= 0 || 1/s.row.Step < spec.MinRate {
		return &begun{src, &s.row, s.err}, nil
	}
	spec.settle(1 / s.row.Step)
	if err := spec.Check(); err != nil {
		return nil, errors.Join(err, src.Close())
	}
	s.about.Columns, s.about.Units = nil, nil
	for i, name := range src.About().Columns {
		if !strings.HasPrefix(name, "sample") {
			s.rest = append(s.rest, i)
			continue
		}
		s.from = append(s.from, i)
		for b := range spec.Bands {
			s.about.Columns = append(s.about.Columns, spec.Column(name, b))
			s.about.Units = append(s.about.Units, "dB")
		}
	}
	for _, i := range s.rest {
		s.about.Columns, s.about.Units = append(s.about.Columns, src.About().Columns[i]), append(s.about.Units, "")
	}
	s.samples = make([][]float64, len(s.from))
	return s, nil
}

// About describes the frames.
func (s *spectral) About() About { return s.about }

// Notes adds a note on how recordings are read.
func (s *spectral) Notes() []string {
	notes := append(slices.Clone(s.Source.Notes()), "recordings are read as "+s.spec.String())
	if s.slow > 0 {
		notes = append(notes, fmt.Sprintf("recordings at %g Hz have no sound above %g Hz: the bands above are empty",
			s.slow, s.slow/2))
	}
	return notes
}

// Next reads the samples of a frame.
func (s *spectral) Next(row *Row) error {
	for {
		ended := s.err != nil || s.frames+len(s.samples[0]) > 0 && s.row.Sequence != s.now.Sequence
		full := s.bank != nil && len(s.samples[0]) >= s.bank.frame
		if full || ended && s.frames == 0 && len(s.samples[0]) > 0 { // a recording shorter than a frame is one frame
			s.emit(row)
			return nil
		}
		if ended {
			for k := range s.samples {
				s.samples[k] = s.samples[k][:0]
			}
			s.frames = 0
			if s.err != nil {
				return s.err
			}
		}
		if err := s.take(); err != nil {
			return err
		}
	}
}

// take processes the row that was read, and reads the next one.
func (s *spectral) take() error {
	if s.frames+len(s.samples[0]) == 0 { // a recording starts
		cells := s.now.Cells[:0]
		s.now = s.row
		s.now.Cells = cells
		for _, i := range s.rest {
			s.now.Cells = append(s.now.Cells, s.row.Cells[i])
		}
		if rate := 1 / s.row.Step; s.bank == nil || s.bank.rate != rate {
			var err error
			if s.bank, err = s.spec.newBank(rate); err != nil {
				return fmt.Errorf("%s: %w", s.row.File, err)
			}
			if rate < 1.9*s.spec.Top && (s.slow == 0 || rate < s.slow) {
				s.slow = rate
			}
		}
	}
	for k, i := range s.from {
		s.samples[k] = append(s.samples[k], s.row.Cells[i].Number)
	}
	s.err = s.Source.Next(&s.row)
	return nil
}

// emit returns the frame that starts with the first of the samples, and drops the samples of one hop.
func (s *spectral) emit(row *Row) {
	row.Place, row.Sequence, row.Name = s.now.Place, s.now.Sequence, s.now.Name
	row.Step, row.Cells = float64(s.bank.hop)/s.bank.rate, row.Cells[:0]
	for k := range s.samples {
		for _, x := range s.bank.energies(s.samples[k]) {
			row.Cells = append(row.Cells, RealCell(x))
		}
		s.samples[k] = slices.Delete(s.samples[k], 0, min(s.bank.hop, len(s.samples[k])))
	}
	row.Cells = append(row.Cells, s.now.Cells...)
	s.now.At += int64(s.bank.hop)
	s.frames++
}

// begun is a source whose first row has already been read.
type begun struct {
	Source
	row *Row
	err error
}

// Next returns the first row, then the others.
func (s *begun) Next(row *Row) error {
	if first := s.row; first != nil {
		s.row = nil
		*row = *first
		return s.err
	}
	return s.Source.Next(row)
}

// bank computes the frames of recordings at one rate.
type bank struct {
	rate       float64
	frame, hop int // in samples
	fft        *fourier.FFT
	window     []float64
	power      float64 // Σ h² rate / (2 Top), so that equal sounds have equal energies at all rates
	lo         []int   // first bin of each band
	weights    [][]float64
	x          []float64
	bins       []complex128
	out        []float64
}

func mel(hertz float64) float64 { return 2595 * math.Log10(1+hertz/700) }

func hertz(mel float64) float64 { return 700 * (math.Pow(10, mel/2595) - 1) }

// corner returns the frequency at which the triangle of band b starts, which has its peak at corner b+1.
func (s *Spectrum) corner(b int) float64 { return hertz(mel(s.Top) * float64(b) / float64(s.Bands+1)) }

func (s *Spectrum) center(b int) float64 { return s.corner(b + 1) }

// newBank returns the bank for a rate.
func (s *Spectrum) newBank(rate float64) (*bank, error) {
	b := &bank{rate: rate, out: make([]float64, s.Bands)}
	if size := s.Frame * rate; !(size >= 2 && size <= mostFrame) {
		return nil, fmt.Errorf("found a recording at %g Hz, %g samples in a frame of %g s, want 2 to %d", rate, size,
			s.Frame, mostFrame)
	}
	b.frame, b.hop = int(math.Round(s.Frame*rate)), max(1, int(math.Round(s.Hop*rate)))
	n := 2
	for n < 2*b.frame { // pad the frame with zeros, so that narrow bands have bins
		n *= 2
	}
	b.fft, b.x, b.bins = fourier.NewFFT(n), make([]float64, n), make([]complex128, n/2+1)
	for t := range b.frame {
		h := 0.5 - 0.5*math.Cos(2*math.Pi*(float64(t)+0.5)/float64(b.frame))
		b.window, b.power = append(b.window, h), b.power+h*h*rate/(2*s.Top)
	}
	for band := range s.Bands {
		low, peak, high := s.corner(band), s.corner(band+1), s.corner(band+2)
		lo, weights, sum := 0, []float64(nil), 0.0
		for k := range b.bins {
			f := float64(k) * rate / float64(n)
			if w := min((f-low)/(peak-low), (high-f)/(high-peak)); w > 0 {
				if weights == nil {
					lo = k
				}
				weights, sum = append(weights, w), sum+w
			}
		}
		for k := range weights {
			weights[k] /= sum
		}
		b.lo, b.weights = append(b.lo, lo), append(b.weights, weights)
	}
	return b, nil
}

// energies returns the energies of the bands of a frame. Missing samples at its end are 0.
func (b *bank) energies(samples []float64) []float64 {
	clear(b.x)
	for t, h := range b.window[:min(b.frame, len(samples))] {
		b.x[t] = h * samples[t]
	}
	b.fft.Coefficients(b.bins, b.x)
	for band, weights := range b.weights {
		sum := 0.0
		for k, w := range weights {
			c := b.bins[b.lo[band]+k]
			sum += w * (real(c)*real(c) + imag(c)*imag(c))
		}
		b.out[band] = max(quietest, 10*math.Log10(sum/b.power))
	}
	return b.out
}
