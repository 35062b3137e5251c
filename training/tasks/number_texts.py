"""Files of numbers that templates draw."""

from training.tasks.draw import Draw


def numbers_for(draw: Draw, *, low: int = 4, high: int = 12, negative: float = 0.4) -> list[int]:
    """Return whole numbers; if some are negative, one of them is the opposite of another."""
    most = draw.choice([20, 99, 99, 500, 3000])
    numbers = [draw.randint(1, most) for _ in range(draw.randint(low, high))]
    if draw.random() < negative:
        for at in draw.sample(range(len(numbers)), draw.randint(1, len(numbers) - 2)):
            numbers[at] = -numbers[at]
        numbers[-1] = -numbers[0]
    draw.shuffle(numbers)
    return numbers


def lines_of(numbers: list[int]) -> str:
    """Return numbers as lines."""
    return "".join(f"{each}\n" for each in numbers)
