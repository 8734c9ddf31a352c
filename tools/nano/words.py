"""Word lists from which the conversations are composed.

Facts (countries and capitals) are general knowledge; everything else is plain vocabulary. Nothing here
is taken from a data set.
"""

# Country, capital. A leading "the " is the article, written as people write it.
CAPITALS = """
Afghanistan:Kabul|Albania:Tirana|Algeria:Algiers|Andorra:Andorra la Vella|Angola:Luanda
Argentina:Buenos Aires|Armenia:Yerevan|Australia:Canberra|Austria:Vienna|Azerbaijan:Baku
the Bahamas:Nassau|Bahrain:Manama|Bangladesh:Dhaka|Barbados:Bridgetown|Belarus:Minsk|Belgium:Brussels
Belize:Belmopan|Benin:Porto-Novo|Bhutan:Thimphu|Bolivia:Sucre|Bosnia and Herzegovina:Sarajevo
Botswana:Gaborone|Brazil:Brasilia|Brunei:Bandar Seri Begawan|Bulgaria:Sofia|Burkina Faso:Ouagadougou
Burundi:Gitega|Cambodia:Phnom Penh|Cameroon:Yaounde|Canada:Ottawa|Cape Verde:Praia
the Central African Republic:Bangui|Chad:N'Djamena|Chile:Santiago|China:Beijing|Colombia:Bogota
the Comoros:Moroni|Costa Rica:San Jose|Croatia:Zagreb|Cuba:Havana|Cyprus:Nicosia
the Czech Republic:Prague|Denmark:Copenhagen|Djibouti:Djibouti|Dominica:Roseau
the Dominican Republic:Santo Domingo|Ecuador:Quito|Egypt:Cairo|El Salvador:San Salvador|Eritrea:Asmara
Estonia:Tallinn|Eswatini:Mbabane|Ethiopia:Addis Ababa|Fiji:Suva|Finland:Helsinki|France:Paris
Gabon:Libreville|the Gambia:Banjul|Georgia:Tbilisi|Germany:Berlin|Ghana:Accra|Greece:Athens
Grenada:Saint George's|Guatemala:Guatemala City|Guinea:Conakry|Guyana:Georgetown|Haiti:Port-au-Prince
Honduras:Tegucigalpa|Hungary:Budapest|Iceland:Reykjavik|India:New Delhi|Indonesia:Jakarta|Iran:Tehran
Iraq:Baghdad|Ireland:Dublin|Israel:Jerusalem|Italy:Rome|Ivory Coast:Yamoussoukro|Jamaica:Kingston
Japan:Tokyo|Jordan:Amman|Kazakhstan:Astana|Kenya:Nairobi|Kiribati:Tarawa|Kosovo:Pristina
Kuwait:Kuwait City|Kyrgyzstan:Bishkek|Laos:Vientiane|Latvia:Riga|Lebanon:Beirut|Lesotho:Maseru
Liberia:Monrovia|Libya:Tripoli|Liechtenstein:Vaduz|Lithuania:Vilnius|Luxembourg:Luxembourg
Madagascar:Antananarivo|Malawi:Lilongwe|Malaysia:Kuala Lumpur|the Maldives:Male|Mali:Bamako
Malta:Valletta|the Marshall Islands:Majuro|Mauritania:Nouakchott|Mauritius:Port Louis
Mexico:Mexico City|Micronesia:Palikir|Moldova:Chisinau|Monaco:Monaco|Mongolia:Ulaanbaatar
Montenegro:Podgorica|Morocco:Rabat|Mozambique:Maputo|Myanmar:Naypyidaw|Namibia:Windhoek|Nauru:Yaren
Nepal:Kathmandu|the Netherlands:Amsterdam|New Zealand:Wellington|Nicaragua:Managua|Niger:Niamey
Nigeria:Abuja|North Korea:Pyongyang|North Macedonia:Skopje|Norway:Oslo|Oman:Muscat
Pakistan:Islamabad|Palau:Ngerulmud|Panama:Panama City|Papua New Guinea:Port Moresby|Paraguay:Asuncion
Peru:Lima|the Philippines:Manila|Poland:Warsaw|Portugal:Lisbon|Qatar:Doha|Romania:Bucharest
Russia:Moscow|Rwanda:Kigali|Saint Lucia:Castries|Samoa:Apia|San Marino:San Marino|Saudi Arabia:Riyadh
Senegal:Dakar|Serbia:Belgrade|the Seychelles:Victoria|Sierra Leone:Freetown|Singapore:Singapore
Slovakia:Bratislava|Slovenia:Ljubljana|the Solomon Islands:Honiara|Somalia:Mogadishu
South Africa:Pretoria|South Korea:Seoul|South Sudan:Juba|Spain:Madrid|Sri Lanka:Colombo|Sudan:Khartoum
Suriname:Paramaribo|Sweden:Stockholm|Switzerland:Bern|Syria:Damascus|Taiwan:Taipei
Tajikistan:Dushanbe|Tanzania:Dodoma|Thailand:Bangkok|Togo:Lome|Tonga:Nuku'alofa
Trinidad and Tobago:Port of Spain|Tunisia:Tunis|Turkey:Ankara|Turkmenistan:Ashgabat|Tuvalu:Funafuti
Uganda:Kampala|Ukraine:Kyiv|the United Arab Emirates:Abu Dhabi|the United Kingdom:London
the United States:Washington|Uruguay:Montevideo|Uzbekistan:Tashkent|Vanuatu:Port Vila
Vatican City:Vatican City|Venezuela:Caracas|Vietnam:Hanoi|Yemen:Sanaa|Zambia:Lusaka|Zimbabwe:Harare
"""
CAPITALS = dict(pair.split(":") for pair in CAPITALS.strip().replace("\n", "|").split("|"))
ALIASES = {
    "the USA": "the United States",
    "the US": "the United States",
    "America": "the United States",
    "the UK": "the United Kingdom",
    "Great Britain": "the United Kingdom",
    "England": "the United Kingdom",
    "Holland": "the Netherlands",
    "Czechia": "the Czech Republic",
    "Burma": "Myanmar",
    "the United States of America": "the United States",
    "the UAE": "the United Arab Emirates",
}

NOUNS = """
apple anchor arrow autumn basket beach bell bicycle bird blanket boat book bottle bridge brush bucket cabin
camera candle canyon carpet castle cat chair cherry clock cloud coast coffee corner cottage cow cup curtain desert
desk dog door dream drum eagle engine evening farm feather fence field fire fish flag floor flower forest fork
fountain fox garden gate glass glove goat grass guitar hammer harbor hat hill honey horse house island jacket
jar journey kettle key kitchen kite ladder lake lamp lantern leaf lemon letter library lighthouse lion map market
meadow melody mirror moon morning mountain museum music needle nest night notebook oak ocean onion orange orchard
owl paint paper parcel path pencil penguin piano picture pillow pine planet plate pocket pond potato rabbit rain
raincoat river road robin roof room rope rose sail salt sand school scissors sea shadow sheep shell ship shoe shop
silver sky snow soap song spoon spring square stairs star station stone storm story stove street sugar summer sun
table tea tent theater thread tiger tower town toy train tree truck umbrella valley village violin wagon wall water
wave wheel whistle wind window winter wolf wood yard zebra
""".split()
ADJECTIVES = """
amber ancient bitter black blue brave bright brown calm clever cold cool curious dark deep dry early empty fair fast
fine fresh gentle golden gray great green happy heavy high honest hot hungry kind large late lazy light little long
loud low lucky narrow new noisy old open orange pale plain polite proud purple quick quiet rare red rich round sad
sharp shiny short shy silent simple slow small smooth soft sour strange strong sunny sweet tall tiny tired warm
white wide wild wise wooden yellow young
""".split()
VERBS_PAST = """
admired answered borrowed bought brought built called carried chased cleaned climbed closed collected counted
covered crossed described drew dropped fixed followed forgot found heard held helped hid kept knew left lost loved
mended moved noticed opened painted passed placed planted played pulled pushed reached read remembered repaired
returned saw searched sold studied taught took touched visited walked washed watched wrote
""".split()
PEOPLE = """
baker captain carpenter child cook doctor driver farmer fisherman gardener guard guest judge king lawyer mayor
merchant miller musician neighbor nurse painter pilot poet queen sailor singer soldier student tailor teacher
traveler uncle visitor waiter writer
""".split()
PLACES = [
    "behind the hill",
    "near the river",
    "in the garden",
    "by the sea",
    "under the bridge",
    "at the market",
    "on the roof",
    "in the valley",
    "next to the old tower",
    "across the street",
    "at the station",
    "inside the library",
    "along the coast",
    "in the kitchen",
    "far away",
    "close to home",
]
TIMES = [
    "yesterday",
    "last week",
    "in the morning",
    "before noon",
    "late at night",
    "every day",
    "once a year",
    "after the storm",
    "during the winter",
    "on Monday",
    "on Friday",
    "a long time ago",
    "at dawn",
    "in spring",
]

TOPICS = """
quantum physics|the French Revolution|photosynthesis|the stock market|machine learning|the Roman Empire|black holes
modern art|football|cooking pasta|baking bread|the human heart|dinosaurs|climate change|space travel|chess openings
guitar chords|knitting|electric cars|the moon landing|volcanoes|whales|democracy|philosophy|poetry|the piano
databases|operating systems|compilers|Python|JavaScript|Rust|C++|neural networks|cryptography|blockchain|bitcoin
the theory of relativity|evolution|genetics|vaccines|nutrition|yoga|meditation|marathon training|gardening
beekeeping|photography|movie history|jazz|opera|Shakespeare|the Olympic Games|cricket|tennis|basketball|sailing
architecture|bridges|medieval castles|the Vikings|ancient Egypt|the Cold War|economics|inflation|tax law|contracts
marketing|startups|job interviews|public speaking|essay writing|grammar|linguistics|Latin|calculus|statistics
prime numbers|topology|graph theory|chemistry|the periodic table|batteries|solar panels|nuclear power|earthquakes
hurricanes|oceans|coral reefs|rain forests|penguins|elephants|spiders|birds of prey|mushrooms|cheese|wine|coffee
chocolate|tea|pizza|sushi|soup|bicycles|airplanes|trains|submarines|robots|drones|telescopes|microscopes|clocks
""".strip().replace("\n", "|").split("|")

# Names of things a user may tell, with the question word that fits. {} in a phrase is the value.
NAME_SUBJECTS = """
name|sister's name|brother's name|mother's name|father's name|daughter's name|son's name|dog's name|cat's name
horse's name|teacher's name|boss's name|neighbor's name|doctor's name|best friend's name|boat's name|street's name
village's name|school's name|company's name|favorite singer's name|grandmother's name|uncle's name|aunt's name
cousin's name|team's name|project's name|server's name|hotel's name|parrot's name|coach's name|dentist's name
landlord's name|roommate's name|hamster's name|code word|secret word|password hint|nickname|user name
""".strip().replace("\n", "|").split("|")
NUMBER_SUBJECTS = """
locker code|room number|order number|ticket number|safe code|door code|bus number|flight number|membership number
lucky number|house number|account number|badge number|seat number|invoice number|phone extension|parking spot number
booking number|case number|student number|library card number|bike lock code|gate number|shelf number|postal code
serial number|garage code|customer number|desk number|favorite number
""".strip().replace("\n", "|").split("|")

FIRST_NAMES = """
Adam Aisha Alex Alice Amir Amy Anna Anne Anton Ben Bob Boris Carl Carla Carlos Carmen Chen Chloe Chris Clara Dan Daniel David
Diana Elena Ella Emil Emily Emma Eric Erik Eva Fatima Felix Finn Frank Fred George Grace Greta Hana Hannah Hans Harry Helen
Henry Hugo Ian Ida Igor Ines Ingrid Ivan Jack James Jane Jim Joe John Jonas Jose Julia Karen Karim Kate Kim Kurt Lara Laura
Lea Lee Leo Lena Lily Linda Lisa Liu Louis Lucas Lucy Luis Maria Mark Marta Martin Mary Max Maya Mia Mike Mina Mohammed Nadia
Nick Nina Nora Olga Oliver Omar Oscar Otto Paul Paula Peter Petra Priya Rachel Rita Robert Rosa Ruth Sam Sara Sarah Simon
Sofia Sophie Steve Sue Susan Tara Ted Theo Thomas Tim Tina Tom Uma Vera Victor Wei Will Yuki Yusuf Zara Zoe Rex Bello Luna
Milo Bruno Simba Fluffy Smith Miller Jones Brown Garcia Muller Rossi Novak Kowalski Tanaka Singh Nguyen Ivanov Jensen
""".split()

# Vocabulary of made-up functions.
FUNCTION_VERBS = """
add approve archive arrange assign block book build calculate cancel check clear close compare compress convert copy
count create delete deliver describe disable download edit enable estimate export fetch filter find format generate
get import inspect install invite list load lock mark measure merge move open order pause pay plan play post print
publish query read register remove rename render renew repair reserve reset resize restart restore review save scan
schedule search send set share show sort start stop submit summarize sync track transfer translate unlock update
upload validate verify view
""".split()
FUNCTION_NOUNS = """
account address agent alarm album appointment article asset backup badge bill booking box branch budget calendar
camera campaign card cart channel chart claim client comment company contact contract course customer dashboard
dataset delivery device discount document draft driver email employee event exam expense file flight folder form
game goal grant group guest heater hotel image incident invoice issue item job key label lamp lead lesson letter
license list loan locker log machine mail meal meeting member memo message meter model movie node note offer order
package page parcel patient payment permit phone photo pipeline playlist plot policy poll price printer product
profile project proposal queue quote receipt recipe record reminder rental report request resource review robot
room route rule salary sample schedule score sensor server service session shift shipment signal site song stock
store subscription survey switch table tag task team template tenant test thermostat ticket timer token tool topic
track train transaction trip truck user vehicle vendor video visa visit voucher wallet warehouse workflow zone
""".split()
STRING_ARGS = """
name title owner city location country address color subject author category brand code_name comment company
description destination email_name file_name first_name folder group keyword label language last_name leader
manager material message model nickname note origin partner place product_name project reason receiver recipient
region sender site source street supplier tag target team text theme topic username vendor venue
""".split()
INTEGER_ARGS = """
count amount quantity number_of_people age day hour minute year level limit max_results page pages priority rank size
floor_number seats weight width height length duration copies retries code order_id user_id ticket_id room_id
account_id item_id version port distance nights guests
""".split()
NUMBER_ARGS = """price temperature rate budget cost discount fee latitude longitude percent ratio score speed
threshold volume factor""".split()
BOOLEAN_ARGS = (
    """urgent public active verbose recursive notify overwrite silent express paid visible secure shared
archived draft_only dry_run force confirmed""".split()
)
ENUM_ARGS = {
    "unit": ["celsius", "fahrenheit", "kelvin"],
    "mode": ["fast", "slow", "safe"],
    "priority_level": ["low", "normal", "high"],
    "format": ["pdf", "csv", "json", "xml"],
    "size_class": ["small", "medium", "large"],
    "status": ["open", "closed", "pending"],
    "direction": ["north", "south", "east", "west"],
    "sort_order": ["ascending", "descending"],
    "payment_method": ["cash", "card", "transfer"],
    "shade": ["red", "green", "blue", "black"],
    "period": ["daily", "weekly", "monthly", "yearly"],
    "quality": ["draft", "normal", "best"],
    "gender": ["male", "female", "other"],
    "channel_type": ["email", "phone", "chat"],
}
RESULT_STRINGS = (
    """status state condition owner author answer message summary title name city color reason result
category currency carrier winner location place unit sky mood leader driver language""".split()
)
RESULT_NUMBERS = (
    """temperature price total count id distance duration balance score humidity speed level amount
rating seats age rank wind_speed order_id ticket_number room_number stock eta_minutes reference""".split()
)

# Scripts for copying: name, first and last code point of the letters used.
SCRIPTS = [
    ("latin", 0xE0, 0xF6),
    ("latin_extended", 0x100, 0x17F),
    ("greek", 0x3B1, 0x3C9),
    ("cyrillic", 0x430, 0x44F),
    ("armenian", 0x561, 0x586),
    ("hebrew", 0x5D0, 0x5EA),
    ("arabic", 0x627, 0x64A),
    ("devanagari", 0x905, 0x939),
    ("bengali", 0x995, 0x9A8),
    ("tamil", 0xB95, 0xBA8),
    ("thai", 0xE01, 0xE2E),
    ("georgian", 0x10D0, 0x10F0),
    ("hiragana", 0x3042, 0x3093),
    ("katakana", 0x30A2, 0x30F3),
    ("hangul", 0xAC00, 0xD7A3),
    ("cjk", 0x4E00, 0x9FA5),
    ("cjk_common", 0x4E00, 0x51FF),
    ("symbols", 0x2600, 0x26FF),
    ("arrows", 0x2190, 0x21FF),
    ("math", 0x2200, 0x22FF),
]
EMOJI = [
    chr(c)
    for first, last in (
        (0x1F300, 0x1F320),
        (0x1F330, 0x1F393),
        (0x1F3A0, 0x1F3CA),
        (0x1F400, 0x1F4FC),
        (0x1F600, 0x1F64F),
        (0x1F680, 0x1F6C5),
        (0x1F910, 0x1F93A),
        (0x1F950, 0x1F9A2),
    )
    for c in range(first, last + 1)
]

# Words that change no request.
FILLERS = """
kindly just simply now again exactly quickly briefly maybe perhaps then also today actually please well so really
here there first finally next basically clearly correctly okay right precisely somehow still already
""".split()
