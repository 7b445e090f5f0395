package table

import (
	"fmt"
	"io"
	"slices"
)

// heard is a recording that is mixed down to one channel, or resampled.
type heard struct {
	Source
	about    About
	mono     bool
	channels []*resampler // nil if the rate stays the same
	row      Row
	ended    bool
}

// hear returns a recording mixed down to the mean of its channels if mono is set, and resampled to rate unless that is
// 0. filters caches the filters of other recordings.
func hear(src Source, mono bool, rate int, filters map[int]*filter) (Source, error) {
	about := src.About()
	mono = mono && len(about.Columns) > 1
	if rate == about.Rate {
		rate = 0
	}
	if !mono && rate == 0 || !about.Recording {
		return src, nil
	}
	s := &heard{Source: src, about: about, mono: mono}
	if mono {
		s.about.Columns = numbered("sample", 1)
	}
	if rate == 0 {
		return s, nil
	}
	f := filters[about.Rate]
	if f == nil {
		var err error
		if f, err = newFilter(about.Rate, rate); err != nil {
			return nil, err
		}
		filters[about.Rate] = f
	}
	s.about.Rate = rate
	for range s.about.Columns {
		s.channels = append(s.channels, &resampler{filter: f})
	}
	return s, nil
}

// About describes the converted recording.
func (s *heard) About() About { return s.about }

// Next returns the next sample.
func (s *heard) Next(row *Row) error {
	for {
		if s.resampled(row) {
			return nil
		}
		if s.ended {
			return io.EOF
		}
		err := s.Source.Next(&s.row)
		if s.ended = err == io.EOF; s.ended {
			continue
		} else if err != nil {
			return err
		}
		if cells := s.row.Cells; s.mono {
			mean := 0.0
			for _, c := range cells {
				if c.Form == Missing {
					mean = nan
				}
				mean += c.Number / float64(len(cells))
			}
			s.row.Cells = append(cells[:0], RealCell(mean))
		}
		if s.channels == nil {
			*row, s.row.Cells = s.row, row.Cells
			return nil
		}
		for i, r := range s.channels {
			r.push(s.row.Cells[i].Number) // 0 for a missing sample
		}
	}
}

// resampled sets row to the next sample at the new rate, and reports whether it is known.
func (s *heard) resampled(row *Row) bool {
	cells := row.Cells[:0]
	for _, r := range s.channels {
		x, ok := r.next(s.ended)
		if !ok {
			return false
		}
		cells = append(cells, RealCell(x))
	}
	if len(cells) == 0 {
		return false
	}
	*row = s.row
	row.Cells, row.At, row.Step = cells, int64(s.channels[0].outs), 1/float64(s.about.Rate)
	return true
}

// unify decides the common form of recordings: one channel if their numbers of channels differ and, if their rates
// differ, the rate of the options or of most recordings.
func unify(all []About, opt *Options) (mono bool, rate int, note string) {
	mono = opt.mono
	count := map[int]int{}
	for _, a := range all {
		mono = mono || len(a.Columns) != len(all[0].Columns)
		count[a.Rate]++
	}
	if len(count) > 1 {
		for r, n := range count {
			if n > count[rate] || n == count[rate] && r < rate {
				rate = r
			}
		}
		if opt.Rate > 0 {
			rate = opt.Rate
		}
	}
	mixed := 0
	for _, a := range all {
		if mono && len(a.Columns) > 1 {
			mixed++
		}
	}
	if mixed > 0 {
		note = fmt.Sprintf("%d of %d recordings have several channels: they are mixed down to one", mixed, len(all))
	}
	if rate > 0 {
		if note != "" {
			note += "; "
		}
		note += fmt.Sprintf("%d of %d recordings have other rates: they are resampled to %d Hz", len(all)-count[rate],
			len(all), rate)
	}
	return mono, rate, note
}

// wantsMono reports whether columns are those of recordings with one channel, or of their frames.
func wantsMono(want []Column) bool {
	return slices.ContainsFunc(want, func(c Column) bool { return c.Name == "sample" || isBand(c.Name) })
}
