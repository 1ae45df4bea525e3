"""Processes that train one model together, each style without and with a watch. Run by test_fsdp.py.

``two_ranks.py PLACE RANK WORLD DEVICE``: gloo on the CPU, NCCL on CUDA devices, one rank each.

Every rank prints one line of JSON: for each style the number of collectives, the final weights, what the
watch recorded, and what a reference training in one process with all ranks' batches measured.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

from tests.hook.captured import KeptOutbox, watched
from tests.hook.truth import model, norm_of

STEPS = 4
CLIP = 0.05
LR = 0.1
PLACE, RANK, WORLD, DEVICE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), torch.device(sys.argv[4])


class Style:
    """How a model is distributed, how its gradients are clipped, and what else a step does."""

    def __init__(
        self,
        spread: Callable[[nn.Module], Any],
        *,
        clip: Callable[[Any], Any] | None = None,
        zero: bool = False,
        accumulate: int = 1,
        scaler: Callable[[], Any] | None = None,
        overflow: int | None = None,
    ) -> None:
        self.spread = spread
        self.clip = clip
        self.zero = zero
        self.accumulate = accumulate
        self.scaler = scaler
        self.overflow = overflow
        """At this step one rank's loss is too large for its scale."""


def _plain_clip(net: Any) -> Any:
    return clip_grad_norm_(net.parameters(), CLIP)


def _fsdp(**options: Any) -> Callable[[nn.Module], Any]:
    return lambda net: FullyShardedDataParallel(net, device_id=DEVICE, **options)


def _fully_sharded(**options: Any) -> Callable[[nn.Module], Any]:
    mesh = dist.device_mesh.init_device_mesh(DEVICE.type, (WORLD,))

    def spread(net: nn.Module) -> Any:
        for layer in (net[0], net[2]):  # type: ignore[index]
            fully_shard(layer, mesh=mesh, **options)
        return fully_shard(net, mesh=mesh, **options)

    return spread


def styles() -> dict[str, Style]:
    half = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    own_clip: Callable[[Any], Any] = lambda net: net.clip_grad_norm_(CLIP)  # noqa: E731
    plain_scaler = lambda: torch.amp.GradScaler(DEVICE.type, init_scale=2.0**10)  # noqa: E731
    return {
        "ddp": Style(DistributedDataParallel),
        "ddp-clip": Style(DistributedDataParallel, clip=_plain_clip),
        "ddp-no-sync": Style(DistributedDataParallel, clip=_plain_clip, accumulate=3),
        "ddp-scaler": Style(DistributedDataParallel, clip=_plain_clip, scaler=plain_scaler, overflow=2),
        "zero": Style(DistributedDataParallel, zero=True),
        "zero-clip": Style(DistributedDataParallel, zero=True, clip=_plain_clip),
        "fsdp1": Style(_fsdp(use_orig_params=False)),
        "fsdp1-clip": Style(_fsdp(use_orig_params=False), clip=own_clip),
        "fsdp1-original": Style(_fsdp(use_orig_params=True)),
        "fsdp1-original-clip": Style(_fsdp(use_orig_params=True), clip=own_clip),
        "fsdp1-bfloat16-clip": Style(_fsdp(mixed_precision=half), clip=own_clip),
        "fsdp1-sharded-scaler": Style(
            _fsdp(),
            clip=own_clip,
            scaler=lambda: ShardedGradScaler(device=DEVICE.type, init_scale=2.0**10),
            overflow=2,
        ),
        "fsdp2": Style(_fully_sharded()),
        "fsdp2-clip": Style(_fully_sharded(), clip=_plain_clip),
        "fsdp2-bfloat16-clip": Style(_fully_sharded(mp_policy=policy), clip=_plain_clip),
        "fsdp2-scaler": Style(_fully_sharded(), clip=_plain_clip, scaler=plain_scaler, overflow=2),
    }


def batch_of(step: int, micro: int, rank: int) -> Tensor:
    numbers = torch.Generator().manual_seed(1000 * step + 10 * micro + rank)
    return torch.randn(4, 8, generator=numbers).to(DEVICE)


def loss_of(net: Any, style: Style, step: int, micro: int, rank: int) -> Tensor:
    loss: Tensor = net(batch_of(step, micro, rank)).float().pow(2).mean() / style.accumulate
    return loss * (1e37 if style.overflow == step and rank == WORLD - 1 else 1.0)


def train(style: Style, rank: int, losses: list[list[float]]) -> Any:
    """Run one training, and note each step's losses."""
    net = style.spread(model().to(DEVICE))
    optimizer: Any = (
        ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=LR)
        if style.zero
        else torch.optim.SGD(net.parameters(), lr=LR)
    )
    scaler = style.scaler() if style.scaler else None
    for step in range(STEPS):
        optimizer.zero_grad()
        losses.append([])
        for micro in range(style.accumulate):
            last = micro == style.accumulate - 1
            with contextlib.nullcontext() if last else net.no_sync():
                loss = loss_of(net, style, step, micro, rank)
                losses[-1].append(float(loss.detach()))
                (loss if scaler is None else scaler.scale(loss)).backward()
        _finish(style, net, optimizer, scaler)
    return net


def _finish(style: Style, net: Any, optimizer: Any, scaler: Any) -> None:
    if scaler is not None:
        scaler.unscale_(optimizer)
    if style.clip is not None:
        style.clip(net)
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()


def twin_norms(style: Style) -> list[float]:
    """Return the norm of each step of one process that has all ranks' batches; inf if one overflowed."""
    net = model().to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    norms = []
    for step in range(STEPS):
        if style.overflow == step:
            norms.append(float("inf"))
            continue
        optimizer.zero_grad()
        for rank in range(WORLD):
            for micro in range(style.accumulate):
                (loss_of(net, style, step, micro, rank) / WORLD).backward()
        norms.append(norm_of(net.parameters()))
        if style.clip is not None:
            clip_grad_norm_(net.parameters(), CLIP)
        optimizer.step()
    return norms


@contextlib.contextmanager
def counted(into: list[int]) -> Iterator[None]:
    """Count the collectives of the block, by the sequence numbers of the process groups."""
    before = _numbers()
    yield
    into.append(_numbers() - before)


def _numbers() -> int:
    """Return the sum over all groups: in some versions of torch, a device mesh has a separate one."""
    groups: Any = dist.distributed_c10d._world.pg_map
    return sum(group._get_sequence_number_for_group() for group in groups)


def weights_of(net: Any) -> str:
    parts = [getattr(param, "_local_tensor", param).detach() for param in net.parameters()]
    return hashlib.sha256(b"".join(part.cpu().numpy().tobytes() for part in parts)).hexdigest()


def report_of(style: Style, rank: int) -> dict[str, Any]:
    counts: list[int] = []
    plain: list[list[float]] = []
    seen: list[list[float]] = []
    with counted(counts):
        weights = [weights_of(train(style, rank, plain))]
    with counted(counts), watched() as (_, outbox):
        weights.append(weights_of(train(style, rank, seen)))
    return {
        "collectives": counts,
        "weights": weights,
        "losses": seen,
        "norms": twin_norms(style),
        **_on_reading(outbox),
    }


def _on_reading(outbox: KeptOutbox) -> dict[str, Any]:
    return {
        "records": outbox.records,
        "sources": [one["source"] for one in outbox.events("grad-norm-source")],
    }


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if DEVICE.type == "cuda":
        torch.cuda.set_device(DEVICE)
    backend = "nccl" if DEVICE.type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{PLACE}", rank=RANK, world_size=WORLD)
    reports = {name: report_of(style, RANK) for name, style in styles().items()}
    print(json.dumps(reports))
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = "lo"
    main()
