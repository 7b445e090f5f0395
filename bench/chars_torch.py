#!/usr/bin/python3
"""nanoGPT's recipe for a CPU on the characters of a text, in PyTorch: the peer of "hippo bench chars FILE".

    chars_torch.py [--threads N] [--loss 1.886] FILE

A GPT of 4 layers, 4 heads and width 128 without biases and dropout, tied embeddings; 12 blocks of 64 characters a step, AdamW (0.9, 0.99)
with weight decay 0.1 of matrices, clipping at 1, rates from 1e-3 down to 1e-4 by a cosine over 2000 steps after 100 of warmup. Every
250 steps it is evaluated on 20 batches of the last tenth of the text, as the recipe has it; hippo evaluates on all of that tenth.
Prints one JSON line when the loss is below the one given, or after the 2000 steps: s_to_loss is CPU time by threads, evaluations
included.
"""
import argparse, json, math, os, sys
p = argparse.ArgumentParser(usage=__doc__)
p.add_argument("--threads", type=int, default=1)
p.add_argument("--loss", type=float, default=1.886)
p.add_argument("file")
arg = p.parse_args()
env = dict(OMP_NUM_THREADS=str(arg.threads), OPENBLAS_NUM_THREADS=str(arg.threads), ATEN_CPU_CAPABILITY="avx512",
           MALLOC_MMAP_THRESHOLD_="4294967296", MALLOC_TRIM_THRESHOLD_="17179869184", MALLOC_TOP_PAD_="268435456")
if any(os.environ.get(k) != v for k, v in env.items()):  # they are read when a process starts
    os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **env})
import time, torch, torch.nn as nn, torch.nn.functional as F
torch.set_num_threads(arg.threads)
torch.manual_seed(1337)
LAYERS, HEADS, D, BLOCK, BATCH, STEPS = 4, 4, 128, 64, 12, 2000

text = open(arg.file, encoding="utf-8").read()
chars = {c: i for i, c in enumerate(sorted(set(text)))}
ids = torch.tensor([chars[c] for c in text])
training, validation = ids[:len(ids) * 9 // 10], ids[len(ids) * 9 // 10:]


class Norm(nn.Module):
    def __init__(s):
        super().__init__()
        s.weight = nn.Parameter(torch.ones(D))

    def forward(s, x):
        return F.layer_norm(x, (D,), s.weight, None, 1e-5)


class Block(nn.Module):
    def __init__(s):
        super().__init__()
        s.norm1, s.norm2 = Norm(), Norm()
        s.qkv, s.out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        s.up, s.down = nn.Linear(D, 4 * D, bias=False), nn.Linear(4 * D, D, bias=False)

    def forward(s, x):
        b, l, _ = x.shape
        q, k, v = (z.view(b, l, HEADS, -1).transpose(1, 2) for z in s.qkv(s.norm1(x)).split(D, 2))
        a = (q @ k.transpose(2, 3) / math.sqrt(D // HEADS)).masked_fill(MASK[:l, :l], -math.inf).softmax(-1)
        x = x + s.out((a @ v).transpose(1, 2).reshape(b, l, D))
        return x + s.down(F.gelu(s.up(s.norm2(x))))


class GPT(nn.Module):
    def __init__(s):
        super().__init__()
        s.emb, s.pos = nn.Embedding(len(chars), D), nn.Embedding(BLOCK, D)
        s.blocks, s.norm = nn.ModuleList(Block() for _ in range(LAYERS)), Norm()
        for name, w in s.named_parameters():
            if w.dim() == 2:
                nn.init.normal_(w, 0, 0.02 / math.sqrt(2 * LAYERS) if name.endswith(("out.weight", "down.weight")) else 0.02)

    def forward(s, x, y):
        h = s.emb(x) + s.pos.weight[:x.shape[1]]
        for b in s.blocks:
            h = b(h)
        return F.cross_entropy((s.norm(h) @ s.emb.weight.t()).flatten(0, 1), y.flatten())


MASK = torch.ones(BLOCK, BLOCK, dtype=torch.bool).triu(1)
model = GPT()
optimizer = torch.optim.AdamW([dict(params=[w for w in model.parameters() if w.dim() == 2], weight_decay=0.1),
                               dict(params=[w for w in model.parameters() if w.dim() < 2], weight_decay=0.0)], lr=1e-3, betas=(0.9, 0.99))


def batch(ids):
    at = torch.randint(len(ids) - BLOCK, (BATCH,))
    return torch.stack([ids[i:i + BLOCK] for i in at]), torch.stack([ids[i + 1:i + 1 + BLOCK] for i in at])


cpu, wall = time.process_time(), time.time()
for step in range(STEPS + 1):
    if step and step % 250 == 0:
        with torch.no_grad():
            loss = sum(model(*batch(validation)).item() for _ in range(20)) / 20
        print(f"step {step}: {loss:.4f}", file=sys.stderr)
        if loss < arg.loss or step == STEPS:
            break
    for g in optimizer.param_groups:
        g["lr"] = 1e-3 * step / 100 if step < 100 else 1e-4 + 0.5 * (1 + math.cos(math.pi * (step - 100) / (STEPS - 100))) * 9e-4
    optimizer.zero_grad(set_to_none=True)
    model(*batch(training)).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(json.dumps(dict(peer="pytorch", bench="chars", how="nanoGPT", loss=arg.loss, valid_loss=round(loss, 4), steps=step, precision="float32",
                      threads=arg.threads, s_to_loss=round((time.process_time() - cpu) / arg.threads, 2), s_to_loss_wall=round(time.time() - wall, 2))))
