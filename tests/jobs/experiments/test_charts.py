"""Line charts: well-formed SVG, gaps where values are missing, text that cannot break out."""

import math
import xml.etree.ElementTree as ElementTree

import pytest

from jobs.services.experiments.charts import Chart, Line, svg

SPACE = "{http://www.w3.org/2000/svg}"


def chart(*points, name="a", **options):
    return Chart("Loss", "round", "loss", [Line(name, points)], **options)


def parsed(made):
    return ElementTree.fromstring(svg(made))


def curve(made):
    """The commands of the first line: M begins a piece."""
    paths = [path.get("d") for path in parsed(made).iter(f"{SPACE}path")]
    return next((path for path in paths if path.count("L") or path.count("M") > 1), "")


def test_every_point_is_on_the_line():
    assert curve(chart((0, 1.0), (1, 0.5), (2, 0.25))).count("L") == 2


@pytest.mark.parametrize("hole", [None, math.nan, math.inf])
def test_a_missing_value_is_a_gap(hole):
    path = curve(chart((0, 1.0), (1, 0.9), (2, hole), (3, 0.8), (4, 0.7)))
    assert path.count("M") == 2 and path.count("L") == 2


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "points", [(), ((0, 1.0),), ((0, 2.0), (1, 2.0)), ((0, 1e-9), (1, 1e9)), ((0, -1.0), (5, 0.0))]
)
def test_any_numbers_give_a_whole_picture(points, log):
    text = svg(chart(*points, log=log))
    ElementTree.fromstring(text)
    assert "nan" not in text and "inf" not in text


def test_the_same_numbers_give_the_same_bytes():
    assert svg(chart((0, 1.0), (1, 0.5))) == svg(chart((0, 1.0), (1, 0.5)))


def test_names_are_text():
    root = parsed(chart((0, 1.0), (1, 2.0), name='<b onload="x">&'))
    assert any(text.text == '<b onload="x">&' for text in root.iter(f"{SPACE}text"))


def test_ticks_are_round_numbers_within_the_axis():
    texts = [text.text for text in parsed(chart((0, 0.0), (33, 5.5))).iter(f"{SPACE}text")]
    assert {"0", "10", "20", "30"} <= set(texts) and {"2", "4"} <= set(texts)
