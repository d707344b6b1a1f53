"""The weights that cifar-train writes, for PyTorch."""
import json
import struct

import torch


def tensors(path):
    """The f32 tensors of a safetensors file, by name."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        body = file.read()
    return {name: torch.frombuffer(bytearray(body[slice(*of["data_offsets"])]), dtype=torch.float32).reshape(of["shape"])
            for name, of in header.items() if name != "__metadata__" and of["dtype"] == "F32"}


def name_in_vit_tiny(name):
    """The name in torch_vit_tiny.VitTiny of a tensor of cifar-train's vit_tiny."""
    for ours, theirs in [("to_patch_embedding.to_patch_tokens.1.", "embed.0."), ("to_patch_embedding.to_patch_tokens.2.", "embed.1."),
                         ("pos_embedding", "position"), ("mlp_head.", "head.")]:
        name = name.replace(ours, theirs)
    if not name.startswith("transformer.layers."):
        return name
    _, _, layer, part, rest = name.split(".", 4)
    for ours, theirs in [("norm.", "0."), ("fn.to_out.0.", "1.to_out."), ("fn.net.0.", "1."), ("fn.net.3.", "4."), ("fn.", "1.")]:
        if rest.startswith(ours):
            rest = theirs + rest[len(ours):]
            break
    return "blocks.%d.%s.%s" % (int(layer) + 1, ("attend", "feed")[int(part)], rest)
