//go:build !amd64

package kernel

// blocked would compute the product in assembly, of which there is none for this architecture.
func (p *product) blocked(workers int) { p.portable(workers) }

// pairs is never called: here there is only the portable level.
func (p *product) pairs(int) {}

// panelFloats is 0: the portable product takes B as it lies.
func (p *product) panelFloats() int { return 0 }

// toPanels and fromPanels are never called.
func (p *product) toPanels([]float32)             {}
func (p *product) fromPanels([]float32, int, int) {}
