"""Optax: the optimizer keeps the values of each step in its state, and `Reporter` reads them without waiting.

Run `pip install optax` and `python examples/optax_loop.py`.
"""

import jax
import jax.numpy as jnp
import optax

from tocsin.integrations.optax import Reporter, observed

STEPS = 200
SCHEDULE = optax.cosine_decay_schedule(3e-3, STEPS)
OPTIMIZER = observed(
    optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(SCHEDULE)), learning_rate=SCHEDULE
)


def loss_of(weights: dict[str, jax.Array], features: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the mean squared error."""
    predictions = jnp.tanh(features @ weights["w1"]) @ weights["w2"]
    return jnp.mean((predictions - targets) ** 2)


@jax.jit
def train_step(weights, state, features, targets):
    """Return the weights and the optimizer's state after one step, and the loss."""
    loss, grads = jax.value_and_grad(loss_of)(weights, features, targets)
    updates, state = OPTIMIZER.update(grads, state, weights)
    return optax.apply_updates(weights, updates), state, loss


def main() -> None:
    key = jax.random.key(0)
    first, second = jax.random.split(key)
    weights = {"w1": 0.3 * jax.random.normal(first, (16, 64)), "w2": 0.1 * jax.random.normal(second, (64, 1))}
    state = OPTIMIZER.init(weights)
    reporter = Reporter(project="examples", name="optax", planned_steps=STEPS)
    for step in range(STEPS):
        features = jax.random.normal(jax.random.fold_in(key, step), (64, 16))
        targets = jnp.sin(features[:, :4].sum(1, keepdims=True))
        weights, state, loss = train_step(weights, state, features, targets)
        reporter.step(state, loss=loss)
    reporter.finish()


if __name__ == "__main__":
    main()
