"""Sums and differences told as short stories: further training templates, expanded from skeletons.

A skeleton is a line "things : what happens / question / question": # stands for a thing, @ and ~ for two
people, % and ^ for "he" and "his" of the first, [x|y] for a choice. A line that begins with "=" is a whole
prompt. Every skeleton gives up to PER_SKELETON templates, drawn by a generator seeded with the line itself.
In SUBTRACT every story means {a} - {b}.
"""

import random
import re
import zlib

PER_SKELETON = 18
_HE = """
Tom Ben Sam Luca Omar Peter Jack Paul David Leo Carlos Ivan Ali Felix Noah Hugo Raj Kenji Erik Mateo
""".split()
_SHE = """
Anna Lisa Maria Emma Sara Mia Julia Nina Olga Priya Zoe Ruth Elena Grace Lucy Aisha Mei Ingrid Clara
""".split()
_OTHERS = """
Kim Alex Robin Max Nora Tim Eva Dan Rosa Otto Lena Yusuf Hana Will Kate my_sister my_cousin
""".split()
_ROLES = [
    "My brother",
    "My uncle",
    "My neighbour",
    "The teacher",
    "The farmer",
    "A boy",
    "My friend",
    "Grandpa",
]
_ROLES_SHE = [
    "My sister",
    "My aunt",
    "My mother",
    "A girl",
    "The baker",
    "Grandma",
    "My daughter",
    "The nurse",
]
_KEPT = {"I", "I'm", "I've", "Monday", "Tuesday", "Saturday", *_HE, *_SHE, *_OTHERS, "Grandpa", "Grandma"}

_ADD = """
marbles, stickers, shells, cards, toy cars, buttons : @ has {a} # and ~ has {b} / how many # do they \
have [together|in all|between them|in total|altogether] / what do they have together / how many is that \
for both of them
coins, stamps, pencils, badges, magnets : @ owned {a} # and [was given|received|got] {b} more / how many \
# does @ have now / how many does % own [now|in the end|altogether]
apples, plums, lemons, carrots, eggs : @ bought {a} # in the morning and {b} in the [afternoon|evening] \
/ how many # did % buy [that day|in all|altogether]
dollars, euros, pounds, francs, pesos : @ had {a} # and [earned|won|found] {b} more / how much [money|] \
does % have now / how many # does % have [in total|now]
dollars, euros, pounds, crowns : I have {a} # in my wallet and {b} at home / how much [money|] do I have \
[in all|altogether|in total] / what do I have all told
dollars, euros, pounds : I had {a} # and my [father|aunt|boss|friend] gave me {b} / how much do I have \
now / what do I have [now|altogether]
euros, dollars : the shirt cost {a} # and the shoes cost {b} / how much did [they|both|everything] cost \
[together|in total|] / what was the whole price
dollars, euros : [lunch|dinner|breakfast] was {a} # and the [taxi|train|ticket] was {b} / how much did I \
spend [in total|altogether|] / what did I pay in all
euros, dollars : my phone bill is {a} # and my water bill is {b} / what do I have to pay [in total|\
together|for both]
dollars, euros : @ saved {a} # in [May|spring|January] and {b} in [June|summer|February] / how much did \
% save [in all|over that time|altogether] / what are ^ savings
dollars, euros : my account [holds|shows|has] {a} # and a [transfer|payment|deposit] of {b} comes in / \
what is the [new balance|balance then|balance afterwards] / how much is on the account then
dollars, euros : we raised {a} # on the first day and {b} on the second / how much did we raise [in \
total|altogether|in both days]
pages, chapters, lines : I read {a} # yesterday and {b} today / how many # have I read [so far|in all|\
altogether|in total]
pages, lines, words : @ wrote {a} # on Monday and {b} on Tuesday / how many # did % write [in total|in \
the two days|altogether]
pages, chapters : the first part of a book has {a} # and the second has {b} / how many # [does the whole \
book have|has the book|are there in all]
birds, pigeons, crows, sparrows : there were {a} # on the [roof|fence|wire|tree] and {b} [more came|more \
landed|joined them] / how many # are there now / how many are sitting there now
ducks, swans, geese, boats : {a} # were on the lake and {b} more arrived / how many # are on the lake \
now / how many is that now
cows, sheep, goats, horses, hens : a farmer keeps {a} # and [buys|gets|takes in] {b} more / how many # \
does the farmer have [now|then|altogether]
sheep, cows, pigs : one field holds {a} # and the next one {b} / how many # are in both fields / how \
many # are there [in all|altogether]
passengers, people, tourists : a bus carried {a} # and {b} more got on / how many # are on the bus now / \
how many are aboard now
passengers, travellers, people : the train left with {a} # and [picked up|took on] {b} at the next \
[station|stop] / how many # are on it now / how many # does it carry now
passengers, guests : a ship has {a} # on the upper deck and {b} on the lower one / how many # are on \
board / how many # does it carry in total
people, students, guests : {a} # sat in the hall and {b} more came in / how many # are in the hall [now|\
] / how many is that in all
guests, visitors, people : {a} # came on Saturday and {b} on Sunday / how many # came [in total|over the \
weekend|altogether]
points, goals, marks : our team scored {a} # in the first [half|round|game] and {b} in the second / how \
many # did we score [in total|altogether|] / what was our final score
points, stars, gems : @ had {a} # in a game and [won|earned|collected] {b} more / how many # does @ have \
[now|then] / what is ^ score now
points : you have {a} # and gain {b} / how many do you have now / what is your score [now|then]
km, miles, kilometres, meters : we drove {a} # before lunch and {b} after it / how far did we drive [in \
all|altogether|in total] / how many # was that
km, miles, kilometers : @ cycled {a} # on Monday and {b} on Tuesday / how far did @ cycle [in total|\
altogether] / how many # did % ride
km, miles, meters : from the village to the bridge it is {a} # and from the bridge to the town {b} / how \
far is it from the village to the town / how long is the whole way
steps : @ took {a} # in the morning and {b} at night / how many # did % take [in total|that day|\
altogether]
steps, stairs : I climbed {a} # and then {b} more / how many # did I climb [in all|altogether|]
minutes, hours, seconds : the first film lasts {a} # and the second lasts {b} / how long are [both films|\
they together] / how many # do I need for both
minutes, hours : I worked {a} # yesterday and {b} today / how long did I work [in total|altogether] / \
how many # is that together
minutes : the soup cooks for {a} # and then [rests|stands] for {b} / how many # does it take [in all|\
altogether]
years : @ is {a} years old / how old will % be in {b} years / what age will @ have {b} years from now
years : I am {a} and my [uncle|aunt|mother|boss] is {b} years older / how old is my relative / what age \
is that
years : @ was {a} years old when ^ [son|daughter|niece] was born and the child is now {b} / how old is @ \
now
degrees : it was {a} degrees in the morning and [it got {b} degrees warmer|the temperature rose by {b}] \
/ what is the temperature now / how warm is it now
degrees : the oven was at {a} # and was turned up by {b} / what does it show now / how hot is it now
kg, kilos, pounds, grams : the box weighs {a} # and the [content|lid|machine in it] weighs {b} / what do \
they weigh [together|in all] / how heavy is everything
kg, pounds, tons : a truck carries {a} # of sand and {b} # of [stone|gravel|wood] / what is its load / \
how many # does it carry
kg, kilos, pounds : @ weighed {a} # and gained {b} / what does % weigh now / how much does @ weigh now
lamps, chairs, bikes, phones, shirts : a store had {a} # in stock and [{b} more were delivered|received \
{b} more|ordered {b} more] / how many # are in stock now / how many # does it have now
loaves, cakes, rolls, pies, muffins : the bakery sold {a} # before noon and {b} after it / how many # \
did it sell [that day|in all|altogether]
tickets, books, pens, umbrellas : a shop sold {a} # last week and {b} this week / how many # did it sell \
[in the two weeks|altogether|in total]
people, customers, fans : {a} # stood in the queue and {b} more joined / how many # are [in the queue|\
waiting|standing there] now
cars, trucks, buses : {a} # were parked and {b} more drove in / how many # are parked now / how many # \
are there now
cars, bikes, vans : there are {a} # on one street and {b} on the other / how many # is that [together|in \
all|on both streets]
grams, spoons, cups : the recipe [needs|takes] {a} # of flour and {b} # of sugar / how many # is that \
[together|in all]
grams, ounces : I put {a} # of rice in the pot and then added {b} / how much rice is in the pot / how \
many # are in it
eggs, cookies, pancakes, dumplings : @ made {a} # and ~ made {b} / how many # did they make [together|in \
all|altogether] / what is the total
votes : @ got {a} # and ~ got {b} / how many # were [cast|counted|given] [in all|altogether|] / what is \
the total
votes : the plan got {a} # by mail and {b} in person / how many # did it get [in all|]
seats, chairs, benches : the theatre has {a} # downstairs and {b} in the balcony / how many # does it \
have [in total|altogether|] / how many # are there
seats, tables : {a} # are taken and {b} are free / how many # are there [in all|altogether|]
trees, roses, tulips, bushes, plants : @ planted {a} # and ~ planted {b} / how many # were planted [in \
all|] / how many # are in the garden
trees, flowers, plants : the park had {a} # and the city planted {b} more / how many # does it have now \
/ how many # are there now
photos, pictures, videos : I took {a} # at the beach and {b} in the mountains / how many # did I take \
[in total|altogether|] / how many # do I have
photos, songs, files, games : my phone has {a} # and I [add|save|download] {b} more / how many # are on \
it then / how many # do I have then
letters, emails, messages, parcels : @ got {a} # yesterday and {b} today / how many # did % get [in all|\
altogether|over the two days]
letters, parcels, packages : the postman brought {a} # to our house and {b} to the neighbours / how many \
# did he bring [in all|altogether]
books, magazines, maps : there are {a} # on the top shelf and {b} on the bottom shelf / how many # are \
on [both|the two] shelves / how many # is that
books, albums, comics : the library owned {a} # and bought {b} / how many # does it own now / what is \
the number of # now
boys, dogs, children : {a} # were playing outside and {b} more [came|ran up|joined in] / how many # are \
playing now
students, pupils, kids : one class has {a} # and the other one has {b} / how many # are in both classes \
/ how many # are there [in all|altogether]
girls : there are {a} girls and {b} boys in the [school|club|choir|camp] / how many children are there / \
how many are they in all
men : {a} men and {b} women work [here|there|at the factory] / how many people work there / how many \
workers is that
adults : {a} adults and {b} children went to the [zoo|museum|show] / how many people went / how many \
tickets did they need
red : a bag holds {a} red [balls|beads|sweets] and {b} blue ones / how many are in the bag / how many is \
that together
cats : the shelter has {a} cats and {b} dogs / how many animals are there / how many animals is that
fish, shrimps, crabs : a tank has {a} # in it and I put in {b} more / how many # are in the tank now / \
how many swim there now
fish, salmon : @ caught {a} # and ~ caught {b} / how many # did they catch [together|in all]
bricks, tiles, planks, stones : the builder used {a} # for the wall and {b} for the path / how many # \
were used / how many # did that take
floors : the lift was on floor {a} and went up {b} floors / on which floor is it now / where is it now
meters, feet : a rope is {a} # long and I tie on {b} more / how long is it now / what is its length
meters, feet, centimeters : the tower is {a} # high and its mast {b} / how high are they together / what \
is the full height
cm, inches : the plant was {a} # tall and grew {b} / how tall is it now / what is its height now
liters, gallons, buckets : a tank contains {a} # and we [pour|pump|fill] in {b} more / how much is in it \
now / how many # does it hold now
bottles, cans, jars, boxes : there are {a} # in the cellar and {b} in the kitchen / how many # do we \
have / how many # is that in all
wins : our club has {a} wins and {b} losses / how many games did it play / how many matches is that
medals, cups, prizes : one country won {a} # and another {b} / how many # did they win together
nails, screws, bolts : I have {a} # in one box and {b} in another / how many # do I have [in all|\
altogether|]
days, weeks, nights : we stayed {a} # at the sea and {b} in the city / how many # were we away / how \
long was our holiday
questions, problems, exercises : @ solved {a} # and then another {b} / how many # has % solved / how \
many # is that
rooms, beds : the old hotel has {a} # and the new wing has {b} / how many # does it have [now|in all|]
houses, flats, shops : the village had {a} # and {b} new ones were built / how many # are there now
soldiers, sailors, actors, singers : a troop of {a} # is joined by {b} others / how many # are there \
then / how large is it then
players, members, followers, readers : the club had {a} # and [gained|won|welcomed] {b} / how many # \
does it have now / what is the count now
balloons, candles, flags, lanterns : we hung up {a} # and later {b} more / how many # hang there / how \
many # did we hang up
pizzas, burgers, salads, sandwiches : the kitchen made {a} # for lunch and {b} for dinner / how many # \
did it make [in all|that day|]
likes, views, comments, clicks : my post had {a} # and got {b} more / how many # does it have now / what \
is the number now
calories : breakfast has {a} calories and dinner {b} / how many calories is that / what do they add up to
cookies, sweets, nuts, grapes : I ate {a} # and my friend ate {b} / how many # did we eat [together|in \
all|]
tons, boxes, crates, sacks : one ship unloads {a} # and the other unloads {b} / how many # are unloaded
mistakes, errors, bugs : I found {a} # on the first page and {b} on the second / how many # did I find
laps, rounds, miles : @ ran {a} #, took a break and ran {b} more / how many # did @ run
push-ups, jumps, sit-ups : @ did {a} # in the first set and {b} in the second / how many # did % do
drops, tablets, pills : the patient took {a} # and then {b} more / how many # is that
spiders, ants, bees, frogs : {a} # sit under a stone and {b} crawl under it / how many # are under the \
stone now
wolves, deer, bears, foxes : rangers counted {a} # in the north and {b} in the south / how many # did \
they count
jewels, pearls, rings, crowns : a chest holds {a} # and @ puts {b} more into it / how many # are in the \
chest now
potatoes, onions, tomatoes, beans : I picked {a} # from one bed and {b} from the other / how many # did \
I pick
windows, doors : the front of the house has {a} # and the back {b} / how many # does the house have
stories : a [tower|building|house] had {a} storeys and {b} were built on top / how many storeys does it \
have now
keys, pins, clips, screws : you find {a} # in one drawer and {b} in the other / how many # did you find
spoons, forks, knives, plates : we own {a} # and buy {b} / how many # do we own then
lessons, classes, courses : @ taught {a} # in autumn and {b} in winter / how many # did % teach
cartons, pallets, trays : a van brings {a} # on its first trip and {b} on its second / how many # did it \
bring
calls, orders, visits : the office had {a} # last week and {b} this week / how many # were there
flights, trains, ferries : {a} # leave before noon and {b} after noon / how many # leave [in a day|in \
all|]
inches : {a} inches of snow fell and then {b} more / how many inches fell [in all|] / how deep is the snow
millimetres, drops : {a} # of rain came down on Monday and {b} on Tuesday / how much rain came down [in \
both days|in all]
= How many # do I have if I put {b} to the {a} I already [have|own|hold]? : coins, cards, nuts
= How many # are there if {b} join the {a} that are here? : birds, people, children, cats, players
= With {b} more #, how many would @ have, who has {a} now? : books, points, toys, stamps
= After getting {b} # on top of ^ {a}, how many does @ have? : stickers, shells, points, coins
= If {b} new # move in next to the {a} old ones, how many are there? : families, tenants, neighbours, \
shops
= What do I pay for a [bag|coat|lamp|ticket] of {a} [dollars|euros|pounds] and a [hat|book|map|scarf] of \
{b}?
= How old is @ if ~ is {a} and @ is {b} years older?
= How old will @ be in {b} years, being {a} now?
= How much does @ have after putting {b} [dollars|euros|pounds|coins] to the {a} in the jar?
= How far is it to town and on to the sea, if town is {a} [km|miles] away and the sea {b} [km|miles] \
further?
= I need {a} # for one wall and {b} for another, how many should I buy? : tiles, bricks, boards, nails
= How many # should I order for {a} adults and {b} children? : meals, tickets, chairs, plates
= @ scored {a}. ~ scored {b}. What is their combined score?
= {a} # here, {b} # there. How many # altogether? : apples, cars, dogs, books, chairs, stars
= {a} # plus {b} more #, how many # is that? : eggs, roses, beads, ships, cups
= First I got {a} #, later {b}. How many # did I get? : letters, points, gifts, fish
= @ counts {a} [red|old|big|small] # and {b} [blue|new|tiny|green] ones. How many # did % count? : cars, \
birds, boats, doors
= Yesterday's total was {a} # and today {b} came in. What is the total now? : orders, votes, calls, \
letters
= My [score|count|tally|total] was {a} and I just got another {b}. What is it now?
= Our [bill|receipt|invoice] has two entries, {a} and {b}. What is the sum at the bottom?
= A [rise|raise] of {b} comes on top of my pay of {a}. What do I earn then?
= The price was {a} and it went up by {b}. What is the price now?
= Rent is {a} and heating is {b}. What do we pay [per month|each month|altogether]?
= A trip takes {a} minutes by bus and {b} on foot. How long does it take?
= It is {a} o'clock in a strange land of long days; {b} hours later, what does the clock say?
= Page {a} is where I am. On which page am I after {b} more pages?
= I stand on step {a} and go up {b} steps. On which step am I?
= House number {a} is ours, and our friends live {b} numbers further up. What is their number?
= The year was {a}. Which year was it {b} years later?
= A [snail|robot|turtle] is at mark {a} and crawls {b} marks forward. Where is it?
= Start the [counter|clock|meter] at {a} and let it run up by {b}. What does it show?
= To {a} liters of [water|milk|juice|paint] I add {b} liters. How many liters are there?
= How many legs are under the table if I see {a} human ones and {b} of the dogs?
= How many wheels are in the shed if the bikes have {a} and the carts have {b}?
= {b} people came late and {a} were on time. How many came?
= {b} of the [cups|plates|lamps] are broken and {a} are whole. How many are there?
= @ gave me {b} # and I had {a} already. How many do I have? : nuts, pens, cards, shells
= Since ~ lent me {b} dollars and I had {a} of my own, how much money do I hold?
= Besides the {a} # on the table there are {b} on the floor. How many # are there? : books, toys, cups, \
shoes
"""

_SUBTRACT = """
marbles, stickers, shells, cards, toy cars, buttons : @ has {a} # and [gives ~ {b}|gives {b} to ~|loses \
{b}|gives away {b}] / how many # does @ have left / how many are left / how many does % keep
coins, stamps, pencils, badges, keys : @ had {a} # and [lost|sold|dropped|misplaced] {b} [of them|] / \
how many # does @ still have / how many [are left|remain|does % have now]
cookies, plums, nuts, sweets, grapes, cherries : I had {a} # and [ate|gave away|shared|dropped] {b} / \
how many [do I have left|are left|remain|# are still there] / how many # do I still have
dollars, euros, pounds, francs, pesos : @ had {a} # and [spent|paid|lost|gave away] {b} / how much [is \
left|does % still have|money does % have now|remains]
dollars, euros, pounds, crowns : I have {a} # and [spend|pay|give away|lend you] {b} / how much do I \
have left / what is left [for me|in my wallet|]
dollars, euros : a [coat|phone|bike|lamp] costs {a} # and I get {b} # off / how much do I pay / what \
does it cost then
dollars, euros : I paid with {a} # and the [bill|meal|book] was {b} / how much change do I get / what is \
my change
dollars, euros : my account [holds|shows|has] {a} # and I [withdraw|pay out|transfer] {b} / what is the \
[new balance|balance then|balance afterwards] / how much is left on it
dollars, euros : I need {a} # and have saved {b} / how much is [still missing|missing] / how much more \
do I need
dollars, euros : @ earns {a} # and pays {b} # of [tax|rent] / how much does % keep / what is left for @
dollars, euros : I owe {a} # and have paid back {b} / how much do I still owe / what is my remaining debt
dollars, euros : the shop took in {a} # and spent {b} / what is [its|the] profit / how much did it gain
pages, chapters, lines : a book has {a} # and I [have read|read|finished] {b} / how many # [are left|do \
I still have to read|remain|are still to read]
pages, words, lines : @ must write {a} # and has written {b} / how many # are [missing|left to write|\
still to write]
pages, sheets : a notebook had {a} # and @ tore out {b} / how many # are left in it / how many # does it \
have now
birds, pigeons, crows, sparrows : there were {a} # on the [roof|fence|branch|tree] and {b} [flew away|\
left|took off|flew off] / how many # [stayed|are left|remain|are still there]
ducks, swans, geese, boats : {a} # were on the lake and {b} [left|went away|disappeared] / how many # \
are [still there|on the lake now|left]
cows, sheep, goats, horses, hens : a farmer had {a} # and sold {b} / how many # does the farmer [have \
left|still have|have now|keep]
sheep, cows, pigs : {a} # stood in the field and {b} [ran off|broke out|were led away] / how many # are \
still in the field / how many stayed
passengers, people, tourists : a bus carried {a} # and {b} got off / how many # are [still on the bus|\
left on the bus|on it now] / how many stayed on
passengers, travellers, people : the train had {a} # and {b} [left it|got out|stepped off] at the \
[station|first stop|border] / how many # are on it now / how many # travel on
passengers : a plane has {a} seats and {b} # are on board / how many seats are [empty|free|left]
people, students, guests : {a} # were in the hall and {b} [went home|left|walked out] / how many # are \
[left|still in the hall|still there] / how many stayed
guests, visitors, people : we invited {a} # and {b} [said no|cannot come|cancelled] / how many # will \
come / how many can we expect
points, goals, marks : our team scored {a} # and the other team {b} / by how many # did we win / how \
many more did we score
points, stars, gems, lives : @ had {a} # in a game and lost {b} / how many # does % have left / what is \
^ score now
points : you have {a} # and lose {b} / how many do you have now / what is your score [now|then]
km, miles, kilometres, meters : the way is {a} # long and we have [driven|gone|walked|covered] {b} / how \
far is it still / how many # are left / how much is left
km, miles, kilometers : @ wants to run {a} # and has run {b} / how many # [are left|does % still have to \
run|remain]
steps : @ wants to take {a} # a day and has taken {b} / how many # are missing / how many more does % need
steps, stairs : the tower has {a} # and I have climbed {b} / how many # are left / how many do I still \
have to climb
minutes, hours, seconds : the film lasts {a} # and {b} are over / how long is it still / how many # are \
left
minutes, hours : the battery lasts {a} # and I used it for {b} / how many # are left / how long does it \
still last
minutes : the bread has to bake for {a} # and has been in the oven for {b} / how many # are left
years : @ is {a} years old / how old was % {b} years ago
years : I am {a} and my [sister|brother|cousin|friend] is {b} years younger / how old is the younger one \
/ what age is that
years : the father is {a} years old and his son is {b} / how many years are between them / how much \
older is the father
degrees : it was {a} degrees at noon and [it got {b} degrees colder|the temperature fell by {b}|it \
cooled by {b}] / what is the temperature now / how many degrees is it now
degrees : the oven is at {a} # and cools down by {b} / what does it show then
kg, kilos, pounds, grams : the full [box|basket|bottle] weighs {a} # and the empty one {b} / what does \
the content weigh / how much is in it
kg, kilos, pounds : @ weighed {a} # and lost {b} / what does % weigh now / how much does @ weigh now
kg, tons, sacks : a truck carried {a} # of sand and unloaded {b} / how many # are still on it / what is \
left on the truck
lamps, chairs, bikes, phones, shirts : a store had {a} # in stock and [sold|shipped|sent back] {b} / how \
many # [remain|are left|are still in stock|does it have now]
loaves, cakes, rolls, pies, muffins : the bakery baked {a} # and sold {b} / how many # were left / how \
many # are unsold
tickets, seats, places : there were {a} # for the show and {b} were sold / how many # are still [free|\
available|to be had] / how many are left
people, customers, fans : {a} # stood in the queue and {b} [were served|gave up|went in] / how many # \
are [still waiting|left in the queue|waiting now]
cars, trucks, buses : {a} # were parked and {b} drove [off|away] / how many # are still parked / how \
many # are there now
cars, vans : the car park has room for {a} # and {b} are in it / how many [free places are there|places \
are free|# still fit in]
grams, spoons, cups : I had {a} # of flour and used {b} for a cake / how much [is left|flour remains] / \
how many # are left
grams, ounces : a recipe needs {a} # of sugar and I have {b} / how much is missing / how many # do I \
still need
eggs, cookies, pancakes, dumplings : @ made {a} # and the children ate {b} / how many # are left / how \
many [remain|are still there]
votes : @ got {a} # and ~ got {b} / by how many # did @ win / what was the lead of @ / how many more did \
@ get
votes : {a} # were cast and {b} were invalid / how many # counted / how many valid ones were there
seats, chairs, benches : the theatre has {a} # and {b} are [taken|sold|occupied] / how many # are [free|\
empty|still free|left]
seats, tables : a hall had {a} # and {b} were [carried out|removed|taken away] / how many # are left / \
how many # does it have now
trees, roses, tulips, bushes, plants : @ planted {a} # and {b} [died|withered|were eaten] / how many # \
are left / how many # survived
trees, pines, oaks : the wood had {a} # and {b} were cut down / how many # still stand / how many are left
leaves, petals, flowers : a tree had {a} # and {b} fell [off|down] / how many # are still on it / how \
many stayed on the tree
photos, pictures, videos : I took {a} # and deleted {b} / how many # [did I keep|do I have left|are left]
photos, songs, files, games : my phone had {a} # and I [removed|deleted|moved] {b} / how many # are on \
it now / how many # are left
letters, emails, messages, parcels : @ got {a} # and has [answered|opened|read] {b} / how many # are \
left / how many does % still have to deal with
letters, parcels, packages : the postman had {a} # and [delivered|handed out] {b} / how many # does he \
still have / how many are left in his bag
books, magazines, maps : there were {a} # on the shelf and @ [took|borrowed|removed] {b} / how many # \
are left [on the shelf|] / how many are still there
books, films, records : the library owns {a} # and {b} are lent out / how many # are there now / how \
many are on the shelves
children, dogs, kids : {a} # were playing outside and {b} [went in|went home|ran away] / how many # are \
still playing / how many stayed
students, pupils, kids : a class has {a} # and {b} are [ill|absent|away] today / how many # are there \
today / how many came
girls : there are {a} children in the [school|club|choir|camp] and {b} are girls / how many are boys / \
how many boys are there
men : {a} people work [here|there|at the factory] and {b} of them are men / how many women work there / \
how many are women
adults : {a} people went to the [zoo|museum|show] and {b} were children / how many adults went / how \
many were adults
red : a bag holds {a} [balls|beads|sweets] and {b} of them are red / how many are not red / how many \
have another color
cats : the shelter had {a} cats and {b} found a home / how many cats are still there / how many are \
waiting
fish, shrimps, crabs : a tank had {a} # in it and {b} [died|were taken out|were sold] / how many # are \
in the tank now / how many are left
fish, salmon : @ caught {a} # and [threw back|let go|gave away] {b} / how many # did % keep / how many # \
are left
bricks, tiles, planks, stones : the builder had {a} # and used {b} / how many # are left / how many # \
did he not use
floors : the lift was on floor {a} and went down {b} floors / on which floor is it now / where is it now
meters, feet : a rope was {a} # long and I cut off {b} / how long is it now / how much of it is left
meters, feet, centimeters : the tower is {a} # high and the house is {b} / how much higher is the tower \
/ what is the difference in height
cm, inches : a candle was {a} # tall and burnt down by {b} / how tall is it now / what is left of it
liters, gallons, buckets : a tank held {a} # and {b} [leaked out|were used|ran out|were pumped out] / \
how much is left in it / how many # are in it now
bottles, cans, jars, boxes : there were {a} # in the cellar and we [drank|used|opened|sold] {b} / how \
many # are left / how many # do we still have
games, matches : our club played {a} # and won {b} / how many # did it not win / how many were not wins
medals, cups, prizes : one country won {a} # and another {b} / how many more did the first one win / \
what is the difference between them
nails, screws, bolts : I had {a} # and used {b} for the [shelf|door|roof] / how many # are left / how \
many do I have now
days, weeks, nights : our holiday has {a} # and {b} are over / how many # are left / how many remain
days, weeks : it is {a} # until the exam and {b} of them pass / how many # are left then
questions, problems, exercises : the test has {a} # and @ [solved|answered|skipped] {b} / how many # are \
left / how many does % still have
rooms, beds : the hotel has {a} # and {b} are [booked|taken|in use] / how many # are free / how many # \
can still be booked
houses, flats, shops : the village had {a} # and {b} were torn down / how many # [are left|still stand|\
remain]
soldiers, sailors, actors, singers : a group of {a} # lost {b} / how many # are left / how many does it \
have now
players, members, followers, readers : the club had {a} # and {b} [left|quit|resigned] / how many # does \
it have now / how many stayed
balloons, candles, lamps, lanterns : {a} # were hanging there and {b} [burst|went out|fell down] / how \
many # are left / how many # are still fine
pizzas, burgers, salads, sandwiches : the kitchen made {a} # and {b} were eaten / how many # are left / \
how many # were not eaten
likes, followers, subscribers, fans : my page had {a} # and lost {b} / how many # does it have now / how \
many remain
calories : I may eat {a} calories and have had {b} / how many calories are left / how many may I still eat
tons, boxes, crates, sacks : a ship has {a} # on board and unloads {b} / how many # are still on board / \
how many stay on the ship
mistakes, errors, bugs : the text had {a} # and I corrected {b} / how many # are left / how many are \
still in it
laps, rounds, miles : the race has {a} # and @ has done {b} / how many # are left / how many does % have \
to go
candies, toys, presents : a machine held {a} # and gave out {b} / how many # are in it now / how many \
are left
drops, tablets, pills : the bottle had {a} # and the patient took {b} / how many # are left / how many # \
remain
spiders, ants, bees, frogs : {a} # sat under a stone and {b} [crawled|ran|went] away / how many # are \
still there / how many stayed
wolves, deer, bears, foxes : {a} # lived in the valley and {b} moved on / how many # live there now / \
how many are left
jewels, pearls, rings, crowns : a chest held {a} # and thieves took {b} / how many # are left in the \
chest / how many did they leave
potatoes, onions, tomatoes, beans : I picked {a} # and {b} were [bad|rotten|spoilt] / how many good ones \
were there / how many # can I use
windows, doors : a house has {a} # and {b} are open / how many # are closed / how many are shut
glasses, cups, plates, bowls : there were {a} # on the table and {b} [broke|fell down|were cleared away] \
/ how many # are left / how many are still there
spoons, forks, knives : we owned {a} # and lost {b} / how many # do we own now / how many do we still have
lessons, classes, courses : @ has booked {a} # and taken {b} / how many # are left / how many more can % \
take
calls, orders, requests : the office had {a} # and dealt with {b} / how many # are still open / how many \
are left
inches : {a} inches of snow lay there and {b} melted / how many inches are left / how deep is the snow now
shares, bonds : @ held {a} # and sold {b} / how many # does % hold now / how many # are left
workers, nurses, clerks : a firm had {a} # and let {b} go / how many # does it have now / how many stayed
balls, arrows, darts : @ threw {a} # and {b} hit the mark / how many # missed / how many did not hit
lights, screens, computers : {a} # were on and @ turned off {b} / how many # are still on / how many are \
left on
= After [spending|paying|giving away|losing] {b} of my {a} [dollars|euros|pounds|coins], how much is left?
= After [eating|selling|losing|giving away] {b} of ^ {a} #, how many does @ have? : plums, nuts, cakes, \
apples
= After {b} of the {a} # [left|were gone|went home], how many were still there? : guests, birds, people, \
players, children
= If {b} of {a} # are [gone|missing|broken|sold], how many are left? : cups, lamps, cars, eggs, tickets
= {b} of the {a} # are [gone|broken|sold|used up]. How many [are left|remain|are still there]? : plates, \
toys, tickets, chairs, stamps
= {b} of my {a} # [broke|got lost|were stolen], how many do I still have? : glasses, pens, plates, coins
= How many # are left when {b} of {a} are [eaten|taken|sold|used]? : eggs, cakes, apples, tickets, rolls
= How many # remain once {b} of the {a} have [gone|left|disappeared]? : ships, guests, birds, cats
= How many of my {a} # do I keep if I give ~ {b}? : books, coins, cards, shells
= How much do I get back from {a} [dollars|euros|pounds] for a [book|meal|ticket|toy] of {b}?
= How much change is there from a {a} note for something that costs {b}?
= How much cheaper is a [coat|bag|bike|table] for {b} than one for {a}?
= How much older is @, who is {a}, than ~, who is {b}?
= How much taller is a tree of {a} meters than one of {b}?
= How much longer is a trip of {a} [km|miles|hours] than one of {b}?
= How many more # does @ have with {a} than ~ with {b}? : points, books, stamps, votes
= How many fewer is {b} # than {a} #? : books, points, cars, birds
= How old was @ {b} years ago, being {a} now?
= How many years passed if it is {a} now and it was {b} then?
= How many # are free if {b} of {a} are taken? : seats, rooms, beds, tables, lockers
= @ took {b} # out of a [box|bag|drawer|crate] of {a}. How many are left in it? : books, beads, pens, \
lemons
= @ took {b} of the {a} # home. How many did % leave? : books, chairs, apples, toys
= Having read {b} of {a} pages, how many [do I have to go|are left|are still ahead of me]?
= I have read {b} pages of a book of {a}. How many pages are left?
= I have done {b} of {a} # so far, how many are still to do? : tasks, exercises, laps, letters
= I sold {b} out of {a} #. How many did I keep? : cars, books, paintings, lamps
= From a [rope|ribbon|board|cable] of {a} meters I cut {b}. How much is left?
= From a class of {a}, {b} are at home. How many came to school?
= From {a} [dollars|euros|points] I give back {b}. What do I keep?
= Of {a} #, {b} are [green|old|broken|new]. How many are not? : apples, cars, doors, chairs, cups
= The price was {a} and it [went down|dropped|fell|was cut] by {b}. What is it now?
= A discount of {b} on a price of {a}: what do I pay?
= My pay is {a} and {b} goes to rent. What is left for me?
= A [snail|robot|turtle] stands at mark {a} and crawls back {b} marks. Where is it?
= I stand on step {a} and go down {b} steps. On which step am I?
= Page {a} is where I am, and I turn back {b} pages. On which page am I?
= The year is {a}. Which year was it {b} years earlier?
= The [counter|clock|meter] shows {a} and runs down by {b}. What does it show then?
= I count down from {a} and stop {b} numbers later. At which number do I stop?
= My [score|count|tally|total] was {a} and {b} were taken off. What is it now?
= Starting with {a} #, we lose {b}. How many # are left? : players, points, men, boats
= {a} # minus the {b} that were [lost|eaten|sold], how many # is that? : eggs, roses, beads, cakes
= {a} # were there. {b} are not any more. How many # are left? : apples, cars, dogs, chairs, stars
= There used to be {a} # here, but {b} have [gone|left|vanished], so how many are there? : shops, trees, \
people, boats
= Take {b} # away from a [pile|heap|bunch|row] of {a}, how many are left? : stones, cards, roses, books
= Put back {b} of the {a} # you took. How many do you keep? : cards, cookies, coins, books
= The goal is {a} [points|dollars|km] and we are at {b}. How much is missing?
= ~ borrowed {b} of the {a} # I own, so how many are with me? : books, records, tools, games
= {b} of {a} # arrived. How many are still on their way? : letters, guests, ships, parcels
= A jug of {a} liters loses {b}. What is left in the jug?
= The mountain is {a} meters high and I am at {b}. How many meters are still above me?
"""

_JOINS = (
    [". {Q}?"] * 5
    + [", {q}?"] * 5
    + [
        ", so {q}?",
        ". So {q}?",
        ". {Q}",
        " {q}",
        "; {q}?",
        " - {q}?",
        ". Question: {q}?",
        ". Then {q}?",
        ". Tell me, {q}?",
    ]
    + [", and {q}?", ", {q}", "... {q}?", ": {q}?", ", well, {q}?", ". My question: {q}?", "! {Q}?"]
)
_AROUND = [
    "{Q} if {s}?",
    "If {s}, {q}?",
    "{Q}, if {s}?",
    "Suppose {s}. {Q}?",
    "Say {s}, {q}?",
    "Imagine {s}. {Q}?",
] + [
    "{Q} when {s}?",
    "{Q}? {S}.",
    "Given that {s}, {q}?",
    "Let us say {s}. {Q}?",
]


def _lower(text):
    return text if text.split()[0].strip(",.'") in _KEPT else text[0].lower() + text[1:]


def _upper(text):
    return text[0].upper() + text[1:]


def _tidy(text):
    text = re.sub(r"\s+([?.!,;:])", r"\1", re.sub(r" +", " ", text)).strip()
    return re.sub(r"\bA ([aeio])", r"An \1", re.sub(r"\ba ([aeio])", r"an \1", text))


def _drawn(line, rng):
    """One template of a skeleton."""
    whole = line.startswith("=")
    head, _, tail = line.removeprefix("=").partition(" : ")
    text, things = (head, tail) if whole else (tail, head)
    thing = rng.choice([t.strip() for t in things.split(",")])
    text = re.sub(r"\[([^]]*)\]", lambda m: rng.choice(m[1].split("|")), text).replace("#", thing)
    she = rng.random() < 0.5
    first = rng.choice(_SHE if she else _HE)
    if text.strip().startswith("@") and text.count("@") == 1 and rng.random() < 0.3:
        first = rng.choice(_ROLES_SHE if she else _ROLES)
    for mark, word in (
        ("@", first),
        ("~", rng.choice(_OTHERS).replace("_", " ")),
        ("%", "she" if she else "he"),
    ):
        text = text.replace(mark, word)
    text = text.replace("^", "her" if she else "his")
    if whole:
        return _upper(_tidy(text))
    story, *questions = [_tidy(part) for part in text.split(" / ")]
    question = rng.choice(questions)
    forms = _AROUND if rng.random() < 0.3 else _JOINS
    form = rng.choice(forms)
    before = "" if form.startswith("{") or forms is _AROUND else "{S}"
    shown = (before + form).format(S=_upper(story), s=_lower(story), Q=_upper(question), q=_lower(question))
    return _tidy(shown)


def _braced(line):
    """Slots as marks that str.format leaves alone."""
    return line.replace("{a}", "\x01").replace("{b}", "\x02")


def _stories(skeletons):
    found = []
    for line in skeletons.strip().split("\n"):
        rng, drawn = random.Random(zlib.crc32(line.encode())), {}
        for _ in range(6 * PER_SKELETON):
            if len(drawn) < PER_SKELETON:
                drawn[_drawn(_braced(line), rng).replace("\x01", "{a}").replace("\x02", "{b}")] = None
        found += drawn
    return list(dict.fromkeys(found))


ADD = _stories(_ADD)
SUBTRACT = _stories(_SUBTRACT)
