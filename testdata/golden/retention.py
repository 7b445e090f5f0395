"""Makes 14_retention_layer_*.safetensors with the authors' code of RetNet, microsoft/torchscale at 4d1e0e8.

    python3 retention.py TORCHSCALE     # a checkout; PyTorch 1.13, into the folder of this file
"""
import json
import os
import struct
import sys
import types
import unittest.mock

import torch

sys.path.insert(0, sys.argv[1])
for name in ("einops", "fairscale", "fairscale.nn", "timm", "timm.models", "timm.models.layers"):  # not of this layer
    sys.modules[name] = unittest.mock.MagicMock()
from torchscale.architecture.retnet import RetNetRelPos
from torchscale.component.multiscale_retention import MultiScaleRetention

torch.set_default_dtype(torch.double)


def case(name, d, heads, batch, length, chunk):
    torch.manual_seed(length)
    args = types.SimpleNamespace(decoder_embed_dim=d, decoder_retention_heads=heads, recurrent_chunk_size=chunk,
                                 multiway=False, layernorm_eps=1e-12)
    layer, rel_pos = MultiScaleRetention(args, d, 2 * d, heads), RetNetRelPos(args)
    for p in layer.parameters():
        p.data = (torch.randn(p.shape) * d ** -.5).float().double()
    x, dy = (torch.randn(batch, length, d).float() for _ in range(2))
    u = x.double().requires_grad_()
    y = layer(u, rel_pos(length))
    (y * dy).sum().backward()
    with torch.no_grad():
        chunks = layer(u, rel_pos(length, chunkwise_recurrent=True), chunkwise_recurrent=True)
        state = {}
        steps = [layer(u[:, i:i + 1], rel_pos(i + 1, activate_recurrent=True), incremental_state=state)
                 for i in range(length)]
    tensors = {"in/x": x, "in/dy": dy, "out/y": y, "out/y_chunkwise": chunks, "out/y_recurrent": torch.cat(steps, 1),
               "grad/in/x": u.grad}
    for key, p in layer.named_parameters():
        tensors["param/" + key], tensors["grad/" + key] = p.float(), p.grad
    config = dict(d_model=d, num_heads=heads, value_dim=2 * d, chunk=chunk, eps=args.layernorm_eps)
    header, data = {"__metadata__": {
        "case": name, "what": "retention layer: parallel form with gradients, chunkwise and recurrent form",
        "source": "torchscale@4d1e0e8:torchscale/component/multiscale_retention.py (MultiScaleRetention), "
                  "architecture/retnet.py (RetNetRelPos), in float64 but for the norm; by retention.py",
        "tolerance": "float32 2e-5; the norm rounds to float32; its eps is small, as it is another share in each form",
        "config": json.dumps(config)}}, b""
    for key, t in tensors.items():
        raw = t.detach().contiguous().numpy().tobytes()
        header[key] = dict(dtype={torch.float: "F32", torch.double: "F64"}[t.dtype], shape=list(t.shape),
                           data_offsets=[len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    for key in ("out/y_chunkwise", "out/y_recurrent"):
        print(name, key, float((tensors[key] - y).abs().max() / y.abs().max()))


case("14_retention_layer_a", 24, 2, 2, 32, 8)
case("14_retention_layer_L300_a", 16, 4, 1, 300, 50)
