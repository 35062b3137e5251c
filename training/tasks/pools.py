"""Words that tasks are made of. Each belongs to one half, so the halves share no name of a file."""

NOUNS = tuple(
    """
    apple pear plum cherry grape melon lemon orange banana peach onion carrot potato tomato pepper garlic bread butter
    cheese honey sugar salt rice pasta coffee tea milk juice water soup chair table lamp shelf window door carpet mirror
    pillow blanket hammer saw screw nail drill ladder rope bucket brush paint river lake forest mountain valley island
    desert beach meadow glacier eagle falcon sparrow swallow raven owl heron tiger lion zebra otter badger beaver rabbit
    hedgehog salmon trout herring violin guitar piano trumpet flute drum cello harp car bicycle train tram ferry rocket
    canoe scooter doctor baker farmer pilot sailor painter teacher writer singer dancer copper silver iron zinc nickel
    gold tin lead red blue green yellow purple brown spring summer autumn winter north south east west monday friday
    Lisbon Oslo Vienna Madrid Prague Athens Dublin Warsaw Helsinki Rome Zagreb Sofia Riga Tallinn Vilnius Geneva
    """.split()  # noqa: SIM905 - a page of words reads better than a page of quotes
)
PEOPLE = tuple(
    """
    Anna Boris Clara David Elena Felix Greta Hugo Irene Jonas Katya Liam Maria Nils Olga Pavel Quentin Rosa Sven Tina
    Ulrich Vera Wanda Xenia Yusuf Zoe Amira Bruno Carla Dario Edith Farid Gina Hanna Ivan Julia Karim Lena Marco Nadia
    """.split()  # noqa: SIM905
)
STEMS = tuple(
    """
    apples orders stock garden guests songs recipes tickets bills trips books films plants birds rivers prices members
    visits letters rooms tools parts shifts meals routes tasks ideas goals games teams points scores hours costs rents
    diary agenda roster ledger catalog menu budget inventory schedule report summary draft outline memo log journal
    sensors weather harvest parcels invoices payments contacts colors fruits cities animals words phrases quotes jokes
    steps miles laps weights heights ages sizes rates fees taxes loans gifts wishes chores errands repairs lessons exams
    grades pupils staff drivers pilots nurses bakers fleet depot cargo crates pallets shelves drawers cabinets archive
    camera lens canvas palette easel brushes frames posters stamps coins cards dice puzzles riddles maze compass anchor
    harbor ferry lantern candle mirror carpet curtain pillow basket bucket ladder hammer chisel wrench pliers sandpaper
    """.split()  # noqa: SIM905
)
QUALIFIERS = tuple(
    """
    old new raw final copy list may june july week month year east west north south home office shop store team club big
    small first last extra spare early late daily weekly clean sorted open closed sold left right inner outer upper
    lower
    """.split()  # noqa: SIM905
)
FOLDERS = tuple(
    """
    archive backup done drafts export images inbox letters logs music notes old papers photos pictures private public
    reports samples scans scripts shared sources texts tmp trash uploads videos work bin config data docs fonts icons
    lib media pages parts records results sheets spare staging storage tables templates themes tools vault april august
    """.split()  # noqa: SIM905
)
SENTENCES = (
    "The {0} is next to the {1}.",
    "Remember the {0} on day {2}.",
    "Nobody has seen the {0} since the {1} came.",
    "{2} of them were sold.",
    "The {0} costs {2} more than the {1}.",
    "A {0} and a {1}, as always.",
    "See page {2} for the {0}.",
)
