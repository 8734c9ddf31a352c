"""Further training templates: sums and differences without stories, facts, questions for them, and the rest.

Lines with choices as in choices.py. Every wording of SUBTRACT means {a} - {b}.
"""

from choices import expanded

ADD = expanded(
    """
[What|Which] number [is|lies] {b} [above|past|beyond|higher than|greater than|larger than|bigger than] \
{a}?
[What|Which number] [do I|do we|does one|will I] [reach|get to|arrive at|land on] [if I count|counting|\
when counting] [on|up|forward] {b} from {a}?
[Starting|Beginning] [at|from|with] {a} and [counting|going|moving|stepping] [up|forward|on] [by|] {b}, \
where [do I|do we|does one] [end|land|arrive|stop]?
[Count|Go|Move] [on|up|forward] {b} from {a}. [Where are you|What is the number|Where do you land|What \
do you reach]?
[Raise|Increase|Lift|Bump|Boost|Push] {a} [up|] by {b}. [What is it now|What comes out|What do I get|The \
result, please|How much is that]?
[Raising|Increasing|Lifting|Boosting] {a} by {b} [gives|makes|yields|leads to] [what|which number|how \
much]?
If {a} [goes up|grows|rises|increases|climbs|is raised|is increased] by {b}, [what is it then|what do we \
get|how much is it|what comes out]?
{a} [goes up|grew|rises|climbs] by {b}. [What is it now|How much is it then|New value]?
{b} on top of {a} [is|makes|gives] [what|how much|how many]?
[Put|Pile|Lay|Stack] {b} on top of {a}. [What is the total|How much is it|How many is that|What do you \
get]?
[How much|What] is {b} on top of {a}?
{a} and then {b} [more|on top|extra|besides] [is|makes|gives] [what|how much|how many]?
[What|How much] is {a} [with|and] [an extra|another|a further|an additional] {b}?
[Take|Pick] {a} and [put|place|lay] {b} [to it|with it|beside it|next to it]. [How much is that together|\
What is the total|Total]?
[Combine|Join|Unite|Merge|Pool] {a} and {b} [into one number|]. [What do you get|What is it|How much is \
that|Result]?
[What|How much] do {a} and {b} [come to|amount to|total|add up to|sum to|make] [together|in all|\
altogether|]?
{a} and {b} [combined|together|in total|all in all|summed] [is|are|makes|make] [what|how much]?
The [two numbers|values|figures|terms] are {a} and {b}. [Add them|Sum them|What is their sum|Give the \
total|What do they make].
[Add|Sum|Total] the [pair|two numbers|figures|values] {a} and {b} [for me|please|].
[Numbers|Values|Terms]: {a} and {b}. [Task: add|Operation: plus|Operation: addition|Wanted: their sum|\
Find the total].
[Addition|Plus task|Sum]: {a}, {b}.
[First|Left] [number|term] {a}, [second|right] [number|term] {b}. [Sum|Total|Add them]?
Operands {a} and {b}, [operator plus|operation add|add them|sum wanted].
add({a}, {b})
sum({a}, {b}) [=|gives|returns] [?|what?]
plus {a} {b}
{a} [+|plus] {b} [comes to|amounts to|results in|yields|gives|equals|makes] [what|which number|how much]?
[x|y|n|z] = {a} + {b}. [What is|Find|Give me|Tell me] [the value|its value].
If x is {a} and y is {b}, what is x + y?
If x = {a}, what is x + {b}?
[What|Which number] must I [write|put|enter] [after|behind] the equals sign in {a} + {b} = ?
[Fill in|Complete]: {a} + {b} = __
[Complete|Finish] the equation {a} + {b} =
[What|Which number] minus {b} [is|gives|makes] {a}?
From which number do I take {b} to [get|have|reach] {a}?
[What|Which number] is {b} more than {a}, [please|if I may ask|do you know|can you say]?
[Give|Name|Say|Write|Tell me] the number that is {b} [more|larger|higher|greater] than {a}.
[Give|Name|Tell me|Work out] what {a} [becomes|turns into|grows to] [after adding|when I add|once you \
add|if we add] {b}.
What does {a} [become|grow to|turn into] [after adding|when you add|once I add|with] {b} [to it|added to \
it|]?
[To|Onto] {a} [add|put] {b}. [Then tell me the number|What is it now|What comes out|Result].
[Begin|Start] [with|from|at] {a}, [put in|throw in|tack on|include] {b}. [How much is it|What is the \
total|What do I have]?
[Enlarge|Extend|Augment|Top up] {a} by {b} [and tell me the result|and give the number|. What is it \
then?|, please.]
[Adding|Putting] {b} [and|to|together with] {a} [makes|gives|yields] what?
When {b} is [put to|added onto|joined to] {a}, [what is the result|what comes out|which number is it|\
what do we see]?
[Work|Figure|Reckon] out [what|how much] {a} and {b} [are|make|give] [together|in sum|in total].
[Say|Tell me|Let me know] how [much|many] {a} and {b} [make|are|come to] [together|in total|altogether].
[I add|We add|They add] {a} and {b}. [What comes out|What is the result|What is the answer|Answer]?
[My|The] [calculator|phone|abacus] is [broken|gone|dead]: [what is|how much is|give me|I need] {a} + {b}?
[Without paper|In your head|Mentally]: {a} [plus|and|+] {b} [is what|makes what|, how much]?
[Check|Test] my [sum|math|homework]: {a} plus {b} should be [what|how much]?
[Total|Tally|Reckon|Count] up {a} and {b}[.|, please.| for me.| now.]
[Running total|Subtotal|Balance]: {a}. [Add|Plus|Now comes] {b}. [New total|Total now|What is it now]?
[Twenty|Ten] seconds on the clock: what is {a} plus {b}?
[A sum|Addition] for [you|a clever mind|the machine]: {a} and {b}[.|, what is it?|, go.]
[The answer to|The solution of|The value of|The outcome of] {a} + {b} [is what|please|, quickly|?]
[How far up|How high] do I get [when|if] I climb {b} from {a}?
[What is|Give me|Name] the [amount|figure|quantity] of {a} [increased|raised|enlarged|augmented] by \
{b}[?|, please.]
[plus|add] {b} to {a} [then|now|] [what|answer]?
{b} [joins|is joined to|comes to] {a}. [What is the sum|Sum|Total]?
{b} [higher|more|up|greater] than {a} [is what number|is what|is how much|, what is it]?
""",
    20,
)
SUBTRACT = expanded(
    """
[What|Which] number [is|lies] {b} [below|under|lower than|smaller than|beneath|before] {a}?
[What|Which number] [do I|do we|does one|will I] [reach|get to|arrive at|land on] [if I count|counting|\
when counting] [back|down|backwards] {b} from {a}?
[Starting|Beginning] [at|from|with] {a} and [counting|going|moving|stepping] [down|back|backwards] [by|] \
{b}, where [do I|do we|does one|would I] [end|land|arrive|stop]?
[Count|Go|Move] [back|down|backwards] {b} from {a}. [Where are you|What is the number|Where do you land|\
What do you reach]?
[Lower|Reduce|Decrease|Cut|Drop|Shrink|Diminish] {a} [down|] by {b}. [What is it now|What comes out|What \
do I get|The result, please|How much is that]?
[Lowering|Reducing|Decreasing|Cutting] {a} by {b} [gives|makes|yields|leads to] [what|which number|how \
much]?
If {a} [goes down|shrinks|falls|decreases|drops|is lowered|is reduced] by {b}, [what is it then|what do \
we get|how much is it|what comes out]?
{a} [goes down|shrank|falls|sinks] by {b}. [What is it now|How much is it then|New value]?
[Take|Knock|Cut|Strike|Lop] {b} off {a}. [What is the result|How much is it|How many is that|What do you \
get|What remains]?
[How much|What] is {a} [with {b} off|after {b} off|when {b} is off|less a {b}]?
[What|How much] does {a} [become|turn into|shrink to|change to|fall to] [after you take away|when you \
take off|once I remove|if we take off|after taking off|without] {b}?
[What|How much] [remains|is left|stays|is still there] of {a} [when|if|after|once] {b} [is taken off|is \
removed|is gone|goes away|is cut off|is used up]?
[What|How much] is left [when|if|after|once] [you remove|I take|we take out|one takes off|you deduct] \
{b} [from|out of] {a}?
[Out of|From] {a}, [remove|take|drop|pull|strike|throw out] {b}. [What is left|How much is that|How many \
remain|What remains|How many is it|Result]?
[Out of|From] {a} I [remove|take|drop|pull|lose] {b}. [What is left|How much is it|How many remain|What \
do I have]?
[Remove|Withdraw|Deduct|Strip|Drop|Erase] {b} [from|out of] {a}. [What is left|How much is that|How many \
remain|What do you have|Answer]?
By how much [does|will|would] {a} [exceed|surpass|top|beat|outdo] {b}?
By how much is {a} [more|larger|greater|bigger|higher] than {b}?
How much [more|larger|greater|bigger|higher] is {a} than {b}?
How much [less|smaller|lower] is {b} than {a}?
How far is {a} above {b}?
How far is {b} below {a}?
[What|How much] must I add to {b} to [get|reach|have|arrive at] {a}?
[What|How much] is [missing|needed|lacking] from {b} to {a}?
[What|Which number] plus {b} [is|gives|makes] {a}?
{b} plus what [is|gives|makes] {a}?
How [many|much] [do I need|is needed|must I add] to [get|come|go] from {b} up to {a}?
[What|How big|How large] is the [gap|distance|step|way] from {b} up to {a}?
{a} [without|less|minus|except|with a loss of] {b} [is|makes|gives|leaves] [what|how much|how many]?
Taking {b} [off|away from|out of|from] {a} [leaves|gives|makes|yields] [what|how much|which number]?
{b} off {a} [is|makes|leaves|gives] [what|how much|which number]?
{b} [out of|off|from] {a}, what [is left|remains|stays]?
The [first number|top number|bigger part|starting value] is {a}, [take away|subtract|deduct|remove] {b}. \
[What is the result|What is left|Answer]?
[Minuend|Start|Whole|Stock] {a}, [subtrahend|minus|part taken|loss] {b}. [Difference|What is left|Result]?
[Numbers|Values]: {a} and {b}. [Task: subtract the second from the first|Operation: minus|Operation: \
first minus second|Take the second from the first].
[Subtraction|Minus task|Difference]: {a}, {b}.
subtract({a}, {b})
minus {a} {b}
{a} [-|minus|take away] {b} [comes to|amounts to|results in|yields|gives|equals|makes|leaves] [what|\
which number|how much]?
[x|y|n|z] = {a} - {b}. [What is|Find|Give me|Tell me] [the value|its value].
If x is {a} and y is {b}, what is x - y?
If x = {a}, what is x - {b}?
If x + {b} = {a}, what is x?
Solve x + {b} = {a}[.| for x.|, what is x?]
[What|Which number] must I [write|put|enter] [after|behind] the equals sign in {a} - {b} = ?
[Fill in|Complete]: {a} - {b} = __
[Complete|Finish] the equation {a} - {b} =
[Give|Name|Say|Write|Tell me] the number that is {b} [less|smaller|lower] than {a}.
[Give|Name|Tell me|Work out] what {a} [becomes|turns into|shrinks to] [after losing|when I remove|once \
you take off|if we deduct] {b}.
[Begin|Start] [with|from|at] {a}, [take out|throw out|pull off|leave out] {b}. [How much is it|What is \
left|What do I have|Where do I end up]?
When {b} is [taken out of|removed from|deducted from|pulled from] {a}, [what is the result|what is left|\
which number is it|what remains]?
After {b} is [taken off|removed from|deducted from|withdrawn from] {a}, [what is the result|what is left|\
what remains|how much is there]?
[Work|Figure|Reckon] out [what|how much] [is left of {a} without {b}|{a} without {b} is|remains of {a} \
after {b}|{a} less {b} makes].
[Say|Tell me|Let me know] how [much|many] [{a} take away {b} is|is left of {a} after {b} goes|{a} \
without {b} leaves].
I [subtract|deduct|remove|take off] {b} from {a}. [What comes out|What is the result|What is left|Answer]?
[My|The] [calculator|phone|abacus] is [broken|gone|dead]: [what is|how much is|give me|I need] {a} - {b}?
[Without paper|In your head|Mentally]: {a} [minus|take away|-] {b} [is what|makes what|, how much]?
[Running total|Subtotal|Balance]: {a}. [Subtract|Minus|Take off] {b}. [New total|Total now|What is it \
now]?
[A difference|Subtraction] for [you|a clever mind|the machine]: {a} minus {b}[.|, what is it?|, go.]
[The answer to|The solution of|The value of|The outcome of] {a} - {b} [is what|please|, quickly|?]
[How far down|How low] do I get [when|if] I [climb|go] down {b} from {a}?
[What is|Give me|Name] the [amount|figure|quantity] of {a} [decreased|lowered|reduced|diminished|cut] by \
{b}[?|, please.]
{b} [lower|less|down|smaller] than {a} [is what number|is what|is how much|, what is it]?
The difference between {a} and {b}, [meaning|that is|I mean|so] {a} - {b}, [is what|how much is it|\
please]?
[What|How large] is the difference [when|if] {b} is [taken|subtracted] from {a}?
[The rest|What stays|The remainder], [if {b} of {a} go|after {b} of {a} are used|when {b} of {a} \
vanish], is what?
Of {a}, {b} [go away|are taken|are lost|fall away]. [How many stay|What is left|The rest]?
""",
    20,
)
ASK = expanded(
    """
How did I [describe|call|name|give|state|put|phrase] my {s} [earlier|before|to you|a while ago|at the \
start|]?
How did I [describe|state|give|put] my {s}? [I need it now|I want to use it|Tell me|I lost it|I have to \
write it down].
[What|Which] did I [call|name|list|give|mention|set|declare] as my {s} [earlier|before|at the beginning|]?
What [have I|had I] [named|given|told you|stated|mentioned|listed|described|called] as my {s} [so far|\
before|earlier|]?
[In what words|With which word|In which way] did I [give|tell|describe] you my {s}?
[What|Which value] did you [note|store|save|keep|write down|learn|hear] [for|as] my {s}?
What was it that I [told you|said|mentioned|wrote] [about|as|for] my {s}?
[Describe|State|Quote|Cite|Give] my {s} [the way I did|as I told you|as I gave it|just as I said it].
My {s} [came up|was mentioned|was told|appeared] [earlier|before|above]. [What was it|Say it|I need it \
again|Repeat it, please].
I [described|gave|told you|named|mentioned|stated] my {s} [before|earlier|above|at some point]. [What \
was it|Which was it|Say it again|How did it go].
[Scroll|Go|Look|Think] [up|back] and [find|give me|read me|fetch] my {s}.
[If you remember|If you can|If you still know|If you kept it], [what is|tell me|say|give me] my {s}.
[Surely|Certainly|Hopefully] you [remember|know|kept|noted] my {s}. [What is it|Which is it|Tell me].
The {s} [of mine|I told you|I mentioned|I gave you], [what was it|which was it|how did it go|what is it]?
[I need|I want|I would like|I am looking for|I require] my {s} [again|back|once more|right now], [can \
you give it|please|so say it|if you have it].
[Which|What] {s} [is mine|did I mention|did I give|have I told you|belongs to me|did I describe]?
[A form|The website|An official|My boss|The man at the desk] [asks|wants to know|needs] my {s}. What do \
I [answer|write|say|put]?
[Memory test|Little test|Quiz for you|Let us check your memory]: my {s}?
[Have you|Did you] [kept|noted|stored|remembered|forgotten] my {s}? [Then say it|What is it|Tell me].
[Do you recall|Can you recall|Could you recall|Would you recall] [what my {s} is|my {s}|what I called my \
{s}|how I described my {s}]?
[What am I to|What should I|What do I] [enter|type|write|say|put] [for|as|under|next to] my {s}?
[Tell|Remind|Inform] me what [I said my {s} was|my {s} is called|I told you about my {s}|you know of my \
{s}|I named as my {s}].
[Complete|Finish|Continue]: "My {s} is
My {s} [was|is] ... [what|what again|which one|help me]?
[You were told|You have heard|You got|I gave you] my {s}. [Which is it|Out with it|What is it|Let me \
hear it].
[Let me hear|Let me see|Show me|Read out|Hand me|Pass me|Spell out|Recall|Retrieve|Fetch] my {s}[.|, \
please.| again.| now.]
[What|Which] is the {s} that [I told you|I gave you|I described|you noted|I mentioned|I shared]?
[According to me|From my words|By what I told you|In my own words], what [is|was] my {s}?
[I can not think of|I no longer know|I do not have|I have lost|It escapes me, I mean] my {s}. [What is \
it|Help|Can you say it|What did I tell you]?
[So|And|Now], how did I [call|name|describe|give] my {s}?
what did i [call|name|say was|give as|list as|put as] my {s}
""",
    16,
)
TELL = expanded(
    """
[let it be known|be aware|take note|know|understand|realize|bear in mind|keep in memory|store|register] \
that my {s} is {v}.
[to be clear|for your files|for your notes|as a reminder|for reference|in short|first of all|to begin \
with|for later use|by the by], my {s} is {v}.
I [describe|call|name|give|state|declare] my {s} as {v}.
I [would like|want|wish|need|ask] you to [note|keep|remember|store|save|know|learn] that my {s} is {v}.
[you can|you may|you should|you must|please] [note|write|save|store|put] {v} [as|for|under] my {s}.
my {s} [is now|has become|was set to|reads|is simply|is actually|will stay|remains|equals] {v}.
{v} [is what I have as|is what I call|is the value of|happens to be|is now|is and stays|was chosen as] \
my {s}.
[when I ask for|if I ask about|should I need|whenever I want] my {s}, [say|answer|it is|tell me|\
remember] {v}.
[I chose|I picked|I use|I took|I have|I set|they gave me] {v} [as|for] my {s}.
[a fact|a detail|a note|information|some data|a small thing|a secret] [about me|for you|to keep|]: my \
{s} is {v}.
my {s} is {v}. [I will need it again|I may ask for it|Keep it safe|Hold it in mind|Write it down|Got it?|\
That matters|This is a fact|More later].
[store|save|keep|remember|note|record|memorize] [this|the following|it]: {s} is {v}.
[store|save|keep|remember|note|record|memorize] [{v} as my {s}|my {s}, {v}|my {s}, which is {v}|the {s} \
{v}].
[my {s}, for the protocol, is|my {s}, as of today, is|my {s}, if you ask me, is|my {s}, by the way, is|\
my {s}, as it happens, is] {v}.
[people|others|my friends|they|the others] [know|remember|were told] that my {s} is {v}[.|, and now you \
do too.| and so should you.]
[do you know|have I said|did I mention|have you heard|did I tell you] that my {s} is {v}?
[I can tell you|I can say|I confirm|I am telling you|I am sure|I found out|I decided|I want to add|I may \
add|I admit] that my {s} is {v}.
[the {s} of mine|the {s} I have|the {s} that is mine|the {s} I told nobody] is {v}.
[entry|field|key|item]: {s}, [value|content|entry]: {v}.
[you asked for my {s}, it is|about the {s}, mine is|speaking of my {s}, it is|concerning my {s}, it is|\
regarding my {s}, it is] {v}.
""",
    60,
)
FOLLOW_UP = expanded(
    """
Do {c} [too|next|as well|also|now|please].
{c} [next|too|now|then|as well|also|please|as another one][.|, please.]
[Can|Could|Would|Will] you [do|answer|say|take|tell me] {c} [next|too|as well|now|also]?
[Now|Next|Then] [do|take|try|answer|comes|it is] {c}.
[And|So] [if I say|if it is|if I take|if I ask for|should I ask for] {c}?
[Let us|Let me] [take|try|do|ask for|go on with|continue with|hear] {c} [next|now|].
[The same|Same thing|Same again|That one], but [for|with|of] {c}.
[What|Which] [is it|would it be|city is it|one is it|city] [in|for|with] {c} [then|instead|]?
[And in|And with|And that for|And the one of|And the city for|And what is] {c}['s|]?
[Fine|Right|Nice|Perfect|Cool|Wow|Super|Correct|Great], [{c} next|now {c}|do {c} now|and with {c}|on to \
{c}].
[On to|Moving on to|Over to|Continue with|Go on with|Proceed to|Switch to] {c}.
[I also need|I also want|I would also like|Give me also|Tell me also|Add] {c}['s| too|, please].
[Another|One more|A further one|The next one|A last one|The third]: {c}.
[Replace|Swap|Change] [that|the country|it] [by|for|with|to] {c}.
[You know|Do you have|Got] {c}['s| too| as well], [right|yes|correct]?
""",
    24,
)
REQUEST = expanded(
    """
[I ask you to|I beg you to|I urge you to|I need help to|I am about to|I am supposed to|I plan to|I \
intend to|I wish to|I aim to|I hope to] {v} [the|my|this|a] {n}
[Could somebody|Can someone|Would anyone|Can the assistant|Might you|Could you kindly|Can you quickly|\
Would you quickly] {v} [the|my|this|that] {n}
[Get ready to|Be sure to|Do not forget to|Remember to|Do not wait to|Try to|Manage to|See to it and|Come \
on and|Step in and] {v} [the|my|this|our] {n}
[It is necessary to|It is important to|It is urgent to|It would be good to|It would be nice to|I find it \
useful to|The plan is to|The goal is to|The job is to|The order is to] {v} [the|this|our] {n}
[My colleague|My teacher|My wife|The manager|Our team|The office|My client|The director] [needs me to|\
wants us to|asks you to|told us to|would like to|expects you to] {v} [the|this|a] {n}
[With your tools|With a function|By a call|Using what you have|With the right tool], {v} [the|my|this] {n}
[Once again|Right now|As soon as you can|Before lunch|Immediately|Without delay|If you can|When you are \
free|For today's work], {v} [the|my|this] {n}
{V} [the|my|this|that] {n} [for us|for my team|for the client|as agreed|as planned|as usual|like last \
time|at once|on my behalf|without delay]
[How about you|Why do you not|Why not|What if you|Suppose you] {v} [the|my|this] {n}
[Thanks in advance if you|I am grateful if you|It helps if you|I am happy when you|I would love it if \
you could|It would be great if you could] {v} [the|my|this] {n}
[Assistant|Nano|Computer|Robot|Friend|Buddy|Sir], [please|] {v} [the|my|this] {n}
[Command|Order|Job|To do|Action|Wish|Ticket]: {v} [the|my|this|a] {n}
[You are to|You have to|You need to|You shall|You are asked to|You are allowed to] {v} [the|my|this] {n}
[I cannot|I forgot to|I have no time to|I never managed to|I am too busy to] {v} [the|my|this] {n}, \
[please do it|so you do it|can you|do it for me]
""",
    32,
)
CAPITAL = expanded(
    """
[Which|What] city [do you get|comes to mind|should I name|must I name|do I write down] as [the|] capital \
of {c}?
[If someone asks|When they ask|Should anyone ask] for the capital of {c}, what [is the answer|do I say|\
should I reply]?
[On|In] the [exam|quiz|worksheet|form] it says "capital of {c}". [What goes there|What do I write|What \
is right]?
[The embassy|The president|The government|The ministry] of {c} [sits|works|is] in [the capital|its \
capital]. Which city is [that|it]?
[Fill|Put] in: {c} has the capital [___|...|____].
[Finish|Complete] the [line|phrase]: {c}, whose capital is
[Flashcard|Card|Clue|Keyword|Entry]: {c}. [The capital|Capital city|Its capital|Name the capital]?
[I have to|I should|I want to|I would like to] [learn|memorize|look up|write down] the capital of {c}[.|\
, which is it?|. Help me.]
[My|Our] [teacher|son|boss|neighbour|guide] [asked|asks|wants to know] [which city is the capital of {c}|\
what {c}'s capital is|the capital of {c}].
[We|They|I] [argue|wonder|talk|disagree] about the capital of {c}. [Which one is it|What is it|Which \
city is right]?
[Tourists|Visitors|Diplomats|Ministers] in {c} [go to|fly to|meet in] the capital. [What is it called|\
Which city is it|Its name]?
[Pick|Choose|Give|Name] the city that is [the|] capital [in|of] {c}.
[Capital|Capital city], {c}[?|.|, please.| - go.]
[Would you|Will you|May I ask you to|Can I ask you to] [say|name|write|give] the capital [of|for] {c}[?|\
, please?]
[Which|What] [is|was] [again|once more] the capital of {c}?
[Between all its cities|Of all cities|Among the cities], which is [the capital of {c}|{c}'s capital]?
[As a|For a] [traveler|student|tourist|beginner], [what is|tell me|I need] the capital of {c}.
[Where would I be|Which city am I in] if I [stood|am] in the capital of {c}?
""",
    20,
)
COPY = expanded(
    """
[Hand|Give|Pass|Throw|Send] [this|the text|these words] back [to me|] [as is|untouched|exactly|as it \
stands]: {t}
[Copy out|Write out|Type in|Put down|Set down] [this|the text|the words] [untouched|as it stands|sign by \
sign|with no edits]:\\n{t}
{t}\\n\\n[Now you|Say that back|Give me that again|Write that again|The same again, please|Hand it back \
as is|Repeat that, sign by sign].
{t}\\n[The text above, again|Again, please|Copy the above|Echo the above|Duplicate the above, no edits|\
Say the line above].
[The text|The message|The line] to [copy|repeat|echo|return] is: {t}
[What follows|The rest of this message|The text after the colon] [is to be|must be|should be] [copied|\
repeated|returned] [as is|unchanged|exactly]: {t}
[Act as|Be|Play] [a parrot|an echo|a copy machine|a mirror]: {t}
[I say it, you repeat it|Listen and repeat|After me|Same words, please|My words, your answer]: {t}
[Nothing else, just|Only|Merely] [copy|repeat|echo|return] [this|these words|this line]: {t}
[No changes|No comment|No extra words|Not a sign more], [copy|repeat|echo|return] [this|the following]: \
{t}
[Without|Free of] [edits|comment|corrections], [copy|repeat|return|write] [this|the following \
text]:\\n\\n{t}
[Input|Text|Line|Source]: {t}\\n[Output the same|Output|Copy|Same again|Your copy]:
[Test|Check|Exercise] of [copying|repeating|echo]: {t}
"{t}" [- copy that|- repeat it as it is|- send it back|is what you should write|is to be repeated].
""",
    32,
)
