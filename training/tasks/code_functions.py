"""Small functions that tasks ask for, test and mend: what each does, how it is written, how it goes wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from training.tasks.code_parts import text
from training.tasks.draw import Draw


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function."""

    names: tuple[str, ...]
    takes: str
    """Its parameters."""
    body: tuple[str, ...]
    wrong: tuple[tuple[str, str], ...]
    """Mistakes: a part of the body, and what stands there instead."""
    does: Mapping[str, str]
    """What goes on after `that`, `die` and `qui`."""
    examples: tuple[tuple[str, str], ...]
    """Arguments and result, as Python is written."""

    def code(self, name: str) -> str:
        """Return its source."""
        return text(f"def {name}({self.takes}):", *(f"    {line}" for line in self.body))

    def broken(self, name: str, draw: Draw) -> str:
        """Return its source with a mistake."""
        right, wrong = draw.choice(self.wrong)
        return self.code(name).replace(right, wrong, 1)

    def printed(self, name: str, source: str) -> tuple[str, str]:
        """Return a command that calls it with all examples, and what the command prints."""
        calls = "; ".join(f"print(repr({name}({given})))" for given, _ in self.examples)
        return f'python3 -B -c "from {source} import {name}; {calls}"', text(*(got for _, got in self.examples))


FUNCTIONS: Final = (
    Function(
        names=("clamp", "limit_to", "keep_within"),
        takes="value, low, high",
        body=("return max(low, min(value, high))",),
        wrong=(("max(low, min(value, high))", "min(low, max(value, high))"), ("min(value, high)", "value")),
        does={
            "en": "returns value, but low if value is smaller than low and high if it is larger than high",
            "de": "value zurückgibt, aber low, wenn value kleiner ist als low, und high, wenn es größer ist als high",
            "fr": "renvoie value, mais low si value est plus petit que low et high s'il est plus grand que high",
        },
        examples=(("5, 1, 9", "5"), ("0, 1, 9", "1"), ("12, 1, 9", "9"), ("-7, -5, 5", "-5"), ("9, 1, 9", "9")),
    ),
    Function(
        names=("second_largest", "runner_up", "second_best"),
        takes="numbers",
        body=(
            "different = sorted(set(numbers), reverse=True)",
            "return different[1] if len(different) > 1 else None",
        ),
        wrong=(
            ("sorted(set(numbers), reverse=True)", "sorted(numbers, reverse=True)"),
            ("different[1]", "different[-2]"),
        ),
        does={
            "en": "returns the second largest of the different numbers in a list, or None if there is no such number",
            "de": "die zweitgrößte der verschiedenen Zahlen einer Liste zurückgibt, oder None, wenn es keine gibt",
            "fr": "renvoie le deuxième plus grand des nombres différents d'une liste, ou None s'il n'y en a pas",
        },
        examples=(("[4, 9, 7]", "7"), ("[8, 8, 3]", "3"), ("[5]", "None"), ("[]", "None"), ("[-1, -4, -2]", "-2")),
    ),
    Function(
        names=("chunks", "split_into", "in_groups"),
        takes="items, size",
        body=("return [items[start:start + size] for start in range(0, len(items), size)]",),
        wrong=(("start + size", "size"), ("len(items), size", "len(items) - size, size")),
        does={
            "en": (
                "cuts the list items into lists of length size (the last may be shorter) and returns the list of them"
            ),
            "de": (
                "die Liste items in Listen der Länge size zerlegt (die letzte darf kürzer sein) und sie als Liste"
                " zurückgibt"
            ),
            "fr": (
                "découpe la liste items en listes de longueur size (la dernière peut être plus courte) et en"
                " renvoie la liste"
            ),
        },
        examples=(
            ("[1, 2, 3, 4, 5], 2", "[[1, 2], [3, 4], [5]]"),
            ("[1, 2, 3, 4], 2", "[[1, 2], [3, 4]]"),
            ("[], 3", "[]"),
            ("[7], 4", "[[7]]"),
        ),
    ),
    Function(
        names=("flatten", "join_lists", "unpack_all"),
        takes="lists",
        body=("return [item for each in lists for item in each]",),
        wrong=(
            ("item for each in lists for item in each", "each for each in lists"),
            ("in lists for", "in lists[1:] for"),
        ),
        does={
            "en": "makes one list of the items of several lists, in order",
            "de": "aus den Elementen mehrerer Listen eine einzige Liste macht, in der gleichen Reihenfolge",
            "fr": "fait une seule liste des éléments de plusieurs listes, dans l'ordre",
        },
        examples=(("[[1, 2], [3]]", "[1, 2, 3]"), ("[]", "[]"), ("[[], [4]]", "[4]"), ("[[5, 5], [6]]", "[5, 5, 6]")),
    ),
    Function(
        names=("without_repeats", "first_of_each", "distinct"),
        takes="items",
        body=("return list(dict.fromkeys(items))",),
        wrong=(("list(dict.fromkeys(items))", "sorted(set(items))"), ("list(dict.fromkeys(items))", "list(items)")),
        does={
            "en": "returns the items of a list without repetitions, each where it stood first",
            "de": "die Elemente einer Liste ohne Wiederholungen zurückgibt, jedes dort, wo es zuerst stand",
            "fr": "renvoie les éléments d'une liste sans répétition, dans l'ordre de leur première apparition",
        },
        examples=(
            ("[3, 1, 3, 2, 1]", "[3, 1, 2]"),
            ("[]", "[]"),
            ("['b', 'a', 'b']", "['b', 'a']"),
            ("[9, 8]", "[9, 8]"),
        ),
    ),
    Function(
        names=("median", "middle_value", "middle_of"),
        takes="numbers",
        body=(
            "ordered = sorted(numbers)",
            "half = len(ordered) // 2",
            "if len(ordered) % 2:",
            "    return ordered[half]",
            "return (ordered[half - 1] + ordered[half]) / 2",
        ),
        wrong=(
            ("sorted(numbers)", "list(numbers)"),
            ("ordered[half - 1] + ordered[half]", "ordered[half] + ordered[half + 1]"),
        ),
        does={
            "en": (
                "returns the median of a list of numbers; with an even count that is the mean of the two in the middle"
            ),
            "de": "den Median einer Liste von Zahlen zurückgibt; bei gerader Anzahl das Mittel der beiden mittleren",
            "fr": (
                "renvoie la médiane d'une liste de nombres ; s'ils sont en nombre pair, la moyenne des deux du milieu"
            ),
        },
        examples=(("[7, 1, 4]", "4"), ("[8, 2, 4, 1]", "3.0"), ("[5]", "5"), ("[-3, -9, -6]", "-6")),
    ),
    Function(
        names=("digit_sum", "sum_of_digits", "cross_sum"),
        takes="number",
        body=("return sum(int(digit) for digit in str(abs(number)))",),
        wrong=(("abs(number)", "number"), ("int(digit) for", "1 for")),
        does={
            "en": "returns the sum of the digits of a whole number; a minus sign changes nothing",
            "de": "die Quersumme einer ganzen Zahl zurückgibt; ein Minuszeichen ändert nichts",
            "fr": "renvoie la somme des chiffres d'un entier ; le signe moins n'y change rien",
        },
        examples=(("123", "6"), ("0", "0"), ("-45", "9"), ("9070", "16")),
    ),
    Function(
        names=("is_palindrome", "same_backwards", "reads_both_ways"),
        takes="phrase",
        body=(
            'letters = phrase.replace(" ", "").lower()',
            "return letters == letters[::-1]",
        ),
        wrong=(('.replace(" ", "")', ""), (".lower()", ""), ("letters[::-1]", "letters[1:]")),
        does={
            "en": (
                "returns True if a phrase is the same backwards, else False; spaces and upper or lower case do"
                " not matter"
            ),
            "de": (
                "True zurückgibt, wenn ein Text rückwärts gleich ist, sonst False; Leerzeichen und Groß/klein sind egal"
            ),
            "fr": (
                "renvoie True si un texte est le même à l'envers, sinon False ; espaces et majuscules ne comptent pas"
            ),
        },
        examples=(("'Never odd or even'", "True"), ("'harbour'", "False"), ("'Anna'", "True"), ("''", "True")),
    ),
    Function(
        names=("words_in", "count_each_word", "word_counts"),
        takes="phrase",
        body=(
            "counts = {}",
            "for word in phrase.lower().split():",
            "    counts[word] = counts.get(word, 0) + 1",
            "return counts",
        ),
        wrong=((".lower()", ""), ("get(word, 0) + 1", "get(word, 1)"), ("    return", "        return")),
        does={
            "en": "returns a dict with each word of a text in lower case and how often it is there",
            "de": "ein dict zurückgibt: jedes Wort eines Textes in Kleinbuchstaben, und wie oft es vorkommt",
            "fr": "renvoie un dict avec chaque mot d'un texte en minuscules et son nombre d'apparitions",
        },
        examples=(
            ("'a b a'", "{'a': 2, 'b': 1}"),
            ("''", "{}"),
            ("'No no yes'", "{'no': 2, 'yes': 1}"),
        ),
    ),
    Function(
        names=("common_start", "shared_prefix", "same_beginning"),
        takes="first, second",
        body=(
            "length = 0",
            "while length < min(len(first), len(second)) and first[length] == second[length]:",
            "    length += 1",
            "return first[:length]",
        ),
        wrong=(
            ("first[:length]", "first[:length + 1]"),
            ("min(len(first), len(second))", "min(len(first), len(second)) - 1"),
        ),
        does={
            "en": "returns the beginning that two words share, an empty string if they share none",
            "de": "den gemeinsamen Anfang zweier Wörter zurückgibt, sonst einen leeren Text",
            "fr": "renvoie le début commun de deux mots, une chaîne vide s'il n'y en a pas",
        },
        examples=(("'window', 'winter'", "'win'"), ("'a', 'b'", "''"), ("'sun', 'sun'", "'sun'"), ("'', 'x'", "''")),
    ),
    Function(
        names=("invert", "swap_keys", "turned_around"),
        takes="mapping",
        body=("return {value: key for key, value in mapping.items()}",),
        wrong=(
            ("value: key for", "key: value for"),
            ("{value: key for key, value in mapping.items()}", "list(mapping.items())"),
        ),
        does={
            "en": "returns a new dict in which keys and values have changed places",
            "de": "ein neues dict zurückgibt, in dem Schlüssel und Werte vertauscht sind",
            "fr": "renvoie un nouveau dict où clés et valeurs ont changé de place",
        },
        examples=(("{'a': 1, 'b': 2}", "{1: 'a', 2: 'b'}"), ("{}", "{}"), ("{'x': 'y'}", "{'y': 'x'}")),
    ),
    Function(
        names=("common_divisor", "gcd_of", "largest_divisor"),
        takes="a, b",
        body=("while b:", "    a, b = b, a % b", "return a"),
        wrong=(("return a", "return b"), ("a % b", "a // b")),
        does={
            "en": "returns the greatest common divisor of two positive whole numbers",
            "de": "den größten gemeinsamen Teiler zweier positiver ganzer Zahlen zurückgibt",
            "fr": "renvoie le plus grand commun diviseur de deux entiers positifs",
        },
        examples=(("12, 18", "6"), ("7, 5", "1"), ("40, 8", "8"), ("9, 27", "9")),
    ),
    Function(
        names=("divisors", "divisors_of", "factors"),
        takes="number",
        body=("return [divisor for divisor in range(1, number + 1) if number % divisor == 0]",),
        wrong=(("number + 1", "number"), ("range(1,", "range(2,"), ("== 0", "== 1")),
        does={
            "en": (
                "returns the list of all divisors of a positive number, 1 and the number included, in ascending order"
            ),
            "de": "die Liste aller Teiler einer positiven Zahl zurückgibt, mit 1 und der Zahl selbst, aufsteigend",
            "fr": "renvoie la liste croissante des diviseurs d'un nombre positif, 1 et lui-même compris",
        },
        examples=(("12", "[1, 2, 3, 4, 6, 12]"), ("1", "[1]"), ("13", "[1, 13]"), ("9", "[1, 3, 9]")),
    ),
    Function(
        names=("to_roman", "roman", "as_roman"),
        takes="number",
        body=(
            "signs = [",
            '    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),',
            '    (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),',
            "]",
            'written = ""',
            "for value, sign in signs:",
            "    while number >= value:",
            "        written += sign",
            "        number -= value",
            "return written",
        ),
        wrong=((">= value", "> value"), ('(9, "IX"), ', ""), ("(90, ", "(80, ")),
        does={
            "en": "returns a number between 1 and 3999 in Roman numerals",
            "de": "eine Zahl zwischen 1 und 3999 in römischen Ziffern zurückgibt",
            "fr": "renvoie un nombre de 1 à 3999 en chiffres romains",
        },
        examples=(
            ("4", "'IV'"),
            ("1994", "'MCMXCIV'"),
            ("19", "'XIX'"),
            ("3000", "'MMM'"),
            ("1", "'I'"),
            ("90", "'XC'"),
        ),
    ),
    Function(
        names=("as_clock", "clock_time", "hours_minutes"),
        takes="minutes",
        body=('return f"{minutes // 60}:{minutes % 60:02}"',),
        wrong=((":02", ""), ("minutes // 60", "minutes / 60"), ("% 60", "% 100")),
        does={
            "en": "turns a number of minutes into text like 2:05 (hours, colon, two digits for the minutes)",
            "de": "eine Anzahl Minuten in Text wie 2:05 umwandelt (Stunden, Doppelpunkt, zwei Ziffern für die Minuten)",
            "fr": "transforme un nombre de minutes en texte comme 2:05 (heures, deux-points, minutes à deux chiffres)",
        },
        examples=(("125", "'2:05'"), ("59", "'0:59'"), ("600", "'10:00'"), ("0", "'0:00'")),
    ),
    Function(
        names=("shorten", "cut_off", "shortened"),
        takes="sentence, width",
        body=('return sentence if len(sentence) <= width else sentence[:width - 3] + "..."',),
        wrong=(("<= width", "< width"), ("width - 3", "width")),
        does={
            "en": "returns a sentence as it is if it has at most width characters, else its beginning and three dots,"
            " together exactly width characters",
            "de": "einen Satz unverändert zurückgibt, wenn er höchstens width Zeichen hat, sonst den Anfang und"
            " drei Punkte,"
            " zusammen genau width Zeichen",
            "fr": "renvoie une phrase telle quelle si elle a au plus width caractères, sinon son début et trois points,"
            " en tout exactement width caractères",
        },
        examples=(
            ("'abcdefgh', 6", "'abc...'"),
            ("'abcdef', 6", "'abcdef'"),
            ("'', 5", "''"),
            ("'abcdefg', 6", "'abc...'"),
        ),
    ),
    Function(
        names=("to_camel", "camel_case", "joined_name"),
        takes="name",
        body=('first, *others = name.split("_")', 'return first + "".join(part.capitalize() for part in others)'),
        wrong=(("first + ", ""), ("part.capitalize()", "part"), ("part.capitalize()", "part.upper()")),
        does={
            "en": "turns a name like wait_for_it into waitForIt",
            "de": "einen Namen wie wait_for_it in waitForIt umwandelt",
            "fr": "transforme un nom comme wait_for_it en waitForIt",
        },
        examples=(
            ("'wait_for_it'", "'waitForIt'"),
            ("'plain'", "'plain'"),
            ("'a_b'", "'aB'"),
            ("'max_file_size'", "'maxFileSize'"),
        ),
    ),
    Function(
        names=("rotate", "turned_left", "shift_left"),
        takes="items, steps",
        body=("steps %= len(items) or 1", "return items[steps:] + items[:steps]"),
        wrong=(
            ("items[steps:] + items[:steps]", "items[:steps] + items[steps:]"),
            ("items[:steps]", "items[:steps - 1]"),
        ),
        does={
            "en": "returns a list moved to the left by steps places, what falls out in front comes back at the end",
            "de": (
                "eine Liste um steps Stellen nach links verschoben zurückgibt; was vorn herausfällt, kommt hinten"
                " wieder"
            ),
            "fr": "renvoie une liste décalée de steps places vers la gauche, ce qui sort devant revient à la fin",
        },
        examples=(
            ("[1, 2, 3, 4], 1", "[2, 3, 4, 1]"),
            ("[1, 2, 3], 5", "[3, 1, 2]"),
            ("[], 2", "[]"),
            ("[6, 7], 0", "[6, 7]"),
        ),
    ),
    Function(
        names=("gaps", "differences", "steps_between"),
        takes="numbers",
        body=("return [after - before for before, after in zip(numbers, numbers[1:])]",),
        wrong=(("after - before", "before - after"), ("numbers[1:]", "numbers")),
        does={
            "en": "returns the list of differences from each number of a list to the next one",
            "de": "die Liste der Unterschiede von jeder Zahl einer Liste zur nächsten zurückgibt",
            "fr": "renvoie la liste des différences entre chaque nombre d'une liste et le suivant",
        },
        examples=(("[1, 4, 9]", "[3, 5]"), ("[5]", "[]"), ("[8, 2]", "[-6]"), ("[]", "[]")),
    ),
    Function(
        names=("after_discount", "reduced", "sale_price"),
        takes="amount, percent",
        body=("return round(amount * (100 - percent) / 100, 2)",),
        wrong=(("100 - percent", "percent"), ("100 - percent", "100 + percent"), (", 2)", ")")),
        does={
            "en": "returns what is left of amount after a discount of percent, rounded to two decimals",
            "de": "zurückgibt, was von amount nach einem Rabatt von percent Prozent bleibt, auf zwei Stellen gerundet",
            "fr": "renvoie ce qui reste de amount après une remise de percent pour cent, arrondi à deux décimales",
        },
        examples=(("50, 10", "45.0"), ("19.99, 25", "14.99"), ("80, 0", "80.0"), ("7.5, 50", "3.75")),
    ),
    Function(
        names=("count_above", "how_many_over", "number_above"),
        takes="numbers, limit",
        body=("return sum(number > limit for number in numbers)",),
        wrong=(("> limit", ">= limit"), ("> limit", "< limit"), ("number > limit for", "number for")),
        does={
            "en": "returns how many of the numbers are greater than limit; equal does not count",
            "de": "zurückgibt, wie viele der Zahlen größer sind als limit; gleich zählt nicht",
            "fr": "renvoie combien de nombres sont plus grands que limit ; égal ne compte pas",
        },
        examples=(("[1, 5, 9], 5", "1"), ("[], 3", "0"), ("[4, 4], 4", "0"), ("[-1, 0, 2], -2", "3")),
    ),
    Function(
        names=("hide_digits", "masked", "cover_number"),
        takes="card",
        body=('return "*" * (len(card) - 4) + card[-4:]',),
        wrong=(("card[-4:]", "card[:4]"), ("len(card) - 4", "len(card)"), ("card[-4:]", "card[-3:]")),
        does={
            "en": "returns a card number (a string) with a star instead of every character but the last four",
            "de": (
                "eine Kartennummer (Text) zurückgibt, in der statt aller Zeichen außer den letzten vier Sterne stehen"
            ),
            "fr": (
                "renvoie un numéro de carte (du texte) avec une étoile à la place de chaque caractère sauf les"
                " quatre derniers"
            ),
        },
        examples=(("'12345678'", "'****5678'"), ("'0042'", "'0042'"), ("'98765'", "'*8765'")),
    ),
    Function(
        names=("most_common", "favourite", "most_frequent"),
        takes="items",
        body=("return max(items, key=items.count) if items else None",),
        wrong=((", key=items.count", ""), ("max(items, key=items.count)", "items[0]"), ("max(", "min(")),
        does={
            "en": (
                "returns the item that is most often in a list, the earliest one if several are, None for an empty list"
            ),
            "de": (
                "das häufigste Element einer Liste zurückgibt, bei Gleichstand das erste, und None für eine leere Liste"
            ),
            "fr": (
                "renvoie l'élément le plus fréquent d'une liste, le premier en cas d'égalité, None pour une liste vide"
            ),
        },
        examples=(("['b', 'a', 'a']", "'a'"), ("['x', 'y']", "'x'"), ("[]", "None"), ("[3, 1, 1, 3, 5]", "3")),
    ),
    Function(
        names=("running_totals", "sums_so_far", "accumulated"),
        takes="numbers",
        body=(
            "totals, total = [], 0",
            "for number in numbers:",
            "    total += number",
            "    totals.append(total)",
            "return totals",
        ),
        wrong=(
            ("append(total)", "append(number)"),
            ("total += number", "total = number"),
            ("    return", "        return"),
        ),
        does={
            "en": "returns the list of sums so far: the first number, the first two together, and so on",
            "de": "die Liste der Zwischensummen zurückgibt: die erste Zahl, die ersten beiden zusammen und so weiter",
            "fr": "renvoie la liste des sommes cumulées : le premier nombre, les deux premiers ensemble, etc.",
        },
        examples=(("[1, 2, 3]", "[1, 3, 6]"), ("[]", "[]"), ("[5, -5, 2]", "[5, 0, 2]")),
    ),
    Function(
        names=("words_backwards", "turn_words", "last_word_first"),
        takes="sentence",
        body=('return " ".join(reversed(sentence.split()))',),
        wrong=(("reversed(sentence.split())", "reversed(sentence)"), ('" ".join', '"".join')),
        does={
            "en": "returns a sentence with its words in reverse order, the words themselves unchanged",
            "de": "einen Satz mit den Wörtern in umgekehrter Reihenfolge zurückgibt, die Wörter selbst bleiben gleich",
            "fr": "renvoie une phrase avec ses mots dans l'ordre inverse, les mots eux-mêmes restent pareils",
        },
        examples=(
            ("'to be or'", "'or be to'"),
            ("'one'", "'one'"),
            ("''", "''"),
            ("'red green blue'", "'blue green red'"),
        ),
    ),
    Function(
        names=("in_both", "shared_items", "overlap"),
        takes="first, second",
        body=("return sorted(set(first) & set(second))",),
        wrong=(("&", "|"), ("&", "-"), ("sorted(set(first) & set(second))", "sorted(first + second)")),
        does={
            "en": "returns a sorted list of what is in both lists, each once",
            "de": "eine sortierte Liste dessen zurückgibt, was in beiden Listen steht, jedes nur einmal",
            "fr": "renvoie la liste triée de ce qui se trouve dans les deux listes, une seule fois chacun",
        },
        examples=(
            ("[3, 1, 2], [2, 3, 3]", "[2, 3]"),
            ("[], [1]", "[]"),
            ("['b', 'a'], ['a']", "['a']"),
            ("[1], [2]", "[]"),
        ),
    ),
    Function(
        names=("key_and_value", "parse_setting", "split_pair"),
        takes="line",
        body=('key, value = line.split("=", 1)', "return key.strip(), value.strip()"),
        wrong=(
            ('"=", 1', '"="'),
            ("value.strip()", "value"),
            ("key.strip(), value.strip()", "value.strip(), key.strip()"),
        ),
        does={
            "en": "splits a line like size = 4 at the first equals sign and returns both parts as a tuple, without"
            " spaces"
            " around them",
            "de": "eine Zeile wie size = 4 am ersten Gleichheitszeichen teilt und beide Teile als Tupel zurückgibt,"
            " ohne"
            " Leerzeichen darum",
            "fr": "coupe une ligne comme size = 4 au premier signe égal et renvoie les deux parties en tuple, sans"
            " espaces"
            " autour",
        },
        examples=(("'size = 4'", "('size', '4')"), ("'a=b=c'", "('a', 'b=c')"), ("' x =y '", "('x', 'y')")),
    ),
    Function(
        names=("grade", "mark_for", "grade_of"),
        takes="points",
        body=(
            "if points >= 90:",
            '    return "A"',
            "if points >= 75:",
            '    return "B"',
            "if points >= 50:",
            '    return "C"',
            'return "F"',
        ),
        wrong=((">= 90", "> 90"), (">= 75", "<= 75"), (">= 50", "> 50"), ('return "F"', 'return "D"')),
        does={
            "en": "returns 'A' for 90 points or more, 'B' for 75 or more, 'C' for 50 or more and 'F' below that",
            "de": "'A' ab 90 Punkten zurückgibt, 'B' ab 75, 'C' ab 50 und darunter 'F'",
            "fr": "renvoie 'A' à partir de 90 points, 'B' à partir de 75, 'C' à partir de 50 et 'F' en dessous",
        },
        examples=(
            ("90", "'A'"),
            ("89", "'B'"),
            ("75", "'B'"),
            ("50", "'C'"),
            ("49", "'F'"),
            ("0", "'F'"),
            ("100", "'A'"),
        ),
    ),
    Function(
        names=("only_vowels", "vowels_of", "keep_vowels"),
        takes="word",
        body=('return "".join(letter for letter in word if letter.lower() in "aeiou")',),
        wrong=((".lower()", ""), ("in word if", "in word[1:] if"), (' in "aeiou"', ' not in "aeiou"')),
        does={
            "en": "returns the vowels (a, e, i, o, u, capital ones too) of a word in their order, as a string",
            "de": "die Vokale (a, e, i, o, u, auch große) eines Wortes der Reihe nach als Text zurückgibt",
            "fr": "renvoie les voyelles (a, e, i, o, u, majuscules aussi) d'un mot dans l'ordre, comme texte",
        },
        examples=(("'harbour'", "'aou'"), ("'Oslo'", "'Oo'"), ("'fly'", "''"), ("'Eagle'", "'Eae'")),
    ),
    Function(
        names=("longer_than", "long_words", "words_over"),
        takes="words, length",
        body=("return [word for word in words if len(word) > length]",),
        wrong=(
            ("> length", ">= length"),
            ("> length", "< length"),
            ("word for word in words", "len(word) for word in words"),
        ),
        does={
            "en": "returns the words of a list that have more than length letters, in the same order",
            "de": (
                "die Wörter einer Liste zurückgibt, die mehr als length Buchstaben haben, in der gleichen Reihenfolge"
            ),
            "fr": "renvoie les mots d'une liste qui ont plus de length lettres, dans le même ordre",
        },
        examples=(
            ("['owl', 'heron', 'crow'], 3", "['heron', 'crow']"),
            ("[], 2", "[]"),
            ("['a', 'bb'], 2", "[]"),
            ("['zebra', 'ant'], 0", "['zebra', 'ant']"),
        ),
    ),
)
_BY_NAME: Final = {function.names[0]: function for function in FUNCTIONS}


def functions(draw: Draw, count: int) -> list[tuple[str, Function]]:
    """Return different functions of this half, each with a name."""
    drawn = [_BY_NAME[name] for name in draw.words(count, tuple(_BY_NAME))]
    return [(draw.choice(function.names), function) for function in drawn]
