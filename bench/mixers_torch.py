#!/usr/bin/python3
"""Mixers in PyTorch on the CPU, each in several forms of the same arithmetic: the peer of "hippo bench mixer NAME...".

    mixers_torch.py [--threads N] [--seconds S] [--all] mamba|linear-attention|hyena|s4|gated-deltanet|kda ...

d_model 256, one sequence of 1k and of 16k positions: the whole mixer (fwd, fwd_bwd), its operation alone, without what a linear layer
does (op_fwd, op_fwd_bwd), and one position more where the mixer is recurrent (step). JSON lines with the CPU time per token of the
fastest form of each, which the fields that end in _form name. --all prints what every form took to standard error. At 16k only forms
are tried that took at most a third more than the fastest at 1k. Settings are the fastest found for PyTorch 1.13: AVX-512, and a malloc
that keeps its pages.
"""
import argparse, json, math, os, sys
p = argparse.ArgumentParser(usage=__doc__)
p.add_argument("--threads", type=int, default=1)
p.add_argument("--seconds", type=float, default=1)
p.add_argument("--all", action="store_true")
p.add_argument("mixers", nargs="+")
arg = p.parse_args()
env = dict(OMP_NUM_THREADS=str(arg.threads), OPENBLAS_NUM_THREADS=str(arg.threads), ATEN_CPU_CAPABILITY="avx512",
           MALLOC_MMAP_THRESHOLD_="4294967296", MALLOC_TRIM_THRESHOLD_="17179869184", MALLOC_TOP_PAD_="268435456")
if any(os.environ.get(k) != v for k, v in env.items()):  # they are read when a process starts
    os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **env})
import time, torch, torch.nn as nn, torch.nn.functional as F
torch.set_num_threads(arg.threads)


def conv1d(x, w, b):
    """The causal filter of x (1, l, d) with w (d, 1, taps), as in the official code."""
    return F.conv1d(x.transpose(1, 2), w, b, padding=w.shape[2] - 1, groups=w.shape[0])[..., :x.shape[1]].transpose(1, 2)


def shifted_sums(x, w, b):
    """The same as a sum of shifted copies."""
    l, taps = x.shape[1], w.shape[2]
    y = x * w[:, 0, -1] + b
    for i in range(1, taps):
        y[:, i:] += x[:, :l - i] * w[:, 0, -1 - i]
    return y


def fft_conv(v, k):
    """The causal convolution of v (..., l) with k (d, l)."""
    l = v.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(v, n=2 * l) * torch.fft.rfft(k, n=2 * l), n=2 * l)[..., :l]


# The selective scan: x_t = exp(dt_t A) x_{t-1} + dt_t B_t u_t, y_t = C_t x_t, of u, dt (l, d), A (d, n), B, C (l, n).

def scan_loop(u, dt, A, B, C):
    """One position at a time."""
    x, ys = torch.zeros_like(A), []
    for du, dt, b, c in zip((dt * u).unbind(), dt.unbind(), B.unbind(), C.unbind()):
        x = torch.addcmul(torch.outer(du, b), torch.exp(dt[:, None] * A), x)
        ys.append(x @ c)
    return torch.stack(ys)


def in_chunks(T):
    """Makes a scan of all positions from one of T, f(dt, du, A, B, C, x) with du = dt u: y and the state after them."""
    def decorate(f):
        def scan(u, dt, A, B, C):
            x, ys, du = torch.zeros_like(A), [], dt * u
            for du, dt, b, c in zip(du.split(T), dt.split(T), B.split(T), C.split(T)):
                y, x = f(dt, du, A, b, c, x)
                ys.append(y)
            return torch.cat(ys)
        scan.__name__ = f"{f.__name__}{T}"
        return scan
    return decorate


def sums(dt, du, A, B, C, x):
    """x_t = e^(S_t A) (x_0 + sum e^(-S_s A) du_s B_s) with S the sums of dt: a cumulative sum over the positions."""
    s = dt.cumsum(0)[..., None] * A  # (t, d, n)
    xs = torch.exp(s) * (x + (torch.exp(-s) * du[..., None] * B[:, None]).cumsum(0))
    return torch.matmul(xs, C[..., None])[..., 0], xs[-1]


def products(dt, du, A, B, C, x):
    """The same sums as batched matrix products: for each channel y = tril(G H') du + G x_0, G = C e^(SA), H = B e^(-SA)."""
    s = dt.cumsum(0).t()[..., None] * A[:, None]  # (d, t, n)
    grow = torch.exp(s)
    h, g = B / grow, C * grow
    du = du.t()[..., None]
    y = torch.bmm(torch.bmm(g, h.transpose(1, 2)).tril(), du) + torch.bmm(g, x[..., None])
    return y[..., 0].t(), grow[:, -1] * (x + torch.bmm(h.transpose(1, 2), du)[..., 0])


def doubling(dt, du, A, B, C, x):
    """Hillis and Steele's associative scan over pairs (decay, sum)."""
    a = torch.exp(dt[..., None] * A)
    v = du[..., None] * B[:, None]
    step = 1
    while step < len(a):
        v = torch.cat([v[:step], torch.addcmul(v[step:], a[step:], v[:-step])])
        a = torch.cat([a[:step], a[step:] * a[:-step]])
        step *= 2
    xs = torch.addcmul(v, a, x)
    return torch.matmul(xs, C[..., None])[..., 0], xs[-1]


class Mamba(nn.Module):
    def __init__(self, d, l, n=16, taps=4):
        super().__init__()
        e = 2 * d
        self.n, self.rank = n, d // 16
        self.into, self.out = nn.Linear(d, 2 * e, bias=False), nn.Linear(e, d, bias=False)
        self.x, self.dt = nn.Linear(e, self.rank + 2 * n, bias=False), nn.Linear(self.rank, e)
        dt = torch.exp(torch.rand(e) * math.log(100) + math.log(1e-3))
        self.dt.bias.data = dt + torch.log(-torch.expm1(-dt))
        self.w, self.b = nn.Parameter(torch.rand(e, 1, taps) - 0.5), nn.Parameter(torch.rand(e) - 0.5)
        self.A_log, self.D = nn.Parameter(torch.log(torch.arange(1., n + 1)).repeat(e, 1)), nn.Parameter(torch.ones(e))

    # Longer chunks of sums and products would overflow: dt A of 0.1 times 16 is 1.6 for a position.
    scans = [scan_loop, in_chunks(16)(sums), in_chunks(16)(products), in_chunks(32)(doubling)]

    def forms(self):
        return {scan.__name__: (lambda u, scan=scan: self.run(u, scan)) for scan in self.scans}

    def operation(self, l):
        e = len(self.D)
        return [torch.randn(l, e), torch.rand(l, e) / 10, -torch.exp(self.A_log.detach()), torch.randn(l, self.n), torch.randn(l, self.n)], {
            scan.__name__: lambda u, *rest, scan=scan: scan(u, *rest) + u * self.D for scan in self.scans}

    def run(self, u, scan):
        x, z = self.into(u).chunk(2, -1)
        x = F.silu(shifted_sums(x, self.w, self.b))  # faster than conv1d
        dt, B, C = self.x(x).split([self.rank, self.n, self.n], -1)
        dt = F.softplus(self.dt(dt))
        y = scan(x[0], dt[0], -torch.exp(self.A_log), B[0], C[0])[None] + x * self.D
        return self.out(y * F.silu(z))

    def stepper(self):
        e = len(self.D)
        past, state, A = torch.zeros(self.w.shape[2] - 1, e), torch.zeros(e, self.n), -torch.exp(self.A_log)
        w = self.w[:, 0].t().contiguous()

        def step(u):
            nonlocal past, state
            x, z = torch.mv(self.into.weight, u).chunk(2)
            rows = torch.cat([past, x[None]])
            past = rows[1:]
            x = F.silu((rows * w).sum(0) + self.b)
            dt, B, C = torch.mv(self.x.weight, x).split([self.rank, self.n, self.n])
            dt = F.softplus(torch.addmv(self.dt.bias, self.dt.weight, dt))
            state = torch.addcmul(torch.outer(dt * x, B), torch.exp(dt[:, None] * A), state)
            return torch.mv(self.out.weight, torch.addmv(x * self.D, state, C) * F.silu(z))
        return step


class LinearAttention(nn.Module):
    def __init__(self, d, l, heads=4):
        super().__init__()
        self.h, self.hd = heads, d // heads
        self.q, self.k, self.v, self.out = (nn.Linear(d, d) for _ in range(4))

    def forms(self):
        return {name: lambda u, f=f: self.out(f(self.q(u), self.k(u), self.v(u))) for name, f in self.cores().items()}

    def operation(self, l):
        return [torch.randn(1, l, self.h * self.hd) for _ in range(3)], self.cores()

    def cores(self):
        chunked = {f"chunks of {c}": (lambda *a, c=c: self.attend(lambda *b: self.chunked(c, *b), *a)) for c in (32, 64, 128)}
        return {"quadratic": lambda *a: self.attend(self.quadratic, *a), **chunked}

    def attend(self, attend, *qkv):
        l = qkv[0].shape[1]
        q, k, v = (x[0].view(l, self.h, self.hd).transpose(0, 1) for x in qkv)  # (h, l, hd)
        y = attend(F.elu(q) + 1, F.elu(k) + 1, F.pad(v, (0, 1), value=1.))  # a component of ones gives the sums to divide by
        y = y[..., :-1] / (y[..., -1:] + 1e-6)
        return y.transpose(0, 1).reshape(1, l, -1)

    def quadratic(self, q, k, v):
        return (q @ k.transpose(1, 2)).tril() @ v

    def chunked(self, c, q, k, v):
        q, k, v = (x.reshape(self.h, -1, c, x.shape[-1]) for x in (q, k, v))
        s = (k.transpose(2, 3) @ v).cumsum(1)
        s = F.pad(s[:, :-1], (0, 0, 0, 0, 1, 0))  # what came before each chunk
        return ((q @ k.transpose(2, 3)).tril() @ v + q @ s).flatten(1, 2)

    def stepper(self):
        s = torch.zeros(self.h, self.hd, self.hd + 1)

        def step(u):
            q, k, v = (torch.addmv(f.bias, f.weight, u).view(self.h, 1, self.hd) for f in (self.q, self.k, self.v))
            s.baddbmm_((F.elu(k) + 1).transpose(1, 2), F.pad(v, (0, 1), value=1.))
            y = torch.bmm(F.elu(q) + 1, s)[:, 0]
            return torch.addmv(self.out.bias, self.out.weight, (y[:, :-1] / (y[:, -1:] + 1e-6)).flatten())
        return step


class Hyena(nn.Module):
    def __init__(self, d, l, width=64, emb=33, w=14.0):
        super().__init__()
        self.d = d
        self.into, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.w, self.b = nn.Parameter(torch.rand(3 * d, 1, 3) - 0.5), nn.Parameter(torch.rand(3 * d) - 0.5)
        bands = (emb - 1) // 2
        t = torch.linspace(0, 1, l)[:, None]
        angle = 2 * math.pi * torch.arange(l)[:, None] / l * torch.linspace(1e-4, bands - 1, bands)
        self.register_buffer("z", torch.cat([t, torch.cos(angle), -torch.sin(angle)], -1))
        self.register_buffer("window", torch.exp(-t * torch.linspace(math.log(100) / 1.5, math.log(100) / 0.3, d)))
        self.layers = nn.ModuleList([nn.Linear(emb, width), nn.Linear(width, width), nn.Linear(width, width)])
        self.last = nn.Linear(width, d, bias=False)
        self.freq, self.skip = nn.Parameter(w * torch.ones(width)), nn.Parameter(torch.randn(d))
        self.given = None

    def cores(self):
        return {f"{conv.__name__}, {where}": (lambda x, k, conv=conv, rows=rows: self.core(x, k, conv, rows))
                for conv in (conv1d, shifted_sums) for where, rows in (("gates on columns", False), ("gates on rows", True))}

    def forms(self):
        return {name: lambda u, f=f: self.out(f(self.into(u), self.filter())) for name, f in self.cores().items()}

    def operation(self, l):
        return [torch.randn(1, l, 3 * self.d), torch.randn(l, self.d)], self.cores()

    def filter(self):
        """The taps (l, d). As hippo does, keeps those of parameters that stay as they are when no gradients are wanted."""
        if not torch.is_grad_enabled() and self.given is not None:
            return self.given
        h = self.z
        for layer in self.layers:
            h = torch.sin(self.freq * layer(h))
        k = self.last(h) * self.window
        if not torch.is_grad_enabled():
            self.given = k
        return k

    def core(self, x, k, conv, rows):
        x, k = conv(x, self.w, self.b), k.t()
        if rows:  # the transform reads and writes rows of channels
            x0, x1, v = x.split(self.d, -1)
            v = v * x1
            y = fft_conv(v.transpose(1, 2), k).transpose(1, 2) + v * self.skip
            return y * x0
        x0, x1, v = x.transpose(1, 2).contiguous().split(self.d, 1)
        v = v * x1
        return ((fft_conv(v, k) + v * self.skip[:, None]) * x0).transpose(1, 2)


class S4(nn.Module):
    """The kernel of DPLR systems by Cauchy sums at the roots of unity, with C~ trained; n of 64 states, as conjugate pairs."""

    def __init__(self, d, l, n=32):
        super().__init__()
        self.d, self.l = d, l
        self.log_dt = nn.Parameter(torch.rand(d) * math.log(100) + math.log(1e-3))
        self.log_re, self.im = nn.Parameter(torch.full((d, n), math.log(0.5))), nn.Parameter(math.pi * torch.arange(n).repeat(d, 1).float())
        self.B, self.P, self.C = (nn.Parameter(torch.randn(d, n, 2) / 8) for _ in range(3))
        self.D, self.out = nn.Parameter(torch.randn(d)), nn.Linear(d, 2 * d)
        omega = torch.exp(-2j * math.pi * torch.arange(l // 2, dtype=torch.float64) / l)
        self.register_buffer("z", (2 * (1 - omega) / (1 + omega)).to(torch.complex64))
        self.register_buffer("scale", (2 / (1 + omega)).to(torch.complex64))
        self.given = None

    def cores(self):
        return {f"{cauchy.__name__} by {size}, {where}": (lambda u, cauchy=cauchy, size=size, rows=rows: self.core(u, cauchy, size, rows))
                for cauchy, size in ((self.pairs, 256), (self.polynomial, 256), (self.polynomial, 8192))
                for where, rows in (("columns", False), ("rows", True))}

    def forms(self):
        return {name: lambda u, f=f: F.glu(self.out(F.gelu(f(u))), -1) for name, f in self.cores().items()}

    def operation(self, l):
        return [torch.randn(1, l, self.d)], self.cores()

    def pairs(self, z, v, w):
        """Sums of v / (z - w) and their conjugates over the modes: v (4, d, n), w (d, n) -> (4, d, len(z)), two divisions a mode."""
        a = 1 / (z - w[..., None])
        b = 1 / (z - w.conj()[..., None])
        return torch.einsum("kdn,dnl->kdl", v, a) + torch.einsum("kdn,dnl->kdl", v.conj(), b)

    def polynomial(self, z, v, w):
        """The same with z = iy, in real arithmetic: (2 Re(v) z - 2 Re(v conj(w))) / (z^2 - 2 Re(w) z + |w|^2), as real products."""
        y = z.imag
        re, norm = 2 * w.real, w.real ** 2 + w.imag ** 2
        a, b = norm[..., None] - y * y, re[..., None] * -y  # the denominator is a + ib
        r = 1 / (a * a + b * b)
        p, q = a * r, b * r  # 1/(a + ib) = p - iq
        v1, v0 = 2 * v.real.transpose(0, 1), -2 * (v.real * w.real + v.imag * w.imag).transpose(0, 1)  # (d, 4, n)
        both = torch.cat([v1, v0], 1)
        P, Q = torch.bmm(both, p), torch.bmm(both, q)  # (d, 8, l)
        return torch.complex(P[:, 4:] + y * Q[:, :4], y * P[:, :4] - Q[:, 4:]).transpose(0, 1)

    def kernel(self, cauchy, size):
        """The taps (d, l), kept like those of Hyena."""
        if not torch.is_grad_enabled() and self.given is not None:
            return self.given
        dt = self.log_dt.exp()
        w = torch.complex(-self.log_re.exp(), self.im) * dt[:, None]
        B, P, C = (torch.view_as_complex(x) for x in (self.B, self.P, self.C))
        v = torch.stack([B * C, B * P.conj(), P * C, P * P.conj()]) * dt[:, None]
        parts = []
        for z in self.z.split(size):
            bc, bp, pc, pp = cauchy(z, v, w)
            parts.append(bc - bp * pc / (1 + pp))
        k = torch.cat(parts, -1) * self.scale
        k = torch.fft.irfft(F.pad(k, (0, 1)), n=self.l)
        if not torch.is_grad_enabled():
            self.given = k
        return k

    def core(self, u, cauchy, size, rows):
        k = self.kernel(cauchy, size)
        if rows:
            return fft_conv(u.transpose(1, 2), k).transpose(1, 2) + u * self.D
        x = u.transpose(1, 2).contiguous()
        return (fft_conv(x, k) + x * self.D[:, None]).transpose(1, 2)


class GatedDeltaNet(nn.Module):
    """Gated DeltaNet: S' = e^g S, S = S' + k beta (v - S'^T k)^T, o = S^T q, with a decay for each head."""
    decays, sizes = 1, (32, 64)

    def __init__(self, d, l, heads=4, taps=4):
        super().__init__()
        self.h, self.hd, self.width = heads, d // heads, d
        self.qkv, self.out, self.b = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False), nn.Linear(d, heads, bias=False)
        self.w, self.none = nn.Parameter(torch.rand(3 * d, 1, taps) - 0.5), torch.zeros(3 * d)
        self.A_log = nn.Parameter(torch.log(torch.rand(heads) * 15 + 1))
        dt = torch.exp(torch.rand(self.decays * heads) * math.log(100) + math.log(1e-3))
        self.dt_bias, self.norm = nn.Parameter(dt + torch.log(-torch.expm1(-dt))), nn.Parameter(torch.ones(self.hd))
        self.gates(d)

    def gates(self, d):
        self.a, self.z, self.act = nn.Linear(d, self.h, bias=False), nn.Linear(d, d, bias=False), F.silu

    def cores(self):
        chunked = {f"chunks of {c}": (lambda *a, c=c: self.chunked(c, *a)) for c in self.sizes}
        return {"steps": self.steps, **chunked}

    def forms(self):
        return {name: lambda u, f=f: self.run(u, f) for name, f in self.cores().items()}

    def operation(self, l):
        h, dk = max(1, self.width // 128), min(self.width, 128)
        q, k = F.normalize(torch.randn(h, l, dk), dim=-1), F.normalize(torch.randn(h, l, dk), dim=-1)
        return [q, k, torch.randn(h, l, dk), -torch.rand(h, l, min(self.decays, dk)) / 10, torch.rand(h, l, 1)], self.cores()

    def run(self, u, f):
        l = u.shape[1]
        x = F.silu(shifted_sums(self.qkv(u), self.w, self.none))
        q, k, v = x[0].view(l, 3, self.h, self.hd).permute(1, 2, 0, 3)  # (h, l, hd)
        q, k = (t * torch.rsqrt((t * t).sum(-1, keepdim=True) + 1e-6) for t in (q, k))
        g = -torch.exp(self.A_log)[:, None] * F.softplus(self.a(u)[0] + self.dt_bias).view(l, self.h, -1)
        o = f(q * self.hd ** -0.5, k, v, g.transpose(0, 1), torch.sigmoid(self.b(u)[0]).t()[..., None])
        o = o * torch.rsqrt((o * o).mean(-1, keepdim=True) + 1e-5) * self.norm
        return self.out(o.transpose(0, 1).reshape(1, l, -1) * self.act(self.z(u)))

    def steps(self, q, k, v, g, beta):
        """One position at a time: the naive form."""
        S, os = torch.zeros(q.shape[0], q.shape[2], v.shape[2]), []
        for q, k, v, d, beta in zip(*(x.unbind(1) for x in (q, k, v, torch.exp(g), beta))):
            S = S * d[..., None]
            S = torch.baddbmm(S, k[..., None], (beta * (v - torch.bmm(k[:, None], S)[:, 0]))[:, None])
            os.append(torch.bmm(q[:, None], S)[:, 0])
        return torch.stack(os, 1)

    def chunked(self, c, q, k, v, g, beta):
        """The WY form: a triangular system for each chunk, all at once, and one state after another."""
        q, k, v, g, beta = (x.reshape(x.shape[0], -1, c, x.shape[-1]) for x in (q, k, v, g, beta))
        g = g.cumsum(2)
        grown, last = torch.exp(g), torch.exp(g[:, :, -1:])
        qg, kg, kl = q * grown, k * grown, (k * torch.exp(g[:, :, -1:] - g)).transpose(2, 3)
        A, within = self.products(qg, kg, q, k, g)
        A = (beta * A).tril(-1) + torch.eye(c)
        U, W = torch.linalg.solve_triangular(A, torch.cat([beta * v, beta * kg], -1), upper=False, unitriangular=True).split(
            [v.shape[-1], k.shape[-1]], -1)
        S, os = torch.zeros(q.shape[0], q.shape[3], v.shape[3]), []
        for qg, within, U, W, kl, last in zip(*(x.unbind(1) for x in (qg, within.tril(), U, W, kl, last.transpose(2, 3)))):
            new = U - W @ S
            os.append(qg @ S + within @ new)
            S = S * last + kl @ new
        return torch.stack(os, 1).flatten(1, 2)

    def products(self, qg, kg, q, k, g):
        """Keys and queries with keys, times what is left of each pair's decays."""
        left, kt = torch.exp((g - g.transpose(2, 3)).clamp(max=0)), k.transpose(2, 3)
        return k @ kt * left, q @ kt * left

    def stepper(self):
        past, S = torch.zeros(self.w.shape[2] - 1, 3 * self.width), torch.zeros(self.h, self.hd, self.hd)
        w = self.w[:, 0].t().contiguous()

        def step(u):
            nonlocal past, S
            rows = torch.cat([past, torch.mv(self.qkv.weight, u)[None]])
            past = rows[1:]
            q, k, v = F.silu((rows * w).sum(0)).view(3, self.h, self.hd)
            q, k = (t * torch.rsqrt((t * t).sum(-1, keepdim=True) + 1e-6) for t in (q, k))
            d = torch.exp(-torch.exp(self.A_log)[:, None] * F.softplus(self.a(u) + self.dt_bias).view(self.h, -1))
            S = S * d[..., None]
            beta = torch.sigmoid(torch.mv(self.b.weight, u))[:, None]
            S.baddbmm_(k[..., None], (beta * (v - torch.bmm(k[:, None], S)[:, 0]))[:, None])
            o = torch.bmm(q[:, None] * self.hd ** -0.5, S)[:, 0]
            o = o * torch.rsqrt((o * o).mean(-1, keepdim=True) + 1e-5) * self.norm
            return torch.mv(self.out.weight, o.flatten() * self.act(self.z(u)))
        return step


class KDA(GatedDeltaNet):
    """Kimi Delta Attention: the same with a decay for each component of the keys, and gates of low rank."""
    sizes = 16, 32  # e^-g of a longer chunk would overflow

    def __init__(self, d, l, heads=4):
        self.decays = d // heads
        super().__init__(d, l, heads)

    def gates(self, d):
        self.a, self.z = (nn.Sequential(nn.Linear(d, self.hd, bias=False), nn.Linear(self.hd, d, bias=i == 1)) for i in range(2))
        self.act = torch.sigmoid

    def products(self, qg, kg, q, k, g):
        kt = (k * torch.exp(-g)).transpose(2, 3)
        return kg @ kt, qg @ kt

    def operation(self, l):
        self.decays = 128
        return super().operation(l)


def timed(f, seconds):
    """The median CPU time of f, by one thread."""
    times, start = [], time.time()
    while not times or time.time() - start < seconds:
        t = time.process_time()
        f()
        times.append((time.process_time() - t) / arg.threads)
    return sorted(times)[len(times) // 2]


def measure(name, d):
    known = {}  # the forms worth a trial
    for l in (1024, 16384):
        torch.manual_seed(1)
        m = mixers[name](d, l)
        row = {"peer": "pytorch", "bench": "mixer", "mixer": name, "d": d, "l": l, "precision": "float32", "how": "fastest",
               "threads": arg.threads}

        def fastest(what, forms, run):
            trials = {}
            for form in known.get(what, forms):
                run(forms[form])
                trials[form] = timed(lambda: run(forms[form]), 0)
            form = min(trials, key=trials.get)
            known[what] = [k for k in trials if trials[k] < 1.33 * trials[form]]
            row[what + "_us"], row[what + "_form"] = round(timed(lambda: run(forms[form]), arg.seconds) / l * 1e6, 3), form
            if arg.all:
                print(name, l, what, {k: round(t / l * 1e6, 2) for k, t in trials.items()}, file=sys.stderr)

        for prefix, inputs, forms in (("", [torch.randn(1, l, d)], m.forms()), ("op_", *m.operation(l))):
            inputs = [x.requires_grad_() for x in inputs]

            def forward(f):
                with torch.no_grad():
                    return f(*inputs)

            def both(f):
                m.zero_grad(set_to_none=True)
                for x in inputs:
                    x.grad = None
                f(*inputs).backward(dy)

            dy = torch.randn_like(forward(next(iter(forms.values()))))
            fastest(prefix + "fwd", forms, forward)
            fastest(prefix + "fwd_bwd", forms, both)
        if hasattr(m, "stepper"):
            with torch.no_grad():
                step, u = m.stepper(), torch.randn(64, d)

                def steps():
                    for x in u:
                        step(x)
                steps()
                row["step_us"] = round(timed(steps, arg.seconds) / len(u) * 1e6, 3)
        print(json.dumps(row), flush=True)


mixers = {"mamba": Mamba, "linear-attention": LinearAttention, "hyena": Hyena, "s4": S4, "gated-deltanet": GatedDeltaNet, "kda": KDA}
for name in arg.mixers:
    if name not in mixers:
        sys.exit(f"mixers_torch.py: found {name!r}, want some of {', '.join(mixers)}")
for name in arg.mixers:
    measure(name, 256)
