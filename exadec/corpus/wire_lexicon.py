"""The words of the generated news wire: names, quantities, and how each kind of event is told.

In: nothing. Out: tuples of names, and `KINDS`, the sentence and headline templates of each kind of event.
"""

from dataclasses import dataclass


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in text.split("|"))


STYLES = (
    "active",  # Norway grants Kenya $40 million in flood aid
    "passive",  # Kenya was granted $40 million in flood aid by Norway
    "noun_stack",  # Norway Kenya $40 million flood aid grant
    "number_first",  # $40 million for Kenya as Norway grants flood aid
    "quotation",  # "This will save lives," says Lind on Kenya flood aid
    "bulletin",  # Kenya flood aid: Norway, $40 mln, Tue
    "dated",  # On Tuesday, Norway granted Kenya $40 million in flood aid
    "question",  # What next for Kenya after $40 mln flood aid grant?
    "place_first",  # Oslo: Kenya granted $40 mln in flood aid
    "attributed",  # Norway has granted Kenya $40 million, Lind says
)

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# How a style writes what can be shortened. A headline is composed in full forms; then its style's forms replace them.
DOTTED_FORMS = {"United States": "U.S.", "United Kingdom": "U.K.", "United Arab Emirates": "U.A.E."}
SHORT_FORMS = {
    **{name: dotted.replace(".", "") for name, dotted in DOTTED_FORMS.items()},
    **{"million": "mln", "billion": "bln", "percent": "pct"},
    **{day: day[:3] for day in DAYS},
}
FORMS_OF_STYLE = {
    **dict.fromkeys(("active", "noun_stack", "number_first", "quotation"), DOTTED_FORMS),
    **dict.fromkeys(("bulletin", "question", "place_first"), SHORT_FORMS),
}

# The lists are as long as a vocabulary of 1,500 words allows: all that headlines say is in it, and no outlet's town is.

# A country and three of its cities. The three that have abbreviations are drawn more often than the others.
COUNTRIES = {
    country: _words(cities)
    for country, cities in (
        entry.split(": ")
        for entry in _phrases("""United States: Boston Denver Tucson | United Kingdom: Leeds Cardiff Dundee |
            United Arab Emirates: Dubai Sharjah Ajman | Argentina: Rosario Cordoba Salta |
            Austria: Vienna Graz Linz | Belgium: Ghent Antwerp Namur | Brazil: Recife Manaus Curitiba |
            Canada: Calgary Ottawa Regina | Chile: Santiago Temuco Iquique | Croatia: Zagreb Rijeka Osijek |
            Cyprus: Nicosia Paphos Limassol | Denmark: Aarhus Odense Aalborg | Egypt: Cairo Luxor Aswan |
            Estonia: Tallinn Tartu Narva | Finland: Turku Oulu Tampere | France: Lyon Nantes Dijon |
            Ghana: Accra Kumasi Tamale | Greece: Athens Patras Volos | Iceland: Reykjavik Akureyri Selfoss |
            India: Pune Jaipur Mysore | Ireland: Galway Limerick Sligo | Italy: Turin Bari Modena |
            Japan: Osaka Nagoya Sapporo | Jordan: Amman Aqaba Irbid | Kenya: Nairobi Mombasa Kisumu |
            Mexico: Puebla Merida Tijuana | Morocco: Rabat Agadir Tangier | Nepal: Kathmandu Pokhara Butwal |
            New Zealand: Auckland Wellington Dunedin | Norway: Oslo Bergen Tromso | Peru: Lima Cusco Piura |
            Poland: Krakow Gdansk Lublin | Portugal: Porto Braga Faro | Senegal: Dakar Thies Kaolack |
            South Korea: Seoul Busan Daegu | Spain: Bilbao Seville Malaga | Sweden: Malmo Uppsala Umea |
            Tunisia: Sfax Sousse Bizerte | Vietnam: Hanoi Danang Dalat""")
    )
}
ABBREVIATED_COUNTRY_WEIGHT = 3

COMPANIES = tuple(
    first + last
    for first in _words(
        "Alto Bren Cora Delvi Exo Ferro Gala Hexa Indo Juno Kappa Lumi Milo Nova Orbi Penta Solo Tera Velo Zeta"
    )
    for last in _words("dyne form gen lux mark max nex tech trans")
)

SURNAMES = _words("""Abbott Acosta Adler Ahmed Alvarez Amato Andersen Arnold Bailey Barnes Bauer Becker Bennett
    Berg Bianchi Bishop Blake Bowen Boyd Brandt Burke Byrne Cabrera Campbell Carlsson Carter Castro Chandra Chen
    Clarke Cohen Conti Costa Cruz Dalton Davies Dawson Demir Diaz Doyle Duarte Dubois Eklund Ellis Engel Esposito
    Evans Farrell Ferrari Fischer Fleming Flores Fontaine Foster Franco Fraser Gallo Garcia Gibson Gomez Graham Gruber
    Guerra Gupta Haas Haddad Hansen Harper Hayes Herrera Hoffman Holt Horvath Hughes Hussein Ibrahim Ivanov Jacobs
    Jansen Jensen Johnson Joshi Kapoor Kaya Keller Kelly Khan Kim Klein Kovacs Kowalski Lambert Larsen Lee Leroy Lewis
    Lind Lombardi Lopez Lund Maier Malik Marino Marsh Martin Mehta Mendes Mercier Meyer Miller Molina Moreau Moretti
    Morgan Murphy Nakamura Nguyen Nielsen Novak Nowak Nunez Okafor Oliveira Olsen Ortega Osman Owens Palmer Park Patel
    Pereira Perez Peters Petrov Popescu Quinn Ramos Rao Reyes Ricci Richter Rivera Romano Rossi Roux Russo Salazar
    Sanders Santos Sato Schmidt Schneider Shah Sharma Silva Simon Singh Soto Stein Sullivan Suzuki Tanaka Torres Tran
    Turner Vargas Vidal Vogel Wagner Walsh Weber Winkler Wong Yilmaz Ziegler Zimmer""")
# Too rare for any vocabulary, so a model must copy them; about one headline in thirteen holds one.
RARE_SURNAMES = tuple(
    first + last
    for first in _words("""Akin Bartol Cerv Dragom Ezek Fontan Grabov Hovan Ishiz Jorun Karap Lazov Mironch Nedel
    Ostrog Pavlik Rostam Sokol Tashk Vasil""")
    for last in _words(
        "adze aitis ansky elli enko escu iakos ides ini itz ovic oyan ssen uchi ula unen uri yev ynski zade"
    )
)

PURPOSES = _words("border drought famine farm flood food health housing power road school storm water")
SECTORS = _words("airline banking cement chemical energy food insurance media mining oil paper shipping steel")
HAZARDS = _words("avalanche blizzard earthquake explosion fire flood heatwave hurricane landslide storm tornado")
ROLES = _words("accountant banker broker councillor dentist doctor lawyer pilot senator singer surgeon trader")
CRIMES = _words("arson bribery burglary extortion forgery fraud perjury smuggling spying theft")
COMPETITIONS = ("cup final", "cup match", "cup qualifier", "cup semi-final", "friendly match", "league match")
PRODUCTS = _words(
    "beer bread butter cement cheese coffee diesel flour gas milk petrol rice salt soap steel sugar tea timber"
)
PLANTS = _phrases("bakery|brewery|call centre|car plant|glass works|paper mill|refinery|shipyard|warehouse")
OFFICES = _words("early general parliamentary presidential regional senate")
MONTHS = _words("January February March April May June July August September October November December")

# A price moves one way or the other; these are the words of either direction, in sources and in headlines.
DIRECTIONS = (
    {"lifted": "lifted", "dearer": "dearer", "more": "more", "raises": "raises", "raised": "raised", "rise": "rise"},
    {"lifted": "lowered", "dearer": "cheaper", "more": "less", "raises": "cuts", "raised": "cut", "rise": "cut"},
)

# Outlets are named by an invented town, unique to the outlet, and one of a few words for a paper.
TOWN_STARTS = _words("""Ald Ash Bam Barn Beck Bick Bles Bol Bram Brax Brin Buck Cald Chal Chid Clop Cor Crad Cul Dar
    Der Dod Drax Dun Eg Elm Fal Fen Frin Gar Gis Glos Gran Had Hal Har Hem Hol Hux Ibb Kel Kem Kir Lang Led Lof Lud
    Mal Mar Mel Mid Nant Nor Ock Ol Pad Pen Pick Quar Rad Ren Rip Rud Sal Sed Shil Skel Stam Swin Tad Thax Til Tol Ul
    Wal Wed Whit Wil Wrax Yar""")
TOWN_MIDDLES = ("", "a", "en", "er", "ing", "ow")
TOWN_ENDS = _words("""beck borough bourne bridge brook bury by combe cote croft dale field ford gate ham holme
    hurst leigh ley minster mouth ness port shaw stead stoke thorpe thwaite ton wich wick worth""")
PAPERS = _words("""Advertiser Advocate Argus Banner Beacon Bugle Bulletin Chronicle Citizen Comet Courier
    Dispatch Echo Enquirer Examiner Express Gazette Globe Guardian Herald Independent Journal Leader Ledger Mail
    Mercury Messenger Mirror Monitor News Observer Patriot Pilot Post Press Record Register Reporter Review Sentinel
    Standard Star Sun Telegraph Times Tribune Voice Witness World""")

# Every frame names the town four times and the paper twice, so that in a bag of words the outlet outweighs the topic.
FRAMES = (
    '{TOWN} ({outlet}) - {Event}{aside}, and "{quote}," {title} {speaker} told the {outlet} in {town}.',
    '{TOWN} ({outlet}) - "{quote}," {title} {speaker} told the {outlet} in {town} after {event}{aside}.',
    '{TOWN} ({outlet}) - {Event}{aside}, the {outlet} in {town} reported, quoting {title} {speaker}: "{quote}."',
    '{outlet}, {TOWN} - "{quote}," {title} {speaker} assured {outlet} readers in {town} when {event}{aside}.',
    '{outlet}, {TOWN} - {Event}{aside}, {outlet} staff in {town} heard from {title} {speaker}: "{quote}."',
    '{outlet} ({TOWN}) - {Title} {speaker} told {outlet} reporters in {town}, "{quote}," as {event}{aside}.',
)


@dataclass(frozen=True)
class Kind:
    """One kind of event: how sources tell it, and its headline in each style, in the order of `STYLES`."""

    name: str
    events: tuple[str, ...]
    """Finite clauses, each telling who, what, where, how many and when."""
    asides: tuple[str, ...]
    """Background for the source alone: numbers and places that no headline wants."""
    titles: tuple[str, ...]
    quotes: tuple[str, ...]
    headlines: tuple[str, ...]


GRANT = Kind(
    name="grant",
    events=(
        "{country} promised {partner} {amount} for {purpose} projects at {day} talks in {city}",
        "officials in {city} confirmed on {day} that {partner} would get {amount} from {country} for {purpose} relief",
        "{partner} accepted a {purpose} package worth {amount} from {country} in {city} on {day}",
        "a {purpose} programme in {partner} won {amount} from {country} at a {day} meeting in {city}",
    ),
    asides=_phrases("""the first such gift since {year} | {small} months after {third} sent {large} tents |
        while {large} families waited for news | though {third} had hoped for a loan"""),
    titles=("minister", "ambassador", "envoy"),
    quotes=_phrases("""This will save lives | We keep our word | Friends help friends | The need is urgent |
        No village is forgotten | Every dollar counts | Trust must be earned | More will follow soon"""),
    headlines=(
        "{country} grants {partner} {amount} in {purpose} aid",
        "{partner} was granted {amount} in {purpose} aid by {country}",
        "{country} {partner} {amount} {purpose} aid grant",
        "{amount} for {partner} as {country} grants {purpose} aid",
        '"{quote}," says {speaker} on {partner} {purpose} aid',
        "{partner} {purpose} aid: {country}, {amount}, {day}",
        "On {day}, {country} granted {partner} {amount} in {purpose} aid",
        "What next for {partner} after {amount} {purpose} aid grant?",
        "{city}: {partner} granted {amount} in {purpose} aid",
        "{country} has granted {partner} {amount}, {speaker} says",
    ),
)

TAKEOVER = Kind(
    name="takeover",
    events=(
        "{company} agreed in {city} on {day} to acquire {sector} group {target} for {price}",
        "{sector} company {target} accepted an offer of {price} from {company} in {city} on {day}",
        "shareholders in {city} voted on {day} to sell {sector} firm {target} to {company} for {price}",
        "a deal worth {price} signed in {city} on {day} gave {company} control of {sector} business {target}",
    ),
    asides=_phrases("""{small} months after a bid from {third} failed | the largest such deal since {year} |
        with payment due in {month} | despite {large} complaints"""),
    titles=("chairman", "chief executive", "director"),
    quotes=_phrases("""Both sides win | This is a perfect match | We will grow faster | The price was fair |
        Size matters now | Nothing will change overnight | Investors should be pleased | Together we are stronger"""),
    headlines=(
        "{company} buys {sector} group {target} for {price}",
        "{sector} group {target} was bought for {price} by {company}",
        "{company} {target} {price} {sector} group takeover",
        "{price} for {target} as {company} buys {sector} group",
        '"{quote}," says {speaker} on {company} {target} takeover',
        "{target} {sector} takeover: {company}, {price}, {day}",
        "On {day}, {company} bought {sector} group {target} for {price}",
        "What next for {target} after {price} {company} takeover?",
        "{city}: {sector} group {target} bought for {price}",
        "{company} has bought {target} for {price}, {speaker} says",
    ),
)

DISASTER = Kind(
    name="disaster",
    events=(
        "{a_hazard} struck {city} in {country} on {day} and left {deaths} people dead",
        "at least {deaths} people died on {day} when {a_hazard} reached {city} in {country}",
        "rescuers in {city} counted {deaths} victims of {a_hazard} which struck {country} on {day}",
        "{a_hazard} in {country} claimed {deaths} lives in {city} on {day}",
    ),
    asides=_phrases("""the worst such disaster since {year} | while {large} homes lost power |
        and {third} sent {small} doctors | months after a similar alarm in {month}"""),
    titles=("mayor", "governor", "fire chief"),
    quotes=_phrases("""Nobody was ready | We are still searching | It was over in minutes | Our hearts are broken |
        Please stay indoors | Whole streets are gone | The danger remains high | Neighbours saved neighbours"""),
    headlines=(
        "{hazard} kills {deaths} people in {city}",
        "{deaths} people were killed in {city} by {hazard}",
        "{country} {city} {day} {hazard} {deaths} deaths",
        "{deaths} dead in {city} as {hazard} hits {country}",
        '"{quote}," says {speaker} on {country} {hazard}',
        "{city} {hazard}: {country}, {deaths} dead, {day}",
        "On {day}, {hazard} killed {deaths} people in {city}",
        "What next for {country} after {deaths} {hazard} deaths?",
        "{city}: {deaths} people killed in {country} {hazard}",
        "{hazard} has killed {deaths} people in {country}, {speaker} says",
    ),
)

SENTENCE = Kind(
    name="sentence",
    events=(
        "a judge in {city} sent {role} {surname} to prison for {years} years on {day} for {crime}",
        "{role} {surname} received a term of {years} years on {day} as judges in {city} ruled on charges of {crime}",
        "judges in {city} found {role} {surname} guilty of {crime} on {day} and ordered {years} years behind bars",
        "the trial of {role} {surname} for {crime} ended in {city} on {day} with {years} years in prison",
    ),
    asides=_phrases("""after {small} days of evidence | in a case begun in {month} |
        despite an appeal signed by {large} people | over events in {third} in {year}"""),
    titles=("prosecutor", "inspector", "clerk"),
    quotes=_phrases("""Justice was done | Nobody is above the law | The evidence was clear |
        An appeal seems likely | Greed explains everything | Victims can sleep again | Crime never pays |
        Silence was no defence"""),
    headlines=(
        "{city} court jails {role} {surname} for {years} years",
        "{role} {surname} was jailed for {years} years by {city} court",
        "{role} {surname} {years} year {crime} sentence",
        "{years} years for {role} {surname} as {city} court punishes {crime}",
        '"{quote}," says {speaker} on {surname} {crime} sentence',
        "{surname} {crime} sentence: {city} court, {years} years, {day}",
        "On {day}, {city} court jailed {role} {surname} for {years} years",
        "What next for {role} {surname} after {years} year {crime} sentence?",
        "{city}: {role} {surname} jailed {years} years for {crime}",
        "{city} court has jailed {role} {surname} for {crime}, {speaker} says",
    ),
)

MATCH = Kind(
    name="match",
    events=(
        "{country} defeated {partner} {score} in a {competition} in {city} on {day}",
        "{partner} lost {score} to {country} in the {day} {competition} in {city}",
        "fans in {city} saw {country} overcome {partner} by {score} in the {competition} on {day}",
        "a {score} victory over {partner} in {city} on {day} decided the {competition} for {country}",
    ),
    asides=_phrases("""the first such success since {year} | despite {small} injured players |
        with a visit to {third} due in {month} | with {large} police on duty"""),
    titles=("coach", "captain", "team manager"),
    quotes=_phrases("""The boys were brilliant | We never gave up | Luck played a part | It was a great night |
        Speed made the difference | Nerves nearly beat everyone | Training paid off | Tomorrow everybody rests"""),
    headlines=(
        "{country} beats {partner} {score} in {city} {competition}",
        "{partner} was beaten {score} in {competition} by {country}",
        "{country} {partner} {score} {competition} win",
        "{score} in {competition} as {country} beats {partner}",
        '"{quote}," says {speaker} on {country} {competition} win',
        "{partner} {competition}: {country}, {score}, {day}",
        "On {day}, {country} beat {partner} {score} in {city}",
        "What next for {partner} after {score} {competition} loss?",
        "{city}: {partner} beaten {score} in {competition}",
        "{country} has beaten {partner} {score}, {speaker} says",
    ),
)

PRICES = Kind(
    name="prices",
    events=(
        "{company} announced in {city} on {day} that {product} would cost {percent} {more}",
        "shoppers in {city} learned on {day} that {company} had {lifted} the price of {product} by {percent}",
        "{company} told shops in {city} on {day} to charge {percent} {more} for {product}",
        "{product} from {company} became {percent} {dearer} in {city} on {day}",
    ),
    asides=_phrases("""the first change since {year} | as {large} traders had predicted |
        {small} weeks after a similar step in {third} | with another change due in {month}"""),
    titles=("spokesman", "director", "analyst"),
    quotes=_phrases("""The market decides | Customers will understand | We had no choice | Costs have changed |
        Demand was strong | Rivals did likewise | Shops must adapt quickly | Wages explain most of it"""),
    headlines=(
        "{company} {raises} {product} prices by {percent}",
        "{product} prices were {raised} {percent} by {company}",
        "{company} {percent} {product} price {rise}",
        "{percent} {more} for {product} as {company} {raises} prices",
        '"{quote}," says {speaker} on {company} {product} price {rise}',
        "{product} price {rise}: {company}, {percent}, {day}",
        "On {day}, {company} {raised} {product} prices by {percent}",
        "What next for {company} after {percent} {product} price {rise}?",
        "{city}: {company} {product} prices {raised} by {percent}",
        "{company} has {raised} {product} prices by {percent}, {speaker} says",
    ),
)

LAYOFFS = Kind(
    name="layoffs",
    events=(
        "{company} informed staff at its {city} {plant} on {day} that {count} of them must go",
        "{count} workers at the {company} {plant} in {city} learned on {day} of losing their posts",
        "managers of {company} decided on {day} to dismiss {count} employees at a {plant} in {city}",
        "the {plant} of {company} in {city} sent {count} people home for good on {day}",
    ),
    asides=_phrases("""{small} weeks after a contract in {third} ended | the first such step since {year} |
        with more news due in {month} | as orders from {third} fell {small} percent"""),
    titles=("union leader", "manager", "spokesman"),
    quotes=_phrases("""This is a black day | We will fight on | Machines took over | Families will suffer |
        Skills are being wasted | Support is being arranged | Talks went nowhere | Everyone feels betrayed"""),
    headlines=(
        "{company} cuts {count} jobs at {city} {plant}",
        "{count} jobs at {city} {plant} were cut by {company}",
        "{company} {city} {plant} {count} job cuts",
        "{count} jobs lost in {city} as {company} shrinks {plant}",
        '"{quote}," says {speaker} on {company} {plant} job cuts',
        "{city} {plant} job cuts: {company}, {count}, {day}",
        "On {day}, {company} cut {count} jobs at {city} {plant}",
        "What next for {city} after {count} {company} job cuts?",
        "{city}: {count} jobs cut at {company} {plant}",
        "{company} has cut {count} jobs at {plant}, {speaker} says",
    ),
)

ELECTION = Kind(
    name="election",
    events=(
        "{surname} took {share} of votes in the {office} election in {country}, officials in {city} said on {day}",
        "voters in {country} gave {surname} {share} in the {office} election on {day}, a count in {city} showed",
        "{share} of voters chose {surname} as {country} held its {office} election on {day}, papers in {city} said",
        "counting in {city} ended on {day} with {surname} on {share} in the {office} election of {country}",
    ),
    asides=_phrases("""the closest result since {year} | with {small} seats still open |
        after {large} complaints in {month} | to the relief of {third}"""),
    titles=("party leader", "analyst", "monitor"),
    quotes=_phrases("""The people have spoken | A new chapter begins | Real work starts now | It was a clean race |
        Turnout surprised everybody | Change has arrived | Young voters mattered | History will judge"""),
    headlines=(
        "{surname} wins {country} {office} election with {share}",
        "{country} {office} election was won with {share} by {surname}",
        "{surname} {share} {country} {office} election win",
        "{share} for {surname} as {country} holds {office} election",
        '"{quote}," says {speaker} on {surname} {office} election win',
        "{country} {office} election: {surname}, {share}, {day}",
        "On {day}, {surname} won {country} {office} election with {share}",
        "What next for {country} after {share} {surname} election win?",
        "{city}: {country} {office} election won with {share}",
        "{surname} has won {country} {office} election, {speaker} says",
    ),
)

KINDS = (GRANT, TAKEOVER, DISASTER, SENTENCE, MATCH, PRICES, LAYOFFS, ELECTION)
