"""Random entities and values: names, places, codes, paths, times. Standard library only.

Most are made of syllables or digits, so that a text can only be answered by reading it.
"""

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


def string_of(rng, letters, low, high):
    return "".join(rng.choice(letters) for _ in range(rng.randint(low, high)))


def word(rng):
    """A word that nobody has seen."""
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 3)))


def coined(rng):
    return word(rng).capitalize()


def person(rng):
    first = rng.choice(FIRST) if rng.random() < 0.8 else coined(rng)
    last = rng.choice(LAST) if rng.random() < 0.7 else coined(rng)
    return f"{first} {last}" if rng.random() < 0.7 else first


def city(rng):
    return rng.choice(CITIES) if rng.random() < 0.7 else coined(rng)


def code(rng):
    form = rng.randrange(7)
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
    return rng.choice(THINGS) + "-" + rng.choice(COLOURS) + "-" + string_of(rng, DIGITS, 2, 3)


def number(rng):
    return str(rng.randint(2, 10 ** rng.randint(1, 6)))


def decimal(rng):
    return f"{rng.randint(0, 999)}.{string_of(rng, DIGITS, 1, 2)}"


def date(rng):
    day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1950, 2032)
    return rng.choice([f"{year}-{month:02}-{day:02}", f"{day} {MONTHS[month - 1]} {year}",
                       f"{MONTHS[month - 1]} {day}", f"{MONTHS[month - 1]} {year}"])


def time(rng):
    return f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"


def address(rng):
    return ".".join(str(rng.randint(1, 254)) for _ in range(4))


def path(rng):
    folders = "/".join(rng.choice([word(rng), rng.choice(THINGS)])
                       for _ in range(rng.randint(1, 3)))
    end = rng.choice("py cc h toml json md txt log yaml rs go ts csv conf".split())
    return rng.choice(["", "/", "src/", "/etc/", "/var/", "~/"]) + f"{folders}.{end}"


def version(rng):
    return ".".join(str(rng.randint(0, 30)) for _ in range(rng.choice([2, 3])))


def money(rng):
    return rng.choice(["{} euros", "${}", "{} dollars", "{} EUR"]).format(number(rng))


def mail(rng):
    end = rng.choice(["org", "com", "net"])
    return f"{rng.choice(FIRST).lower()}.{word(rng)}@{word(rng)}.{end}"


def host(rng):
    name = rng.choice([word(rng), rng.choice(THINGS)])
    return f"{name}{rng.choice(['', '-'])}{rng.randint(1, 99)}"


def secret(rng):
    return rng.choice([code(rng), " ".join(word(rng) for _ in range(rng.randint(2, 4))),
                       rng.choice(COLOURS) + " " + rng.choice(THINGS)])


def phrase(rng):
    return rng.choice([rng.choice(COLOURS) + " " + rng.choice(THINGS),
                       "the " + rng.choice(THINGS) + " of " + city(rng), coined(rng) + " " +
                       coined(rng), rng.choice(THINGS)])


KINDS = {"number": number, "decimal": decimal, "date": date, "time": time, "address": address,
         "path": path, "version": version, "money": money, "mail": mail, "person": person,
         "city": city, "code": code, "host": host, "secret": secret, "phrase": phrase,
         "colour": lambda rng: rng.choice(COLOURS), "word": word, "coined": coined}


def value(rng, kind):
    return KINDS[kind](rng)
