# SPDX-License-Identifier: Apache-2.0
"""What the interop cases assert about streams of samples."""

from lib import capture
from lib.runner import equal, expect


def by_color(samples):
    """The x of the valid samples of each colour, in the order taken."""
    streams = {}
    for sample in samples:
        if sample.valid:
            streams.setdefault(sample.color, []).append(sample.x)
    return streams


def expected_streams(count, colors):
    """What a publisher of `count` samples with these colours in turn writes."""
    return {color: list(range(first, count + 1, len(colors)))
            for first, color in enumerate(colors, 1) if first <= count}


def complete(samples, count, colors):
    """Every sample exactly once, in order within its instance, with the right contents."""
    equal(by_color(samples), expected_streams(count, colors), "samples by colour")
    for sample in samples:
        if sample.valid:
            equal((sample.y, sample.size), (2 * sample.x, 30), f"fields of x={sample.x}")


def increasing(samples, least):
    """No duplicate, no sample out of order within its instance, and not too many missing."""
    for color, xs in by_color(samples).items():
        expect(all(a < b for a, b in zip(xs, xs[1:])), f"{color}: duplicate or out of order")
    got = sum(len(xs) for xs in by_color(samples).values())
    expect(got >= least, f"only {got} samples, expected at least {least}")


def states(samples):
    """The last state of each colour."""
    return {sample.color: sample.state for sample in samples}


def traffic_is_clean(world, path):
    """tshark has no objection to what Apus sent, and Apus did send something."""
    world.stop_captures()
    expect(capture.check_ours(path) > 0, "the capture holds no message from Apus")


def mentions(value, wanted):
    """True if a decoded JSON value holds `wanted` as a string anywhere."""
    if isinstance(value, dict):
        return any(mentions(inner, wanted) for inner in value.values())
    if isinstance(value, list):
        return any(mentions(inner, wanted) for inner in value)
    return value == wanted
