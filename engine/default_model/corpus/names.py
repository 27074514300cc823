"""Random values: names, places, codes, paths, times, amounts. Standard library only.

Most are made of syllables or digits, so that a text can only be answered by reading it.
"""

import lexicon
from lexicon import WORDS

FIRST = """Ada Alan Amara Anders Anita Anton Aria Bela Ben Bianca Boris Carla Cem Chen Clara Cora
Dario David Dina Elena Elias Emma Erik Esra Eva Farid Felix Fiona Frida Gita Greta Hana Hassan
Heidi Hugo Ida Igor Ines Iris Ivan Jana Jonas Julia Kai Karim Kira Lars Laura Lea Leo Lina Linus
Luca Lucia Magda Malik Marco Maria Mateo Maya Mila Mira Nadia Nils Nina Noah Nora Olga Omar Oscar
Paula Pavel Petra Priya Rafael Ravi Rita Robin Rosa Ruben Sam Sara Selma Simon Sofia Stefan Tara
Theo Tim Tomas Uma Vera Victor Wanda Yara Yusuf Zoe""".split()
LAST = """Abel Adler Ahmed Bauer Becker Berg Bianchi Blum Brandt Braun Castro Cohen Costa Diaz
Dubois Eklund Engel Evans Fischer Fontana Frank Garcia Gupta Haas Hansen Hoffmann Horvat Huber
Ivanov Jansen Jensen Kaya Keller Kim Klein Koch Kovacs Kruger Kumar Lang Larsen Lee Lehmann Lopez
Lund Maier Marino Mayer Meyer Moreau Moser Murphy Nagy Nguyen Novak Olsen Ortiz Park Patel Peters
Petrov Pereira Quinn Reyes Ricci Roth Rossi Sato Schmidt Silva Singh Smith Sorensen Stern Suzuki
Tanaka Thomas Torres Vargas Vogel Wagner Weber Weiss Wolf Wong Yilmaz Young Zhang
Ziegler""".split()
CITIES = """Aachen Accra Ankara Athens Bergen Berlin Bern Bilbao Bogota Boston Bremen Bristol Brno
Cairo Chicago Cork Dakar Delhi Denver Dublin Essen Florence Gdansk Geneva Genoa Ghent Graz Hamburg
Hanoi Helsinki Istanbul Jena Kiel Krakow Kyoto Lagos Leipzig Lima Linz Lisbon London Lyon Madrid
Malaga Malmo Manila Milan Munich Nairobi Nantes Naples Oslo Ottawa Padua Paris Perth Porto Prague
Quito Riga Rome Salzburg Seattle Seoul Sofia Split Stockholm Sydney Tallinn Tampere Tokyo Toronto
Trieste Tunis Turin Utrecht Vienna Vilnius Warsaw Zagreb Zurich""".split()
COLOURS = """amber azure beige black blue bronze brown coral crimson cyan gold green grey indigo
ivory lilac lime magenta maroon navy olive orange pink purple red rose silver teal turquoise
violet white yellow""".split()
THINGS = """anchor apple arrow basket battery bell bicycle boat book bottle bridge bucket cable
camera candle carpet chair clock cloud coat comb cup desk door drum engine feather filter flute
fork garden gate glass hammer harbor helmet island jacket kettle key kite ladder lamp lantern
lemon letter lever map mirror motor needle notebook oven paddle paper pencil piano pillow pipe
plate pump puzzle radio ribbon ring river road rocket rope saddle scale sensor shelf shovel signal
spoon spring stone stove table tent ticket tower train tray tunnel turbine valve vase violin wagon
wallet watch wheel whistle window wire""".split()
SYLLABLES = """ba be bi bo bu da de di do du fa fe fi ga go gu ha he hi ka ke ki ko ku la le li lo
lu ma me mi mo mu na ne ni no nu pa pe po ra re ri ro ru sa se si so su ta te ti to tu va ve vi vo
za ze zi zo bar bel cor dan den dor fal fen gar hal jor kal kel lan len mar mer nor pel ran rel
sal sol tan tel tor val ven vor wen xan yor zan""".split()
MONTHS = """January February March April May June July August September October November
December""".split()
DIGITS, HEX = "0123456789", "0123456789abcdef"
CAPITALS, SMALL = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"


TENS = """twenty thirty forty fifty sixty seventy eighty ninety""".split()
ONES = """one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen""".split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def string_of(rng, letters, low, high):
    return "".join(rng.choice(letters) for _ in range(rng.randint(low, high)))


def word(rng):
    """A word that nobody has seen."""
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 3)))


def coined(rng):
    return word(rng).capitalize()


def first(rng):
    return rng.choice(FIRST) if rng.random() < 0.7 else coined(rng)


def last(rng):
    return rng.choice(LAST) if rng.random() < 0.6 else coined(rng)


def person(rng):
    form = rng.random()
    if form < 0.55:
        return f"{first(rng)} {last(rng)}"
    if form < 0.80:
        return first(rng)
    if form < 0.92:
        return f"{rng.choice(['Mr.', 'Mrs.', 'Ms.', 'Dr.', 'Professor', 'Captain'])} {last(rng)}"
    return f"{first(rng)} {rng.choice(CAPITALS)}. {last(rng)}"


def city(rng):
    return rng.choice(CITIES) if rng.random() < 0.6 else coined(rng)


def place(rng):
    """Where something is, with its preposition left out: "the old mill", "Lisbon"."""
    noun = rng.choice(WORDS["places"])
    form = rng.random()
    if form < 0.4:
        return "the " + noun
    if form < 0.6:
        return f"the {rng.choice(WORDS['adjectives'])} {noun}"
    return f"the {noun} of {city(rng)}" if form < 0.75 else city(rng)


def code(rng):
    form = rng.randrange(10)
    if form == 0:
        return string_of(rng, CAPITALS, 2, 4) + "-" + string_of(rng, DIGITS, 2, 5)
    if form == 1:
        return string_of(rng, HEX, 6, 12)
    if form == 2:
        return string_of(rng, CAPITALS + DIGITS, 5, 9)
    if form == 3:
        return string_of(rng, SMALL + DIGITS, 6, 10)
    if form == 4:
        return word(rng) + "-" + string_of(rng, DIGITS, 1, 4)
    if form == 5:
        return string_of(rng, SMALL, 3, 5) + "_" + string_of(rng, SMALL + DIGITS, 3, 6)
    if form == 6:
        return "-".join(string_of(rng, rng.choice([CAPITALS, DIGITS, HEX]), 2, 4)
                        for _ in range(rng.randint(2, 4)))
    if form == 7:
        return rng.choice(CAPITALS) + string_of(rng, DIGITS, 1, 4)
    if form == 8:
        return string_of(rng, DIGITS, 2, 4) + "/" + string_of(rng, CAPITALS + DIGITS, 1, 4)
    return rng.choice(WORDS["things"]).replace(" ", "-") + "-" + rng.choice(COLOURS) + "-" + \
        string_of(rng, DIGITS, 2, 3)


def number(rng):
    value = rng.randint(2, 10 ** rng.randint(1, 6))
    return f"{value:,}" if value > 9999 and rng.random() < 0.3 else str(value)


def small(rng):
    return str(rng.randint(2, 99))


def spelled(value):
    """A number below a thousand in words."""
    if value < 20:
        return ONES[value - 1]
    if value < 100:
        tens, one = divmod(value, 10)
        return TENS[tens - 2] + ("-" + ONES[one - 1] if one else "")
    hundreds, rest = divmod(value, 100)
    return ONES[hundreds - 1] + " hundred" + (" and " + spelled(rest) if rest else "")


def count(rng):
    """How many of something: in digits or in words."""
    value = rng.randint(2, 10 ** rng.randint(1, 4))
    return spelled(value) if value < 100 and rng.random() < 0.5 else str(value)


def ordinal(rng):
    return rng.choice("first second third fourth fifth sixth seventh eighth ninth tenth eleventh "
                      "twelfth".split())


def decimal(rng):
    return f"{rng.randint(0, 999)}.{string_of(rng, DIGITS, 1, 2)}"


def amount(rng):
    return number(rng) if rng.random() < 0.6 else decimal(rng)


def with_unit(rng, units):
    unit = rng.choice(units)
    return f"{amount(rng)}{'' if unit[0] in '%°' else ' '}{unit}"


def date(rng):
    day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1850, 2032)
    return rng.choice([f"{year}-{month:02}-{day:02}", f"{day} {MONTHS[month - 1]} {year}",
                       f"{MONTHS[month - 1]} {day}", f"{MONTHS[month - 1]} {year}",
                       f"{MONTHS[month - 1]} {day}, {year}", f"{day:02}.{month:02}.{year}",
                       f"{day} {MONTHS[month - 1]}"])


def on_day(rng):
    """When something happens, with its preposition."""
    form = rng.randrange(6)
    if form == 0:
        return "on " + rng.choice(WEEKDAYS)
    if form == 1:
        return f"in {rng.choice(MONTHS)}" + rng.choice(["", f" {rng.randint(1850, 2032)}"])
    if form == 2:
        return f"in {rng.randint(1650, 2032)}"
    if form == 3:
        return f"at {time(rng)}"
    if form == 4:
        return f"on {rng.randint(1, 28)} {rng.choice(MONTHS)}" + \
            rng.choice(["", f" {rng.randint(1850, 2032)}"])
    return rng.choice(["yesterday", "last night", "last week", "last summer", "last winter",
                       "this morning", "two days ago", "three weeks ago", "a year ago",
                       "before breakfast", "after the war", "during the storm", "at midnight",
                       "at noon", "on Monday morning", "on Friday evening", "last autumn",
                       "shortly after lunch", "on New Year's Eve", "at the weekend"])


def time(rng):
    hour, minute = rng.randint(0, 23), rng.randint(0, 59)
    if rng.random() < 0.7:
        return f"{hour:02}:{minute:02}"
    return f"{hour % 12 or 12}" + rng.choice([f":{minute:02}", ""]) + \
        rng.choice([" am" if hour < 12 else " pm", " a.m." if hour < 12 else " p.m."])


def period(rng):
    """How long something takes."""
    unit = rng.choice(["seconds", "minutes", "hours", "days", "weeks", "months", "years"])
    value = rng.randint(2, 90)
    return f"{spelled(value) if rng.random() < 0.3 else value} {unit}"


def address(rng):
    return ".".join(str(rng.randint(1, 254)) for _ in range(4))


def street(rng):
    name = rng.choice([coined(rng), last(rng), rng.choice(WORDS["plants"]).capitalize()])
    kind = rng.choice(["Street", "Road", "Lane", "Avenue", "Square", "Alley", "Way"])
    return f"{rng.randint(1, 199)}{rng.choice(['', '', '', 'a', 'b'])} {name} {kind}"


def path(rng):
    folders = "/".join(rng.choice([word(rng), rng.choice(THINGS)])
                       for _ in range(rng.randint(1, 3)))
    end = rng.choice("py cc h toml json md txt log yaml rs go ts csv conf pdf png sh".split())
    return rng.choice(["", "", "/", "src/", "/etc/", "/var/", "~/", "docs/"]) + f"{folders}.{end}"


def url(rng):
    end = rng.choice(["org", "com", "net", "io", "dev"])
    return f"https://{rng.choice(['', 'www.', 'api.', 'docs.'])}{word(rng)}.{end}" + \
        rng.choice(["", f"/{word(rng)}", f"/{word(rng)}/{rng.randint(1, 999)}"])


def version(rng):
    text = ".".join(str(rng.randint(0, 30)) for _ in range(rng.choice([2, 3])))
    return rng.choice(["", "", "v"]) + text + rng.choice(["", "", "", "-rc1", "-beta"])


def money(rng):
    cents = rng.random() < 0.25
    value = f"{rng.randint(1, 999)}.{rng.randint(0, 99):02}" if cents else number(rng)
    return rng.choice(["{} euros", "${}", "{} dollars", "{} EUR", "€{}", "{} pounds", "{} francs",
                       "£{}", "{} crowns", "{} yen"]).format(value)


def percent(rng):
    return f"{rng.choice([small(rng), decimal(rng)])}{rng.choice(['%', ' percent', ' %'])}"


def mail(rng):
    end = rng.choice(["org", "com", "net", "example", "io"])
    name = rng.choice([rng.choice(FIRST).lower() + "." + word(rng), word(rng),
                       word(rng) + str(rng.randint(1, 99)), rng.choice(FIRST).lower()])
    return f"{name}@{word(rng)}.{end}"


def phone(rng):
    return rng.choice(["+{} {} {}", "0{}-{}{}", "{}-{}-{}", "({}) {} {}", "+{}-{}-{}"]).format(
        string_of(rng, "123456789", 1, 2), string_of(rng, DIGITS, 3, 3),
        string_of(rng, DIGITS, 4, 6))


def host(rng):
    name = rng.choice([word(rng), rng.choice(THINGS)])
    return f"{name}{rng.choice(['', '-'])}{rng.randint(1, 99)}" + \
        rng.choice(["", "", "", ".local", f".{word(rng)}.net"])


def secret(rng):
    return rng.choice([code(rng), " ".join(word(rng) for _ in range(rng.randint(2, 4))),
                       rng.choice(COLOURS) + " " + rng.choice(THINGS),
                       "-".join(rng.choice(THINGS) for _ in range(3)),
                       string_of(rng, SMALL + CAPITALS + DIGITS, 8, 14)])


def phrase(rng):
    thing = rng.choice(WORDS["things"])
    return rng.choice([rng.choice(COLOURS) + " " + thing, "the " + thing + " of " + city(rng),
                       coined(rng) + " " + coined(rng), thing,
                       rng.choice(WORDS["adjectives"]) + " " + rng.choice(WORDS["animals"])])


def title(rng):
    """A book, song or project, in capitals."""
    thing = rng.choice(WORDS["things"] + WORDS["animals"] + WORDS["plants"]).title()
    adjective = rng.choice(WORDS["adjectives"]).title()
    return rng.choice([f"The {adjective} {thing}", f"{adjective} {lexicon.plural(thing)}",
                       f"The {thing} of {city(rng)}", f"{coined(rng)} and the {thing}",
                       f"A {thing} for {first(rng)}" if thing[0] not in "AEIOU" else
                       f"The {thing} and {first(rng)}", f"{coined(rng)} {thing}",
                       f"Under the {thing}", f"Beyond {coined(rng)}", f"{thing} Number "
                       f"{ONES[rng.randrange(12)].title()}"])


def organisation(rng):
    name = rng.choice([coined(rng), last(rng), f"{last(rng)} & {last(rng)}"])
    return name + rng.choice(["", " Ltd", " Inc.", " & Sons", " Group", " Labs", " Works",
                              " Brothers", " Systems", " Press", " Foods", " Motors"])


def animal(rng):
    return rng.choice([rng.choice(WORDS["animals"]),
                       f"{rng.choice(WORDS['adjectives'])} {rng.choice(WORDS['animals'])}"])


def colour(rng):
    name = rng.choice(COLOURS)
    return rng.choice(["dark ", "light ", "pale ", "bright "]) + name if rng.random() < 0.2 \
        else name


def nickname(rng):
    return rng.choice([coined(rng), f"the {rng.choice(WORDS['adjectives'])} one",
                       "the " + rng.choice(WORDS["animals"]), rng.choice(THINGS).capitalize()])


def of(name):
    return lambda rng: rng.choice(WORDS[name])


RELATIVES = """mother father sister brother aunt uncle cousin grandmother grandfather daughter son
neighbour niece nephew landlord boss wife husband""".split()


def unit(*units):
    return lambda rng: with_unit(rng, units)


KINDS = {"number": number, "decimal": decimal, "date": date, "time": time, "address": address,
         "path": path, "version": version, "money": money, "mail": mail, "person": person,
         "city": city, "code": code, "host": host, "secret": secret, "phrase": phrase,
         "colour": colour, "word": word, "coined": coined, "small": small, "count": count,
         "ordinal": ordinal, "place": place, "day": on_day, "period": period, "street": street,
         "url": url, "percent": percent, "phone": phone, "title": title, "animal": animal,
         "organisation": organisation, "nickname": nickname, "first": first, "last": last,
         "thing": of("things"), "food": of("foods"), "material": of("materials"),
         "plant": of("plants"), "job": of("jobs"), "topic": of("topics"), "event": of("events"),
         "document": of("documents"), "software": of("software"), "vehicle": of("vehicles"),
         "group": of("groups"), "country": of("countries"), "language": of("languages"),
         "instrument": of("instruments"), "sport": of("sports"), "reason": of("reasons"),
         "purpose": of("purposes"), "adjective": of("adjectives"), "spot": of("places"),
         "relative": lambda rng: rng.choice(RELATIVES), "amount": amount,
         "digit": lambda rng: str(rng.randint(1, 9)), "int": lambda rng: str(rng.randint(1, 500)),
         "weekday": lambda rng: rng.choice(WEEKDAYS), "month": lambda rng: rng.choice(MONTHS),
         "year": lambda rng: str(rng.randint(1650, 2032)),
         "length": unit("m", "meters", "feet", "cm", "mm", "inches"),
         "distance": unit("km", "kilometers", "miles", "nautical miles", "meters"),
         "weight": unit("kg", "kilograms", "tons", "pounds", "grams", "g"),
         "speed": unit("km/h", "knots", "miles per hour", "m/s", "rpm"),
         "degrees": unit("degrees", "°C", "°F", "degrees Celsius"),
         "volume": unit("liters", "litres", "gallons", "ml", "barrels", "cubic meters"),
         "bytes": unit("MB", "GB", "KB", "TB", "MiB", "GiB", "bytes"),
         "area": unit("square meters", "hectares", "acres", "square kilometers"),
         "power": unit("watts", "kW", "horsepower", "volts", "amps", "MW"),
         "milliseconds": unit("ms", "milliseconds", "seconds", "s")}


def value(rng, kind):
    return KINDS[kind](rng)
