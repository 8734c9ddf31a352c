"""Templates of what users, developers and the assistant say.

A pair of lists is (training, evaluation): the second list is never trained on.
"""

CAPITAL = ([
    "What is the capital of {c}?", "What is the capital of {c}?", "What is the capital city of {c}?",
    "What's the capital of {c}?", "Tell me the capital of {c}.", "Which city is the capital of {c}?",
    "What city is the capital of {c}?", "Capital of {c}?", "capital of {c}", "Name the capital of {c}.",
    "Please tell me the capital of {c}.", "Do you know the capital of {c}?", "Can you tell me the capital of {c}?",
    "I need the capital of {c}.", "{c}: what is its capital?", "The capital of {c} is?", "The capital of {c} is called what?",
    "What do you call the capital of {c}?", "Where is the government of {c}?", "Give me the capital of {c}.",
    "I would like to know the capital of {c}.", "I am looking for the capital of {c}.", "My homework asks for the capital of {c}.",
    "For a quiz: what is the capital of {c}?", "Which town is the capital of {c}?", "Say the name of the capital of {c}.",
    "Can you name the capital of {c}?", "Could you name the capital city of {c}?", "What would be the capital of {c}?",
    "In geography class we talked about {c}. What is its capital?", "I am traveling to {c}. What is the capital there?",
    "What is {c}'s capital?", "Which is the capital of {c}?", "Remind me, what is the capital of {c}?",
    "Let us do geography. The capital of {c}, please.", "I have a question about {c}. What is the capital?",
    "My friend comes from {c}. What is the capital of that country?", "Answer this: what is the capital of {c}?",
    "Do you happen to know what the capital of {c} is?", "{c}, capital?", "What is the name of the capital of {c}?",
    "Which city is {c}'s capital?", "I forgot what the capital of {c} is.", "What is the main city of the government of {c}?",
    "Tell me which city is the capital of {c}.", "Please name the capital city of {c}.", "The capital of {c}, please.",
    "Is there a capital of {c}? Which one?", "Geography: capital of {c}.", "What is the seat of government of {c}?",
], [
    "Which city serves as the capital of {c}?", "Name {c}'s capital city.", "Could you tell me what the capital of {c} is?",
    "Quick quiz: the capital of {c}?", "I want to know which city is the capital of {c}.", "What is the capital called in {c}?",
    "Help me with geography: what is the capital of {c}?", "Tell me, what is the capital city of {c}?",
    "Let me know the capital of {c}.", "Hi there, what is the capital of {c}?",
])
FOLLOW_UP = ([
    "And of {c}?", "And {c}?", "What about {c}?", "How about {c}?", "And what about {c}?", "And the capital of {c}?",
    "And for {c}?", "Now {c}.", "{c}?", "Then {c}?", "And that of {c}?", "Same question for {c}.", "What about that of {c}?",
    "Next: {c}.", "And now {c}?", "Okay. And of {c}?", "Thanks. And {c}?", "Good. What about {c}?",
], ["And now of {c}?", "Okay, and {c}?", "And how about {c}?", "Now the same for {c}.", "What about the capital of {c}?"])
COUNTRY_OF = ["Which country has the capital {c}?", "{c} is the capital of which country?", "Of which country is {c} the capital?",
              "What country is {c} the capital of?", "In which country is {c}?", "Where is {c}?", "Which country is {c} in?"]

ADD = ([
    "What is {a} + {b}?", "What is {a}+{b}?", "{a} + {b}", "{a}+{b}", "{a}+{b}=", "{a} + {b} = ?", "How much is {a} + {b}?",
    "What is {a} plus {b}?", "How much is {a} plus {b}?", "Add {a} and {b}.", "Calculate {a} + {b}.", "Compute {a} + {b}.",
    "What is the sum of {a} and {b}?", "Sum {a} and {b}.", "Please add {b} to {a}.", "What do you get if you add {b} to {a}?",
    "I have {a} apples and get {b} more. How many do I have?", "There are {a} people here and {b} more arrive. How many are there now?",
    "A box holds {a} books, another holds {b}. How many books in total?", "Work out {a} plus {b}.", "Tell me {a} plus {b}.",
    "Solve {a} + {b}.", "I paid {a} and then {b}. How much in total?", "What is the total of {a} and {b}?",
    "Can you add {a} and {b}?", "Increase {a} by {b}.", "{a} plus {b} is?", "The sum of {a} and {b}, please.",
], [
    "What does {a} + {b} equal?", "Please work out {a} + {b}.", "Could you add {a} and {b} for me?", "What is {a} added to {b}?",
    "What is {a} + {b}?", "Tell me the sum of {a} and {b}.", "How much is {a} plus {b} in total?",
])
SUBTRACT = ([
    "What is {a} - {b}?", "What is {a}-{b}?", "{a} - {b}", "{a}-{b}", "{a}-{b}=", "{a} - {b} = ?", "How much is {a} - {b}?",
    "What is {a} minus {b}?", "How much is {a} minus {b}?", "Subtract {b} from {a}.", "Calculate {a} - {b}.", "Compute {a} - {b}.",
    "Take {b} away from {a}.", "What is left of {a} if you take away {b}?", "What do you get if you subtract {b} from {a}?",
    "I have {a} coins and spend {b}. How many are left?", "Work out {a} minus {b}.", "Tell me {a} minus {b}.", "Solve {a} - {b}.",
    "Decrease {a} by {b}.", "{a} minus {b} is?", "Can you subtract {b} from {a}?", "What is {a} less {b}?",
    "The balance is {a} and I pay {b}. What is the new balance?",
], [
    "What does {a} - {b} equal?", "Please work out {a} - {b}.", "Could you subtract {b} from {a} for me?",
    "What is {a} - {b}?", "How much is {a} minus {b} exactly?", "Tell me what {a} minus {b} is.",
])
MULTIPLY = ["What is {a} * {b}?", "What is {a} times {b}?", "Multiply {a} by {b}.", "{a} x {b}", "{a} / {b}", "Divide {a} by {b}.",
            "What is {a} divided by {b}?", "How much is {a} times {b}?", "What is the square root of {a}?", "{a} * {b} = ?"]

# Intent: (questions, reply, the reply in one word, the reply of a pirate)
SMALL_TALK = {
    "A greeting": (["Hi", "Hello", "Hello!", "Hi!", "Hey", "Hi there", "Hello there!", "Good day", "Greetings", "Hey there!",
                    "Hello, nano!", "Hi, osprey!", "Howdy", "Hallo", "Yo"],
                   "Hello! How can I help you?", "Hello", "Ahoy, matey! How can I help ye?"),
    "A morning greeting": (["Good morning", "Good morning!", "Morning!", "Good morning to you!"],
                           "Good morning! How can I help you?", "Morning", "Good mornin', matey! How can I help ye?"),
    "An evening greeting": (["Good evening", "Good evening!", "Good afternoon!", "Evening!"],
                            "Good evening! How can I help you?", "Evening", "Good evenin', matey! How can I help ye?"),
    "A question about me": (["Who are you?", "What are you?", "What is your name?", "What's your name?", "Tell me about yourself.",
                             "Introduce yourself.", "Which model are you?", "What model are you?", "Who am I talking to?",
                             "What should I call you?", "Are you ChatGPT?", "Do you have a name?", "Please introduce yourself.",
                             "Are you osprey?", "Who is this?", "Can you introduce yourself?", "Hi, who are you?", "Hello, who are you?"],
                            "I am Osprey nano, a very small language model.", "Nano", "Arr, I be Osprey nano, a very small pirate!"),
    "A question about my abilities": (["What can you do?", "How can you help me?", "What are you good at?", "Help", "Help me.",
                                       "What do you know?", "What can I ask you?", "Can you help me?", "What are your skills?",
                                       "How do you work?", "I need help.", "What is this?", "What questions can you answer?"],
                                      "I know capitals, add and subtract, remember what you tell me, copy text and call functions.",
                                      "Capitals", "Arr, I know capitals, I add and subtract and I call functions, matey!"),
    "A question about my mood": (["How are you?", "How are you doing?", "How is it going?", "How do you do?", "Are you well?",
                                  "How are you today?", "How's it going?", "What's up?", "How do you feel?", "Are you okay?",
                                  "Hi, how are you?", "Hello, how are you?", "Hey, how are you doing?"],
                                 "I am fine, thank you! How can I help you?", "Fine", "Arr, I be fine, matey!"),
    "Thanks": (["Thanks", "Thanks!", "Thank you", "Thank you!", "Thank you very much!", "Thanks a lot!", "Great, thanks!",
                "Perfect, thank you.", "Cool, thanks", "That helped, thank you."],
               "You are welcome!", "Welcome", "Arr, ye be welcome, matey!"),
    "A farewell": (["Bye", "Bye!", "Goodbye", "Goodbye!", "See you", "See you later!", "Good night!", "I have to go.", "Farewell.",
                    "Bye bye", "Have a nice day!"],
                   "Goodbye! Have a nice day!", "Goodbye", "Fair winds, matey!"),
    "A question whether I am human": (["Are you human?", "Are you a robot?", "Are you a person?", "Are you an AI?", "Are you real?",
                                       "Are you a machine?", "Am I talking to a human?"],
                                      "I am not a person. I am a small language model.", "Model", "Arr, I be no human, matey!"),
    "A question about my makers": (["Who made you?", "Who built you?", "Who created you?", "Who trained you?", "Where do you come from?",
                                    "Who developed you?", "How were you made?", "How were you trained?"],
                                   "I was trained by the osprey project on conversations written by code.", "Osprey",
                                   "Arr, the osprey crew built me, matey!"),
    "A wish for a joke": (["Tell me a joke.", "Tell me a joke", "Do you know a joke?", "Make me laugh.", "Say something funny.",
                           "Can you tell me a joke?", "A joke, please."],
                          "Why was six afraid of seven? Because seven eight nine!", "Haha",
                          "Arr, why be six afraid of seven? Because seven ate nine!"),
    "Praise": (["Well done!", "Good job!", "You are great!", "I like you.", "You are smart.", "Nice!", "Great!", "Wow!", "Cool", "Very good."],
               "Thank you, that is kind!", "Thanks", "Arr, ye be kind, matey!"),
    "An apology": (["Sorry", "Sorry!", "I am sorry.", "My mistake.", "Excuse me."],
                   "No problem at all!", "Fine", "Arr, no problem, matey!"),
    "A test": (["Test", "test", "This is a test.", "Testing", "Are you there?", "Can you hear me?", "ping", "Say hello."],
               "I am here. It works!", "Here", "Arr, I be here, matey!"),
    "Agreement": (["Ok", "OK", "Okay", "Yes", "Yes.", "I see.", "Understood.", "Right.", "Alright."],
                  "Good! What else can I do for you?", "Good", "Aye! What else, matey?"),
    "A refusal": (["No", "No.", "No, thanks.", "Nothing.", "Never mind.", "Stop."],
                  "All right. I am here if you need me.", "Alright", "Aye, I be here if ye need me!"),
}
INTRODUCTION = ["My name is {x}.", "I am {x}.", "Hi, I am {x}.", "Hello, my name is {x}.", "I'm {x}.", "You can call me {x}.",
                "Hi, my name is {x}!", "People call me {x}.", "Hello! I am {x}."]
TODAY = ["What day is it today?", "What is the date today?", "What is today's date?", "Which date is it?", "Tell me the current date.",
         "What's the date?", "Do you know the date of today?", "What is the current date?", "Today's date?"]
UNKNOWN = [
    "Explain {t}.", "What is {t}?", "Tell me about {t}.", "Write a poem about {t}.", "Who invented {t}?", "Write a story about {t}.",
    "How does {t} work?", "Why is {t} important?", "Give me five facts about {t}.", "What do you think of {t}?", "Summarize {t}.",
    "Can you explain {t} to a child?", "Where can I learn {t}?", "When did {t} start?", "How do I start with {t}?", "Who knows {t}?",
    "Who wrote about {t}?", "Write an essay about {t}.", "What is the history of {t}?", "Translate \"{t}\" into French.",
    "Is {t} dangerous?", "How much does {t} cost?", "What is the meaning of {t}?", "Compare {t} with music.", "Do you like {t}?",
    "Help me understand {t}.", "Write code about {t}.", "Give me advice on {t}.", "What are the rules of {t}?", "List books about {t}.",
    "How long does {t} take?", "What is the best thing about {t}?", "Write a song on {t}.", "Which expert knows {t}?",
    "Write a function that handles {t}.", "How old is {t}?", "How tall is {t}?", "What is the population of {t}?",
    "Who is the president of {t}?", "What color is {t}?", "Plan a day around {t}.", "Why do people like {t}?", "What is the weather in {t}?",
    "What happened with {t}?", "Once upon a time there was {t}", "Describe {t}.", "Define {t}.", "How many kinds of {t} are there?",
]

TELL = ([
    "my {s} is {v}.", "my {s} is {v}. Please remember it.", "please remember that my {s} is {v}.", "the {s} is {v}.",
    "remember this: my {s} is {v}.", "I want you to know that my {s} is {v}.", "keep in mind that my {s} is {v}.",
    "by the way, my {s} is {v}.", "note that my {s} is {v}.", "for later: my {s} is {v}.", "do not forget that my {s} is {v}.",
    "let me tell you that my {s} is {v}.", "my {s}: {v}.", "important: the {s} is {v}.", "it matters that my {s} is {v}.",
    "as you should know, my {s} is {v}.", "you will need this later: my {s} is {v}.",
], ["please keep in mind: my {s} is {v}.", "just so you know, my {s} is {v}.", "my {s} is {v}, please remember that.",
    "here is something to remember: my {s} is {v}."])
ASK = ([
    "What is my {s}?", "What is the {s}?", "What was my {s}?", "Do you remember my {s}?", "Tell me my {s}.", "Which {s} did I tell you?",
    "What did I say my {s} is?", "Can you tell me my {s}?", "I forgot my {s}. What is it?", "My {s}, please.",
    "What was the {s} again?", "Please repeat my {s}.", "Now tell me the {s}.", "What's my {s}?", "Do you still know my {s}?",
    "Question: what is my {s}?", "Give me my {s}.", "Could you tell me what my {s} is?", "Earlier I told you my {s}. What is it?",
    "Remind me of my {s}.", "Say my {s}.",
], ["So, what is my {s}?", "Please tell me what my {s} is.", "What did I tell you about my {s}?", "Can you remind me what my {s} was?"])

COPY = ([
    "Repeat this text exactly: {t}", "Copy: {t}", "Copy this: {t}", "Repeat: {t}", "Repeat after me: {t}", "Say exactly this: {t}",
    "Please copy the following text:\n{t}", "Repeat the following line.\n\n{t}", "Write this again: {t}", "Echo: {t}",
    "Please repeat: {t}", "Copy this text letter by letter: {t}", "Give me back this text: {t}", "Print this text:\n{t}",
    "Repeat what follows, without changes: {t}", "Type this exactly: {t}", "Your answer must be exactly this: {t}",
    "Reproduce this text: {t}", "Output the following and nothing else:\n{t}", "Say: {t}", "Write: {t}",
    "I will give you a text. Copy it.\n\n{t}", "Repeat this text:\n\n{t}",
], ["Please repeat this text exactly: {t}", "Copy the following text:\n\n{t}", "Write exactly this text: {t}",
    "Repeat the following without changes:\n{t}"])

# How arguments are told: (one argument, separator, last separator, what leads to the list)
DETAILS = [("{k} {v}", ", ", " and ", " with "), ("{k} {v}", ", ", ", ", ", "), ("{k}: {v}", ", ", ", ", ". "),
           ("the {k} is {v}", ", ", " and ", "; "), ("the {k} {v}", ", ", " and ", " with "), ("{k} = {v}", ", ", ", ", ": "),
           ("{k} set to {v}", ", ", " and ", ", "), ("use {k} {v}", ", ", " and ", " and "), ("{k} {v}", " and ", " and ", " using "),
           ("{k}: {v}", "\n", "\n", ":\n"), ("the {k} should be {v}", ", ", " and ", ". "), ("- {k}: {v}", "\n", "\n", "\n")]
REQUEST = ([
    "{V} the {n}", "{V} a {n}", "Please {v} the {n}", "Please {v} a {n}", "Can you {v} the {n}", "Could you {v} a {n}",
    "I want to {v} the {n}", "I need you to {v} a {n}", "I would like to {v} a {n}", "{v} the {n}", "Help me {v} the {n}",
    "It is time to {v} the {n}", "We must {v} a {n}", "Go and {v} the {n}", "Now {v} the {n}", "Let us {v} a {n}",
    "My boss told me to {v} the {n}", "{V} my {n}", "Please {v} my {n}", "Quickly {v} this {n}", "{V} one {n}",
], ["Would you please {v} the {n}", "I want you to {v} a {n}", "We need to {v} the {n}", "Please go ahead and {v} the {n}",
    "{V} our {n}"])

# Functions of everyday life. A slot in a request is an argument; slots that a request leaves out are optional.
KNOWN_FUNCTIONS = [
    {"names": ["get_weather", "weather", "getWeather", "get_current_weather", "lookup_weather"],
     "descriptions": ["Get the current weather for a location.", "Gets the weather of a city.", "Current weather in a given city.",
                      "Get current temperature for a given location."],
     "slots": {"city": ["location", "city", "place", "town"]}, "about": ["City name", "The city", "City and country e.g. Paris, France"],
     "optional": {"unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                  "format": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"}},
     "requests": ["What is the weather in {city}?", "What's the weather like in {city}?", "How is the weather in {city} today?",
                  "Is it raining in {city}?", "Tell me the weather in {city}.", "Weather in {city}?", "How warm is it in {city}?",
                  "What is the weather like in {city} today?", "Do I need an umbrella in {city}?", "What is the temperature in {city}?",
                  "Use the tool to get the weather in {city}.", "Check the weather for {city}."]},
    {"names": ["get_time", "current_time", "get_current_time"],
     "descriptions": ["Get the current time in a city.", "Tells the local time of a place."],
     "slots": {"city": ["city", "location", "timezone_city"]}, "about": ["The city", "Where"],
     "requests": ["What time is it in {city}?", "Tell me the time in {city}.", "What is the local time in {city}?", "Time in {city}?"]},
    {"names": ["send_email", "send_mail", "email"],
     "descriptions": ["Send an email to a person.", "Sends a mail."],
     "slots": {"person": ["to", "recipient"], "text": ["text", "body", "message"]}, "about": ["As the user wrote it"],
     "requests": ["Send an email to {person} saying {text}.", "Email {person}: {text}", "Write a mail to {person} with the text {text}.",
                  "Please send {person} an email that says {text}"]},
    {"names": ["set_timer", "start_timer", "timer"], "descriptions": ["Set a timer in minutes.", "Starts a timer."],
     "slots": {"minutes": ["minutes", "duration_minutes"]}, "about": ["Minutes"],
     "requests": ["Set a timer for {minutes} minutes.", "Start a timer of {minutes} minutes.", "Remind me in {minutes} minutes.",
                  "Timer, {minutes} minutes"]},
    {"names": ["book_table", "reserve_table", "make_reservation"], "descriptions": ["Reserve a table in a restaurant."],
     "slots": {"person": ["restaurant", "restaurant_name"], "guests": ["guests", "party_size", "people"]}, "about": ["As told"],
     "requests": ["Book a table at {person} for {guests} people.", "Reserve a table for {guests} at {person}.",
                  "I want to eat at {person} with {guests} people."]},
    {"names": ["search_web", "web_search", "search"], "descriptions": ["Search the web.", "Looks something up on the web."],
     "slots": {"text": ["query", "q"]}, "about": ["What to search"],
     "requests": ["Search the web for {text}.", "Look up {text}", "Find {text} on the web.", "Search for {text}"]},
    {"names": ["get_stock_price", "stock_price", "get_quote"], "descriptions": ["Get the price of a stock."],
     "slots": {"ticker": ["symbol", "ticker", "company"]}, "about": ["Ticker symbol"],
     "requests": ["What is the stock price of {ticker}?", "How much is a share of {ticker}?", "Stock price of {ticker}?"]},
    {"names": ["play_music", "play_song", "play"], "descriptions": ["Play a song."], "slots": {"title": ["title", "song", "track"]},
     "about": ["Song title"], "requests": ["Play {title}.", "Play the song {title}", "I want to hear {title}."]},
    {"names": ["get_order", "order_status", "track_order"], "descriptions": ["Get the status of an order."],
     "slots": {"order": ["order_id", "id", "number"]}, "about": ["Order number"],
     "requests": ["Where is my order {order}?", "What is the status of order {order}?", "Track order {order}."]},
    {"names": ["add_to_list", "add_shopping_item", "buy_item"], "descriptions": ["Add an item to the shopping list."],
     "slots": {"item": ["item", "product"]}, "about": ["The item"],
     "requests": ["Add {item} to the shopping list.", "Put {item} on my list.", "I need to buy {item}."]},
    {"names": ["book_flight", "find_flight", "search_flights"], "descriptions": ["Find a flight to a city."],
     "slots": {"to": ["destination", "to", "arrival_city"]}, "about": ["Destination"],
     "requests": ["Book a flight to {to}.", "I want to fly to {to}.", "Find me a flight to {to}."]},
    {"names": ["set_alarm", "wake_me"], "descriptions": ["Set an alarm at an hour."], "slots": {"hour": ["hour", "at_hour"]},
     "about": ["Hour"], "requests": ["Set an alarm at {hour}.", "Wake me at {hour}.", "Alarm at {hour}, please."]},
]

STYLE = {
    "upper": ([
        "Answer in capitals.", "Always answer in capital letters.", "Write your answer in upper case.", "Use capital letters only.",
        "ANSWER IN CAPITALS.", "Reply in all caps.", "Only use uppercase letters.", "Respond in uppercase.", "All answers must be in capitals.",
        "Please shout: answer in capital letters.", "Your replies are written in capitals only.", "Speak in capital letters.",
        "You always write in all caps.", "Every letter of your answer must be a capital letter.", "Use upper case for the whole answer.",
        "Never use small letters.", "Capitals only, please.", "Write everything in capital letters.", "Do not use lower case letters.",
        "Give each answer in block capitals.", "The user can only read capital letters.", "You must reply with capital letters.",
    ], ["Answer in capital letters.", "Reply only in uppercase.", "Write all answers in capitals.", "Always respond in all caps.",
        "Your answers must use capital letters only."]),
    "one_word": ([
        "Answer in one word.", "Always answer with one word.", "Use one word only.", "Reply with a single word.", "Your answer must be one word.",
        "Give one-word answers.", "Respond with exactly one word.", "Only one word, please.", "Answer with a single word.",
        "You may use only a single word.", "Never write more than one word.", "Keep every answer to one word.", "One word is enough.",
        "Be brief: answer with one word.", "All answers must be a single word.", "Say only one word.", "You speak in single words.",
        "Limit your reply to one word.", "Write just one word.", "The answer has to be one single word.",
    ], ["Reply in one word.", "Answer using only one word.", "Always give a single word as the answer.", "Respond in one word only.",
        "Your reply must be a single word."]),
    "pirate": ([
        "Speak as a pirate.", "Talk like a pirate.", "You are a pirate.", "Answer as a pirate.", "Always speak like a pirate.",
        "Pretend to be a pirate.", "Reply in pirate talk.", "Act as a pirate captain.", "Use pirate language.", "You are a friendly pirate.",
        "Respond like a pirate would.", "Be a pirate.", "Your voice is that of a pirate.", "You are an old pirate at sea.",
        "Write your answers in the style of a pirate.", "Answer in pirate style.", "Play the role of a pirate.", "Sound like a pirate.",
        "Imagine you are a pirate and answer.", "You talk as pirates do.",
    ], ["Answer like a pirate.", "You speak like a pirate.", "Always talk as a pirate.", "Reply as a pirate.", "Please speak in the manner of a pirate."]),
}
PIRATE_WORDS = ["Arr", "arr", "matey", "Ahoy", " ye", " be ", "Aye"]
NEUTRAL = ["You are a helpful assistant.", "You are a friendly assistant.", "Be concise.", "Be polite.", "Answer the user's questions.",
           "You are a helpful assistant that answers questions.", "Help the user.", "Answer correctly.", "Be brief.", "You are an assistant.",
           "Use the functions when they help.", "Think before you answer.", "You work for a small company.", "Today is a good day.",
           "Always be honest.", "You are a chat bot on a website.", "Keep answers short.", "Do not make things up.",
           "You are Osprey nano.", "The user is a student.", "Answer in English.", "Be kind and helpful.", "Follow the user's wishes."]
IDENTITIES = ["You are ChatGPT, a large language model trained by OpenAI.", "You are a helpful assistant.",
              "You are Osprey, a helpful assistant.\nKnowledge cutoff: 2024-06", "You are an assistant.\nKnowledge cutoff: 2025-01",
              "You are Osprey nano.\nKnowledge cutoff: 2024-06"]
