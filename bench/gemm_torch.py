"""Matrix products in bf16 in PyTorch, which has oneDNN multiply: the peer of "hippo bench gemm --precision bf16".

    gemm_torch.py [--threads N]

JSON lines: gflops by the CPU time of the median, gflops_best by the clock of the best of nine. Rows with how "rounded" start from
operands in float32, as hippo and autocast do, those with how "bf16" from operands that are rounded already.
"""
import argparse, json, time, torch
p = argparse.ArgumentParser(usage=__doc__)
p.add_argument("--threads", type=int, default=1)
threads = p.parse_args().threads
torch.set_num_threads(threads)
SHAPES = [(1024, 1024, 1024, "NN"), (1024, 1024, 1024, "NT"), (1024, 1024, 1024, "TN"), (4096, 768, 768, "NN"), (4096, 768, 768, "NT"),
          (4096, 3072, 768, "NN"), (4096, 3072, 768, "NT"), (768, 768, 4096, "TN"), (1024, 1024, 256, "NN"), (1024, 1024, 256, "NT"),
          (1024, 256, 1024, "TN")]
for m, n, k, op in SHAPES:
    a = torch.rand(k, m).t() if op[0] == "T" else torch.rand(m, k)
    b = torch.rand(n, k).t() if op[1] == "T" else torch.rand(k, n)
    a16, b16 = a.bfloat16(), b.bfloat16()
    for how, f in (("rounded", lambda: a.bfloat16() @ b.bfloat16()), ("bf16", lambda: a16 @ b16)):
        f()
        cpu, wall = [], []
        for _ in range(9):
            c, w = time.process_time(), time.perf_counter()
            f()
            cpu.append((time.process_time() - c) / threads)
            wall.append(time.perf_counter() - w)
        work = 2e-9 * m * n * k
        print(json.dumps(dict(peer="onednn", bench="gemm", m=m, n=n, k=k, op=op, how=how, precision="bf16", threads=threads,
                              gflops=round(work / sorted(cpu)[4], 1), gflops_best=round(work / min(wall), 1))), flush=True)
