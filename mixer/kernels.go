package mixer

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/tensor"
)

// Response is the impulse responses of linear systems inside a mixer that are the same at every position, one for each
// channel: Taps (l, channels).
type Response struct {
	Name string
	Taps *tensor.Tensor
}

// Responses are the kernels of a mixer, of at most l taps: those of its state-space systems and long filters, without
// their skips, and then of its short filters. They live as long as what t has made. Mixers whose systems depend on the
// input have short filters only; attention has none.
func Responses(t *autograd.Tape, m Mixer, l int) []Response {
	switch m := m.(type) {
	case scaled:
		return Responses(t, m.Mixer, l)
	case *parallel:
		var all []Response
		for i, part := range m.parts {
			for _, k := range Responses(t, part, l) {
				all = append(all, Response{m.names[i] + "." + k.Name, k.Taps})
			}
		}
		return all
	case interface {
		kernels(t *autograd.Tape, l int) []Response
	}:
		return m.kernels(t, l)
	}
	return nil
}

func (m *s4Layer) kernels(t *autograd.Tape, l int) []Response {
	var all []Response
	for i, s := range m.systems {
		name := numbered("ssm", i)
		if m.opt.Bidirectional && i >= m.opt.Channels {
			name = numbered("ahead", i-m.opt.Channels)
		}
		all = append(all, Response{name, t.KernelRows(s.kernel(t, min(l, s.longest)), m.d)})
	}
	return all
}

func (m *H3) kernels(t *autograd.Tape, l int) []Response {
	diag := t.KernelRows(t.DiagKernel(m.Diag.System(t), l), m.D.Len())
	return []Response{{"diag", diag}, {"shift", m.Shift.kernel(min(l, m.cfg.DState))}}
}

// kernel is K[j, c] = Σ_i C[c, i+j] B[c, i] (l, d): the filter that the shift system is, without its skip.
func (s *Shift) kernel(l int) *tensor.Tensor {
	d, n := s.B.Dim(0), s.B.Dim(1)
	b, c, k := make([]float32, d*n), make([]float32, d*n), make([]float32, l*d)
	s.B.CopyTo(b)
	s.C.CopyTo(c)
	for j := range l {
		for ch := range d {
			for i := range n - j {
				k[j*d+ch] += c[ch*n+i+j] * b[ch*n+i]
			}
		}
	}
	return tensor.FromSlice(k, l, d)
}

func (m *GSS) kernels(t *autograd.Tape, l int) []Response {
	return []Response{{"diag", t.KernelRows(t.DiagKernel(m.Diag.System(t), l), m.d)}}
}

func (m *Hyena) kernels(t *autograd.Tape, l int) []Response {
	var all []Response
	for i, k := range m.Filter.split(t, m.Filter.generate(t, min(l, m.opt.LMax))) {
		all = append(all, Response{numbered("long", i), k})
	}
	return append(all, shortKernel(m.ShortWeight.Tensor))
}

func (m *Mamba) kernels(*autograd.Tape, int) []Response {
	return []Response{shortKernel(m.Conv.weight.Tensor)}
}
func (m *Mamba2) kernels(*autograd.Tape, int) []Response {
	return []Response{shortKernel(m.Conv.weight.Tensor)}
}
func (m *RGLRU) kernels(*autograd.Tape, int) []Response {
	return []Response{shortKernel(m.Conv.weight.Tensor)}
}
func (m *GatedConv) kernels(*autograd.Tape, int) []Response {
	return []Response{shortKernel(m.Conv.weight.Tensor)}
}

// shortKernel turns the taps of a short filter (d, 1, k), the newest last, into a kernel (k, d).
func shortKernel(w *tensor.Tensor) Response {
	d, taps := w.Dim(0), w.Dim(-1)
	x, k := make([]float32, d*taps), make([]float32, d*taps)
	w.CopyTo(x)
	for c := range d {
		for j := range taps {
			k[j*d+c] = x[c*taps+taps-1-j]
		}
	}
	return Response{"conv", tensor.FromSlice(k, taps, d)}
}
