"""Every change of an image has the bytes of torchvision.transforms.v2 on uint8 tensors, given the same parameters."""

import os
import subprocess
import sys

try:
    import torch
    from torchvision.transforms.v2 import functional
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from troupe_command import main

AUGMENTED = os.environ["TROUPE_AUGMENTED"]
SIZES = ((3, 32, 32), (1, 28, 28), (3, 24, 40), (1, 17, 33), (3, 64, 64), (3, 32, 31), (1, 8, 8))
ADJUST = (functional.adjust_brightness, functional.adjust_contrast, functional.adjust_saturation,
          functional.adjust_hue)


def images(count, seed=1):
    """Noise, and smooth pictures: (generator, image) of every size in turn."""
    generator = torch.Generator().manual_seed(seed)
    for number in range(count):
        channels, height, width = SIZES[number % len(SIZES)]
        image = torch.randint(0, 256, (channels, height, width), generator=generator, dtype=torch.uint8)
        if number // len(SIZES) % 2:
            rows, columns = torch.arange(height).view(1, -1, 1), torch.arange(width).view(1, 1, -1)
            image = (image // 8 + rows * 3 + columns * 2).clamp(0, 255).to(torch.uint8)
        yield generator, image


def between(generator, low, high):
    return torch.empty(1).uniform_(low, high, generator=generator).item()


def below(generator, bound):
    return int(torch.randint(0, bound, (), generator=generator))


def check(requests):
    """`requests`: (name, parameters, image, expected)."""
    sent = b"".join(" ".join(map(repr_of, (name, *image.shape, *parameters))).encode() + b"\n" + image.numpy().tobytes()
                    for name, parameters, image, _ in requests)
    made = subprocess.run([AUGMENTED], input=sent, stdout=subprocess.PIPE, timeout=300, check=True).stdout
    largest = differing = pixels = first = 0
    where = None
    for name, parameters, image, expected in requests:
        found = torch.frombuffer(bytearray(made[first:first + image.numel()]), dtype=torch.uint8).view(image.shape)
        first += image.numel()
        apart = (found.int() - expected.int()).abs()
        if apart.any() and where is None:
            where = f"{name} {parameters} of {tuple(image.shape)}: {int(apart.max())}"
        largest, differing = max(largest, int(apart.max())), differing + int((apart > 0).sum())
        pixels += image.numel()
    assert first == len(made)
    print(f"  {len(requests)} images: {differing} of {pixels} values differ, by {largest} at most")
    assert largest == 0, where


def repr_of(word):
    return word if isinstance(word, str) else repr(word)


def crop(image, padding, top, left):
    return functional.crop(functional.pad(image, padding), top, left, *image.shape[-2:])


def affine(image, shear, scale):
    return functional.affine(image, angle=0.0, translate=[0, 0], scale=scale, shear=[shear, 0.0], fill=0)


def test_crop():
    requests = []
    for generator, image in images(300):
        padding = 1 + below(generator, 12)
        parameters = padding, below(generator, 2 * padding + 1), below(generator, 2 * padding + 1)
        requests.append(("crop", parameters, image, crop(image, *parameters)))
    check(requests)


def test_flip():
    check([("flip", (), image, functional.horizontal_flip(image)) for _, image in images(14)])


def test_rotate():
    requests = []
    special = [0.0, 90.0, -90.0, 180.0, 270.0, 45.0, -45.0, 360.0, 30.0, 1e-3]
    for number, (generator, image) in enumerate(images(3000)):
        angle = special[number // len(SIZES)] if number < len(special) * len(SIZES) else \
            between(generator, *((-10, 10) if number % 2 else (-180, 180)))
        requests.append(("rotate", (angle,), image, functional.rotate(image, angle, fill=0)))
    check(requests)


def test_affine():
    requests = []
    for generator, image in images(3000):
        parameters = between(generator, -30, 30), between(generator, 0.5, 1.6)
        requests.append(("affine", parameters, image, affine(image, *parameters)))
    for _, image in images(len(SIZES)):
        requests += [("affine", parameters, image, affine(image, *parameters))
                     for parameters in ((0.0, 1.0), (0.0, 0.5), (0.0, 2.0), (45.0, 1.0), (-10.0, 1.0), (0.0, 0.8))]
    check(requests)


def check_adjust(which, low, high):
    requests = []
    for number, (generator, image) in enumerate(images(3000)):
        factor = low if number < 14 else high if number < 28 else between(generator, low, high)
        requests.append(("adjust", (which, factor), image, ADJUST[which](image, factor)))
    check(requests)


def test_brightness():
    check_adjust(0, 0.0, 2.0)


def test_contrast():
    check_adjust(1, 0.0, 2.0)


def test_saturation():
    check_adjust(2, 0.0, 2.0)


def test_hue():
    check_adjust(3, -0.5, 0.5)


def test_hue_of_all_colours():
    """Every eighth level of red, green and blue, all against all, and the corners."""
    levels = torch.tensor([*range(0, 256, 8), 255], dtype=torch.uint8)
    image = torch.cartesian_prod(levels, levels, levels).t().reshape(3, 33, -1).contiguous()
    check([("adjust", (3, factor), image, functional.adjust_hue(image, factor))
           for factor in (-0.5, -0.25, -0.1, 0.0, 0.017, 0.2, 1 / 3, 0.5)])


def test_all_in_order():
    requests = []
    for generator, image in images(2000):
        padding = 4
        top, left, flip = below(generator, 9), below(generator, 9), below(generator, 2)
        angle, shear, scale = (between(generator, *bounds) for bounds in ((-10, 10), (-10, 10), (0.8, 1.2)))
        factors = [between(generator, 0.8, 1.2) for _ in range(3)] + [between(generator, -0.2, 0.2)]
        order = torch.randperm(4, generator=generator).tolist()
        expected = crop(image, padding, top, left)
        if flip:
            expected = functional.horizontal_flip(expected)
        expected = affine(functional.rotate(expected, angle, fill=0), shear, scale)
        for which in order:
            expected = ADJUST[which](expected, factors[which])
        requests.append(("all", (padding, top, left, flip, angle, shear, scale, *factors, *order), image, expected))
    check(requests)


main(globals())
