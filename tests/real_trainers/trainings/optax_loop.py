"""JAX with Optax: ``optax_loop.py CASE`` prints what tocsin recorded, and the same as JAX computed it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec

from tests.hook.captured import KeptOutbox, watched
from tocsin.integrations.optax import Reporter, observed

STEPS, BATCH, CLIP = int(os.environ.get("TRAINING_STEPS", "60")), 8, 0.5
SCHEDULE = optax.cosine_decay_schedule(1e-2, STEPS)
ACCUMULATED = 3
BROKEN_AT = 20


def optimizer_of(case: str) -> Any:
    """Return the optimizer of a case, without tocsin."""
    clipped = optax.chain(optax.clip_by_global_norm(CLIP), optax.adamw(SCHEDULE))
    if case == "hyperparams":
        return optax.inject_hyperparams(optax.adamw)(learning_rate=SCHEDULE)
    return optax.apply_if_finite(clipped, 5) if case == "skips" else clipped


def loss_of(params: Any, features: Any, targets: Any) -> Any:
    """Return the mean squared error of a network with one hidden layer."""
    return jnp.mean((jnp.tanh(features @ params["a"]) @ params["b"] - targets) ** 2)


def step_of(optimizer: Any, compile_with: Callable[..., Any]) -> Any:
    """Return the compiled step, which also returns the gradients; it donates weights and state."""

    def step(params: Any, state: Any, features: Any, targets: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, features, targets)
        if compile_with is jax.pmap:
            loss, grads = jax.lax.pmean((loss, grads), "batch")
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss, grads

    more = {"axis_name": "batch"} if compile_with is jax.pmap else {}
    return compile_with(step, donate_argnums=(0, 1), **more)


def batch(number: int, case: str) -> tuple[Any, Any]:
    """Return a batch; one of the case ``skips`` has a NaN."""
    draw = np.random.default_rng(number)
    features = draw.normal(size=(BATCH, 4)).astype(np.float32)
    targets = np.sin(features[:, :1])
    if case == "skips" and number == BROKEN_AT:
        features[0, 0] = np.nan
    return features, targets


def place(case: str, params: Any, state: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
    """Put weights and state on the devices; return how a batch is put there."""
    if case == "pmap":
        stacked = jax.tree.map(lambda one: jnp.stack([one] * 2), (params, state))
        return (*stacked, lambda one: one.reshape(2, BATCH // 2, *one.shape[1:]))
    if case == "sharded":
        mesh = jax.make_mesh((2,), ("batch",))
        everywhere, split = (NamedSharding(mesh, PartitionSpec(*one)) for one in ((), ("batch",)))
        return (*jax.device_put((params, state), everywhere), lambda one: jax.device_put(one, split))
    return params, state, lambda one: one


def train(case: str, optimizer: Any, report: Callable[..., None]) -> tuple[dict[str, list[float]], str]:
    """Train; return loss and norm of each update, and a digest of the weights."""
    first, second = jax.random.split(jax.random.key(0))
    params = {"a": 0.5 * jax.random.normal(first, (4, 16)), "b": 0.5 * jax.random.normal(second, (16, 1))}
    if case == "accumulates":
        optimizer = optax.MultiSteps(optimizer, ACCUMULATED)
    params, state, put = place(case, params, optimizer.init(params))
    step = step_of(optimizer, jax.pmap if case == "pmap" else jax.jit)
    losses, gradients = list[Any](), list[Any]()
    for number in range(STEPS):
        params, state, loss, grads = step(params, state, *map(put, batch(number, case)))
        report(state, loss=loss)
        losses.append(np.ravel(loss)[0])
        gradients.append(
            np.concatenate([np.ravel(one[0] if case == "pmap" else one) for one in grads.values()])
        )
    digest = hashlib.sha256(b"".join(np.asarray(one).tobytes() for one in jax.tree.leaves(params)))
    every = ACCUMULATED if case == "accumulates" else 1
    means = [
        np.reshape(one, (STEPS // every, every, -1)).astype(np.float64).mean(1) for one in (losses, gradients)
    ]
    own = {"loss": means[0][:, 0].tolist(), "grad_norm": np.linalg.norm(means[1], axis=1).tolist()}
    return own, digest.hexdigest()


def recorded(outbox: KeptOutbox) -> dict[str, list[Any]]:
    """Return the recorded series."""
    names = ("step", "loss", "grad_norm", "lr", "skipped")
    return {name: [one.get(name) for one in outbox.records if name in one] for name in names}


def slow() -> None:
    """Print whether reporting a step waits for its values, and the step after a restored state."""
    optimizer = observed(optax.sgd(0.1), learning_rate=0.1)
    weights = jnp.ones((600, 600))

    def step_once(weights: Any, state: Any) -> Any:
        computed = jax.lax.fori_loop(0, 200, lambda _, one: jnp.tanh(one @ weights), weights)
        _, state = optimizer.update(computed, state, weights)
        return state, computed.sum()

    step = jax.jit(step_once)
    state = optimizer.init(weights)
    state = state._replace(values=state.values.at[0].set(41))
    with watched(patch=False) as (_, outbox):
        reporter = Reporter()
        step(weights, state)[1].block_until_ready()  # compiled now
        state, loss = step(weights, state)
        reporter.step(state, loss=loss)
        has_waited = loss.is_ready()
        reporter.finish()
        print(json.dumps({"has_waited": has_waited, "steps": [one["step"] for one in outbox.records]}))


def main(case: str) -> None:
    """Train without tocsin, then with it."""
    _, plain = train(case, optimizer_of(case), lambda *_, **__: None)
    with watched(patch=False) as (_, outbox):
        reporter = Reporter()
        rate = None if case == "hyperparams" else SCHEDULE
        own, weights = train(case, observed(optimizer_of(case), learning_rate=rate), reporter.step)
    counts = list(range(len(own["loss"])))
    if case == "skips":
        counts[BROKEN_AT + 1 :] = counts[BROKEN_AT:-1]  # the skipped step does not count
    own["lr"] = [float(SCHEDULE(count)) for count in counts]
    found = {"own": own, "recorded": recorded(outbox), "is_equal": plain == weights}
    print(json.dumps(found))


if __name__ == "__main__":
    slow() if sys.argv[1] == "slow" else main(sys.argv[1])
