"""JAX: nothing is captured automatically, so the loop reports each step with `run.step`.

Run `pip install jax` and `python examples/jax_loop.py`. The same call works for NumPy,
TensorFlow and every other library without a torch optimizer.
"""

import jax
import jax.numpy as jnp

import tocsin

STEPS = 200
LEARNING_RATE = 0.1


def init(key: jax.Array) -> dict[str, jax.Array]:
    """Return the weights of a network with one hidden layer."""
    first, second = jax.random.split(key)
    return {"w1": 0.3 * jax.random.normal(first, (16, 64)), "w2": 0.1 * jax.random.normal(second, (64, 1))}


def loss_of(weights: dict[str, jax.Array], features: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the mean squared error."""
    predictions = jnp.tanh(features @ weights["w1"]) @ weights["w2"]
    return jnp.mean((predictions - targets) ** 2)


@jax.jit
def update(weights: dict[str, jax.Array], features: jax.Array, targets: jax.Array):
    """Return the weights after one step of gradient descent, the loss and the gradient norm."""
    loss, grads = jax.value_and_grad(loss_of)(weights, features, targets)
    norm = jnp.sqrt(sum(jnp.sum(grad**2) for grad in jax.tree.leaves(grads)))
    weights = jax.tree.map(lambda weight, grad: weight - LEARNING_RATE * grad, weights, grads)
    return weights, loss, norm


def main() -> None:
    key = jax.random.key(0)
    weights = init(key)
    # `with` ends the run as failed if an exception leaves the block.
    with tocsin.watch("examples", name="jax", planned_steps=STEPS) as run:
        for step in range(STEPS):
            features = jax.random.normal(jax.random.fold_in(key, step), (64, 16))
            targets = jnp.sin(features[:, :4].sum(1, keepdims=True))
            weights, loss, norm = update(weights, features, targets)
            # Reading a value waits until JAX has computed it. Report every tenth step if that costs too much.
            run.step(loss=loss, grad_norm=norm, lr=LEARNING_RATE, step=step)


if __name__ == "__main__":
    main()
