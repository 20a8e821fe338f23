"""A healthy image: what the finished one holds."""

from rig.image import Image


def healthy_image() -> Image:
    return Image()
