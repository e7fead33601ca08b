"""Observations as pictures."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from agents.pictures import HEIGHT, compose, draw_observation


def cells(picture: np.ndarray, rows: int, columns: int) -> list[list[int]]:
    """The grey of every square, after seeing that each is of one colour."""
    side = picture.shape[0] // rows
    assert picture.shape == (rows * side, columns * side, 3) and picture.dtype == np.uint8
    squares = picture.reshape(rows, side, columns, side, 3)
    assert (squares == squares[:, :1, :, :1, :1]).all()
    return squares[:, 0, :, 0, 0].tolist()


def test_numbers_are_grey_between_their_bounds() -> None:
    space = spaces.Box(np.array([0.0, -1.0, 0.0]), np.array([1.0, 1.0, 4.0]), dtype=np.float64)
    picture = draw_observation(space, np.array([1.0, 0.0, 0.0]))
    assert cells(picture, 2, 2) == [[255, 127], [0, 128]]  # the last square holds nothing


def test_numbers_without_bounds_are_grey_between_those_there_are() -> None:
    picture = draw_observation(spaces.Box(-np.inf, np.inf, (4,)), np.array([-2.0, 0.0, 2.0, 2.0]))
    assert cells(picture, 2, 2) == [[0, 127], [255, 255]]


def test_choices_are_one_white_square() -> None:
    assert cells(draw_observation(spaces.Discrete(4), 2), 2, 2) == [[0, 0], [255, 0]]


def test_a_picture_is_itself() -> None:
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    np.testing.assert_array_equal(draw_observation(spaces.Box(0, 255, (2, 2, 3), np.uint8), image), image)


def test_pictures_share_a_height() -> None:
    one, two = np.zeros((10, 20, 3), np.uint8), np.zeros((40, 40, 3), np.uint8)
    plain, labelled = compose([("", one)], ["words"]), compose([("a", one), ("b", two)], ["words"])
    assert labelled.width - plain.width > HEIGHT and labelled.height > plain.height > HEIGHT
