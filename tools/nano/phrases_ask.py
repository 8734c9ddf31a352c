"""More training templates for questions: capitals, follow-ups, sums and differences."""


def _lines(text):
    return [line.strip() for line in text.strip().splitlines() if line.strip()]


def _distinct(*groups):
    return list(dict.fromkeys(line for group in groups for line in group))


# ---- capitals: wh-questions -----------------------------------------------------------------------
_CAPITAL_HAND = _lines(
    """
What city is {c}'s capital?
What's {c}'s capital?
What's {c}'s capital city?
What's the capital city of {c}?
What's the name of {c}'s capital?
What is the name of {c}'s capital city?
What is the name of the capital city of {c}?
What is the capital city in {c}?
What is the capital city for {c}?
What is the capital town of {c}?
What is the official capital of {c}?
What is the national capital of {c}?
What is the current capital of {c}?
What is the present capital of {c}?
What is the capital of {c} today?
What is the capital of {c} these days?
What is the capital of {c} right now?
What is the capital of {c} exactly?
What exactly is the capital of {c}?
What is the capital of {c}, please?
What is the capital of {c} called?
What is {c}'s capital called?
What is {c}'s capital city called?
What is the capital city of {c} called?
What is the capital of the country {c}?
What is the capital of the country called {c}?
What is the capital of the nation of {c}?
What is the capital of the state of {c}?
What is the political capital of {c}?
What is {c}'s official capital?
What is {c}'s national capital?
What city is the national capital of {c}?
What city is the official capital of {c}?
What city is the capital city of {c}?
What city acts as the capital of {c}?
What city functions as the capital of {c}?
What city serves as {c}'s capital?
What city does {c} have as its capital?
What city has {c} chosen as its capital?
What city would be the capital of {c}?
What city is the capital over in {c}?
What capital does {c} have?
What capital city does {c} have?
What capital belongs to {c}?
What town is the capital of {c}?
What place is the capital of {c}?
What was the capital of {c} again?
What was {c}'s capital again?
What was the name of {c}'s capital?
What was the name of the capital of {c} again?
What might the capital of {c} be?
What could be the capital of {c}?
What would {c}'s capital be?
What do we call {c}'s capital?
What do you call {c}'s capital city?
What do they call the capital of {c}?
What do I write for the capital of {c}?
What should I answer when someone asks for the capital of {c}?
What is the right answer: the capital of {c}?
what's the capital of {c} again?
whats the capital of {c}
what is {c}'s capital
what city is the capital of {c}
which city is the capital of {c}
which city is {c}'s capital
Which city is the capital city of {c}?
Which city is the official capital of {c}?
Which city is the national capital of {c}?
Which city is the capital of the country {c}?
Which city is capital of {c}?
Which city is known as the capital of {c}?
Which city is called the capital of {c}?
Which city is considered the capital of {c}?
Which city acts as {c}'s capital?
Which city functions as the capital of {c}?
Which city holds the title of capital of {c}?
Which city is listed as the capital of {c}?
Which city is marked as the capital of {c} on the map?
Which city in {c} is the capital?
Which city in {c} is its capital?
Which city in {c} is the seat of government?
Which city does {c} have for a capital?
Which city does {c} have as its capital?
Which city does {c} call its capital?
Which city did {c} choose as its capital?
Which city would you name as the capital of {c}?
Which city should I name as the capital of {c}?
Which city was the capital of {c} again?
Which city is the home of {c}'s government?
Which of the cities in {c} is the capital?
Which of {c}'s cities is the capital?
Which one of {c}'s cities is the capital?
Which place is the capital of {c}?
Which town is {c}'s capital?
Which town in {c} is the capital?
Which capital belongs to {c}?
Which capital goes with {c}?
Which capital city does {c} have?
Which capital city belongs to {c}?
Which is {c}'s capital?
Which is {c}'s capital city?
Which is the capital city of {c}?
Which is the capital in {c}?
Where is the capital of {c}?
Where is {c}'s capital?
Where is {c}'s government?
Where is {c}'s seat of government?
Where does {c} have its capital?
Where does {c} have its seat of government?
Where does the government of {c} sit?
Where does {c}'s government sit?
Where is {c} governed from?
Where is the seat of government of {c}?
In which city is the capital of {c}?
In which city does the government of {c} sit?
In what city is the government of {c}?
In what city does {c} have its government?
From which city is {c} governed?
How is the capital city of {c} named?
How do you say the name of {c}'s capital?
Who knows the capital of {c}?
Who can tell me the capital of {c}?
Does {c} have a capital? If so, which city is it?
Does {c} have a capital city, and what is it called?
Has {c} got a capital? What is it?
"""
)

# ---- capitals: imperatives ------------------------------------------------------------------------
_CAPITAL_HAND += _lines(
    """
Tell me {c}'s capital, please.
Tell me the capital city of {c}.
Tell me the capital of {c}, please.
Tell me the name of the capital of {c}.
Tell me the name of {c}'s capital.
Tell me the name of {c}'s capital city.
Tell me what the capital of {c} is.
Tell me what the capital city of {c} is.
Tell me what {c}'s capital is.
Tell me what {c}'s capital is called.
Tell me what city is the capital of {c}.
Tell me which city is {c}'s capital.
Tell me which city {c} has as its capital.
Tell me where the capital of {c} is.
Tell me about {c}: which city is the capital?
Just tell me the capital of {c}.
Just tell me which city is the capital of {c}.
Please tell me {c}'s capital.
Please tell me {c}'s capital city.
Please tell me the capital city of {c}.
Please tell me the name of the capital of {c}.
Please tell me what the capital of {c} is.
Please tell me which city is the capital of {c}.
Please tell me what {c}'s capital is called.
Give me the capital city of {c}.
Give me the capital of {c}, please.
Give me the name of the capital of {c}.
Give me the name of the city that is the capital of {c}.
Give me {c}'s capital.
Give me {c}'s capital, please.
Just give me the capital of {c}.
Please give me the capital of {c}.
Please give me {c}'s capital city.
Please give me the name of {c}'s capital.
Give the capital of {c}.
Give the capital city of {c}.
Give the name of the capital of {c}.
Give the name of {c}'s capital.
Show me the capital of {c}.
Show me {c}'s capital.
Show me which city is the capital of {c}.
Show the capital of {c}.
Show the name of {c}'s capital city.
Please show me the capital of {c}.
State the capital of {c}.
State the capital city of {c}.
State the name of the capital of {c}.
Please state the capital of {c}.
Say the capital of {c}.
Say the capital city of {c}.
Say which city is the capital of {c}.
Say what the capital of {c} is.
Please say the capital of {c}.
Please say {c}'s capital.
Name the capital of {c}, please.
Name the national capital of {c}.
Name the city that is the capital of {c}.
Name the capital that belongs to {c}.
Just name the capital of {c}.
Please name the capital of {c}.
Please name the capital of {c} for me.
Name for me the capital of {c}.
List the capital of {c}.
List the capital city of {c}.
Find {c}'s capital.
Find me the capital of {c}.
Find out the capital of {c} for me.
Find out which city is the capital of {c}.
Please find the capital city of {c}.
Look up the capital of {c}.
Look up {c}'s capital for me.
Please look up the capital of {c}.
Write the capital of {c}.
Write {c}'s capital.
Write down the capital of {c}.
Write the name of the capital of {c}.
Please write the capital city of {c}.
Print the capital of {c}.
Identify the capital of {c}.
Identify {c}'s capital city.
Please identify the capital of {c}.
Specify the capital of {c}.
Provide the capital of {c}.
Provide the name of {c}'s capital.
Please provide the capital city of {c}.
Return the capital of {c}.
Output the capital of {c}.
Guess the capital of {c}.
Answer with the capital of {c}.
Answer with the capital city of {c}, please.
Reply with the capital of {c}.
Reply with the name of {c}'s capital.
Respond with the capital of {c}.
Complete: the capital of {c} is
Complete the sentence: The capital of {c} is
Fill in the blank: the capital of {c} is ___.
Fill in the gap: ___ is the capital of {c}.
Finish this sentence: the capital of {c} is
Finish the sentence "The capital of {c} is".
Remind me of the capital of {c}.
Remind me of {c}'s capital.
Remind me which city is the capital of {c}.
Remind me what {c}'s capital is called.
Please remind me of the capital city of {c}.
Let me have the capital of {c}.
Let me have {c}'s capital, please.
Let me have the name of {c}'s capital.
Let me hear the capital of {c}.
Let me know {c}'s capital.
Let me know which city is the capital of {c}.
Let me know what the capital of {c} is.
Please let me know what {c}'s capital is.
Help me out: the capital of {c}?
Help me find the capital of {c}.
Help me remember the capital of {c}.
Help me name the capital of {c}.
Please help me with the capital of {c}.
Teach me the capital of {c}.
Explain to me which city is the capital of {c}.
Inform me of the capital of {c}.
Pick the city that is the capital of {c} and tell me its name.
Take {c}. What is its capital?
Take {c} for example. Which city is the capital?
Consider {c}. What is the capital city?
Think about {c} and name its capital.
"""
)

# ---- capitals: polite and indirect ----------------------------------------------------------------
_CAPITAL_HAND += _lines(
    """
Can you tell me {c}'s capital?
Can you tell me what the capital of {c} is?
Can you tell me which city is the capital of {c}?
Can you tell me the name of {c}'s capital?
Can you tell me the capital city of {c}, please?
Can you give me the capital of {c}?
Can you give me the name of the capital of {c}?
Can you say what the capital of {c} is?
Can you say which city is {c}'s capital?
Can you name {c}'s capital?
Can you name the capital city of {c}?
Can you name the capital of {c} for me?
Can you find the capital of {c}?
Can you look up the capital of {c} for me?
Can you remind me what the capital of {c} is?
Can you help me with the capital of {c}?
Can you help me? I need the capital of {c}.
Can you let me know the capital city of {c}?
Can you show me the capital of {c}?
Can you remember the capital of {c}?
can you tell me the capital of {c} please
Can someone tell me the capital of {c}?
Can I have the capital of {c}?
Can I get the capital of {c}, please?
Can I ask you what the capital of {c} is?
Could you tell me the capital of {c}?
Could you tell me {c}'s capital, please?
Could you tell me {c}'s capital city?
Could you tell me which city is the capital of {c}?
Could you tell me the name of the capital of {c}?
Could you please tell me the capital of {c}?
Could you please name the capital of {c}?
Could you please tell me what {c}'s capital is called?
Could you give me the capital of {c}?
Could you give me {c}'s capital city, please?
Could you say which city is the capital of {c}?
Could you name the capital of {c}?
Could you name {c}'s capital for me?
Could you remind me of the capital of {c}?
Could you remind me which city is {c}'s capital?
Could you look up {c}'s capital?
Could you help me with {c}'s capital?
Could you let me know what the capital of {c} is?
Could you find out the capital of {c} for me?
Could I have the capital city of {c}, please?
Would you tell me the capital of {c}?
Would you tell me what {c}'s capital is?
Would you please tell me the capital of {c}?
Would you please name the capital of {c}?
Would you name the capital city of {c}?
Would you give me the capital of {c}?
Would you know the capital of {c}?
Would you know which city is {c}'s capital?
Would you happen to know the capital of {c}?
Would you mind telling me the capital of {c}?
Would you mind telling me which city is the capital of {c}?
Would you be able to tell me the capital of {c}?
Would you be so kind as to tell me the capital of {c}?
Will you tell me the capital of {c}?
Will you tell me what {c}'s capital is?
Will you please give me the capital of {c}?
Will you name the capital of {c} for me?
May I ask what the capital of {c} is?
May I ask which city is {c}'s capital?
May I have the capital of {c}, please?
Are you able to name the capital of {c}?
Are you able to tell me {c}'s capital?
Do you know what the capital of {c} is?
Do you know which city is the capital of {c}?
Do you know what {c}'s capital is called?
Do you know the capital city of {c}?
Do you know the name of {c}'s capital?
Do you know the name of the capital of {c}?
Do you remember the capital of {c}?
Do you remember what {c}'s capital is?
Do you recall the capital of {c}?
Do you happen to know the capital of {c}?
Do you happen to know {c}'s capital city?
Do you happen to know which city is the capital of {c}?
Do you have any idea what the capital of {c} is?
Do you by any chance know the capital of {c}?
Happen to know the capital of {c}?
Happen to know {c}'s capital?
Any idea what the capital of {c} is?
Any idea what {c}'s capital is called?
Any idea which city is the capital of {c}?
Any chance you know the capital of {c}?
Is it possible to get the capital of {c}?
Is there a name for the capital of {c}? What is it?
Don't you know the capital of {c}?
You know the capital of {c}, right? What is it?
You must know the capital of {c}. Which city is it?
You surely know {c}'s capital. What is it?
I bet you know the capital of {c}. Tell me.
I was wondering what the capital of {c} is.
I was wondering which city is the capital of {c}.
I was wondering if you know the capital of {c}.
I was wondering if you could tell me {c}'s capital.
I was wondering whether you could name the capital of {c}.
I was just wondering what {c}'s capital is called.
I wonder what the capital of {c} is.
I wonder which city is the capital of {c}.
I wonder what {c}'s capital could be.
I am wondering what {c}'s capital is.
I'm wondering which city is {c}'s capital.
I am curious about the capital of {c}.
I'm curious what the capital of {c} is.
I'm curious: which city is the capital of {c}?
I would like the capital of {c}.
I would like to have the capital of {c}.
I would like to hear the capital of {c}.
I would like to know {c}'s capital.
I would like to know what the capital of {c} is.
I would like to know which city is {c}'s capital.
I would like to learn the capital of {c}.
I'd like to know the capital of {c}.
I'd like to know what {c}'s capital city is.
I'd like the name of the capital of {c}.
I'd like you to name the capital of {c}.
I'd love to know the capital of {c}.
I would be glad to know the capital of {c}.
I'd be grateful if you told me the capital of {c}.
I would appreciate the name of {c}'s capital.
I want the capital of {c}.
I want {c}'s capital.
I want to know the capital of {c}.
I want to know {c}'s capital city.
I want to know what the capital of {c} is.
I want to learn which city is the capital of {c}.
I want you to tell me the capital of {c}.
I need {c}'s capital.
I need {c}'s capital, please.
I need the capital city of {c}.
I need the name of {c}'s capital.
I need the name of the capital of {c}.
I need to know the capital of {c}.
I need to know what {c}'s capital is.
I need to know which city is the capital of {c}.
I need you to name the capital of {c}.
I need help with the capital of {c}.
I need to write down the capital of {c}. What is it?
I have to know the capital of {c}.
I have to find the capital of {c}.
I have to name the capital of {c}.
I must know what the capital of {c} is.
I should know the capital of {c}, but I don't.
I am looking for {c}'s capital.
I am looking for the name of the capital of {c}.
I'm looking for the capital city of {c}.
I'm looking for the capital of {c}. Which city is it?
I am searching for the capital of {c}.
I'm trying to find the capital of {c}.
I'm trying to remember the capital of {c}.
I am trying to learn the capital of {c}.
I am asking for the capital of {c}.
I'm asking about {c}'s capital.
I am interested in the capital of {c}.
I am interested in {c}'s capital city. What is it called?
I do not know the capital of {c}. Do you?
I don't know {c}'s capital. What is it?
I have no idea what the capital of {c} is.
I'm not sure what the capital of {c} is.
I'm not sure which city is {c}'s capital.
I can't remember the capital of {c}.
I cannot remember what {c}'s capital is called.
I can never remember the capital of {c}.
I always forget the capital of {c}. What is it?
I keep forgetting what {c}'s capital is.
I forgot the capital of {c}.
I forgot {c}'s capital. Can you help?
I have forgotten the name of the capital of {c}.
I once knew the capital of {c}. Which city was it?
It would help me to know the capital of {c}.
It would be nice to know {c}'s capital.
My question is about {c}: which city is the capital?
My question: the capital of {c}?
We need the capital of {c}.
We need to know which city is {c}'s capital.
We would like to know the capital of {c}.
We want to know what {c}'s capital is.
We are looking for the capital of {c}.
We were wondering what the capital of {c} is.
Please, what is the capital of {c}?
Please, which city is the capital of {c}?
Please, I need {c}'s capital.
Excuse me, what is the capital of {c}?
Excuse me, which city is {c}'s capital?
Sorry, what is the capital of {c}?
Sorry to ask, but what is {c}'s capital?
If you know it, tell me the capital of {c}.
If you can, name the capital of {c}.
If I may ask, what is {c}'s capital?
"""
)

# ---- capitals: terse and noun phrases -------------------------------------------------------------
_CAPITAL_HAND += _lines(
    """
{c} capital
{c} capital?
{c}, capital
{c}, capital city?
{c}: capital
{c}: capital?
{c}: capital city?
{c} - capital?
{c} (capital)
{c} (capital?)
{c} = capital?
{c} -> capital
{c} capital city
{c} capital please
{c}'s capital
{c}'s capital!
{c}'s capital is?
{c}'s capital is what city?
{c}'s capital is called?
{c}'s capital, please.
{c}'s capital city
{c}'s capital city?
{c}'s capital: which city?
{c}'s main city of government?
{c}'s national capital?
{c}'s capital would be?
{c}'s capital, what is it?
{c}'s capital, what is it called?
{c}'s capital: what is its name?
{c}, which city is the capital?
{c}, what is the capital?
{c}. Capital?
{c}. What is the capital?
{c}. Which city is the capital?
{c}. Name the capital.
{c}. Its capital, please.
{c}: name the capital.
{c}: name its capital city.
{c}: which city is the capital?
{c}: what is the capital city?
{c}: give me the capital.
{c}: tell me the capital, please.
{c}: what's the capital?
{c} - what is its capital?
{c} - which city is the capital?
{c} - what's the capital called?
{c} has which city as its capital?
{c} has which capital city?
{c} has a capital. What is it?
{c} has a capital city. Which one is it?
{c} has many cities. Which one is the capital?
{c} is a country. What is its capital?
{c} is a country with which capital?
{c} is on my list. What is its capital?
{c} is governed from which city?
{c} calls which city its capital?
capital {c}
capital: {c}
capital city {c}
capital city of {c}
capital, {c}
capital of {c} please
capital of {c}, thanks
the capital of {c}
the capital city of {c}
the capital of {c}?
Capital of {c}.
Capital of {c}!
Capital of {c}, please.
Capital of {c}, please?
Capital of {c}: what is it?
Capital of {c}: which city?
Capital of {c} = ?
Capital of {c} is
Capital city of {c}.
Capital city of {c}, please.
Capital city for {c}?
Capital for {c}?
Capital in {c}?
Capital name for {c}?
Capital (of {c})?
Country: {c}. Capital?
Country: {c}. What is the capital?
Country: {c}, capital: ?
Country is {c}. Name the capital.
Question: capital of {c}?
Question: what is {c}'s capital?
Question: which city is the capital of {c}?
Q: What is the capital of {c}?
Q: capital of {c}?
Topic: {c}. Question: what is the capital?
Wanted: the capital of {c}.
Needed: {c}'s capital.
Name of the capital of {c}?
Name of {c}'s capital?
Name of {c}'s capital city, please.
National capital of {c}?
Official capital of {c}?
Seat of government of {c}?
The capital of {c}.
The capital of {c} is
The capital of {c} is ...
The capital of {c} is ___.
The capital of {c} is which city?
The capital of {c} is what city?
The capital of {c} is what?
The capital of {c}: which city is it?
The capital of {c}, what is it?
The capital of {c}, which city is that?
The capital of {c} would be?
The capital of {c} is known as?
The capital of {c} is named what?
The capital city of {c} is what?
The capital city of {c} is called what?
The capital city of {c}, please.
The capital city of {c}: what's its name?
The capital for {c}?
The name of {c}'s capital?
The name of the capital of {c}?
The name of the capital of {c}, please.
The city that is the capital of {c}?
The official capital of {c} is?
The government of {c} sits in which city?
The country is {c}. The capital is?
The country is {c}. What is its capital?
The question is: what is the capital of {c}?
About {c}: what is the capital?
About {c}: which city is its capital?
For {c}, what is the capital?
For {c}, which city is the capital?
For {c}, give me the capital.
For the country {c}, name the capital.
In {c}, what is the capital?
In {c}, which town is the capital?
In the case of {c}, what is the capital?
Of {c}, what is the capital?
With regard to {c}: what is its capital?
As for {c}, which city is the capital?
Now the question: what is the capital of {c}?
"{c}": what is the capital?
"{c}": capital?
What is the capital of "{c}"?
Which city is the capital of "{c}"?
What is the capital of ({c})?
What is the capital of [{c}]?
Tell me the capital of: {c}.
Name the capital of: {c}
What is the capital of: {c}?
What is the capital of this country: {c}?
What is the capital of the following country: {c}?
Name the capital of the following country: {c}.
Give the capital of this country: {c}.
Which city is the capital of this country: {c}?
"""
)

# ---- capitals: context first, two sentences -------------------------------------------------------
_CAPITAL_HAND += _lines(
    """
We are planning a trip to {c}; which city is the capital?
We are planning a trip to {c}. What is the capital?
We are planning a holiday in {c}. Which city is the capital there?
We are going to {c} next week. What is the capital there?
We are going on vacation to {c}. Which city is its capital?
We are flying to {c} tomorrow. Can you tell me its capital?
We want to visit the capital of {c}. Which city is that?
We will travel through {c} in the summer. What is the capital called?
We talked about {c} at dinner. Nobody knew the capital. Which city is it?
We are reading about {c} at school. What is its capital?
We are learning about {c}. What is the capital?
We have a test about {c}. Which city is the capital?
I am going to {c}. What is the capital?
I am going to {c} in May. Which city is its capital?
I am planning a trip to {c}. What is its capital?
I am thinking of visiting {c}. What is the capital city?
I am moving to {c}. What is the capital of that country?
I am in {c} now. Which city is the capital here?
I am from {c}. Do you know our capital?
I am from {c}. What is my country's capital?
I am reading a book about {c}. What is its capital?
I am writing about {c}. What is its capital?
I am writing an essay on {c} and need the capital.
I am writing a report about {c}. Tell me its capital.
I am making a list of capitals. Which one belongs to {c}?
I am drawing a map of {c}. Which city do I mark as the capital?
I am studying {c}. Could you name its capital?
I am doing a crossword. The capital of {c}?
I am filling in a map. What is the capital of {c}?
I am doing a quiz and need the capital of {c}.
I am talking about {c}. What is the capital?
I booked a flight to {c}. What is the capital there?
I bought a map of {c}. Which city is the capital?
I want to visit {c}. What is the capital there?
I want to send a letter to the capital of {c}. Which city is that?
I want to travel to the capital of {c}. Where should I go?
I want to go to {c}. Please tell me its capital.
I have never been to {c}. What is its capital?
I have a friend in {c}. What is the capital there?
I have an exam on {c}. What is the capital?
I love {c}. What is its capital again?
I heard about {c} today. What is the capital?
I read about {c}. Which city is the capital?
I saw {c} on a map. What is the capital?
I was born in {c}. Can you name the capital?
I once lived in {c}. Which city is its capital?
I just came back from {c}. Do you know its capital?
I know where {c} is, but not its capital. What is it?
I know nothing about {c}. What is its capital?
I found {c} on the globe. Now I need its capital.
I think I know {c}. But what is the capital?
My sister lives in {c}. What is the capital there?
My brother is traveling to {c}. Which city is the capital?
My teacher asked me about {c}. What is the capital?
My teacher wants to know the capital of {c}.
My son asks what the capital of {c} is.
My daughter wants to know the capital of {c}.
My neighbor is from {c}. What is the capital of that country?
My family comes from {c}. What is its capital?
My next trip goes to {c}. What is the capital?
My pen pal lives in {c}. Which city is the capital of that country?
My crossword asks for {c}'s capital.
My quiz has this question: what is the capital of {c}?
My homework is about {c}. I need its capital.
A friend asked me for {c}'s capital. What should I say?
A colleague from {c} is visiting us. What is the capital there?
Someone asked me what the capital of {c} is.
Someone wants to know {c}'s capital. What is it?
The children want to know the capital of {c}.
The teacher asks: what is the capital of {c}?
The quiz asks for the capital of {c}.
The next country is {c}. Which city is the capital?
The country I mean is {c}. What is the capital?
Our next stop is {c}. What is the capital there?
Our class is learning about {c}. What is its capital?
Our plane lands in {c}. What is the capital of the country?
Suppose I go to {c}. Which city is the capital?
Suppose I travel to the capital of {c}. Which city am I in?
Imagine you are in {c}. Which city is the capital?
Imagine a map of {c}. Which city is marked as the capital?
There is a country called {c}. What is its capital?
There is a question about {c} in my homework: what is the capital?
This is about {c}. What is the capital?
This one is about {c}: which city is the capital?
You know {c}? What is its capital?
You have heard of {c}. What is its capital?
Have you heard of {c}? What is its capital?
Have you been to {c}? Which city is the capital?
Do you know {c}? Which city is its capital?
Do you know the country {c}? Tell me its capital.
Speaking of {c}, what is its capital?
Talking of {c}, which city is the capital?
Let's talk about {c}. What is its capital?
Let's talk about {c}. Which city is the capital?
Let us talk about {c}. Name its capital.
Let's play a quiz. What is the capital of {c}?
Let's do capitals. {c}?
Let's test you: the capital of {c}?
Let me test you. What is the capital of {c}?
Let me ask you something. What is {c}'s capital?
Let me ask about {c}. Which city is its capital?
Here is a country: {c}. What is the capital?
Here is a question. What is the capital of {c}?
Here is my question: which city is {c}'s capital?
Here's an easy one: the capital of {c}?
Easy question: what is the capital of {c}?
Small question: which city is the capital of {c}?
Short question: {c}'s capital?
Simple question: what is {c}'s capital?
Quiz: what is the capital of {c}?
Quiz time! What is the capital of {c}?
Quiz question: which city is the capital of {c}?
Trivia: capital of {c}?
Trivia question: what is the capital of {c}?
Capitals quiz: {c}?
Capital quiz: {c}
Geography quiz: {c}'s capital?
Geography: what is {c}'s capital?
Geography homework: name the capital of {c}.
World capitals: {c}?
Another question: what is the capital of {c}?
One more: what is the capital of {c}?
First question: what is the capital of {c}?
Hello! Which city is the capital of {c}?
Hello. I would like to know {c}'s capital.
Hi, can you tell me the capital of {c}?
Hi, I need {c}'s capital.
Hi! What's {c}'s capital?
Hey, what's the capital of {c}?
Good morning! Could you name {c}'s capital?
Good evening. What is the capital of {c}?
Thanks for helping. What is the capital of {c}?
OK, what is the capital of {c}?
Tell me something about {c}: what is the capital?
Tell me one thing about {c}: its capital.
When people say the capital of {c}, which city do they mean?
When you think of {c}, which city is the capital?
If I want to see the capital of {c}, which city do I visit?
If I go to {c}'s capital, which city do I go to?
If someone asks for the capital of {c}, what do I say?
If you had to name {c}'s capital, what would you say?
On a map of {c}, which city is the capital?
Before I travel to {c}: what is its capital?
For my trip to {c}, I need to know the capital.
For my homework I need {c}'s capital.
For school, I need the capital of {c}.
For a crossword: the capital of {c}?
For a report on {c}: what is the capital city?
For a form, I need the capital of {c}.
People from {c} have which city as their capital?
People in {c} call which city their capital?
The president of {c} visits the capital. Which city is that?
The embassy is in the capital of {c}. Which city is that?
What is the capital of {c}? I forgot.
What is the capital of {c}? I need it for school.
What is the capital of {c}? Just the name, please.
What is the capital of {c}? Thanks for your help.
What is the capital of {c}? Please tell me.
What is the capital of {c}? Do you know?
What is {c}'s capital? I cannot remember.
What is {c}'s capital? Just the city.
Which city is the capital of {c}? I am not sure.
Which city is the capital of {c}? My friend wants to know.
Which city is {c}'s capital? Only the name, please.
Capital of {c}? Any idea?
Capital of {c}? Please tell me.
The capital of {c}? I forgot it.
Tell me the capital of {c}. Just the name.
Name the capital of {c}. Only the city.
I need one word: the capital of {c}.
So what is the capital of {c}?
So which city is {c}'s capital?
And what is the capital of {c}?
Then what is the capital of {c}?
Now tell me the capital of {c}.
Now, what is {c}'s capital?
By the way, what is the capital of {c}?
By the way, which city is {c}'s capital?
Actually, what is the capital of {c}?
Again, what is the capital of {c}?
Once more: what is the capital of {c}?
Is it true that you know all capitals? Then name that of {c}.
You know capitals, don't you? Which one does {c} have?
People say you know capitals. What is {c}'s?
Of all the cities in {c}, which one is the capital?
Among the cities of {c}, which is the capital?
Out of all the cities in {c}, which is the capital?
"""
)
_CAPITAL_HAND += [
    "Country: {c}\nCapital:",
    "Country: {c}\nCapital: ?",
    "country: {c}\ncapital:",
    "{c}\nWhat is the capital?",
    "{c}\nCapital?",
    "{c}\ncapital city:",
    "Question:\nWhat is the capital of {c}?",
    "Question: What is the capital of {c}?\nAnswer:",
    "Q: What is {c}'s capital?\nA:",
    "Hello,\nwhat is the capital of {c}?",
    "Hi,\nplease tell me the capital of {c}.\nThanks!",
    "I am going to {c}.\nWhat is the capital there?",
    "Name the capital.\n{c}",
    "Name the capital of this country.\n\n{c}",
    "What is the capital of this country?\n{c}",
    "Which city is the capital?\n\n{c}",
    "Give me the capital:\n{c}",
    "Geography test.\n1. What is the capital of {c}?",
    "1) Capital of {c}?",
    "1. Name the capital of {c}.",
]

# ---- capitals: combined ---------------------------------------------------------------------------
_WHAT = _lines(
    """
the capital of {c}
{c}'s capital
the capital city of {c}
{c}'s capital city
the name of {c}'s capital
the name of the capital of {c}
"""
)
_CLAUSE = _lines(
    """
what the capital of {c} is
what {c}'s capital is
which city is the capital of {c}
which city is {c}'s capital
what {c}'s capital is called
which city {c} has as its capital
"""
)
_ASK_FOR = _lines(
    """
Please tell me @.
Quickly tell me @.
Can you give me @?
Could you tell me @?
Could you please give me @?
Would you give me @, please?
Will you give me @?
Would you mind giving me @?
Do you know @?
Do you happen to remember @?
Any idea of @?
I need @.
I need @ for my homework.
I need @ for a quiz.
I am looking for @.
I'm looking for @.
I would like @.
I'd like to have @.
I would love to know @.
I want @, please.
I want to know @, please.
I need to find @.
I have to learn @.
I have to write down @.
I am trying to find @.
I was hoping you could tell me @.
I was hoping to learn @.
I was wondering about @.
I forgot @.
I can't think of @.
Just @, please.
Only @, please.
Show me @, please.
Help me with @.
Help me find @, please.
Let me have @, please.
Let me know @, please.
Tell us @.
Tell me @, thanks.
Give us @.
Please show @.
Please state @.
Please write @.
Please look up @.
Please find @.
Please give @.
Please let me have @.
Kindly tell me @.
Kindly give me @.
Name @ for me.
Say @, please.
Say @ for me.
Find @ for me.
Write down @ for me, please.
Remind me of @, please.
May I know @?
Can I know @?
May we have @?
Can we get @?
Can you recall @?
Can you find out @?
Can you write @?
"""
)
_ASK_WHETHER = _lines(
    """
Do you know @?
Do you remember @?
Do you happen to know @?
Do you have any idea @?
Any idea @?
Any clue @?
Can you tell me @?
Can you remind me @?
Can you say @?
Can you find out @?
Could you tell me @?
Could you please tell me @?
Could you remind me @?
Could you explain @?
Could you check @?
Would you tell me @?
Would you please tell me @?
Would you know @?
Would you mind telling me @?
Will you tell me @?
May I ask @?
May I know @?
Tell me @.
Tell me @, please.
Tell us @.
Please tell me @.
Please say @.
Please remind me @.
Please find out @.
Please let me know @.
Kindly tell me @.
Remind me @.
Say @.
State @.
Show me @.
Let me know @.
Write @.
Find out @.
Guess @.
I wonder @.
I was wondering @.
I am wondering @.
I'm curious @.
I need to know @.
I want to know @.
I have to know @.
I would like to know @.
I'd like to know @.
I'd love to know @.
I would like to find out @.
I am trying to find out @.
I'm trying to remember @.
I'm asking @.
I am not sure @.
I do not know @.
I don't remember @.
I forgot @.
I have no idea @.
I need you to tell me @.
I hope you can tell me @.
Someone asked me @.
My teacher asked me @.
My friend wants to know @.
We want to know @.
We would like to know @.
We were wondering @.
We need to find out @.
Help me remember @.
"""
)
_CONTEXT = _lines(
    """
We are planning a trip to {c}
I am planning a journey to {c}
I am about to visit {c}
I am on my way to {c}
I am reading about {c}
I am learning about {c}
I am writing a text about {c}
I am preparing a talk on {c}
My friend moved to {c}
My aunt lives in {c}
My boss is flying to {c}
My cousin studies in {c}
We have friends in {c}
We are studying {c} in class
Our team plays in {c} next week
Our company has an office in {c}
There was a film about {c} on television
There is a stamp from {c} in my collection
I got a postcard from {c}
I met someone from {c}
I would love to see {c}
I have a question about {c}
I have to give a talk about {c}
It is about {c}
The country is {c}
The next one is {c}
"""
)
_THEN = _lines(
    """
. What is the capital?
. What is its capital?
. What's the capital?
. What's the capital there?
. What is the capital of that country?
. What is the capital city?
. What is its capital called?
. Which city is the capital?
. Which city is its capital?
. Which city is the capital there?
. Which city is the capital of this country?
. Tell me the capital.
. Tell me its capital, please.
. Please tell me its capital.
. Please name the capital.
. Name its capital.
. Give me the name of its capital.
. Can you tell me the capital?
. Can you name its capital?
. Could you tell me its capital?
. Could you tell me which city is the capital?
. Do you know the capital?
. Do you know which city is its capital?
. I need to know its capital.
. I would like to know its capital.
. The capital, please?
; which city is the capital?
; what is its capital?
, so what is the capital?
, so which city is the capital?
 and need to know the capital.
 and I would like to know its capital.
, but I forgot the capital.
, but what is its capital?
, and I wonder which city is the capital.
"""
)
_THEN = [t if t[0] in ".;," else " " + t for t in _THEN]
_SMALL_OPENINGS = _lines(
    """
Hello!
Hi there!
Hey!
Good afternoon.
Good day!
Excuse me.
Sorry to bother you.
One more question.
Here is another one.
A small question.
I have a quick question.
I need your help.
Please help me.
Can you help me?
Could you help me with something?
Tell me something.
This is for school.
This is for a quiz.
I am doing my homework.
Geography time.
Let's see.
Thank you for your help.
"""
)
_SMALL_QUESTIONS = _lines(
    """
What is {c}'s capital?
What's the capital of {c}?
What is the capital city of {c}?
Which city is the capital of {c}?
Which city is {c}'s capital?
Which city does {c} have as its capital?
Please name the capital of {c}.
Tell me {c}'s capital.
I need {c}'s capital city.
The capital of {c}, please.
What is {c}'s capital city called?
Do you know {c}'s capital?
"""
)
CAPITAL = _distinct(
    _CAPITAL_HAND,
    [f.replace("@", w) for f in _ASK_FOR for w in _WHAT],
    [f.replace("@", w) for f in _ASK_WHETHER for w in _CLAUSE],
    [c + t for c in _CONTEXT for t in _THEN],
    [o + " " + q for o in _SMALL_OPENINGS for q in _SMALL_QUESTIONS],
)

# ---- follow-ups -----------------------------------------------------------------------------------
FOLLOW_UP = _distinct(
    _lines(
        """
And in {c}?
And with {c}?
And {c}'s?
And {c}'s capital?
And {c}'s capital city?
And {c}, please?
And {c}, what is its capital?
And {c}, which city?
And also {c}?
And then {c}?
And next, {c}?
And finally {c}?
And lastly, {c}?
And what of {c}?
And what is {c}'s?
And what is it for {c}?
And what is it in {c}?
And what is the capital of {c}?
And what is that of {c}?
And what would it be for {c}?
And which city is it for {c}?
And which one does {c} have?
And which is {c}'s?
And which is it for {c}?
And where is it for {c}?
And the one of {c}?
And the one for {c}?
And the capital city of {c}?
And the capital for {c}?
And the capital in {c}?
And the same for {c}?
And the same for {c}, please.
And the same question for {c}?
And the next one: {c}?
And if it is {c}?
And if I ask about {c}?
And can you tell me {c}'s?
And could you tell me {c}'s?
And do you know {c}'s?
And do you know it for {c}?
And tell me {c}'s.
And please {c}.
And one more: {c}?
and {c}
and {c}'s
and of {c}
and in {c}?
and for {c}
what about {c}
how about {c}
What about {c}, then?
What about {c}, please?
What about {c} now?
What about {c}'s?
What about {c}'s capital?
What about {c}'s capital city?
What about in {c}?
What about for {c}?
What about the one of {c}?
What about the same for {c}?
What about the country {c}?
What of {c}?
What is {c}'s?
What is it for {c}?
What is it in {c}?
What is it in the case of {c}?
What is that of {c}?
What is the one for {c}?
What's {c}'s?
What's it for {c}?
What would it be for {c}?
What would be {c}'s?
What would you say for {c}?
What do you say for {c}?
What do you have for {c}?
How about {c}, then?
How about {c}'s?
How about {c}'s capital?
How about that of {c}?
How about in {c}?
How about for {c}?
How about the capital of {c}?
How about the one for {c}?
How is it in {c}?
How is it for {c}?
Which one does {c} have?
Which one is it for {c}?
Which one is {c}'s?
Which city is it for {c}?
Which city is it in {c}?
Which city for {c}?
Which one for {c}?
Which is {c}'s?
Where is it for {c}?
Where is that in {c}?
Now {c}'s.
Now {c}, please.
Now {c}'s capital.
Now {c}?
Now for {c}.
Now of {c}.
Now that of {c}.
Now the one of {c}.
Now the capital of {c}.
Now do {c}.
Now try {c}.
Now tell me {c}'s.
Now tell me that of {c}.
Now please {c}.
Now the same question for {c}.
Now what about {c}?
Now how about {c}?
Now let's take {c}.
Now let us do {c}.
Next, {c}.
Next, {c}?
Next one: {c}.
Next one, {c}?
Next question: {c}?
Next country: {c}.
Next is {c}.
Next up: {c}.
Next, the capital of {c}.
The next one is {c}.
The next country is {c}.
The same for {c}.
The same for {c}, please.
The same for {c}?
The same question for {c}.
The same again for {c}.
The same with {c}, please.
The one for {c}?
The one of {c}, please.
Same for {c}.
Same for {c}?
Same for {c}, please.
Same again for {c}.
Same again: {c}.
Same with {c}?
Same question, but for {c}.
Same question about {c}.
Same question: {c}?
Same thing for {c}.
Same thing for {c}, please.
Same here: {c}?
{c}
{c}.
{c}!
{c}, please.
{c}, please?
{c} too?
{c} too, please.
{c} as well?
{c} as well, please.
{c} now.
{c} now?
{c} next.
{c} next, please.
{c}, then?
{c}'s?
{c}'s, please.
{c}'s, please?
{c}'s capital?
{c}'s capital, too?
{c} is next.
{c}: which one?
{c}: which city?
{c}: the same question.
Then what about {c}?
Then what is {c}'s?
Then how about {c}?
Then {c}, please.
Then {c}'s?
Then for {c}?
Then that of {c}?
Then tell me {c}'s.
Then the one of {c}?
Also {c}.
Also {c}?
Also {c}, please.
Also for {c}?
Also that of {c}, please.
Also, what about {c}?
Also tell me {c}'s.
Another one: {c}.
Another one: {c}?
Another country: {c}.
And another one: {c}?
One more: {c}.
One more: {c}?
One more, please: {c}.
One more question: {c}?
One more country: {c}.
Last one: {c}.
Last one: {c}?
Last question: {c}?
Finally, {c}?
Finally, what about {c}?
For {c}?
For {c}, please?
For {c}, which one is it?
For {c}, what is it?
In {c}?
In {c}, which one is it?
Of {c}?
That of {c}?
That of {c}, please.
And that for {c}?
But what about {c}?
But {c}?
But for {c}?
But in {c}?
So what about {c}?
So {c}?
So what is {c}'s?
Tell me {c}'s.
Tell me {c}'s, too.
Tell me {c}'s, please.
Tell me that of {c}.
Tell me the one of {c}.
Tell me the same for {c}.
Tell me the same about {c}.
Tell me also {c}'s.
Please tell me {c}'s, too.
Please tell me that of {c}, too.
Please do the same for {c}.
Please do {c} next.
Please also {c}.
Give me {c}'s.
Give me {c}'s, too.
Give me that of {c}.
Give me the one for {c}.
Give me the same for {c}.
Do {c}.
Do {c} next.
Do {c} now.
Do {c}, please.
Do the same for {c}.
Do you know {c}'s?
Do you know {c}'s, too?
Do you know it for {c}?
Do you know that of {c}?
Do you also know {c}'s?
Do you also know that of {c}?
Can you do {c}?
Can you do {c}, too?
Can you do the same for {c}?
Can you tell me {c}'s?
Can you tell me {c}'s, too?
Can you tell me the same for {c}?
Can you also tell me that of {c}?
Can you also name {c}'s?
Could you do {c} next?
Could you do the same for {c}?
Could you tell me {c}'s, too?
Could you also tell me {c}'s?
Could you give me that of {c}, too?
Would you also tell me {c}'s?
Would you know {c}'s?
Let's do {c}.
Let's do {c} next.
Let's try {c}.
Let's take {c} now.
Let's go on with {c}.
Let's continue with {c}.
Let us go on: {c}.
Let me ask about {c}, too.
Go on with {c}.
Continue with {c}.
Try {c}.
Try {c} now.
Take {c}.
I also need {c}.
I also need {c}'s.
I also need that of {c}.
I also want {c}'s.
I would also like {c}'s.
I would like {c}'s, too.
I need {c}'s, too.
I need {c}'s as well.
I need the same for {c}.
I also want to know it for {c}.
I want the same for {c}.
I meant {c}.
I meant {c}, sorry.
I mean {c}.
Sorry, I meant {c}.
Sorry, I mean {c}.
No, {c}.
No, I meant {c}.
Not that one, {c}.
Oh, and {c}?
Oh, and what about {c}?
Oh, I meant {c}.
Ah. And {c}?
Ah, thanks. And {c}?
Ah, I see. What about {c}?
I see. And {c}?
I see. And in {c}?
I see. What about {c}?
I see, and that of {c}?
Right. And {c}?
Right. Now {c}.
Right, what about {c}?
Correct. And {c}?
Correct! Now {c}.
Correct. Next: {c}?
Well done. And {c}?
Well done! What about {c}?
Very good. And {c}?
Very good. Now {c}.
Good. And {c}?
Good. And of {c}?
Good. Now {c}.
Good. Next, {c}.
Good, and {c}'s?
Great. And {c}?
Great! What about {c}?
Great, now {c}.
Great. And that of {c}?
Nice. And {c}?
Nice! How about {c}?
Perfect. And {c}?
Perfect. Now {c}, please.
Cool. And {c}?
Cool, what about {c}?
Fine. And {c}?
Fine, now {c}.
Okay. Now {c}.
Okay. What about {c}?
Okay, what about {c}?
Okay, how about {c}?
Okay, then {c}?
Okay, next: {c}.
Okay, and {c}'s?
Okay, the same for {c}.
OK, and in {c}?
OK. And {c}'s?
OK, what about {c}?
ok and {c}
ok and {c}?
ok, now {c}
ok what about {c}
Thanks. And of {c}?
Thanks. What about {c}?
Thanks. Now {c}, please.
Thanks! And {c}'s?
Thanks! How about {c}?
Thanks, and in {c}?
Thanks, and for {c}?
Thanks, that helps. And {c}?
Thank you. And {c}?
Thank you. And that of {c}?
Thank you. What about {c}?
Thank you! Now {c}, please.
thanks, and {c}?
thanks and {c}
Yes. And {c}?
Yes, and what about {c}?
Yes! Now {c}.
Interesting. And {c}?
Interesting! What about {c}?
Really? And {c}?
Wow. And {c}?
Now I am interested in {c}.
Now I want to know {c}'s.
Now I need {c}'s.
Now I need it for {c}.
I was wondering about {c}, too.
I'm also interested in {c}.
Also curious about {c}.
My next question is about {c}.
My next country is {c}.
Any idea about {c}?
Any idea for {c}?
Know {c}'s, too?
Instead of that, {c}?
Instead, tell me {c}'s.
If it were {c}?
In the case of {c}?
And in the case of {c}?
And as for {c}?
As for {c}?
And regarding {c}?
And "{c}"?
And ({c})?
"""
    ),
    [o + " " + q for o in ("Good.", "Great.", "Thanks!", "Thank you.", "Right.", "OK.", "Nice.", "I see.", "Perfect!")
     for q in ("And {c}?", "And of {c}?", "And {c}'s?", "And that of {c}?", "And for {c}?", "And in {c}?",
               "What about {c}?", "How about {c}?", "Now {c}.", "Next: {c}.", "Same for {c}?", "Then {c}?",
               "And the capital of {c}?", "The same for {c}, please.")],
)
FOLLOW_UP += ["Next:\n{c}", "And this one?\n{c}", "The same for:\n{c}", "Next question:\n{c}?"]

# ---- sums: plain arithmetic -----------------------------------------------------------------------
_ADD_HAND = _lines(
    """
{a} plus {b}
{a} plus {b}?
{a} plus {b}.
{a} plus {b} =
{a} plus {b} = ?
{a} plus {b} equals
{a} plus {b} equals?
{a} plus {b} equals what?
{a} plus {b} is what?
{a} plus {b} makes?
{a} plus {b} makes what?
{a} plus {b} gives?
{a} plus {b} gives what?
{a} plus {b} is how much?
{a} plus {b} comes to?
{a} plus {b} please
{a} plus {b}, please.
{a} plus {b}: what is it?
{a} + {b} =
{a} + {b} is
{a} + {b} is?
{a} + {b} is what?
{a} + {b} is how much?
{a} + {b} gives?
{a} + {b} makes?
{a} + {b} comes to what?
{a} + {b} equals
{a} + {b} equals?
{a} + {b}, please.
{a} + {b} please
{a} + {b}?
{a} + {b}.
{a}+{b}?
{a}+{b} = ?
{a}+{b} =
{a}+{b}=?
{a}+{b} is?
{a} +{b}
{a}+ {b}
({a} + {b})
({a} + {b}) = ?
= {a} + {b}
? = {a} + {b}
x = {a} + {b}. What is x?
{a} + {b} = x. What is x?
{a} + {b} = ___
"{a} + {b}" is what?
[{a} + {b}]
sum {a} {b}
add {a} {b}
add {a} and {b}
add {a} + {b}
sum of {a} and {b}
Sum of {a} and {b}?
Sum of {a} and {b}, please.
Sum: {a} + {b}
Sum: {a}, {b}
Addition: {a} + {b}
Addition: {a} and {b}
Total of {a} and {b}?
Total of {a} and {b}, please.
Total: {a} + {b}
The total of {a} and {b}?
The total of {a} and {b} is?
The sum of {a} and {b}?
The sum of {a} and {b} is?
The sum of {a} and {b} is what?
The sum of {a} and {b} equals?
The sum {a} + {b} is?
The answer to {a} + {b}?
The answer to {a} + {b} is?
The result of {a} + {b}?
The result of {a} plus {b}, please.
{a} and {b}: what is the sum?
{a} and {b}: what is the total?
{a} and {b}: add them.
{a}, {b}: sum?
{a} and {b} added up?
{a} and {b} added together is?
{a} and {b} added together make what?
{a} and {b} together?
{a} and {b} together is how much?
{a} and {b} together make how many?
{a} and {b} in total?
{a} and another {b} is?
{a} and {b} more is?
{a} and {b} more makes how many?
{a} with {b} more is what?
{a} with {b} added is what?
{a} increased by {b}
{a} increased by {b}?
{a} increased by {b} is what?
{a} + {b}, what is that?
{a} plus {b}, what does that make?
{a} plus {b}, how much is that?
{a} added to {b}
{a} added to {b}?
{a} added to {b} gives what?
{b} added to {a}
{b} added to {a} is what?
{b} added to {a} equals?
{b} more than {a} is what?
{b} more than {a}
{b} more than {a}?
{b} plus {a} is?
{b} and {a} make what?
What's {a} + {b}?
What's {a}+{b}?
What's {a} plus {b}?
What's {a} plus {b}, please?
What's {a} and {b} together?
What's {a} and {b} added together?
What's {b} added to {a}?
What's {b} more than {a}?
What's the sum of {a} and {b}?
What's the total of {a} and {b}?
What's the result of {a} + {b}?
What's the result if I add {a} and {b}?
What's the answer to {a} + {b}?
What's the answer to {a} plus {b}?
whats {a} + {b}
whats {a} plus {b}
what is {a} plus {b}
what is {a} + {b} please
how much is {a} + {b}
how much is {a} and {b}
What is {a} and {b}?
What is {a} and {b} together?
What is {a} and {b} in total?
What is {a} and {b} combined?
What is {a} and {b} added up?
What is {a} and {b} added together?
What is {a} increased by {b}?
What is {a} with {b} added to it?
What is {a} if you add {b}?
What is {a} plus {b}, please?
What is {a} plus {b} exactly?
What is {a} + {b}, please?
What is {a} + {b} exactly?
What is {b} added to {a}?
What is {b} plus {a}?
What is {b} more than {a}?
What is the answer to {a} + {b}?
What is the answer to {a} plus {b}?
What is the answer when you add {a} and {b}?
What is the result of {a} + {b}?
What is the result of {a} plus {b}?
What is the result of adding {a} and {b}?
What is the result of adding {b} to {a}?
What is the result when {a} and {b} are added?
What is the result if I add {b} to {a}?
What is the sum {a} + {b}?
What is the sum when I add {a} and {b}?
What is the sum of these numbers: {a} and {b}?
What is the sum of the two numbers {a} and {b}?
What is the sum of {a} plus {b}?
What is the sum if you add {a} to {b}?
What is the value of {a} + {b}?
What is the value of {a} plus {b}?
What is the total if I add {a} and {b}?
What is the total when {b} is added to {a}?
What is the total of {a} plus {b}?
What does {a} plus {b} equal?
What does {a} plus {b} make?
What does {a} plus {b} give?
What does {a} plus {b} come to?
What does {a} + {b} make?
What does {a} + {b} give?
What does {a} + {b} come to?
What does {a} + {b} add up to?
What does adding {a} and {b} give?
What do {a} and {b} make?
What do {a} and {b} make together?
What do {a} and {b} add up to?
What do {a} and {b} come to in total?
What do {a} and {b} sum to?
What do {a} and {b} give when added?
What do I get if I add {a} and {b}?
What do I get if I add {b} to {a}?
What do I get when I add {a} to {b}?
What do I get for {a} + {b}?
What do you get for {a} plus {b}?
What do you get when you add {a} and {b}?
What do you get when you add {b} to {a}?
What do we get if we add {a} and {b}?
What do we get when {b} is added to {a}?
What equals {a} + {b}?
What number do you get if you add {a} and {b}?
What number is {b} more than {a}?
What number is {a} plus {b}?
What number is the sum of {a} and {b}?
What number comes out if I add {a} and {b}?
What number equals {a} plus {b}?
What will {a} plus {b} be?
What would {a} plus {b} be?
What would {a} + {b} be?
What would I get for {a} + {b}?
What would the sum of {a} and {b} be?
Which number is {a} + {b}?
Which number is {a} plus {b}?
Which number is the sum of {a} and {b}?
Which number is {b} more than {a}?
Which number is {b} greater than {a}?
Which number is {b} larger than {a}?
Which number do I get if I add {b} to {a}?
How much is {a} and {b}?
How much is {a} and {b} together?
How much is {a} and {b} in total?
How much is {a} plus {b}, please?
How much is {b} added to {a}?
How much is {b} more than {a}?
How much is the sum of {a} and {b}?
How much do {a} and {b} make?
How much do {a} and {b} make together?
How much do {a} and {b} come to?
How much do I get if I add {a} and {b}?
How much does {a} plus {b} make?
How much does {a} plus {b} come to?
How much will {a} plus {b} be?
How much would {a} plus {b} make?
How many are {a} and {b}?
How many are {a} and {b} together?
How many is {a} plus {b}?
How many do {a} and {b} make?
How many do you get from {a} plus {b}?
Where do I land if I go {b} up from {a}?
If you add {a} and {b}, what do you get?
If you add {b} to {a}, what is the result?
If you add {b} to {a}, how much is that?
If I add {a} and {b}, what is the sum?
If I add {b} to {a}, what comes out?
If I put {a} and {b} together, what do I get?
If we add {a} and {b}, what is the total?
If x = {a} and y = {b}, what is x + y?
If {b} is added to {a}, what is the result?
If {a} grows by {b}, what is it then?
When {a} and {b} are added, what is the result?
When I add {b} to {a}, which number do I get?
When you add {a} and {b}, what do you get?
Adding {a} and {b} gives?
Adding {a} and {b} gives what?
Adding {b} to {a} makes what?
Starting from {a}, add {b}. What is the result?
Start with {a} and add {b}.
Start at {a} and count up by {b}. Where do you end?
Begin with {a}, then add {b}.
Take {a} and add {b}.
Take {a}, add {b}. What do you have?
Take {a} plus {b}.
Take the sum of {a} and {b}.
Put {a} and {b} together.
Add {b} to {a}.
Add {b} to {a}, please.
Add {b} onto {a}.
Add {a} and {b} for me.
Add {a} and {b}, please.
Add {a} and {b} together.
Add {a} and {b} up.
Add {a} with {b}.
Add {a} plus {b}.
Add up {a} and {b}.
Add up {a} and {b}, please.
Add up {a} + {b}.
Add up these numbers: {a}, {b}.
Add up the numbers {a} and {b}.
Add together {a} and {b}.
Add the numbers {a} and {b}.
Add the two numbers {a} and {b}.
Add these two numbers: {a} and {b}.
Add these: {a}, {b}
Add: {a}, {b}
Add: {a} + {b}
Just add {a} and {b}.
Please add {a} and {b}.
Please add {a} and {b} for me.
Please add {a} to {b}.
Please add up {a} and {b}.
Please add {a} + {b}.
Please add these two numbers: {a}, {b}.
Please sum {a} and {b}.
Please sum up {a} and {b}.
Please solve {a} + {b}.
Please solve {a} plus {b}.
Please compute the sum of {a} and {b}.
Please calculate the total of {a} and {b}.
Please tell me {a} plus {b}.
Please tell me the sum of {a} and {b}.
Please tell me what {a} + {b} is.
Please say how much {a} plus {b} is.
Please work out the sum of {a} and {b}.
Please increase {a} by {b}.
Sum up {a} and {b}.
Sum up {a} + {b}.
Sum the numbers {a} and {b}.
Sum these numbers: {a}, {b}.
Total {a} and {b}.
Total up {a} and {b}.
Combine {a} and {b}.
Count {a} and {b} together.
Calculate {a} plus {b}.
Calculate {a}+{b}.
Calculate {a} + {b}, please.
Calculate {a} + {b} for me.
Calculate: {a} + {b}
Calculate the sum of {a} and {b}.
Calculate the total of {a} and {b}.
Calculate the result of {a} plus {b}.
Compute {a} plus {b}.
Compute {a}+{b}.
Compute {a} + {b}, please.
Compute: {a} + {b}
Compute the sum of {a} and {b}.
Compute the sum {a} + {b}.
Solve {a} plus {b}.
Solve {a}+{b}.
Solve {a} + {b} for me.
Solve: {a} + {b}
Solve: {a} + {b} = ?
Solve the sum {a} + {b}.
Solve this: {a} + {b}.
Solve this sum: {a} + {b}
Evaluate {a} + {b}.
Evaluate {a} plus {b}.
Evaluate: {a} + {b}
Determine {a} + {b}.
Determine the sum of {a} and {b}.
Find {a} + {b}.
Find {a} plus {b}.
Find the sum of {a} and {b}.
Find the total of {a} and {b}.
Find the number that is {b} more than {a}.
Find out how much {a} plus {b} is.
Work out {a} + {b}.
Work out {a} + {b}, please.
Work out the sum of {a} and {b}.
Work out the total of {a} and {b}.
Work this out: {a} + {b}.
Figure out {a} + {b}.
Figure out the sum of {a} and {b}.
Do {a} + {b}.
Do {a} plus {b}.
Do the sum {a} + {b}.
Do this sum: {a} + {b}.
Do this addition: {a} + {b}.
Do the math: {a} + {b}.
Do the addition {a} + {b}, please.
Complete: {a} + {b} = ___
Complete: {a} plus {b} is
Fill in: {a} + {b} = __
Finish this: {a} + {b} =
Answer this: {a} + {b}
Answer: {a} plus {b}?
Check {a} + {b} for me. What is it?
Give me {a} + {b}.
Give me {a} plus {b}.
Give me the sum of {a} and {b}.
Give me the sum of {a} and {b}, please.
Give me the total of {a} and {b}.
Give me the result of {a} + {b}.
Give me the answer to {a} + {b}.
Give me the number that is {b} more than {a}.
Give the sum of {a} and {b}.
Show me {a} + {b}.
Show me the sum of {a} and {b}.
Show the result of {a} + {b}.
State the sum of {a} and {b}.
Say {a} plus {b}.
Say what {a} plus {b} is.
Write the sum of {a} and {b}.
Write down the result of {a} + {b}.
Tell me {a} + {b}.
Tell me {a} plus {b}, please.
Tell me what {a} plus {b} is.
Tell me what {a} + {b} is.
Tell me what {a} and {b} make.
Tell me what {a} and {b} add up to.
Tell me what I get if I add {a} and {b}.
Tell me how much {a} plus {b} is.
Tell me how much {a} and {b} make.
Tell me the total of {a} and {b}.
Tell me the result of {a} + {b}.
Tell me the answer to {a} + {b}.
Let me know what {a} plus {b} is.
Let me know the sum of {a} and {b}.
Let me have the sum of {a} and {b}.
Let us add {a} and {b}.
Let's add {a} and {b}.
Let's add {b} to {a}. What do we get?
Let's do {a} + {b}.
Help me add {a} and {b}.
Help me with this sum: {a} + {b}.
Help me work out {a} plus {b}.
Use addition: {a} and {b}.
Can you add {b} to {a}?
Can you add {a} and {b} for me?
Can you add {a} and {b}, please?
Can you add up {a} and {b}?
Can you add these two numbers: {a} and {b}?
Can you calculate {a} + {b}?
Can you calculate {a} plus {b}?
Can you calculate the sum of {a} and {b}?
Can you compute {a} + {b}?
Can you solve {a} + {b}?
Can you sum {a} and {b}?
Can you tell me {a} + {b}?
Can you tell me {a} plus {b}?
Can you tell me what {a} plus {b} is?
Can you tell me the sum of {a} and {b}?
Can you tell me how much {a} and {b} make?
Can you give me the sum of {a} and {b}?
Can you help me with {a} + {b}?
Can you help me add {a} and {b}?
Could you add {a} and {b}?
Could you add {b} to {a}, please?
Could you add up {a} and {b} for me?
Could you calculate {a} + {b}?
Could you calculate the sum of {a} and {b}?
Could you compute {a} plus {b}?
Could you work out {a} + {b}?
Could you work out {a} plus {b} for me?
Could you please add {a} and {b}?
Could you please tell me {a} plus {b}?
Could you tell me what {a} + {b} is?
Could you tell me the sum of {a} and {b}?
Could you tell me how much {a} plus {b} is?
Could you give me the total of {a} and {b}?
Would you add {a} and {b}?
Would you please add {b} to {a}?
Would you calculate {a} plus {b}?
Would you mind adding {a} and {b}?
Would you tell me what {a} plus {b} is?
Will you add {a} and {b} for me?
Will you work out {a} + {b}?
Do you know {a} + {b}?
Do you know {a} plus {b}?
Do you know what {a} plus {b} is?
Do you know the sum of {a} and {b}?
Do you know how much {a} and {b} make?
Any idea what {a} plus {b} is?
Any idea how much {a} + {b} is?
I need {a} + {b}.
I need {a} plus {b}.
I need the sum of {a} and {b}.
I need the total of {a} and {b}.
I need to add {a} and {b}.
I need to add {b} to {a}. What do I get?
I need to know what {a} plus {b} is.
I need to know how much {a} and {b} make.
I need you to add {a} and {b}.
I need help with {a} + {b}.
I want to add {a} and {b}.
I want to add {b} to {a}. What is the result?
I want to know the sum of {a} and {b}.
I want to know what {a} plus {b} makes.
I want the sum of {a} and {b}.
I have to add {a} and {b}. What do I get?
I would like to know {a} plus {b}.
I would like to add {a} and {b}.
I would like the sum of {a} and {b}.
I'd like to know what {a} + {b} is.
I'd like the total of {a} and {b}, please.
I am looking for the sum of {a} and {b}.
I'm looking for {a} plus {b}.
I am adding {a} and {b}. What should I get?
I'm trying to add {a} and {b}.
I was wondering what {a} plus {b} is.
I was wondering how much {a} and {b} make.
I wonder what {a} + {b} is.
I wonder how much {a} plus {b} makes.
I can't work out {a} + {b}. Can you?
I do not know what {a} plus {b} is.
I'm not sure what {a} + {b} is.
We need the sum of {a} and {b}.
We have to add {a} and {b}. How much is it?
My homework says {a} + {b}. What is it?
My homework: {a} + {b}
My teacher asks for {a} plus {b}.
My son has to add {a} and {b}. What is the answer?
Math question: {a} + {b}?
Math question: what is {a} plus {b}?
Math: {a} + {b}
Math problem: {a} + {b} = ?
Maths: what is {a} + {b}?
Quick math: {a} + {b}
Mental arithmetic: {a} plus {b}.
Homework: {a} + {b} = ?
Exercise: add {a} and {b}.
Exercise 1: {a} + {b}
Question: what is {a} plus {b}?
Question: {a} + {b}?
Next sum: {a} + {b}.
Next: {a} + {b}
And {a} + {b}?
And {a} plus {b}?
And what is {a} plus {b}?
What about {a} + {b}?
What about {a} plus {b}?
How about {a} + {b}?
Now {a} plus {b}, please.
Now add {a} and {b}.
Now add {b} to {a}.
Then what is {a} plus {b}?
So what is {a} + {b}?
So how much is {a} plus {b}?
OK, {a} + {b}?
Please: {a} + {b}
Please, what is {a} plus {b}?
Hi, what is {a} + {b}?
Hello, can you add {a} and {b}?
Excuse me, how much is {a} plus {b}?
One number is {a}, the other is {b}. What is the sum?
One number is {a} and the other is {b}. Add them.
The first number is {a}, the second is {b}. What is their sum?
The numbers are {a} and {b}. What is the sum?
The numbers are {a} and {b}. Add them up.
Here are two numbers: {a} and {b}. Add them.
Here are two numbers, {a} and {b}. What is their sum?
Two numbers: {a}, {b}. What is the total?
Given {a} and {b}, what is the sum?
Given {a} and {b}, add them.
I have two numbers, {a} and {b}. What is their total?
I think of {a} and add {b}. Which number do I get?
Think of {a}. Add {b}. What do you get?
A number is {b} more than {a}. Which number is it?
A number minus {b} is {a}. What is the number?
Which number minus {b} gives {a}?
From which number must I subtract {b} to get {a}?
"""
)

# ---- sums: little word problems -------------------------------------------------------------------
_ADD_HAND += _lines(
    """
I have {a} apples and buy {b} more. How many apples do I have now?
I have {a} apples and you give me {b}. How many apples do I have?
I had {a} apples and found {b} more. How many are there now?
I picked {a} apples and then {b} more. How many did I pick?
There are {a} red apples and {b} green apples. How many apples are there?
There are {a} apples in one basket and {b} in another. How many apples are there in all?
Tom has {a} apples and Anna has {b}. How many do they have together?
Anna has {a} apples. Ben gives her {b} more. How many does she have now?
Ben picks {a} pears and {b} plums. How many pieces of fruit is that?
She bought {a} oranges and {b} lemons. How many fruits did she buy?
I have {a} eggs and the hens lay {b} more. How many eggs do I have?
We baked {a} cookies and then {b} more. How many cookies did we bake?
I ate {a} nuts and my brother ate {b}. How many nuts did we eat?
I have {a} dollars and get {b} more. How much money do I have?
I have {a} dollars and earn {b} dollars. How many dollars do I have now?
I have {a} euros and my sister has {b}. How much do we have together?
I had {a} euros and got {b} euros. How many euros do I have?
I had {a} in my account and put in {b}. What is the balance now?
My balance is {a} and I deposit {b}. What is the new balance?
The balance is {a} and I get {b}. What is the new balance?
My account shows {a} and {b} comes in. What is the new amount?
I saved {a} last month and {b} this month. How much did I save?
I saved {a} dollars, then {b} dollars. How much is that in all?
I earned {a} on Monday and {b} on Tuesday. How much did I earn?
I spent {a} on food and {b} on books. How much did I spend?
I spent {a} in the morning and {b} in the evening. How much did I spend in total?
A shirt costs {a} and a pair of shoes costs {b}. How much do they cost together?
A book costs {a} dollars and a pen costs {b} dollars. What do both cost?
The bread costs {a} cents and the milk {b} cents. What do I pay?
The hotel costs {a} and the flight {b}. What is the total price?
The ticket is {a} and the fee is {b}. How much do I pay in all?
The price was {a} and went up by {b}. What is the new price?
The price is {a} plus {b} for shipping. What do I pay?
The rent is {a} and rises by {b}. How much is it then?
The bill is {a} and the tip is {b}. How much do I pay?
I owe {a} to Tom and {b} to Anna. How much do I owe?
I lent him {a} and then {b}. How much does he owe me?
The first bill is {a}, the second is {b}. What do they come to?
He paid {a} for the chair and {b} for the table. How much did he pay?
There are {a} people in the room and {b} come in. How many are in the room now?
There are {a} people on the bus and {b} get on. How many people are on the bus?
There were {a} guests, then {b} more came. How many guests are there?
There are {a} boys and {b} girls in the school. How many children is that?
There are {a} men and {b} women in the hall. How many people are in the hall?
There are {a} children in one class and {b} in the other. How many are there in both?
A team has {a} players and {b} join. How many players are there now?
A town had {a} people and {b} moved in. How many live there now?
A village has {a} people and another has {b}. How many people live in both?
A club has {a} members and gets {b} new ones. How many members does it have?
A train carries {a} people and {b} more get on. How many are on the train?
We invited {a} friends and {b} neighbors. How many people did we invite?
We are {a} people and {b} more are coming. How many will we be?
The company has {a} workers and hires {b}. How many workers does it have then?
I walked {a} meters and then {b} meters. How far did I walk?
I walked {a} steps and then {b} steps more. How many steps is that?
I drove {a} km in the morning and {b} km in the afternoon. How many km did I drive?
I drove {a} miles and then {b} miles. How far is that in total?
We drove {a} kilometers on the first day and {b} on the second. How far did we drive?
We have come {a} km and have {b} km to go. How long is the whole trip?
The first road is {a} km long and the second {b} km. How long are both?
It is {a} miles from home to work and {b} miles from work to the shop. How far is it all the way?
A rope of {a} cm is tied to a rope of {b} cm. How long are they together?
She ran {a} meters and swam {b} meters. How far did she go?
He climbs {a} meters, rests, and climbs {b} meters. How high did he climb?
From A to B it is {a} km, from B to C {b} km. How far is it from A to C by way of B?
I am {a} years old. How old will I be in {b} years?
I am {a}. How old will I be in {b} years?
My son is {a}. How old will he be {b} years from now?
Anna is {a} years old and Tom is {b} years older. How old is Tom?
Anna is {a}. Ben is {b} years older. How old is Ben?
Ben is {b} years older than Anna, who is {a}. How old is Ben?
My sister is {a} and my brother is {b}. What is the sum of their ages?
The tree is {a} years old now. How old will it be after {b} years?
She was {a} when they met, {b} years ago. How old is she now?
It is the year {a}. Which year will it be in {b} years?
I have {a} points and win {b} more. How many points do I have?
I have {a} points and get {b} points. What is my score?
My score is {a} and I get {b} more points. What is my score now?
Our team scored {a} points and then {b}. How many points is that?
One team has {a} points, the other {b}. How many points are there in total?
She scored {a} in the first game and {b} in the second. What is her total score?
He got {a} points in round one and {b} in round two. How many points did he get?
The player had {a} points and gained {b}. How many points does the player have?
I read {a} pages yesterday and {b} today. How many pages did I read?
I read {a} pages, then another {b}. How many pages is that?
One book has {a} pages, the other has {b}. How many pages do they have together?
The library has {a} books and buys {b}. How many books does it have?
One shelf holds {a} books and the other {b}. How many books are there?
There are {a} cars in the lot and {b} more come. How many cars are there?
There are {a} birds in the tree and {b} fly in. How many birds are there now?
There are {a} fish in the pond and we add {b}. How many fish are there?
A farmer has {a} cows and {b} sheep. How many animals does he have?
A farmer has {a} hens and buys {b} more. How many hens are there?
A box has {a} pencils and I put in {b} more. How many pencils are in the box?
A jar holds {a} beans, and I add {b}. How many beans are in it?
A bag has {a} red balls and {b} blue balls. How many balls are in the bag?
A shop sold {a} cups on Monday and {b} on Tuesday. How many cups did it sell?
A garden has {a} roses and {b} tulips. How many flowers are there?
I have {a} stamps and my friend gives me {b}. How many stamps do I have now?
I have {a} coins and find {b}. How many coins do I have?
I have {a} cards and win {b}. How many cards do I have?
I gave away {b} cards and have {a} left. How many cards did I have before?
I spent {b} and have {a} left. How much did I have at first?
After {b} people left, {a} were still there. How many were there before?
I slept {a} minutes and then {b} minutes. How long did I sleep?
The film takes {a} minutes and the break {b} minutes. How long is it all together?
I waited {a} minutes, then another {b}. How many minutes did I wait?
It was {a} degrees and got {b} degrees warmer. How many degrees is it now?
I sent {a} letters and {b} postcards. How many did I send in all?
We counted {a} on one side and {b} on the other. How many is that?
We sold {a} tickets online and {b} at the door. How many tickets did we sell?
The bag weighs {a} grams and the book {b} grams. What do they weigh together?
One parcel weighs {a} kg, the other {b} kg. How much do both weigh?
I pour {a} ml of water and {b} ml of milk into a bowl. How many ml is that?
First came {a} letters, then {b}. How many letters came?
He has {a} marbles. She has {b} marbles. How many marbles have they got together?
She has {b} more than he does, and he has {a}. How many does she have?
You have {a} and I give you {b}. How much do you have now?
What do {a} apples and {b} apples make?
What are {a} dollars and {b} dollars?
What is {a} dollars plus {b} dollars?
How much is {a} euros plus {b} euros?
How many apples are {a} apples and {b} apples?
How many people are {a} people and {b} more?
How old is someone who was {a} and then lived {b} more years?
How far is {a} km plus {b} km?
"""
)
_ADD_HAND += [
    "{a}\n+ {b}\n= ?",
    "{a} + {b}\n=",
    "{a}\n+ {b}",
    "Add these numbers:\n{a}\n{b}",
    "Add up:\n{a}\n{b}",
    "Sum:\n{a}\n{b}",
    "Calculate:\n{a} + {b}",
    "Solve:\n{a} + {b} = ?",
    "Question: {a} + {b}\nAnswer:",
    "Q: What is {a} plus {b}?\nA:",
    "1) {a} + {b} = ?",
    "a = {a}\nb = {b}\na + b = ?",
    "Hello,\nwhat is {a} + {b}?",
]

# ---- differences: plain arithmetic ----------------------------------------------------------------
_SUBTRACT_HAND = _lines(
    """
{a} minus {b}
{a} minus {b}?
{a} minus {b}.
{a} minus {b} =
{a} minus {b} = ?
{a} minus {b} equals
{a} minus {b} equals?
{a} minus {b} equals what?
{a} minus {b} is what?
{a} minus {b} is how much?
{a} minus {b} makes?
{a} minus {b} makes what?
{a} minus {b} gives?
{a} minus {b} gives what?
{a} minus {b} leaves?
{a} minus {b} leaves what?
{a} minus {b} comes to?
{a} minus {b} please
{a} minus {b}, please.
{a} minus {b}: what is it?
{a} - {b} =
{a} - {b} is
{a} - {b} is?
{a} - {b} is what?
{a} - {b} is how much?
{a} - {b} gives?
{a} - {b} makes?
{a} - {b} leaves what?
{a} - {b} equals
{a} - {b} equals?
{a} - {b}, please.
{a} - {b} please
{a} - {b}?
{a} - {b}.
{a}-{b}?
{a}-{b} = ?
{a}-{b} =
{a}-{b}=?
{a}-{b} is?
{a} -{b}
{a}- {b}
({a} - {b})
({a} - {b}) = ?
= {a} - {b}
? = {a} - {b}
x = {a} - {b}. What is x?
{a} - {b} = x. What is x?
{a} - {b} = ___
"{a} - {b}" is what?
[{a} - {b}]
subtract {b} from {a}
take {b} from {a}
take away {b} from {a}
Difference: {a} - {b}
Subtraction: {a} - {b}
Subtraction: {a} minus {b}
The difference {a} - {b}?
The difference {a} - {b} is?
The answer to {a} - {b}?
The answer to {a} - {b} is?
The result of {a} - {b}?
The result of {a} minus {b}, please.
{a} less {b}
{a} less {b}?
{a} less {b} is what?
{a} less {b} makes?
{a} take away {b}
{a} take away {b}?
{a} take away {b} is?
{a} take away {b} is what?
{a} take away {b} leaves how much?
{a} without {b} is?
{a} without {b} is how much?
{a} reduced by {b}
{a} reduced by {b}?
{a} reduced by {b} is what?
{a} lowered by {b} is what?
{a} decreased by {b}
{a} decreased by {b}?
{a} decreased by {b} is what?
{a} with {b} taken off is?
{a} with {b} removed is?
{a} with {b} subtracted is what?
{a}, minus {b}: how much is left?
{a} minus {b}, what does that make?
{a} minus {b}, how much is that?
{a} - {b}, what is that?
{a}: take away {b}.
{b} subtracted from {a}
{b} subtracted from {a}?
{b} subtracted from {a} is what?
{b} subtracted from {a} gives what?
{b} subtracted from {a} equals?
{b} subtracted from {a} leaves what?
{b} taken from {a}
{b} taken from {a} is what?
{b} taken from {a} leaves?
{b} taken away from {a} is?
{b} off {a} is?
{b} less than {a}
{b} less than {a}?
{b} less than {a} is what?
{b} fewer than {a} is how many?
What's {a} - {b}?
What's {a}-{b}?
What's {a} minus {b}?
What's {a} minus {b}, please?
What's {a} less {b}?
What's {a} take away {b}?
What's {a} reduced by {b}?
What's {b} subtracted from {a}?
What's {b} taken from {a}?
What's {b} less than {a}?
What's the difference {a} - {b}?
What's the result of {a} - {b}?
What's the result if I subtract {b} from {a}?
What's the answer to {a} - {b}?
What's the answer to {a} minus {b}?
What's left if I take {b} from {a}?
What's left of {a} after taking away {b}?
whats {a} - {b}
whats {a} minus {b}
what is {a} minus {b}
what is {a} - {b} please
what is {a} take away {b}
how much is {a} - {b}
how much is {a} minus {b}
What is {a} take away {b}?
What is {a} without {b}?
What is {a} reduced by {b}?
What is {a} decreased by {b}?
What is {a} lowered by {b}?
What is {a} with {b} taken away?
What is {a} with {b} subtracted?
What is {a} if you take away {b}?
What is {a} if you subtract {b}?
What is {a} minus {b}, please?
What is {a} minus {b} exactly?
What is {a} - {b}, please?
What is {a} - {b} exactly?
What is {b} subtracted from {a}?
What is {b} taken from {a}?
What is {b} taken away from {a}?
What is {b} less than {a}?
What is {b} below {a}?
What is the answer to {a} - {b}?
What is the answer to {a} minus {b}?
What is the answer when you subtract {b} from {a}?
What is the result of {a} - {b}?
What is the result of {a} minus {b}?
What is the result of subtracting {b} from {a}?
What is the result of taking {b} from {a}?
What is the result when {b} is subtracted from {a}?
What is the result if I take {b} away from {a}?
What is the difference {a} - {b}?
What is the difference of {a} and {b}?
What is the difference {a} minus {b}?
What is the difference if I subtract {b} from {a}?
What is the value of {a} - {b}?
What is the value of {a} minus {b}?
What is the rest if I take {b} from {a}?
What is left if you subtract {b} from {a}?
What is left if I take {b} away from {a}?
What is left when {b} is taken from {a}?
What is left over from {a} after {b}?
What does {a} minus {b} equal?
What does {a} minus {b} make?
What does {a} minus {b} give?
What does {a} minus {b} come to?
What does {a} - {b} make?
What does {a} - {b} give?
What does {a} - {b} come to?
What does {a} less {b} make?
What does subtracting {b} from {a} give?
What does taking {b} from {a} leave?
What do I get if I subtract {b} from {a}?
What do I get if I take {b} from {a}?
What do I get when I take {b} away from {a}?
What do I get for {a} - {b}?
What do I have to add to {b} to get {a}?
What must I add to {b} to get {a}?
What must be added to {b} to make {a}?
What do you get for {a} minus {b}?
What do you get if you take {b} from {a}?
What do you get when you subtract {b} from {a}?
What do you get when you take {b} away from {a}?
What do we get if we subtract {b} from {a}?
What do we get when {b} is taken from {a}?
What equals {a} - {b}?
What remains if I take {b} from {a}?
What remains if you subtract {b} from {a}?
What remains of {a} after subtracting {b}?
What remains when {b} is taken away from {a}?
What number do you get if you subtract {b} from {a}?
What number is {b} less than {a}?
What number is {a} minus {b}?
What number is left if you take {b} from {a}?
What number comes out if I subtract {b} from {a}?
What number equals {a} minus {b}?
What will {a} minus {b} be?
What would {a} minus {b} be?
What would {a} - {b} be?
What would I get for {a} - {b}?
What would be left of {a} without {b}?
Which number is {a} - {b}?
Which number is {a} minus {b}?
Which number is {b} less than {a}?
Which number is {b} smaller than {a}?
Which number plus {b} gives {a}?
Which number added to {b} makes {a}?
Which number do I get if I subtract {b} from {a}?
Which number do you get from {a} minus {b}?
How much is {a} less {b}?
How much is {a} without {b}?
How much is {a} take away {b}?
How much is {a} minus {b}, please?
How much is {b} subtracted from {a}?
How much is {b} less than {a}?
How much is the difference {a} - {b}?
How much is left if I take {b} from {a}?
How much is left of {a} if {b} is gone?
How much is left when you subtract {b} from {a}?
How much remains if {b} is taken from {a}?
How much remains of {a} after {b}?
How much more is {a} than {b}?
How much bigger is {a} than {b}?
How much greater is {a} than {b}?
How much larger is {a} than {b}?
How much higher is {a} than {b}?
How much do I get if I subtract {b} from {a}?
How much does {a} minus {b} make?
How much does {a} minus {b} come to?
How much will {a} minus {b} be?
How much would {a} minus {b} make?
How much must I add to {b} to get {a}?
How many is {a} minus {b}?
How many is {a} take away {b}?
How many are left if I take {b} from {a}?
How many are left of {a} without {b}?
How many more is {a} than {b}?
How far is it from {b} up to {a}?
By how much is {a} greater than {b}?
By how much does {a} exceed {b}?
Where do I land if I go {b} down from {a}?
If you subtract {b} from {a}, what do you get?
If you take {b} from {a}, what is left?
If you take {b} away from {a}, how much is that?
If I subtract {b} from {a}, what is the result?
If I take {b} from {a}, what comes out?
If I take {b} away from {a}, how much is left?
If we take {b} from {a}, what remains?
If x = {a} and y = {b}, what is x - y?
If {b} is subtracted from {a}, what is the result?
If {b} is taken from {a}, what is left?
If {a} falls by {b}, what is it then?
If {a} shrinks by {b}, what is left?
When {b} is subtracted from {a}, what is the result?
When I subtract {b} from {a}, which number do I get?
When you take {b} from {a}, what do you get?
Subtracting {b} from {a} gives?
Subtracting {b} from {a} gives what?
Taking {b} from {a} leaves?
Taking {b} away from {a} leaves what?
Starting from {a}, subtract {b}. What is the result?
Start with {a} and subtract {b}.
Start with {a} and take away {b}.
Start at {a} and count down by {b}. Where do you end?
Begin with {a}, then subtract {b}.
From {a}, subtract {b}.
From {a} subtract {b}, please.
From {a}, take away {b}. What is left?
From {a} I take {b}. What remains?
Take {a} and subtract {b}.
Take {a}, subtract {b}. What do you have?
Take {a} minus {b}.
Take {b} from {a}.
Take {b} from {a}, please.
Take {b} off {a}.
Take {b} away from {a}, please.
Take away {b} from {a}.
Take the difference {a} - {b}.
Subtract {b} from {a}, please.
Subtract {b} from {a} for me.
Subtract {b} from {a} and tell me the result.
Subtract the number {b} from {a}.
Subtract the number {b} from the number {a}.
Subtract: {a} - {b}
Subtract: {a} minus {b}
Just subtract {b} from {a}.
Deduct {b} from {a}.
Deduct {b} from {a}, please.
Remove {b} from {a}.
Remove {b} from {a}. What is left?
Reduce {a} by {b}.
Reduce {a} by {b}, please.
Lower {a} by {b}.
Decrease the number {a} by {b}.
Count down {b} from {a}.
Please subtract {b} from {a}.
Please subtract {b} from {a} for me.
Please take {b} from {a}.
Please take {b} away from {a}.
Please take away {b} from {a}.
Please solve {a} - {b}.
Please solve {a} minus {b}.
Please compute the difference {a} - {b}.
Please calculate the result of {a} minus {b}.
Please tell me {a} minus {b}.
Please tell me what {a} - {b} is.
Please say how much {a} minus {b} is.
Please work out the difference {a} - {b}.
Please reduce {a} by {b}.
Please deduct {b} from {a}.
Calculate {a} minus {b}.
Calculate {a}-{b}.
Calculate {a} - {b}, please.
Calculate {a} - {b} for me.
Calculate: {a} - {b}
Calculate the difference {a} - {b}.
Calculate the result of {a} minus {b}.
Compute {a} minus {b}.
Compute {a}-{b}.
Compute {a} - {b}, please.
Compute: {a} - {b}
Compute the difference {a} - {b}.
Solve {a} minus {b}.
Solve {a}-{b}.
Solve {a} - {b} for me.
Solve: {a} - {b}
Solve: {a} - {b} = ?
Solve this: {a} - {b}.
Solve this subtraction: {a} - {b}
Evaluate {a} - {b}.
Evaluate {a} minus {b}.
Evaluate: {a} - {b}
Determine {a} - {b}.
Determine the difference {a} - {b}.
Find {a} - {b}.
Find {a} minus {b}.
Find the difference {a} - {b}.
Find the number that is {b} less than {a}.
Find out how much {a} minus {b} is.
Find out what is left of {a} without {b}.
Work out {a} - {b}.
Work out {a} - {b}, please.
Work out {a} take away {b}.
Work out the difference {a} - {b}.
Work this out: {a} - {b}.
Figure out {a} - {b}.
Figure out what {a} minus {b} is.
Do {a} - {b}.
Do {a} minus {b}.
Do this subtraction: {a} - {b}.
Do the math: {a} - {b}.
Do the subtraction {a} - {b}, please.
Complete: {a} - {b} = ___
Complete: {a} minus {b} is
Fill in: {a} - {b} = __
Fill in: {b} + __ = {a}
Finish this: {a} - {b} =
Answer this: {a} - {b}
Answer: {a} minus {b}?
Check {a} - {b} for me. What is it?
Give me {a} - {b}.
Give me {a} minus {b}.
Give me {a} less {b}.
Give me the difference {a} - {b}.
Give me the result of {a} - {b}.
Give me the answer to {a} - {b}.
Give me the number that is {b} less than {a}.
Show me {a} - {b}.
Show me {a} minus {b}.
Show the result of {a} - {b}.
State the result of {a} minus {b}.
Say {a} minus {b}.
Say what {a} minus {b} is.
Write the result of {a} - {b}.
Write down what {a} minus {b} is.
Tell me {a} - {b}.
Tell me {a} minus {b}, please.
Tell me {a} take away {b}.
Tell me what {a} - {b} is.
Tell me what {a} less {b} is.
Tell me what I get if I subtract {b} from {a}.
Tell me what is left if I take {b} from {a}.
Tell me how much {a} minus {b} is.
Tell me how much more {a} is than {b}.
Tell me the difference {a} - {b}.
Tell me the result of {a} - {b}.
Tell me the answer to {a} - {b}.
Let me know what {a} minus {b} is.
Let me know how much is left if I take {b} from {a}.
Let me have the difference {a} - {b}.
Let us subtract {b} from {a}.
Let's subtract {b} from {a}.
Let's take {b} from {a}. What do we get?
Let's do {a} - {b}.
Help me subtract {b} from {a}.
Help me with this subtraction: {a} - {b}.
Help me work out {a} minus {b}.
Can you take {b} from {a}?
Can you take {b} away from {a}?
Can you subtract {b} from {a} for me?
Can you subtract {b} from {a}, please?
Can you calculate {a} - {b}?
Can you calculate {a} minus {b}?
Can you calculate the difference {a} - {b}?
Can you compute {a} - {b}?
Can you solve {a} - {b}?
Can you tell me {a} - {b}?
Can you tell me {a} minus {b}?
Can you tell me what {a} minus {b} is?
Can you tell me how much {a} minus {b} is?
Can you tell me what is left of {a} without {b}?
Can you give me {a} minus {b}?
Can you help me with {a} - {b}?
Can you help me subtract {b} from {a}?
Could you subtract {b} from {a}?
Could you subtract {b} from {a}, please?
Could you take {b} away from {a}?
Could you take {b} from {a} for me?
Could you calculate {a} - {b}?
Could you compute {a} minus {b}?
Could you work out {a} - {b}?
Could you work out {a} minus {b} for me?
Could you please subtract {b} from {a}?
Could you please tell me {a} minus {b}?
Could you tell me what {a} - {b} is?
Could you tell me how much {a} minus {b} is?
Could you give me the difference {a} - {b}?
Would you subtract {b} from {a}?
Would you please take {b} from {a}?
Would you calculate {a} minus {b}?
Would you mind subtracting {b} from {a}?
Would you tell me what {a} minus {b} is?
Will you subtract {b} from {a} for me?
Will you work out {a} - {b}?
Do you know {a} - {b}?
Do you know {a} minus {b}?
Do you know what {a} minus {b} is?
Do you know how much {a} minus {b} is?
Do you know what is left if I take {b} from {a}?
Any idea what {a} minus {b} is?
Any idea how much {a} - {b} is?
I need {a} - {b}.
I need {a} minus {b}.
I need the difference {a} - {b}.
I need to subtract {b} from {a}.
I need to take {b} from {a}. What do I get?
I need to know what {a} minus {b} is.
I need to know how much {a} - {b} is.
I need you to subtract {b} from {a}.
I need help with {a} - {b}.
I want to subtract {b} from {a}.
I want to take {b} from {a}. What is the result?
I want to know what {a} minus {b} makes.
I want to know how much more {a} is than {b}.
I have to subtract {b} from {a}. What do I get?
I would like to know {a} minus {b}.
I would like to subtract {b} from {a}.
I'd like to know what {a} - {b} is.
I'd like the result of {a} minus {b}, please.
I am looking for {a} - {b}.
I'm looking for the result of {a} minus {b}.
I am subtracting {b} from {a}. What should I get?
I'm trying to subtract {b} from {a}.
I was wondering what {a} minus {b} is.
I was wondering how much {a} - {b} is.
I wonder what {a} - {b} is.
I wonder how much {a} minus {b} makes.
I can't work out {a} - {b}. Can you?
I do not know what {a} minus {b} is.
I'm not sure what {a} - {b} is.
We need {a} minus {b}.
We have to subtract {b} from {a}. How much is it?
My homework says {a} - {b}. What is it?
My homework: {a} - {b}
My teacher asks for {a} minus {b}.
My son has to take {b} from {a}. What is the answer?
Math question: {a} - {b}?
Math question: what is {a} minus {b}?
Math: {a} - {b}
Math problem: {a} - {b} = ?
Maths: what is {a} - {b}?
Quick math: {a} - {b}
Mental arithmetic: {a} minus {b}.
Homework: {a} - {b} = ?
Exercise: subtract {b} from {a}.
Exercise 1: {a} - {b}
Question: what is {a} minus {b}?
Question: {a} - {b}?
Next: {a} - {b}
And {a} - {b}?
And {a} minus {b}?
And what is {a} minus {b}?
What about {a} - {b}?
What about {a} minus {b}?
How about {a} - {b}?
Now {a} minus {b}, please.
Now subtract {b} from {a}.
Now take {b} from {a}.
Then what is {a} minus {b}?
So what is {a} - {b}?
So how much is {a} minus {b}?
OK, {a} - {b}?
Please: {a} - {b}
Please, what is {a} minus {b}?
Hi, what is {a} - {b}?
Hello, can you subtract {b} from {a}?
Excuse me, how much is {a} minus {b}?
The first number is {a}, the second is {b}. Subtract the second from the first.
The first number is {a}, the second is {b}. What is the first minus the second?
The numbers are {a} and {b}. Take the second from the first.
Here are two numbers: {a} and {b}. Subtract the second from the first.
Here are two numbers: {b} and {a}. Subtract the first from the second.
Given {a}, subtract {b}.
Given {a} and {b}, what is the first minus the second?
I think of {a} and subtract {b}. Which number do I get?
Think of {a}. Take away {b}. What do you get?
A number is {b} less than {a}. Which number is it?
A number plus {b} is {a}. What is the number?
Two numbers make {a} together. One is {b}. What is the other?
The sum of two numbers is {a}. One of them is {b}. What is the other one?
{b} plus what is {a}?
{b} + ? = {a}
{b} + x = {a}. What is x?
? + {b} = {a}
x + {b} = {a}. Find x.
"""
)

# ---- differences: little word problems ------------------------------------------------------------
_SUBTRACT_HAND += _lines(
    """
I have {a} apples and eat {b}. How many apples are left?
I have {a} apples and give away {b}. How many do I have left?
I have {a} apples and give you {b}. How many apples do I still have?
I had {a} apples and lost {b}. How many are left?
I had {a} apples and sold {b} of them. How many do I have now?
There are {a} apples on the tree and {b} fall down. How many are still on the tree?
There were {a} apples in the basket. {b} were eaten. How many remain?
Of {a} apples, {b} are bad. How many are good?
Of the {a} apples, {b} are red and the rest are green. How many are green?
Anna has {a} apples and gives Ben {b}. How many apples does Anna have now?
Tom has {a} pears and eats {b}. How many pears are left?
Tom has {a} apples and Anna has {b}. How many more does Tom have?
We baked {a} cookies and ate {b}. How many cookies are left?
I bought {a} eggs and {b} broke. How many eggs are whole?
I have {a} dollars and spend {b}. How much money do I have left?
I have {a} dollars and spend {b} dollars. How many dollars are left?
I have {a} euros and pay {b}. How much is left?
I had {a} euros and gave away {b}. How many euros do I still have?
I had {a} dollars and lost {b}. How much do I have now?
I had {a} in my account and took out {b}. What is the balance now?
My balance is {a} and I spend {b}. What is the new balance?
My account has {a} and I withdraw {b}. How much is in it now?
I pay with {a} and the price is {b}. How much change do I get?
I give {a} and it costs {b}. What is my change?
It costs {b} and I pay with {a}. How much do I get back?
The price was {a} and went down by {b}. What is the new price?
The price is {a} and I get {b} off. What do I pay?
A coat costs {a} and is now {b} cheaper. What does it cost now?
A shirt costs {a}, and I have a coupon for {b}. How much do I pay?
A phone costs {a} and I have {b}. How much money is missing?
I need {a} dollars and have {b}. How much do I still need?
I want to buy a bike for {a} and have saved {b}. How much more do I need?
I earn {a} and pay {b} in rent. How much is left?
I earned {a} and spent {b}. How much did I save?
I owe {a} and have paid back {b}. How much do I still owe?
The bill is {a} and I have paid {b}. How much is still to pay?
The rent is {a} and falls by {b}. How much is it then?
The budget is {a} and we have spent {b}. What is left?
The wallet had {a} in it, and {b} is gone. How much is in it now?
The red car costs {a} and the blue one {b}. How much more does the red one cost?
There are {a} people in the room and {b} leave. How many are still there?
There are {a} people on the bus and {b} get off. How many people stay on the bus?
There were {a} guests and {b} went home. How many guests are left?
There are {a} children, and {b} of them are girls. How many are boys?
There are {a} people in the hall and {b} of them are women. How many are men?
There are {a} seats and {b} are taken. How many are free?
A team has {a} players and {b} leave. How many players are left?
A town had {a} people and {b} moved away. How many live there now?
A club has {a} members and loses {b}. How many members remain?
A train carries {a} people and {b} get off. How many are on the train?
A class has {a} children and {b} are sick. How many are at school?
We invited {a} people and {b} cannot come. How many will come?
We are {a} people and {b} go home. How many are we then?
The company had {a} workers and {b} left. How many workers does it have now?
Of {a} students, {b} passed the test. How many did not pass?
I want to walk {a} meters and have walked {b}. How many meters are left?
I have to drive {a} km and have driven {b} km. How many km remain?
I drove {b} of {a} miles. How many miles are left?
The trip is {a} km long and we have done {b} km. How far is it still?
The way is {a} miles. After {b} miles, how many are left?
The road is {a} km and we are at kilometer {b}. How many km are still to go?
A rope is {a} cm long and I cut off {b} cm. How long is it now?
A board of {a} cm is cut by {b} cm. How long is the rest?
A tower is {a} meters high, another {b} meters. How much higher is the first?
She ran {a} meters and he ran {b}. How much farther did she run?
He climbed {a} meters and came down {b}. How high is he now?
The blue road is {a} km, the red road {b} km. How much longer is the blue road?
I am {a} years old. How old was I {b} years ago?
I am {a}. How old was I {b} years ago?
My son is {a}. How old was he {b} years ago?
Anna is {a} years old and Tom is {b} years younger. How old is Tom?
Anna is {a}. Ben is {b} years younger. How old is Ben?
Ben is {b} years younger than Anna, who is {a}. How old is Ben?
My mother is {a} and I am {b}. How much older is my mother?
My grandfather is {a} and my father is {b}. How many years older is my grandfather?
The house is {a} years old and the barn {b}. How many years older is the house?
It is the year {a}. Which year was it {b} years ago?
She is {a} now. Her brother is {b}. How much older is she?
I have {a} points and lose {b}. How many points do I have?
I have {a} points and lose {b} points. What is my score?
My score is {a} and I lose {b} points. What is my score now?
Our team has {a} points and the other team {b}. How many points are we ahead?
We have {a} points and they have {b}. By how many points do we lead?
She scored {a} and he scored {b}. How many more points did she get?
He had {a} points and lost {b} in the last round. How many are left?
The player had {a} points, and {b} were taken away. How many points does the player have?
I need {a} points to win and have {b}. How many more do I need?
A book has {a} pages and I have read {b}. How many pages are left?
I have to read {a} pages and have read {b}. How many are still to read?
The library has {a} books and {b} are out. How many books are there now?
The shelf holds {a} books and I take {b} away. How many books stay?
There are {a} cars in the lot and {b} drive away. How many cars are left?
There are {a} birds in the tree and {b} fly away. How many birds stay?
There are {a} fish in the pond and we catch {b}. How many fish are left?
A farmer has {a} sheep and sells {b}. How many sheep does he have left?
A farmer has {a} cows and {b} run away. How many cows are left?
A box has {a} pencils and I take out {b}. How many pencils are in the box?
A jar holds {a} beans, and I take {b}. How many beans are still in it?
A bag has {a} balls, and {b} of them are blue. How many are not blue?
A shop had {a} cups and sold {b}. How many cups are left?
A baker made {a} rolls and sold {b}. How many rolls are left?
A garden had {a} roses and {b} were cut. How many roses are left?
I have {a} stamps and give my friend {b}. How many stamps do I keep?
I have {a} coins and lose {b}. How many coins do I have?
I had {a} cards and lost {b} in a game. How many cards do I have now?
I got {b} cards and now have {a}. How many did I have before?
I have {a} now, after getting {b}. How much did I have before?
I had {b} marbles and now I have {a}. How many did I get?
The film takes {a} minutes and {b} have passed. How many minutes are left?
I have {a} minutes and need {b}. How many minutes are left over?
It was {a} degrees and got {b} degrees colder. How many degrees is it now?
The day was {a} degrees and the night {b}. How many degrees warmer was the day?
I wrote {a} letters and sent {b}. How many are not sent?
We had {a} tickets and sold {b}. How many tickets are left?
The full bag weighs {a} grams and the things in it {b} grams. What does the empty bag weigh?
The box weighed {a} kg and I took out {b} kg. How much does it weigh now?
There were {a} ml of milk and I drank {b} ml. How many ml are left?
The tank holds {a} liters and {b} are used. How many liters are left?
Together we have {a}. I have {b}. How much do you have?
He has {b} fewer than she does, and she has {a}. How many does he have?
You have {a} and give me {b}. How much do you have left?
What is {a} dollars minus {b} dollars?
How much is {a} euros minus {b} euros?
How much is left of {a} dollars after spending {b}?
How many apples are left if I eat {b} of {a}?
How many people are left if {b} of {a} go home?
How far is it still if I have driven {b} of {a} km?
What is left of {a} euros if I pay {b}?
"""
)
_SUBTRACT_HAND += [
    "{a}\n- {b}\n= ?",
    "{a} - {b}\n=",
    "{a}\n- {b}",
    "Subtract:\n{a} - {b}",
    "Calculate:\n{a} - {b}",
    "Solve:\n{a} - {b} = ?",
    "Question: {a} - {b}\nAnswer:",
    "Q: What is {a} minus {b}?\nA:",
    "1) {a} - {b} = ?",
    "a = {a}\nb = {b}\na - b = ?",
    "Hello,\nwhat is {a} - {b}?",
]

# ---- sums and differences: combined ---------------------------------------------------------------
_RESULT_OPENINGS = _lines(
    """
What is
What's
How much is
Please tell me
Tell us
Can you tell me
Can you give me
Can you find
Can you figure out
Can you please calculate
Could you please compute
Could you please work out
Could you find
Could you figure out
Would you please calculate
Would you work out
Will you tell me
Will you calculate
Do you happen to know
May I know
I'd like to know
I would like to have
I'd like
I have to find
I must know
I must calculate
I am trying to find
I am trying to work out
I was wondering about
I was asked for
Let me know
Let me have
Let me see
Let us find
Let's calculate
Let's work out
Show me
Write down
Say
State
Evaluate
Figure out
Work out
Quickly calculate
Just tell me
Just give me
Please show me
Please figure out
Please determine
Please evaluate
Please let me have
Please let me know
Help me find
Help me calculate
Kindly calculate
Kindly tell me
We need
We want to know
We have to work out
My question is
My homework asks for
The teacher wants
For school I need
"""
)
_ADD_NOUNS = _lines(
    """
{a} + {b}
{a} plus {b}
the sum of {a} and {b}
the total of {a} and {b}
the result of {a} plus {b}
the answer to {a} + {b}
{a} increased by {b}
{a} and {b} added together
{a} and {b} combined
{b} more than {a}
the result of adding {b} to {a}
"""
)
_SUBTRACT_NOUNS = _lines(
    """
{a} - {b}
{a} minus {b}
{a} less {b}
{a} take away {b}
the difference {a} - {b}
the result of {a} minus {b}
the answer to {a} - {b}
{a} reduced by {b}
{a} decreased by {b}
{b} less than {a}
the result of subtracting {b} from {a}
"""
)
_QUESTION_STARTS = ("What", "How", "Can", "Could", "Would", "Will", "Do ", "May")


def _results(nouns):
    return [
        o + " " + n + ("?" if o.startswith(_QUESTION_STARTS) else ".") for o in _RESULT_OPENINGS for n in nouns
    ]


_PEOPLE = ("Tom", "Anna", "Ben", "Lisa", "Sam", "Maria", "My brother", "My friend", "The teacher", "A boy", "A girl",
           "Our neighbor")
_THINGS = ("apples", "oranges", "books", "coins", "stamps", "pencils", "tickets", "dollars", "euros", "points",
           "cards", "balls", "eggs", "sweets", "flowers", "cookies")
_MORE = _lines(
    """
@ has {a} # and gets {b} more. How many # is that now?
@ has {a} #. Then come {b} more. How many # are there?
@ had {a} # and then got another {b}. How many # is that in total?
@ has {a} # and I have {b}. How many # do we have together?
"""
)
_FEWER = _lines(
    """
@ has {a} # and loses {b}. How many # are left?
@ had {a} # and gave away {b}. How many # remain?
@ has {a} #. Then {b} are taken away. How many # are left?
@ has {a} # and I have {b}. How many more # is that than I have?
"""
)


def _stories(patterns):
    return [pattern.replace("@", p).replace("#", t) for pattern in patterns for p in _PEOPLE for t in _THINGS]


ADD = _distinct(_ADD_HAND, _results(_ADD_NOUNS), _stories(_MORE))
SUBTRACT = _distinct(_SUBTRACT_HAND, _results(_SUBTRACT_NOUNS), _stories(_FEWER))

# Already in the older lists, or too near to a line of their development sets.
_LEFT_OUT = {
    "Please tell me the capital of {c}.",
    "Do you know the capital of {c}?",
    "I need the capital of {c}.",
    "I need {c}'s capital city.",
    "I am looking for the capital of {c}.",
    "Let me know the capital of {c}, please.",
    "Name {c}'s capital city for me.",
    "Do you happen to know what the capital of {c} is?",
    "Could you tell me what the capital of {c} is?",
    "Tell me which city is the capital of {c}.",
    "I want to know which city is the capital of {c}.",
    "I forgot what the capital of {c} is.",
    "I have a question about {c}. What is the capital?",
    "Good. What about {c}?",
    "Please tell me the sum of {a} and {b}.",
    "Can you tell me the sum of {a} and {b}?",
    "Could you tell me the sum of {a} and {b}?",
    "I need {a} + {b}.",
    "I need {a} plus {b}.",
    "I need the sum of {a} and {b}.",
    "I need the total of {a} and {b}.",
    "I want to know the sum of {a} and {b}.",
    "What is {a} + {b}?",
    "What is {a} plus {b}?",
    "What is the sum of {a} and {b}?",
    "What is the total of {a} and {b}?",
    "How much is {a} + {b}?",
    "How much is {a} plus {b}?",
    "Could you please work out {a} + {b}?",
    "Will you tell me the sum of {a} and {b}?",
    "Work out {a} plus {b}.",
    "Just tell me the sum of {a} and {b}.",
    "Kindly tell me the sum of {a} and {b}.",
    "Can you tell me what {a} minus {b} is?",
    "Would you tell me what {a} minus {b} is?",
    "I need {a} - {b}.",
    "I need {a} minus {b}.",
    "I need the difference {a} - {b}.",
    "What is {a} - {b}?",
    "What is {a} minus {b}?",
    "What is {a} less {b}?",
    "How much is {a} - {b}?",
    "How much is {a} minus {b}?",
    "Could you please work out {a} - {b}?",
    "Work out {a} minus {b}.",
}
CAPITAL, FOLLOW_UP, ADD, SUBTRACT = (
    [line for line in lines if line not in _LEFT_OUT] for lines in (CAPITAL, FOLLOW_UP, ADD, SUBTRACT)
)
