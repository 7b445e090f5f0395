package fit

import (
	"errors"
	"math"
	"strings"

	"github.com/hippo-ssm/hippo/table"
)

// addRow appends a row of a sequence.
func (l *loader) addRow(seq int, row []float32) error {
	if seq != l.now && l.counts[seq] > 0 && l.ids == nil { // the rows of sequences are mixed
		l.ids = newStore(l.f.rows.dir, 1)
		for i, n := range l.counts {
			for range n {
				if err := l.addID(i); err != nil {
					return err
				}
			}
		}
	}
	if l.ids != nil {
		if err := l.addID(seq); err != nil {
			return err
		}
	}
	l.now = seq
	l.counts[seq]++
	return l.f.rows.add(row)
}

// addID stores the sequence of a row. The store holds float32 numbers; the bits of the number are the sequence's index.
func (l *loader) addID(seq int) error {
	l.id[0] = math.Float32frombits(uint32(seq))
	return l.ids.add(l.id[:])
}

// lastOf returns the last row of a sequence.
func (l *loader) lastOf(seq int) *lastRow {
	if l.s.series < 0 {
		return &l.last[0]
	}
	return &l.last[seq]
}

// sequence returns the number of a row's sequence. Sequences that no column names are successive.
func (l *loader) sequence(v *table.Values) int {
	name := v.Name
	if l.s.series >= 0 {
		name = v.Texts[l.s.series]
	}
	p := &l.prev
	if len(l.counts) > 0 && p.sequence == v.Sequence && (l.s.series < 0 || p.series == name) {
		return p.seq
	}
	seq, ok := l.number[seriesKey{v.Sequence, name}]
	if !ok || l.s.series < 0 {
		seq = len(l.counts)
		l.begin(v, strings.Clone(name))
	}
	p.seq, p.sequence, p.series = seq, v.Sequence, l.f.seqs[seq].name
	return seq
}

// begin starts a sequence.
func (l *loader) begin(v *table.Values, name string) {
	f := l.f
	group, named := f.groups, false
	if l.s.group >= 0 {
		group, named = l.groups[v.Texts[l.s.group]]
		if !named {
			group = f.groups
			l.groups[strings.Clone(v.Texts[l.s.group])] = group
		}
	}
	if !named {
		f.groups++
	}
	fresh := lastRow{time: math.NaN()}
	if l.s.series >= 0 {
		l.number[seriesKey{v.Sequence, name}] = len(f.seqs)
		l.last = append(l.last, fresh)
	} else {
		l.last = append(l.last[:0], fresh)
	}
	f.seqs = append(f.seqs, sequence{name: name, group: group})
	l.counts = append(l.counts, 0)
}

// regroupBytes is the maximum memory for sorting rows.
var regroupBytes = 64 << 20 // a variable for tests

// regroup rewrites the rows so that those of each sequence are contiguous. It collects the rows of a sequence before
// writing them, as many as fit into memory.
func (l *loader) regroup() (err error) {
	f, old := l.f, l.f.rows
	if err := l.ids.finish(); err != nil {
		return err
	}
	if f.rows, err = sizedStore(old.dir, old.width, old.n); err != nil {
		return errors.Join(err, old.close(), l.ids.close())
	}
	some := max(1, regroupBytes/4/old.width/len(f.seqs)) * old.width
	waiting, next := make([][]float32, len(f.seqs)), make([]int, len(f.seqs))
	for i := range next {
		next[i] = f.seqs[i].lo
	}
	write := func(i int) error {
		err := f.rows.put(next[i], waiting[i])
		next[i] += len(waiting[i]) / old.width
		waiting[i] = waiting[i][:0]
		return err
	}
	for at := 0; at < old.n && err == nil; at++ {
		i := int(math.Float32bits(l.ids.row(at)[0]))
		if waiting[i] = append(waiting[i], old.row(at)...); len(waiting[i]) >= some {
			err = write(i)
		}
		if at%releaseRows == releaseRows-1 {
			old.release(at+1-releaseRows, at+1)
			l.ids.release(at+1-releaseRows, at+1)
		}
	}
	for i := range waiting {
		if err == nil {
			err = write(i)
		}
	}
	return errors.Join(err, f.rows.finish(), old.close(), l.ids.close())
}
