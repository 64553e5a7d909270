"""Images of a folder have the same pixels as with Pillow and torchvision: decoded, scaled and cropped."""

import base64
import os
import subprocess
import sys

try:
    import numpy
    import PIL.Image
    from plain import seeded
    from torchvision.transforms import CenterCrop, InterpolationMode, Resize
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup --python installs what the parity tests import")
    sys.exit(77)

from troupe_command import main

DECODED = os.environ.get("TROUPE_DECODED", "build/tests/decoded")


# Pictures of 22 x 18 pixels that libjpeg has encoded with sampling factors which encoders of photographs have no name for,
# such as {4, 2}, {1, 1}, {1, 1}: horizontal and vertical, of luminance and the two colours.
UNNAMED_SAMPLINGS = {
    "4x2 1x1 1x1":
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNiUFVtVkVGZIhlbXd7gYKBTmCNl4x9"
        "lnN+gXz/2wBDARUXFx4aHjshITt8U0ZTfHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHz/wAARCAASABYD"
        "AUIAAhEBAxEB/8QAFwABAQEBAAAAAAAAAAAAAAAAAAQFA//EACAQAAEDBAIDAAAAAAAAAAAAAAABAgMEERJhITEFExT/xAAWAQEBAQAAAAAAAAAA"
        "AAAAAAADAgT/xAAcEQACAgIDAAAAAAAAAAAAAAAAAQIEAyEFMTP/2gAMAwEAAhEDEQA/AMeGn0XQ0+i6On46Bxhp9F0NPorwjhZlK9rGrxdyoiXB"
        "N223PQlPO3HRLCiEfnJpYfm9Mj475XxcqX6MuJEsAADO+2LwfnI//9k=",
    "1x1 2x2 2x2":
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNiUFVtVkVGZIhlbXd7gYKBTmCNl4x9"
        "lnN+gXz/2wBDARUXFx4aHjshITt8U0ZTfHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHz/wAARCAASABYD"
        "AREAAiIBAyIB/8QAFgABAQEAAAAAAAAAAAAAAAAABQID/8QAIBAAAgEBCQAAAAAAAAAAAAAAAQIABAMFITEyNFGBsf/EABkBAQADAQEAAAAAAAAA"
        "AAAAAAADBAUGAf/EAB0RAAMAAgMBAQAAAAAAAAAAAAACAwEREiExBcH/2gAMAwEAAhEDEQA/AMaS7ssJv1sZtbEdbGbWxXnQvToYU6F6dBQUdmgA"
        "ZlU8EyWluwZTUy2dY7BupQFKTM3S42CW2j9eiadSOCq3LljYBy8zoPmor8uWN+foAAmkT2noAOlQAH//2Q==",
    "4x1 2x1 1x1":
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNiUFVtVkVGZIhlbXd7gYKBTmCNl4x9"
        "lnN+gXz/2wBDARUXFx4aHjshITt8U0ZTfHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHz/wAARCAASABYD"
        "AUEAAiEBAxEB/8QAFwABAQEBAAAAAAAAAAAAAAAABAAFA//EACAQAAEDBAIDAAAAAAAAAAAAAAMAAQIEERJhITEFExT/xAAXAQEBAQEAAAAAAAAA"
        "AAAAAAAFBAID/8QAHxEAAgICAQUAAAAAAAAAAAAAAAECAwQRBSEiIzFh/9oADAMBAAIRAxEAPwDHDT6Tg0+k4dPx0pLZNwHK7qVYlnacQ0+k4NPp"
        "LwGGGRZxhF+Lydma6l2ybgZynJ7SIsKUpLUVsKFmQ/OGKH5vSSY75Xxk7X6WWJmspItJ2pMxL2W8IvC39P/Z",
}

def decoded(*files, size=0):
    """The bytes that Troupe has of the images, one behind the other."""
    subprocess.run([DECODED, str(size), "out", *files], check=True)
    return numpy.fromfile("out", dtype=numpy.uint8)


def picture(seed, width, height, channels=3):
    """Something with edges, ramps and noise, as photographs have."""
    generator = numpy.random.default_rng(seeded(seed))
    x, y = numpy.meshgrid(numpy.arange(width), numpy.arange(height))
    made = numpy.empty((height, width, channels))
    for channel in range(channels):
        made[..., channel] = (128 + 90 * numpy.sin(x / generator.uniform(2, 20) + channel) * numpy.cos(y / 9)
                              + 60 * ((x // 8 + y // 5) % 2) + generator.normal(0, 10, (height, width)))
    return made.clip(0, 255).astype(numpy.uint8)


def expected(file, size=0):
    image = PIL.Image.open(file).convert("RGB")
    if size:
        image = CenterCrop(size)(Resize(size, InterpolationMode.BILINEAR)(image))
    return numpy.asarray(image)


def compare(file, size=0, within=0):
    there = expected(file, size).astype(int)
    here = decoded(file, size=size).reshape(there.shape).astype(int)
    furthest = numpy.abs(here - there).max()
    assert furthest <= within, f"{file} at {size}: {furthest} levels apart"
    return furthest


def test_every_kind_of_png_is_pillows():
    colours = PIL.Image.fromarray(picture(1, 37, 21))
    kinds = {"RGB": colours, "L": colours.convert("L"), "P": colours.quantize(200), "1": colours.convert("1"),
             "P4": colours.quantize(11), "RGBA": PIL.Image.fromarray(picture(2, 37, 21, 4)),
             "LA": colours.convert("LA")}
    for name, image in kinds.items():
        image.save(f"{name}.png")
        compare(f"{name}.png")
    colours.save("gamma.png", gamma=0.8)
    compare("gamma.png")
    kinds["P"].save("transparent.png", transparency=3)
    compare("transparent.png")


def test_every_kind_of_jpeg_is_pillows():
    colours = PIL.Image.fromarray(picture(3, 67, 45))
    ways = {"plain": {}, "fine": {"quality": 100, "subsampling": 0}, "rough": {"quality": 10, "subsampling": 2},
            "half": {"subsampling": 1}, "progressive": {"progressive": True}}
    for name, how in ways.items():
        colours.save(f"{name}.jpg", **how)
        print(f"  {name}: {compare(f'{name}.jpg', within=2)} levels apart at most")
    colours.convert("L").save("grey.jpg")
    compare("grey.jpg", within=2)
    PIL.Image.fromarray(picture(4, 40, 30, 4), "CMYK").save("inks.jpg")
    print(f"  inks: {compare('inks.jpg', within=2)} levels apart at most")
    turned = PIL.Image.Exif()
    turned[0x0112] = 6  # a quarter to the right, which torchvision does not look at either
    colours.save("turned.jpg", exif=turned)
    compare("turned.jpg", within=2)


def test_jpegs_of_unnamed_sampling_are_pillows():
    for name, text in UNNAMED_SAMPLINGS.items():
        with open(f"{name}.jpg", "wb") as file:
            file.write(base64.b64decode(text))
        print(f"  {name}: {compare(f'{name}.jpg', within=2)} levels apart at most")


def test_what_follows_the_pixels_may_be_missing():
    colours = PIL.Image.fromarray(picture(5, 24, 20))
    for name, missing in (("whole.png", 12), ("whole.jpg", 2)):
        colours.save(name)
        with open(name, "rb") as file:
            content = file.read()
        with open("cut-" + name, "wb") as file:
            file.write(content[:-missing])
        assert (decoded(name) == decoded("cut-" + name)).all()


def test_scaling_and_cutting_are_torchvisions_within_a_level():
    files = []
    for seed, (width, height) in enumerate(((64, 48), (48, 64), (33, 71), (200, 50), (31, 31), (5, 3), (1, 9))):
        files.append(f"{seed}.png")
        PIL.Image.fromarray(picture(seed, width, height)).save(files[-1])
    for size in (1, 8, 31, 32, 63, 100):
        there = numpy.stack([expected(file, size) for file in files]).astype(int)
        here = decoded(*files, size=size).reshape(there.shape).astype(int)
        furthest = numpy.abs(here - there).max()
        assert furthest <= 1, f"at {size}: {furthest} levels apart"


if __name__ == "__main__":
    main(globals())
