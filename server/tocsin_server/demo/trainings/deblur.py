"""Train a deblurring network in fp16 that ends in scaler collapse.

It contains two common mistakes. The frequency loss casts its magnitudes to half precision: the DC term of a
128 x 128 image is the sum of 16 384 pixels, and the largest half is 65 504, so four times the correct
brightness overflows to infinity. And the learning rate warms up to a value sixty times too high. The first
twenty seconds or so are healthy. Then the weights overshoot, some batches overflow and are skipped, the steps
between them increase the weights further, and finally every batch overflows at every loss scale: the scale
halves down to zero.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

import tocsin
from tocsin_server.demo.trainings import pace

SIZE = 128
"""Height and width of an image in pixels."""
SCENES = 256
BATCH = 4
REPORT_STEPS = 200
DEPTH = 6
DARKEST, BRIGHTEST = 0.3, 5.5
"""Exposure of the frames: a linear camera covers such a range in a day."""
PEAK_LR = 0.08
WARMUP_STEPS = 4000
MAX_GRAD_NORM = 1e6
"""Too high to have an effect: the call only measures the norm."""


def scenes(generator: torch.Generator) -> Tensor:
    """Return sharp pictures [SCENES, 1, SIZE, SIZE] of discs over stripes, each with a random exposure."""
    axis = torch.linspace(0, 1, SIZE)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    pictures = torch.zeros(SCENES, 1, SIZE, SIZE)
    for _ in range(6):
        across, down, radius, light = torch.rand(4, SCENES, 1, 1, generator=generator)
        disc = (x - across) ** 2 + (y - down) ** 2 < (0.05 + 0.2 * radius) ** 2
        pictures[:, 0] = torch.where(disc, light, pictures[:, 0])
    waves = 25 + 75 * torch.rand(SCENES, 1, 1, generator=generator)
    pictures[:, 0] += 0.2 * (1 + torch.sin(waves * (x + y)))
    exposure = DARKEST + (BRIGHTEST - DARKEST) * torch.rand(SCENES, 1, 1, 1, generator=generator)
    return pictures.clamp(0, 1) * exposure


def motion_blur(pictures: Tensor) -> Tensor:
    """Return the pictures blurred by a sideways camera motion of nine pixels."""
    kernel = torch.zeros(1, 1, 9, 9)
    kernel[0, 0, 4, :] = 1 / 9
    return functional.conv2d(pictures, kernel, padding=4)


class Block(nn.Module):
    """A residual block without normalization, as in many restoration networks."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.spread = nn.Conv2d(width, width, 3, padding=1)
        self.mix = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.mix(functional.gelu(self.spread(x)))
        return out


class Restorer(nn.Module):
    """Predict the difference to the sharp picture; works on patches of ``patch`` x ``patch`` pixels."""

    def __init__(self, width: int = 16, patch: int = 8) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, patch, stride=patch)
        self.body = nn.Sequential(*(Block(width) for _ in range(DEPTH)))
        self.pixels = nn.Conv2d(width, patch * patch, 1)
        self.shuffle = nn.PixelShuffle(patch)

    def forward(self, blurred: Tensor) -> Tensor:
        out: Tensor = blurred + self.shuffle(self.pixels(self.body(self.patches(blurred))))
        return out


def magnitudes(pictures: Tensor) -> Tensor:
    """Return spectrum magnitudes in half precision: the unsafe cast of this training."""
    spectrum: Tensor = torch.fft.rfft2(pictures.float())
    return spectrum.abs().half()


def objective(restored: Tensor, sharp: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pixel loss and the frequency loss, the latter divided by the pixel count after the cast."""
    pixel = functional.l1_loss(restored, sharp)
    frequency = functional.mse_loss(magnitudes(restored), magnitudes(sharp)) / (SIZE * SIZE)
    return pixel, frequency


def main() -> None:
    """Train the network with GradScaler until its loss scale collapses."""
    options = pace.arguments("Deblurring in fp16 that ends in scaler collapse.", seed=2)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    sharp = scenes(generator)
    blurred = motion_blur(sharp).to(device)
    sharp = sharp.to(device)

    model = Restorer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LR)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARMUP_STEPS))
    scaler = torch.amp.GradScaler(device)
    config = {"peak_lr": PEAK_LR, "warmup_steps": WARMUP_STEPS, "batch": BATCH, **vars(options)}
    tocsin.watch("deblur", name="restorer-fp16", config=config, planned_steps=pace.planned_steps(options))

    pace.end_on_signal()
    for step in pace.steps(limit=options.steps, seconds=options.seconds, per_second=options.steps_per_s):
        batch = torch.randint(SCENES, (BATCH,), generator=generator)
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16):
            pixel, frequency = objective(model(blurred[batch]), sharp[batch])
            loss = pixel + frequency
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        scaler.step(optimizer)
        scaler.update()
        warmup.step()
        pace.save_checkpoint(options.checkpoints, step, {"model": model})
        tocsin.log(pixel_loss=pixel, frequency_loss=frequency)
        if step % REPORT_STEPS == 0:
            print(
                f"step {step}: loss {loss:.4g}, grad norm {norm:.3g}, scale {scaler.get_scale():g}",
                flush=True,
            )


if __name__ == "__main__":
    main()
