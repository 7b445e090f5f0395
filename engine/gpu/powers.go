//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/compose"
)

var _ compose.PowerSummer = (*core)(nil)

// parts appends the addresses of the real and imaginary parts of complex numbers.
func (a *args) parts(all ...[2]engine.View) *args {
	for _, x := range all {
		a.address(at(x[0]), at(x[1]))
	}
	return a
}

// PowerSums sets y[j] = Re Σ_n w·a^j, in one launch.
func (c *core) PowerSums(to engine.View, a, w [2]engine.View) {
	c.powers("powers", to, a, w, nil, 8, 1024, 1)
}

// AddPowerSums adds the gradients of a and w, in one launch.
func (c *core) AddPowerSums(dy engine.View, a, w, da, dw [2]engine.View) {
	c.powers("powers_grad", dy, a, w, [][2]engine.View{da, dw}, 20, 0, 8)
}

// powers launches a kernel. Each workgroup computes `positions` positions of one head or, if positions is 0, all
// positions of `modes` modes of it. flops counts the operations for one power of one mode.
func (c *core) powers(name string, y engine.View, a, w [2]engine.View, grads [][2]engine.View, flops, positions,
	modes int) {
	l, h, n := y.Shape[0], y.Shape[1], a[0].Shape[1]
	p := new(args).address(at(y)).parts(a, w).parts(grads...).int(l, h, n)
	for _, v := range []engine.View{y, a[0], w[0]} {
		p.int(v.Stride...)
	}
	groups := blocks(n, modes)
	if positions > 0 {
		groups = blocks(l, positions)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.launch(name, p.work(4*l*h+16*h*n*(1+len(grads)), flops*l*h*n), h*groups)
}
