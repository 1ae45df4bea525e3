"""Keras 3 with the torch backend: `TocsinCallback` reports each optimizer step.

Run `pip install keras` and `python examples/keras_fit.py`.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

from tocsin.integrations.keras import TocsinCallback

EPOCHS, STEPS_PER_EPOCH = 4, 25


def samples(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random samples."""
    features = np.random.default_rng(count).standard_normal((32 * count, 16)).astype("float32")
    return features, np.sin(features[:, :4].sum(1, keepdims=True))


def main() -> None:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Input((16,)), keras.layers.Dense(64, "gelu"), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.AdamW(3e-3, global_clipnorm=1.0), "mse", metrics=["mae"])
    features, targets = samples(STEPS_PER_EPOCH)
    watch = TocsinCallback(project="examples", name="keras")
    model.fit(features, targets, epochs=EPOCHS, validation_data=samples(4), callbacks=[watch], verbose=0)


if __name__ == "__main__":
    main()
