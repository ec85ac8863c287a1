"""A day of some coffee shops, simulated. Pure: the same seed gives the same day."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

SHOPS = (
    *("Altona", "Barmbek", "Eppendorf", "Hafen"),
    *("Ottensen", "St. Pauli", "Uhlenhorst", "Winterhude"),
)
DRINKS = {"espresso": 2.4, "cappuccino": 3.6, "flat white": 4.1, "filter": 2.9}
LEAKY = "Hafen"
"""Here more cups are brewed than paid for. The question finds it."""

DAY_MS = 86_400_000
OPEN_H, CLOSE_H = 7, 20
STEP_MS = 10_000
MACHINES = 2


class Message(NamedTuple):
    topic: str
    key: bytes
    value: bytes
    timestamp: int


@dataclass(frozen=True, slots=True)
class Size:
    """How much of a day: `share` of its cups, and a reading of each machine every `step_ms`."""

    share: float = 1.0
    step_ms: int = STEP_MS


def demand(hour: float) -> float:
    """Cups per shop and ten seconds: a morning rush, and a smaller one after lunch."""
    if not OPEN_H <= hour < CLOSE_H:
        return 0.0
    return 0.08 + 0.45 * math.exp(-((hour - 8.5) ** 2)) + 0.2 * math.exp(-((hour - 14) ** 2) / 3)


def day(start_ms: int, seed: int, size: Size = Size()) -> Iterator[Message]:
    """Readings and orders of all shops, in order of time."""
    choice = random.Random(seed)
    cups = dict.fromkeys(((shop, at) for shop in SHOPS for at in range(MACHINES)), 0)
    number = 0
    for at_ms in range(0, DAY_MS, size.step_ms):
        rate = demand(at_ms / 3_600_000) * size.step_ms / STEP_MS * size.share
        for shop in SHOPS:
            for machine in range(MACHINES):
                brewed = int(rate) + (choice.random() < rate % 1)
                cups[shop, machine] += brewed
                yield _reading(choice, shop, machine, cups[shop, machine], start_ms + at_ms)
                for _ in range(brewed):
                    if shop == LEAKY and choice.random() < 0.3:
                        continue
                    number += 1
                    delay = choice.randrange(size.step_ms)
                    yield _order(choice, shop, number, start_ms + at_ms + delay)


def _reading(choice: random.Random, shop: str, machine: int, cups: int, at_ms: int) -> Message:
    name = f"{shop}-{machine}"
    value = {
        "machine": name,
        "shop": shop,
        "celsius": round(choice.gauss(92.5, 0.8), 2),
        "cups": cups,
    }
    return Message("readings", name.encode(), _json(value), at_ms)


def _order(choice: random.Random, shop: str, number: int, at_ms: int) -> Message:
    drink = choice.choice(list(DRINKS))
    value = {"id": number, "shop": shop, "drink": drink, "amount": DRINKS[drink]}
    return Message("orders", shop.encode(), _json(value), at_ms)


def shops(at_ms: int) -> Iterator[Message]:
    """Which shops there are, and how many seats they have."""
    for number, shop in enumerate(SHOPS):
        value = {"shop": shop, "seats": 12 + number * 5 % 21}
        yield Message("shops", shop.encode(), _json(value), at_ms)


def _json(value: dict[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
