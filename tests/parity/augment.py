"""Every change of an image gives the same bytes as torchvision.transforms.v2 on uint8 tensors with the same parameters.

If the source of a rotation lies midway between two pixels, or a colour is within rounding error of the next level,
torchvision's choice depends on the instruction set. Only in these cases, both values are accepted. The correct values
are computed in double precision, and torchvision's bytes are compared with them too."""

import math
import os
import subprocess
import sys

try:
    import torch
    from plain import seeded
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
    generator = torch.Generator().manual_seed(seeded(seed))
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
    """`requests`: (name, parameters, image, expected), or with a function that says of an image which of its values are
    right."""
    sent = b"".join(" ".join(map(repr_of, (name, *image.shape, *parameters))).encode() + b"\n" + image.numpy().tobytes()
                    for name, parameters, image, *_ in requests)
    made = subprocess.run([AUGMENTED], input=sent, stdout=subprocess.PIPE, timeout=300, check=True).stdout
    differing = pixels = first = 0
    for name, parameters, image, expected, *right in requests:
        found = torch.frombuffer(bytearray(made[first:first + image.numel()]), dtype=torch.uint8).view(image.shape)
        first += image.numel()
        what = f"{name} {parameters} of {tuple(image.shape)}"
        apart = found != expected
        if right:
            assert right[0](expected).all(), f"{what}: torchvision's is not right"
            apart &= ~right[0](found)
        assert not apart.any(), f"{what}: {int(apart.sum())} values differ"
        differing, pixels = differing + int((found != expected).sum()), pixels + image.numel()
    assert first == len(made)
    print(f"  {len(requests)} images: {differing} of {pixels} values are on the other side of a tie")
    assert differing <= pixels / 1000


def repr_of(word):
    return word if isinstance(word, str) else repr(word)


def crop(image, padding, top, left):
    return functional.crop(functional.pad(image, padding), top, left, *image.shape[-2:])


def affine(image, shear, scale):
    return functional.affine(image, angle=0.0, translate=[0, 0], scale=scale, shear=[shear, 0.0], fill=0)


def rotate(image, angle):
    return functional.rotate(image, angle, fill=0)


def sources(image, matrix, by):
    """The image whose pixel at (x, y) from the middle is that of `image` nearest to matrix·(x, y) + by; 0 outside."""
    height, width = image.shape[-2:]
    y, x = torch.meshgrid(*(torch.arange(size).double() - (size - 1) / 2 for size in (height, width)), indexing="ij")
    (a, b), (c, d) = matrix
    column = (a * x + b * y + (width - 1) / 2 + by[0]).round().long()
    row = (c * x + d * y + (height - 1) / 2 + by[1]).round().long()
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    return image[:, row.clamp(0, height - 1), column.clamp(0, width - 1)] * inside


TIE = 1e-4  # of a pixel; float32 is exact to 1e-5 of one


def nearest(image, matrix):
    """Returns whether a pixel is one of those that are nearest within rounding; and whether there are any others."""
    each = [sources(image, matrix, (x, y)) for x in (-TIE, TIE) for y in (-TIE, TIE)]

    def right(found):
        return torch.stack([(found == one).all(0) for one in each]).any(0).expand_as(found)

    return right, any((one != each[0]).any() for one in each)


def rotated(angle):
    turn = math.radians(angle)
    return (math.cos(turn), -math.sin(turn)), (math.sin(turn), math.cos(turn))


def sheared(shear, scale):
    return (1 / scale, math.tan(math.radians(shear)) / scale), (0.0, 1 / scale)


def greys(image):
    """The least and the most that rounding may have for the grey of an image, as whole numbers."""
    if image.shape[0] == 1:
        return image.double(), image.double()
    red, green, blue = image.double()
    grey = (0.2989 * red + 0.587 * green + 0.114 * blue).unsqueeze(0)
    return (grey - 5e-5).floor(), (grey + 5e-5).floor()


def blended(image, factor, least, most):
    """As nearest(), of factor·image + (1 − factor)·other, whose other lies between `least` and `most`."""
    ends = torch.stack([factor * image.double() + (1 - factor) * other for other in (least, most)])
    low, high = (ends.amin(0) - 2e-4).floor().clamp(0, 255), (ends.amax(0) + 2e-4).floor().clamp(0, 255)
    return lambda found: (found >= low) & (found <= high), (low != high).any()


def right_colours(which, image, factor):
    """As nearest(), of an adjustment; nothing of those that are the same on every machine."""
    if which == 1:
        return blended(image, factor, *(each.mean() for each in greys(image)))
    if which == 2 and image.shape[0] == 3:
        return blended(image, factor, *greys(image))
    return None, False


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
        requests.append(("rotate", (angle,), image, rotate(image, angle), nearest(image, rotated(angle))[0]))
    check(requests)


def test_affine():
    requests = []
    for generator, image in images(3000):
        parameters = between(generator, -30, 30), between(generator, 0.5, 1.6)
        requests.append(("affine", parameters, image, affine(image, *parameters),
                         nearest(image, sheared(*parameters))[0]))
    for _, image in images(len(SIZES)):
        requests += [("affine", parameters, image, affine(image, *parameters),
                      nearest(image, sheared(*parameters))[0])
                     for parameters in ((0.0, 1.0), (0.0, 0.5), (0.0, 2.0), (45.0, 1.0), (-10.0, 1.0), (0.0, 0.8))]
    check(requests)


def check_adjust(which, low, high):
    requests = []
    for number, (generator, image) in enumerate(images(3000)):
        factor = low if number < 14 else high if number < 28 else between(generator, low, high)
        right, _ = right_colours(which, image, factor)
        requests.append(("adjust", (which, factor), image, ADJUST[which](image, factor), *([right] if right else [])))
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


def drawn(generator, image):
    """Returns a request for all changes, or nothing where one of them meets a tie."""
    top, left, flip = below(generator, 9), below(generator, 9), below(generator, 2)
    angle, shear, scale = (between(generator, *bounds) for bounds in ((-10, 10), (-10, 10), (0.8, 1.2)))
    factors = [between(generator, 0.8, 1.2) for _ in range(3)] + [between(generator, -0.2, 0.2)]
    order = torch.randperm(4, generator=generator).tolist()
    changed = crop(image, 4, top, left)
    if flip:
        changed = functional.horizontal_flip(changed)
    for matrix, change in ((rotated(angle), lambda image: rotate(image, angle)),
                           (sheared(shear, scale), lambda image: affine(image, shear, scale))):
        if nearest(changed, matrix)[1]:
            return None
        changed = change(changed)
    for which in order:
        if right_colours(which, changed, factors[which])[1]:
            return None
        changed = ADJUST[which](changed, factors[which])
    return "all", (4, top, left, flip, angle, shear, scale, *factors, *order), image, changed


def test_all_in_order():
    requests = [drawn(generator, image) for generator, image in images(2000)]
    requests = [request for request in requests if request]
    assert len(requests) > 200
    check(requests)


main(globals())
