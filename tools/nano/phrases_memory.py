"""Training templates for memory: copying a text, telling a fact, asking for a fact that was told."""

# ---- copying: {t} is the text, the answer is {t} alone ---------------------------------------------
_COPY_HAND = r'''
Repeat exactly: {t}
Repeat this: {t}
Repeat this exactly: {t}
Repeat this line: {t}
Repeat this sentence: {t}
Repeat this message: {t}
Repeat this string: {t}
Repeat these words: {t}
Repeat these words exactly: {t}
Repeat these characters: {t}
Repeat word for word: {t}
Repeat letter for letter: {t}
Repeat character by character: {t}
Repeat as is: {t}
Repeat verbatim: {t}
Repeat the following: {t}
Repeat the following text: {t}
Repeat the following exactly: {t}
Repeat the following sentence: {t}
Repeat the following string: {t}
Repeat the following words: {t}
Repeat the text after the colon: {t}
Repeat what comes after the colon: {t}
Repeat everything after the colon: {t}
Repeat what I write: {t}
Repeat what I say: {t}
Repeat what I type here: {t}
Repeat my words: {t}
Repeat my message: {t}
Repeat back to me: {t}
Repeat this back to me: {t}
Repeat it as I write it: {t}
Repeat only this: {t}
Repeat just this: {t}
Repeat without changing anything: {t}
Repeat without any change: {t}
Repeat this once: {t}
Repeat this unchanged: {t}
repeat this: {t}
repeat after me {t}
repeat {t}
Repeat {t}
Repeat - {t}
Repeat this - {t}
Can you repeat this: {t}
Can you repeat this? {t}
Can you repeat the following? {t}
Can you repeat this for me? {t}
Could you repeat this: {t}
Could you repeat this exactly? {t}
Could you please repeat this text? {t}
Would you repeat this for me: {t}
Would you repeat these words? {t}
Will you repeat this? {t}
Will you repeat after me? {t}
Copy exactly: {t}
Copy this exactly: {t}
Copy this text: {t}
Copy this text exactly: {t}
Copy this text without changes: {t}
Copy this line: {t}
Copy this string: {t}
Copy this sentence: {t}
Copy this message: {t}
Copy this for me: {t}
Copy this, please: {t}
Copy this as is: {t}
Copy it exactly as it is: {t}
Copy what I write: {t}
Copy what follows: {t}
Copy the following: {t}
Copy the following exactly: {t}
Copy the following line: {t}
Copy the text below: {t}
Copy the text after the colon: {t}
Copy letter for letter: {t}
Copy word for word: {t}
Copy every character: {t}
Copy each letter of this: {t}
Copy verbatim: {t}
Copy and say nothing else: {t}
Copy only this: {t}
copy {t}
Copy {t}
Copy - {t}
Copy that: {t}
Can you copy this: {t}
Can you copy this text? {t}
Could you copy this for me? {t}
Could you copy the following text: {t}
Would you copy this line? {t}
Would you please copy this: {t}
Will you copy this text for me: {t}
Make a copy of this: {t}
Make an exact copy of this text: {t}
Make me a copy of this line: {t}
Give me a copy of this: {t}
Give me an exact copy of the following: {t}
I need a copy of this: {t}
I need an exact copy of this text: {t}
I want a copy of this text: {t}
I would like a copy of this: {t}
Echo this: {t}
Echo this text: {t}
Echo this back: {t}
Echo this back to me: {t}
Echo the following: {t}
Echo exactly: {t}
Echo what I say: {t}
Echo my message: {t}
echo {t}
Echo {t}
Be my echo: {t}
Please be an echo: {t}
You are an echo. {t}
Act like an echo: {t}
Echo test: {t}
Reproduce exactly: {t}
Reproduce this: {t}
Reproduce this exactly: {t}
Reproduce the following: {t}
Reproduce the following text exactly: {t}
Reproduce this line without changes: {t}
Reproduce this string character for character: {t}
Return this: {t}
Return this text: {t}
Return this text unchanged: {t}
Return this string as is: {t}
Return the following: {t}
Return the following text to me: {t}
Return exactly what I send: {t}
Return only this: {t}
return {t}
Output: {t}
Output this: {t}
Output this text: {t}
Output exactly this: {t}
Output only this: {t}
Output the following: {t}
Output the following text exactly: {t}
Output this string unchanged: {t}
Output only the text after the colon: {t}
Print: {t}
Print this: {t}
Print exactly: {t}
Print this line: {t}
Print this string: {t}
Print the following: {t}
Print the following exactly: {t}
Print only this: {t}
print {t}
Write this: {t}
Write exactly: {t}
Write exactly this: {t}
Write down: {t}
Write this down: {t}
Write this out: {t}
Write this text: {t}
Write this for me: {t}
Write this line again: {t}
Write the same: {t}
Write the same text: {t}
Write the same text again: {t}
Write the following: {t}
Write the following text: {t}
Write only this: {t}
Write just this: {t}
Write this and nothing else: {t}
Write back: {t}
Write this back to me: {t}
Write once more: {t}
Write what I write: {t}
Write my words again: {t}
Write {t}
Type: {t}
Type this: {t}
Type this text: {t}
Type out: {t}
Type this out: {t}
Type this again: {t}
Type the following: {t}
Type exactly what I type: {t}
Type {t}
Say this: {t}
Say exactly: {t}
Say this exactly: {t}
Say this back: {t}
Say this back to me: {t}
Say the following: {t}
Say the same: {t}
Say only: {t}
Say only this: {t}
Say nothing but this: {t}
Say after me: {t}
Say it after me: {t}
Say it again: {t}
Say what I say: {t}
Say these words: {t}
say {t}
Say {t}
Can you say this: {t}
Can you say this? {t}
Could you say this for me: {t}
Would you say the following? {t}
Mirror this: {t}
Mirror this text back to me: {t}
Mirror my message: {t}
Quote: {t}
Quote this: {t}
Quote this text: {t}
Quote me: {t}
Quote me exactly: {t}
Quote the following: {t}
Quote this line word for word: {t}
Give back: {t}
Give this back: {t}
Give this text back to me: {t}
Give back exactly this: {t}
Give me this text again: {t}
Give me the same text: {t}
Give me this back unchanged: {t}
Give me exactly this: {t}
Send back: {t}
Send this back: {t}
Send this text back to me: {t}
Send me this text again: {t}
Send back the same text: {t}
Send me back exactly this: {t}
Hand this back to me: {t}
Show me this text again: {t}
Show this text: {t}
Show exactly this: {t}
Display this: {t}
Display this text: {t}
Display the following text exactly: {t}
Recite: {t}
Recite this: {t}
Recite after me: {t}
Restate exactly: {t}
Duplicate this: {t}
Duplicate this text: {t}
Transcribe this: {t}
Transcribe exactly: {t}
Parrot this: {t}
Parrot this back to me: {t}
Read this back to me: {t}
Read back: {t}
Answer with this: {t}
Answer with exactly this text: {t}
Answer only with this: {t}
Reply with this: {t}
Reply with: {t}
Reply with exactly this: {t}
Reply only with the following: {t}
Reply with the same text: {t}
Respond with: {t}
Respond with exactly this text: {t}
Respond only with: {t}
Your reply must be: {t}
Your reply should be exactly: {t}
Your answer should be this and nothing else: {t}
Your only answer is: {t}
Your whole answer must be this text: {t}
I want you to repeat this: {t}
I want you to copy this text: {t}
I want you to say: {t}
I want you to write exactly this: {t}
I want to see this text again: {t}
I want to hear this from you: {t}
I would like you to repeat this: {t}
I would like you to copy the following: {t}
I'd like you to echo this: {t}
I'd like to have this text repeated: {t}
I need you to repeat this exactly: {t}
I need you to copy this: {t}
I need this text again: {t}
I need the same text back: {t}
I was wondering if you could repeat this: {t}
I was wondering whether you could copy this text: {t}
I am testing you. Repeat this: {t}
I am checking my keyboard. Please repeat: {t}
I am going to write something. Repeat it: {t}
I am going to give you a line. Copy it: {t}
I will say something, and you repeat it: {t}
I will write a text and you copy it: {t}
I have a text here. Please repeat it: {t}
I say something, you say the same: {t}
I'll type a text, you type it back: {t}
Let me see if you can copy this: {t}
Let me see if you can repeat this: {t}
Let me hear you say: {t}
Let me have this text back: {t}
Let us test your copying: {t}
Let's see if you can repeat this: {t}
Here is a text. Repeat it: {t}
Here is a text; copy it: {t}
Here is a line to copy: {t}
Here is some text to repeat: {t}
Here is something to repeat: {t}
Here is a string. Give it back unchanged: {t}
This is a text to copy: {t}
This is what you should repeat: {t}
This is what I want you to say: {t}
This must be repeated: {t}
This should be copied exactly: {t}
The text to copy is: {t}
The text to repeat is this: {t}
Text to repeat: {t}
Text to copy: {t}
To copy: {t}
To be repeated: {t}
Task: repeat this text: {t}
Task: copy the text. Text: {t}
Copy task: {t}
Copy test: {t}
Copy exercise: {t}
Your task is to copy this: {t}
Your job is to repeat this text: {t}
All you have to do is repeat this: {t}
All you need to do is copy this: {t}
Just repeat this: {t}
Just copy this: {t}
Just say: {t}
Just say this: {t}
Just write: {t}
Just echo this: {t}
Just give me this text back: {t}
Simply repeat: {t}
Simply copy this: {t}
Only say: {t}
Only repeat this: {t}
Only write this: {t}
Now repeat: {t}
Now copy this: {t}
Now say this: {t}
Now write: {t}
Next, repeat this: {t}
Next, copy this line: {t}
Again, please: {t}
The same again: {t}
Once more: {t}
Once again: {t}
Same text back, please: {t}
Exactly this, please: {t}
After me: {t}
Verbatim: {t}
Word for word: {t}
Letter for letter: {t}
Do not change anything, just repeat: {t}
Don't change anything, just copy: {t}
Don't change a single letter: repeat {t}
Do not explain, just repeat this: {t}
Do not translate this, just copy it: {t}
Don't translate, just repeat: {t}
Don't answer this, only repeat it: {t}
Do not add anything. Repeat: {t}
Do not add or remove anything. Copy: {t}
Without adding anything, repeat: {t}
Without changing a letter, write: {t}
Without any comment, repeat this: {t}
Word by word, repeat this: {t}
Letter by letter, copy this: {t}
Exactly as written, repeat: {t}
Keep every letter and repeat: {t}
Keep all signs and copy this: {t}
Keep it exactly the same: {t}
Help me and repeat this: {t}
Help me by copying this text: {t}
Help me test this chat. Repeat: {t}
My friend should read this. Repeat it exactly: {t}
We are testing the font. Print this text: {t}
We are playing a game. Repeat after me: {t}
We test the screen. Please show this text: {t}
For a test, repeat this: {t}
For a test, please copy: {t}
As a test, write: {t}
To test you: repeat {t}
Are you able to repeat this? {t}
Are you able to copy this text? {t}
Do you think you can repeat this? {t}
Is it possible for you to copy this? {t}
Would it be possible to repeat this text: {t}
Would you mind repeating this: {t}
Would you mind repeating this? {t}
Would you mind copying this text: {t}
Would you be so kind as to repeat this: {t}
Could I have this text back? {t}
Can I have this text back: {t}
Can I have a copy of this? {t}
May I have this repeated: {t}
May I ask you to repeat this: {t}
May I ask you to copy this text: {t}
How about repeating this: {t}
Try to repeat this: {t}
Try to copy this: {t}
Try to say: {t}
Try repeating this: {t}
Try and copy this exactly: {t}
Go on, repeat this: {t}
Go ahead and repeat: {t}
Go ahead, copy this text: {t}
Okay, repeat after me: {t}
Ok, now copy this: {t}
Hey, repeat this: {t}
Hey, copy this for me: {t}
Hello, please repeat this: {t}
Hi, can you repeat this? {t}
please repeat after me: {t}
pls repeat: {t}
pls copy this: {t}
please just repeat this: {t}
please say {t}
please write {t}
please echo {t}
please copy this exactly: {t}
Repeat {t} exactly.
Repeat {t} without changes.
Repeat {t} word for word.
Repeat {t} please.
Repeat {t} for me.
Repeat {t} once.
Repeat {t} and nothing else.
Repeat {t} back to me.
Copy {t} exactly.
Copy {t} letter for letter.
Copy {t} without any change.
Copy {t} for me, please.
Copy {t} as it is.
Say {t} and nothing else.
Say {t} for me.
Say {t} exactly.
Say {t} back to me.
Say {t} after me.
Say just {t} and stop.
Write {t} and nothing else.
Write {t} for me.
Write {t} exactly as I did.
Write {t} again.
Write only {t} and nothing more.
Type {t} and nothing else.
Type {t} exactly as it is.
Print {t} and nothing else.
Print {t} on one line.
Output {t} exactly.
Output {t} and nothing else.
Output {t} unchanged.
Return {t} unchanged.
Return {t} as is.
Return {t} to me.
Echo {t} back.
Echo {t} back to me.
Echo {t} without changes.
Give {t} back to me.
Give me {t} back.
Send {t} back to me.
Quote {t} exactly.
Reproduce {t} exactly.
Reproduce {t} character by character.
Mirror {t} back to me.
Answer with {t} and nothing else.
Answer with {t} only.
Reply with {t} and nothing else.
Reply with {t} only.
Reply {t}
Respond with {t} and nothing more.
Can you repeat {t} for me?
Can you say {t}?
Can you write {t}?
Can you copy {t}?
Can you type {t} exactly?
Could you say {t} for me?
Could you repeat {t}?
Could you write {t} for me, please?
Could you echo {t}?
Would you say {t} please?
Would you repeat {t} exactly?
Will you say {t}?
I want you to say {t} and nothing else.
I want you to repeat {t} exactly.
I would like you to write {t} for me.
I need you to copy {t} exactly.
I wrote {t} and you should write the same.
I say {t} and you repeat it.
If I write {t} then you write the same.
When I say {t} you say it, too.
You must answer {t} and nothing else.
Let me hear {t} from you.
'''
# text first, quotes, brackets, new lines: | stands for a line break here, one template on each line
_COPY_LINES = r'''
{t}||Repeat this.
{t}||Repeat this text.
{t}||Repeat this exactly.
{t}||Repeat the text above.
{t}||Repeat the line above.
{t}||Repeat what is above.
{t}||Repeat that.
{t}||Repeat that exactly, please.
{t}||Please repeat.
{t}||Please repeat this text.
{t}||Please repeat the text above without changes.
{t}||Copy this.
{t}||Copy this text.
{t}||Copy that.
{t}||Copy the above.
{t}||Copy the text above.
{t}||Copy the line above exactly.
{t}||Please copy this text exactly.
{t}||Please copy the text above, nothing else.
{t}||Echo this.
{t}||Echo this back.
{t}||Print this text again.
{t}||Write this again.
{t}||Write the same.
{t}||Write the line above once more.
{t}||Type this exactly.
{t}||Say this.
{t}||Say that again.
{t}||Return this text unchanged.
{t}||Return the text above.
{t}||Output the text above and nothing else.
{t}||Reproduce the text above.
{t}||Reproduce this exactly.
{t}||Quote this.
{t}||Quote the line above.
{t}||Give this back to me.
{t}||Give me this text back.
{t}||Send this text back to me.
{t}||Mirror this.
{t}||Your answer must be exactly the text above.
{t}||Answer with the text above.
{t}||Reply with the same text.
{t}||Can you repeat this?
{t}||Can you copy this?
{t}||Could you repeat this text?
{t}||Could you repeat the line above for me?
{t}||Would you copy this text, please?
{t}||I want you to repeat this.
{t}||I need an exact copy of this.
{t}||This is a text. Copy it.
{t}||This is the text. Repeat it, please.
{t}||Do not change anything, just repeat the text above.
{t}||Letter for letter, please.
{t}||That is the text. Now copy it.
{t}|Repeat this.
{t}|Repeat the line above.
{t}|Copy this.
{t}|Copy the line above.
{t}|Copy the text above without changes.
{t}|Please copy.
{t}|Please repeat this exactly.
{t}|Echo this line.
{t}|Write this line again.
{t}|Say this back to me.
{t}|Print the line above.
{t}|Can you repeat that?
{t}|Could you copy that?
{t}|Repeat what I wrote.
{t}|Return it as is.
{t}|Give it back unchanged.
"{t}" - repeat this.
"{t}" - copy this exactly.
"{t}" - say that.
"{t}" - please repeat.
"{t}": repeat this text.
"{t}": copy it.
"{t}" Repeat that.
"{t}" Now say it.
"{t}" Copy this text, please.
"{t}" is the text. Repeat it.
"{t}" is what I want you to say.
"{t}" is the text to copy.
"{t}" must be repeated exactly.
"{t}" should be your whole answer.
"{t}", repeat it.
"{t}", please say this.
"{t}" - can you repeat this?
"{t}" - could you copy this for me?
{t} - repeat this.
{t} - please copy this.
{t} - say it back to me.
{t} - repeat it exactly.
{t} - can you repeat that?
{t} <- repeat this
{t} <- copy this text
{t} <-- please repeat
{t} (repeat this)
{t} (copy this exactly)
{t} (please repeat)
{t} is the text. Repeat it.
{t} is the text you should copy.
{t} is what you should say.
{t} is what I want to hear. Say it.
(Repeat this) {t}
[Copy this] {t}
[Repeat] {t}
Repeat "{t}"
Repeat "{t}".
Repeat "{t}" exactly.
Repeat "{t}" word for word.
Repeat "{t}" for me.
Repeat "{t}" please.
Repeat "{t}" and nothing else.
Repeat '{t}'
Repeat '{t}'.
Repeat '{t}' exactly.
Repeat '{t}' to me.
Repeat “{t}”.
Repeat “{t}” without changes.
Repeat ‘{t}’.
Repeat «{t}».
Repeat `{t}`
Repeat `{t}` exactly.
Repeat the words "{t}".
Repeat the text "{t}".
Repeat the text '{t}'.
Repeat the text “{t}” exactly.
Repeat the string "{t}".
Repeat the string `{t}`.
Repeat the sentence "{t}".
Repeat the line "{t}" without changes.
Repeat the phrase "{t}".
Repeat the message "{t}".
Repeat the text between the quotes: "{t}"
Repeat the text between the quotes: '{t}'
Repeat the text between the quotes: “{t}”
Repeat what is between the quotes: "{t}"
Repeat what stands between the quotes: "{t}"
Repeat only what is in quotes: "{t}"
Repeat the text in quotes: "{t}"
Repeat the quoted text: "{t}"
Repeat the quoted words: '{t}'
Repeat the text inside the quotation marks: "{t}"
Repeat the text between the brackets: [{t}]
Repeat the text in brackets: [{t}]
Repeat the text in the brackets: ({t})
Repeat what is inside the brackets: ({t})
Repeat what is between the brackets: <{t}>
Repeat the text between the lines.|---|{t}|---
Repeat the text between the dashes.|---|{t}|---
Repeat the text inside the tags: <text>{t}</text>
Repeat what is inside the tags.|<text>{t}</text>
Repeat the text in the block:|```|{t}|```
Repeat the content of this block.|```|{t}|```
Repeat the second line of this message.|{t}
Repeat the next line.|{t}
Repeat the next line exactly:|{t}
Repeat the line below:|{t}
Repeat the line below.|{t}
Repeat the text below.|{t}
Repeat the text below:||{t}
Repeat what is written below.||{t}
Repeat:|{t}
Repeat this:|{t}
Repeat this:||{t}
Repeat after me:|{t}
Repeat after me.|{t}
Repeat exactly:|{t}
Repeat the following:|{t}
Repeat the following text.|{t}
Repeat the following exactly:||{t}
Copy "{t}"
Copy "{t}".
Copy "{t}" exactly.
Copy "{t}" letter for letter.
Copy "{t}" for me.
Copy '{t}'.
Copy '{t}' exactly.
Copy “{t}”.
Copy `{t}`.
Copy the text "{t}".
Copy the text '{t}' without changes.
Copy the words "{t}" exactly.
Copy the line "{t}".
Copy the string '{t}'.
Copy the text between the quotes: "{t}"
Copy the text between the quotes: “{t}”
Copy the text between the quotes: «{t}»
Copy what is between the quotes: '{t}'
Copy only the text in quotes: "{t}"
Copy the quoted text: “{t}”
Copy the text in brackets: ({t})
Copy the text in brackets: [{t}]
Copy what is in the brackets: [{t}]
Copy the text between the tags: <t>{t}</t>
Copy the text inside the tags.||<copy>{t}</copy>
Copy the content of the code block.||```|{t}|```
Copy the text between the stars: ***{t}***
Copy the text between the lines.||-----|{t}|-----
Copy:|{t}
Copy:||{t}
Copy this:|{t}
Copy this:||{t}
Copy this text.|{t}
Copy this text:|{t}
Copy this line:|{t}
Copy the next line.|{t}
Copy the line below.|{t}
Copy the text below.||{t}
Copy the following.|{t}
Copy the following:|{t}
Copy exactly what follows.|{t}
Copy everything below this line.|{t}
Copy everything after this line:||{t}
Say "{t}"
Say "{t}".
Say "{t}" please.
Say "{t}" and nothing else.
Say "{t}" to me.
Say '{t}'.
Say '{t}' exactly.
Say “{t}”.
Say ‘{t}’.
Say only "{t}".
Say just "{t}".
Say the words "{t}".
Say the words '{t}' and stop.
Say this: "{t}"
Say this: '{t}'
Say exactly: "{t}"
Say:|{t}
Say this:|{t}
Say the following.|{t}
Write "{t}"
Write "{t}".
Write "{t}" and nothing else.
Write "{t}" again.
Write "{t}" exactly.
Write '{t}'.
Write “{t}” for me.
Write the text "{t}".
Write the words "{t}".
Write the line '{t}' again.
Write this: "{t}"
Write this down: "{t}"
Write:|{t}
Write this:|{t}
Write the following:||{t}
Write the same text again.||{t}
Type "{t}"
Type "{t}".
Type "{t}" exactly.
Type '{t}' for me.
Type the words "{t}".
Type this: "{t}"
Type the following:|{t}
Type this again.||{t}
Print "{t}"
Print "{t}".
Print "{t}" and nothing else.
Print '{t}'
Print the string "{t}".
Print the text '{t}'.
Print the text between the quotes: "{t}"
Print the following:|{t}
Print the next line:|{t}
print("{t}")
print('{t}')
echo "{t}"
echo '{t}'
Echo "{t}".
Echo "{t}" back to me.
Echo '{t}'.
Echo the text "{t}".
Echo the following line.|{t}
Echo:|{t}
Echo this:||{t}
Output "{t}".
Output "{t}" and nothing else.
Output '{t}' exactly.
Output the string "{t}".
Output the text between the quotes: '{t}'
Output this:|{t}
Output the following text:||{t}
Output exactly the next line.|{t}
Return "{t}".
Return "{t}" unchanged.
Return '{t}' as is.
Return the string "{t}".
Return the text in quotes: "{t}"
Return this text:|{t}
Return the text below as it is.||{t}
Reproduce "{t}".
Reproduce "{t}" exactly.
Reproduce the text "{t}" without changes.
Reproduce the text between the quotes: "{t}"
Reproduce the following.||{t}
Reproduce this line:|{t}
Quote "{t}".
Quote the words "{t}".
Quote this text:|{t}
Mirror "{t}".
Mirror the text '{t}' back to me.
Mirror this line:|{t}
Give me "{t}" back.
Give back the text "{t}".
Give back what is between the quotes: "{t}"
Give me back this line:|{t}
Give me the following text again.||{t}
Send back "{t}".
Send the text "{t}" back to me.
Send this back:|{t}
Answer "{t}".
Answer with "{t}".
Answer with "{t}" and nothing else.
Answer with the words "{t}".
Answer with the following text:|{t}
Reply "{t}".
Reply with "{t}".
Reply with "{t}" only.
Reply with the text '{t}'.
Reply with exactly this line:|{t}
Respond with "{t}".
Respond with "{t}" and nothing else.
Respond with the text below.||{t}
Your answer: "{t}"
Your answer is "{t}". Nothing else.
Your only words should be "{t}".
Your reply should be '{t}'.
Your answer must be the following line.|{t}
I want you to say "{t}".
I want you to repeat "{t}" exactly.
I want you to write '{t}'.
I want to read "{t}" as your answer.
I would like you to copy "{t}".
I would like you to repeat the following.||{t}
I'd like you to say '{t}'.
I need you to type "{t}" for me.
I need the following text again:|{t}
I was wondering if you could repeat "{t}".
I will give you a line. Repeat it.|{t}
I will write a text. You repeat it.||{t}
I wrote "{t}". Repeat it.
I wrote "{t}". Write the same.
I typed this. Copy it, please.||{t}
I said "{t}". Say the same.
I say "{t}", you repeat it.
I say "{t}" and you say it after me.
My text is "{t}". Copy it exactly.
My text is this. Repeat it.||{t}
My message: "{t}". Repeat my message.
My words are "{t}". Repeat my words.
The text is "{t}". Please repeat it.
The text is: "{t}". Copy it.
The text between the quotes should be repeated: "{t}"
The following text must be copied.||{t}
The following line is for you to repeat:|{t}
The next line is the text. Copy it.|{t}
Text: {t}|Task: copy the text.
Text: {t}|Repeat the text.
Text: {t}|Please copy the text exactly.
Text: "{t}". Repeat the text.
Text: "{t}"|Task: repeat the text without changes.
Text:|{t}||Copy the text.
Text:||{t}||Repeat the text exactly.
Task: copy the text.|Text: {t}
Task: repeat the following line.|{t}
Input: {t}|Repeat the input.
Input: {t}|Output the input unchanged.
Input: "{t}". Return the input.
Line: {t}|Copy the line.
String: "{t}". Print the string.
Message: {t}|Repeat the message.
Sentence: "{t}". Say the sentence.
Here is a text: "{t}". Repeat it.
Here is a text: "{t}". Copy it without changes.
Here is a text:|{t}|Repeat it.
Here is a text:||{t}||Copy it exactly.
Here is a text.||{t}||Please give it back to me.
Here is a line:|{t}|Write it again.
Here is a line. Copy it.|{t}
Here is my text, please copy it.||{t}
Here is a string: '{t}'. Echo it.
Here are some signs. Copy them all.||{t}
Here are some words. Repeat them.|{t}
Look at this text and copy it.||{t}
Look at this: "{t}". Now repeat it.
Look at the next line and repeat it.|{t}
Take this text: "{t}". Give it back unchanged.
Take this line and write it again.|{t}
Read this and repeat it.||{t}
Read this: "{t}". Say it back to me.
Read the next line and copy it.|{t}
Listen: "{t}". Now repeat.
Listen and repeat: "{t}"
Can you say "{t}"?
Can you say '{t}' for me?
Can you repeat "{t}"?
Can you repeat "{t}" for me?
Can you repeat the words '{t}'?
Can you copy "{t}"?
Can you copy the text between the quotes? "{t}"
Can you copy this text?||{t}
Can you write "{t}" for me?
Can you write exactly "{t}"?
Can you type "{t}"?
Can you print "{t}"?
Can you echo "{t}"?
Can you repeat this line?|{t}
Can you repeat the text below?||{t}
Can you give me this text back?|{t}
Could you say "{t}"?
Could you say “{t}” please?
Could you repeat "{t}" exactly?
Could you copy '{t}' for me?
Could you write "{t}" please?
Could you repeat this for me?||{t}
Could you repeat the following line?|{t}
Could you return this text as it is?||{t}
Could you reproduce "{t}" without changes?
Would you say "{t}" for me?
Would you repeat '{t}'?
Would you write "{t}" once more?
Would you repeat the text below?|{t}
Would you mind saying "{t}"?
Would you mind repeating "{t}"?
Would you mind copying this?||{t}
Will you repeat "{t}" after me?
Will you say "{t}"?
Will you copy the following?|{t}
Please say "{t}".
Please say '{t}' and nothing else.
Please repeat "{t}".
Please repeat “{t}” exactly.
Please repeat the text in quotes: "{t}"
Please repeat the following line.||{t}
Please repeat this line:|{t}
Please repeat what I write below.||{t}
Please copy "{t}".
Please copy '{t}' without changes.
Please copy the text in brackets: [{t}]
Please copy the next line.|{t}
Please write "{t}".
Please write the same text again:||{t}
Please type "{t}" exactly.
Please print "{t}".
Please echo "{t}".
Please echo this line.|{t}
Please output "{t}" only.
Please return "{t}" unchanged.
Please return the text below.||{t}
Please reproduce the text between the quotes: '{t}'
Please give me back "{t}".
Please answer with "{t}" only.
Please reply with the text "{t}".
Please read this back to me:|{t}
Just say "{t}".
Just repeat "{t}".
Just write '{t}' and nothing more.
Just copy the line below.|{t}
Just answer "{t}".
Only say "{t}".
Only write "{t}", nothing else.
Only repeat the next line.|{t}
Now say "{t}".
Now repeat "{t}".
Now copy this line.|{t}
Now write '{t}' once.
Do not explain anything. Repeat "{t}".
Do not translate it. Copy "{t}".
Do not change anything. Write "{t}".
Don't add anything. Say "{t}".
Don't think about what it means, just copy it.||{t}
It may look strange, but copy it.||{t}
It does not have to make sense. Repeat it.|{t}
This may make no sense, but repeat it exactly:|{t}
Without changes, repeat "{t}".
Without changes, please:|{t}
Word for word: "{t}"
Exactly as it is, copy this:|{t}
Same text again, please.||{t}
Again please: "{t}"
After me: "{t}"
How do you write "{t}"? Just copy it.
For my test, say "{t}".
For a test, copy the line below.|{t}
We test the keyboard. Repeat this line.|{t}
We are testing. Say "{t}".
Show me that you can copy. The text is "{t}".
Show me that you can copy this:||{t}
Show the text "{t}".
Show the next line again.|{t}
Let me see "{t}" again.
Let me see you copy this.||{t}
Let me hear you say "{t}".
Let's test your copying. Copy this line.|{t}
Prove that you can repeat a text: "{t}"
Are you able to say "{t}"?
Are you able to copy this?||{t}
Is it possible for you to repeat "{t}"?
Try to say "{t}".
Try to copy the next line.|{t}
Hey, say "{t}".
Hey, can you repeat "{t}"?
Hi! Please copy this line.|{t}
hey, repeat this:|{t}
say "{t}"
repeat "{t}"
copy "{t}"
write "{t}"
type "{t}"
repeat this:|{t}
copy this:|{t}
copy the text below|{t}
repeat the line below|{t}
pls say "{t}"
pls repeat this:|{t}
> {t}||Repeat the quote above.
> {t}||Copy the quoted line.
Repeat the quoted line.||> {t}
Copy the quote.||> {t}
BEGIN|{t}|END||Copy what is between BEGIN and END.
Copy what is between BEGIN and END.|BEGIN|{t}|END
START {t} END. Repeat the text between START and END.
<text>{t}</text>||Repeat the text.
<text>{t}</text>|Copy what is inside the tags.
```|{t}|```|Repeat the content of the block.
```|{t}|```||Copy this text.
---|{t}|---|Copy the text between the lines.
[{t}] Repeat the text in brackets.
({t}) Copy the text in brackets.
"{t}"|Repeat the text in quotes.
"{t}"||Copy the text between the quotes.
'{t}'|Repeat what is between the quotes.
“{t}”||Please repeat the quoted text.
'''
_COPY_CURLY = [
    "Repeat the text in curly brackets: {{{t}}}",
    "Copy what is between the curly brackets: {{{t}}}",
    "Copy the text in braces: {{{t}}}",
]
_VERBS = "Repeat|Copy|Echo|Reproduce|Return|Output|Print|Write out|Type out|Write down|Quote|Recite|Display".split("|")
_OBJECTS = ["this text", "the following text", "this line", "the following line", "this sentence", "these words",
            "this string", "the following", "the following words", "my text", "this message"]
_HOWS = ["exactly", "word for word", "letter for letter", "letter by letter", "character by character", "unchanged",
         "without changes", "without any changes", "without changing anything", "exactly as it is", "as it is",
         "as is", "verbatim", "and nothing else", "and say nothing else", "and add nothing"]
_POLITE = ["please {}", "can you {}", "could you {}", "would you {}", "will you {}", "I want you to {}",
           "I need you to {}", "I'd like you to {}", "I would like you to {}", "you should {}", "you must {}",
           "could you please {}", "can you please {}", "would you kindly {}", "kindly {}", "now {}", "just {}",
           "let me see you {}", "I was hoping you could {}", "I wonder if you could {}", "be so kind and {}"]


def _upper(text):
    return text[0].upper() + text[1:]


def _copy_loops():
    found = []
    ends = [": {t}", ":\n{t}", ':\n\n{t}', ': "{t}"', ".\n{t}", ".\n\n{t}", ": '{t}'", ": “{t}”", " - {t}"]
    n = 0
    for verb in _VERBS:
        for thing in _OBJECTS:
            found.append(f"{verb} {thing}{ends[n % len(ends)]}")
            n += 1
            for how in _HOWS:
                n += 1
                if n % 3 == 0:
                    found.append(f"{verb} {thing} {how}{ends[n // 3 % len(ends)]}")
    for k, frame in enumerate(_POLITE):
        asks = frame.split()[0] in ("can", "could", "would", "will")
        for j, verb in enumerate(_VERBS):
            for i in range(3):
                thing = _OBJECTS[(k + 2 * j + 5 * i) % len(_OBJECTS)]
                how = "" if i == 0 else " " + _HOWS[(3 * k + j + 7 * i) % len(_HOWS)]
                end = ends[(k + j + i) % len(ends)]
                if asks and end[0] == ".":
                    end = "?" + end[1:]
                found.append(_upper(frame.format(f"{verb.lower()} {thing}{how}")) + end)
    for verb in _VERBS + ["Say", "Write", "Type"]:
        for how in _HOWS:
            found.append(f'{verb} "{{t}}" {how}.')
            n += 1
            found.append(f"{verb} {['{t}', chr(39) + '{t}' + chr(39), '“{t}”', '`{t}`'][n % 4]} {how}.")
    for verb in _VERBS:
        for place in ("the text above", "the line above", "this", "that", "this text", "what I wrote"):
            n += 1
            found.append(f"{{t}}{[chr(10), chr(10) * 2][n % 2]}{verb} {place} {_HOWS[n % len(_HOWS)]}.")
    for verb in ("Repeat", "Copy", "Print", "Return", "Output", "Write", "Type", "Reproduce", "Echo"):
        for inside, mark in (
            ("between the quotes", '"{t}"'), ("between the quotation marks", '"{t}"'), ("in quotes", "'{t}'"),
            ("inside the quotes", "“{t}”"), ("between the quotes", "‘{t}’"), ("inside the quotes", "«{t}»"),
            ("in brackets", "[{t}]"), ("between the brackets", "({t})"), ("inside the brackets", "<{t}>"),
            ("between the backticks", "`{t}`"), ("between the bars", "|{t}|"), ("between the stars", "*{t}*"),
        ):
            n += 1
            what = ["the text", "what is", "only the text", "exactly what is", "everything"][n % 5]
            found.append(f"{verb} {what} {inside}{[': ', ':' + chr(10), '. '][n % 3]}{mark}")
    return found


COPY = list(dict.fromkeys(
    [line for line in _COPY_HAND.split("\n") if line]
    + [line.replace("|", "\n") for line in _COPY_LINES.split("\n") if line]
    + _COPY_CURLY
    + _copy_loops()
))

# ---- telling: {s} is a thing without "my", {v} its value; a whole sentence, lower case unless "I" ----
_TELL_HAND = r'''
my {s} happens to be {v}.
my {s} is simply {v}.
my {s} is just {v}.
my {s} is still {v}.
my {s} is now {v}.
my {s} is actually {v}.
my {s} is, by the way, {v}.
my {s} is in fact {v}.
my {s} is exactly {v}.
my {s} is the following: {v}.
my {s} is this: {v}.
my {s} is '{v}'.
my {s} is “{v}”.
my {s} is: {v}.
my {s} is {v}...
my {s} is {v} :)
my {s} - {v}.
my {s} -> {v}.
my {s} would be {v}.
my {s} should be {v}.
my {s} will be {v}.
my {s} has always been {v}.
my {s}? it is {v}.
my {s}? that is {v}.
my {s}? {v}.
my {s}, that is {v}.
my {s}, by the way, is {v}.
my {s}, as you may know, is {v}.
my {s}, in case you need it, is {v}.
my {s}, for your information, is {v}.
my {s}, and please remember this, is {v}.
my {s}, so that you know, is {v}.
my {s} is {v}. Remember that.
my {s} is {v}. Remember this.
my {s} is {v}. Please remember this.
my {s} is {v}. Remember it for me.
my {s} is {v}. Please keep it in mind.
my {s} is {v}. Keep that in mind.
my {s} is {v}. Please note that.
my {s} is {v}. Note it, please.
my {s} is {v}. Write it down.
my {s} is {v}. Do not forget it.
my {s} is {v}. Please do not forget that.
my {s} is {v}. Don't forget it.
my {s} is {v}. I will ask you later.
my {s} is {v}. I will ask you about it later.
my {s} is {v}. You will need it later.
my {s} is {v}. That is important.
my {s} is {v}. That's all you need to know.
my {s} is {v}. Got it?
my {s} is {v}. Okay?
my {s} is {v}. Can you remember that?
my {s} is {v}. Can you remember it for me?
my {s} is {v}. Could you keep that in mind?
my {s} is {v}. Will you remember it?
my {s} is {v}. Save it for later.
my {s} is {v}. Keep it for me.
my {s} is {v}. Thanks for keeping it.
my {s} is {v}. Just remember it.
my {s} is {v}. Just so you know.
my {s} is {v}. Just for your information.
my {s} is {v}, in case you wonder.
my {s} is {v}, in case you need it.
my {s} is {v}, in case I forget it.
my {s} is {v}, in case I ask.
my {s} is {v}, in case anyone asks.
my {s} is {v}, if you want to know.
my {s} is {v}, if you need it.
my {s} is {v}, if you did not know.
my {s} is {v}, so please remember it.
my {s} is {v}, so please note it.
my {s} is {v}, so keep that in mind.
my {s} is {v}, so do not forget it.
my {s} is {v}, for your information.
my {s} is {v}, for the record.
my {s} is {v}, for later.
my {s} is {v}, for future reference.
my {s} is {v}, remember that.
my {s} is {v}, please note that.
my {s} is {v}, please keep it in mind.
my {s} is {v}, please do not forget it.
my {s} is {v}, don't forget that.
my {s} is {v}, make a note of it.
my {s} is {v}, write it down.
my {s} is {v}, thanks for remembering.
my {s} is {v}, that is all for now.
my {s} is {v}, and that is important.
my {s} is {v}, and I may ask for it later.
my {s} is {v}, and you should remember it.
my {s} is {v}, and please keep it in mind.
my {s} is {v}, and I hope you remember it.
my {s} is {v}, as I said.
my {s} is {v}, as you can see.
my {s} is {v}, right?
my {s} is {v}, got it?
my {s} is {v}, nothing else.
my {s} is {v}, believe me.
my {s} is {v}, I think.
my {s} is {v}, I should mention.
my {s} is {v} - don't forget.
my {s} is {v} - please keep it in mind.
my {s} is {v} - I will need it later.
my {s} is {v} - just so you know.
my {s} is {v}; remember it.
my {s} is {v}; you will need it.
my {s} is {v}; make a note.
my {s} is {v}; I will ask for it later.
my {s} is {v} (please remember).
my {s} is {v} (important!).
my {s} is {v} (for later).
my {s}: {v}. Remember it.
my {s}: {v}. Please keep it.
my {s}: {v}, please remember.
my {s}: "{v}".
my {s} = "{v}".
my {s} = {v}, remember it.
my {s} ({v}) is something you should remember.
my {s} ({v}) will be needed later.
my {s}, {v}, is something to remember.
{v} is my {s}, please remember.
{v} is my {s}. Remember it.
{v} is my {s}. Please keep that in mind.
{v} is my {s}. Do not forget it.
{v} is my {s}. I will ask about it later.
{v} is my {s}, by the way.
{v} is my {s}, just so you know.
{v} is my {s}, in case you need it.
{v} is my {s}, okay?
{v} is my {s}, you know.
{v} is my {s}, for later.
{v} is my {s}!
{v} is the {s}.
{v} is the {s}. Please remember it.
{v} is what I have as my {s}.
{v} is what you should remember as my {s}.
{v} is what I gave as my {s}.
{v} - that is my {s}.
{v} - this is my {s}.
{v} - my {s}.
{v}: that is my {s}.
{v}: this is my {s}, remember it.
{v}, that is my {s}.
{v}, this is my {s}.
{v}. That is my {s}.
{v}. This is my {s}, please remember it.
{v} (my {s}).
{v} = my {s}.
{v} happens to be my {s}.
"{v}" is my {s}.
"{v}" - that is my {s}.
the {s} is {v}. Remember it.
the {s} is {v}. Please keep it in mind.
the {s} is {v}, please remember.
the {s} is {v}, by the way.
the {s} is {v}, do not forget it.
the {s} is {v}, in case you need it.
the {s} is {v}!
the {s} is "{v}".
the {s} I have is {v}.
the {s}: {v}.
the {s} = {v}.
the {s} happens to be {v}.
the {s} to remember is {v}.
the {s} you should remember is {v}.
the {s} you will need is {v}.
the {s} I want you to remember is {v}.
the {s} that you should keep in mind is {v}.
remember {v} as my {s}.
remember {v}, it is my {s}.
remember {v}. It is my {s}.
remember {v}: that is my {s}.
remember my {s}: {v}.
remember my {s}, it is {v}.
remember my {s}. It is {v}.
remember my {s}, {v}.
remember that my {s} is {v}.
remember that {v} is my {s}.
remember for me that my {s} is {v}.
remember: my {s} is {v}.
remember, my {s} is {v}.
remember the {s}: {v}.
remember that the {s} is {v}.
remember this for later: my {s} is {v}.
remember this fact: my {s} is {v}.
please remember: my {s} is {v}.
please remember my {s}: {v}.
please remember my {s}. It is {v}.
please remember this: my {s} is {v}.
please remember {v} as my {s}.
please remember that {v} is my {s}.
please remember for later that my {s} is {v}.
please keep in mind that my {s} is {v}.
please keep my {s} in mind: {v}.
please keep my {s} in mind. It is {v}.
please note: my {s} is {v}.
please note that my {s} is {v}.
please note my {s}: {v}.
please note down my {s}: {v}.
please note down that my {s} is {v}.
please write down my {s}: {v}.
please write down that my {s} is {v}.
please make a note: my {s} is {v}.
please make a note that my {s} is {v}.
please take note that my {s} is {v}.
please save my {s}: {v}.
please save this: my {s} is {v}.
please store my {s}: {v}.
please store that my {s} is {v}.
please memorize my {s}: {v}.
please memorize that my {s} is {v}.
please learn that my {s} is {v}.
please do not forget my {s}: {v}.
please do not forget that my {s} is {v}.
please don't forget that my {s} is {v}.
please never forget that my {s} is {v}.
please bear in mind that my {s} is {v}.
please be aware that my {s} is {v}.
please know that my {s} is {v}.
please record my {s} as {v}.
please hold on to this: my {s} is {v}.
please use {v} as my {s} from now on.
keep in mind: my {s} is {v}.
keep in mind my {s}: {v}.
keep my {s} in mind: {v}.
keep my {s} in mind, it is {v}.
keep this in mind: my {s} is {v}.
keep this for later: my {s} is {v}.
keep {v} in mind, it is my {s}.
keep {v} in mind as my {s}.
note: my {s} is {v}.
note this: my {s} is {v}.
note my {s}: {v}.
note my {s}, it is {v}.
note down my {s}: {v}.
note down: my {s} is {v}.
note down that my {s} is {v}.
note {v} as my {s}.
note for later: my {s} is {v}.
note to keep: my {s} is {v}.
a note for you: my {s} is {v}.
a quick note: my {s} is {v}.
one note: my {s} is {v}.
write down my {s}: {v}.
write down: my {s} is {v}.
write this down: my {s} is {v}.
jot this down: my {s} is {v}.
jot down my {s}: {v}.
make a note that my {s} is {v}.
make a note of my {s}: {v}.
make a note: my {s} is {v}.
take a note: my {s} is {v}.
take note: my {s} is {v}.
take note of my {s}: {v}.
put this in your notes: my {s} is {v}.
put down {v} as my {s}.
save this: my {s} is {v}.
save this for later: my {s} is {v}.
save my {s}: {v}.
save {v} as my {s}.
store this: my {s} is {v}.
store my {s}: {v}.
store {v} as my {s}.
record this: my {s} is {v}.
record my {s}: {v}.
memorize this: my {s} is {v}.
memorize my {s}: {v}.
memorize that my {s} is {v}.
learn this: my {s} is {v}.
do not forget: my {s} is {v}.
do not forget my {s}: {v}.
do not forget my {s}, it is {v}.
do not forget this: my {s} is {v}.
do not forget that {v} is my {s}.
don't forget: my {s} is {v}.
don't forget that my {s} is {v}.
don't forget my {s}: {v}.
don't forget, my {s} is {v}.
never forget that my {s} is {v}.
never forget: my {s} is {v}.
try to remember that my {s} is {v}.
try to remember this: my {s} is {v}.
try to keep in mind that my {s} is {v}.
try not to forget that my {s} is {v}.
try not to forget my {s}: {v}.
be sure to remember that my {s} is {v}.
be sure to remember my {s}: {v}.
be aware that my {s} is {v}.
be informed that my {s} is {v}.
make sure you remember my {s}: {v}.
make sure you remember that my {s} is {v}.
bear in mind that my {s} is {v}.
bear in mind: my {s} is {v}.
know that my {s} is {v}.
hold on to this: my {s} is {v}.
listen, my {s} is {v}.
listen: my {s} is {v}.
look, my {s} is {v}.
hey, my {s} is {v}.
hi, my {s} is {v}.
hello, my {s} is {v}.
hello! my {s} is {v}.
well, my {s} is {v}.
so, my {s} is {v}.
okay, my {s} is {v}.
ok, my {s} is {v}.
now, my {s} is {v}.
also, my {s} is {v}.
and my {s} is {v}.
oh, and my {s} is {v}.
oh, my {s} is {v}, by the way.
by the way: my {s} is {v}.
by the way, {v} is my {s}.
by the way, the {s} is {v}.
by the way, remember that my {s} is {v}.
just to let you know, my {s} is {v}.
just to tell you: my {s} is {v}.
just for the record, my {s} is {v}.
just for your information, my {s} is {v}.
just a note: my {s} is {v}.
just in case, my {s} is {v}.
just remember that my {s} is {v}.
just remember this: my {s} is {v}.
just so you have it: my {s} is {v}.
fyi, my {s} is {v}.
fyi: my {s} is {v}.
for your information, my {s} is {v}.
for your information: my {s} is {v}.
for your notes: my {s} is {v}.
for the record, my {s} is {v}.
for the record: my {s} is {v}.
for reference, my {s} is {v}.
for future reference, my {s} is {v}.
for later, my {s} is {v}.
for later use: my {s} is {v}.
for later, remember that my {s} is {v}.
for later, please note that my {s} is {v}.
for later: {v} is my {s}.
for now, remember that my {s} is {v}.
in case you need it, my {s} is {v}.
in case you need it later, my {s} is {v}.
in case I forget: my {s} is {v}.
in case I forget it, my {s} is {v}.
in case you wonder, my {s} is {v}.
in case you were wondering, my {s} is {v}.
in case I ask later, my {s} is {v}.
in case it matters, my {s} is {v}.
in case anyone asks, my {s} is {v}.
in case you do not know, my {s} is {v}.
if you need it, my {s} is {v}.
if you want to know, my {s} is {v}.
if I ask you for my {s}, it is {v}.
if I ask for my {s}, say {v}.
if I ask later, my {s} is {v}.
if I ever forget my {s}, it is {v}.
if anyone asks, my {s} is {v}.
if someone asks for my {s}, it is {v}.
if you must know, my {s} is {v}.
when I ask for my {s}, the answer is {v}.
when I ask for my {s}, tell me {v}.
when I ask you for my {s}, say {v}.
when I ask about my {s}, answer {v}.
when I want to know my {s} later, tell me {v}.
before I forget, my {s} is {v}.
before I forget it: my {s} is {v}.
before we start, my {s} is {v}.
before we begin: my {s} is {v}.
before we go on, note that my {s} is {v}.
before I ask anything, my {s} is {v}.
first of all, my {s} is {v}.
first, my {s} is {v}.
to start with, my {s} is {v}.
to begin with, my {s} is {v}.
to be clear, my {s} is {v}.
to let you know, my {s} is {v}.
one more thing: my {s} is {v}.
one thing to know: my {s} is {v}.
one thing to remember: my {s} is {v}.
one thing you should know is that my {s} is {v}.
another thing: my {s} is {v}.
another thing to remember: my {s} is {v}.
a thing to remember: my {s} is {v}.
a fact about me: my {s} is {v}.
a fact for you: my {s} is {v}.
a small fact: my {s} is {v}.
a small detail: my {s} is {v}.
a piece of information: my {s} is {v}.
some information for you: my {s} is {v}.
something about me: my {s} is {v}.
something to keep in mind: my {s} is {v}.
something to note: my {s} is {v}.
something you should know: my {s} is {v}.
here is a fact: my {s} is {v}.
here is a fact about me: my {s} is {v}.
here is my {s}: {v}.
here is my {s}: {v}. Please remember it.
here is my {s}, please remember it: {v}.
here is the {s}: {v}.
here is something for later: my {s} is {v}.
here is some information: my {s} is {v}.
here is a note: my {s} is {v}.
here's my {s}: {v}.
here's a fact for you: my {s} is {v}.
here's something to keep in mind: my {s} is {v}.
this is my {s}: {v}.
this is my {s}: {v}. Do not forget it.
this is important: my {s} is {v}.
this is for later: my {s} is {v}.
this is what I want you to remember: my {s} is {v}.
that is my {s}: {v}.
it is important that my {s} is {v}.
it is good to know that my {s} is {v}.
it may help to know that my {s} is {v}.
it might be useful to know that my {s} is {v}.
it's {v}, my {s}.
important: my {s} is {v}.
important: remember that my {s} is {v}.
important fact: my {s} is {v}.
important note: my {s} is {v}.
information: my {s} is {v}.
info: my {s} is {v}.
info for later: my {s} is {v}.
fact: my {s} is {v}.
reminder: my {s} is {v}.
memo: my {s} is {v}.
heads up, my {s} is {v}.
attention: my {s} is {v}.
about my {s}: it is {v}.
about my {s}: {v}.
as for the {s}, it is {v}.
as for my {s}: {v}.
as for my {s}, remember {v}.
as to my {s}, it is {v}.
regarding my {s}: it is {v}.
regarding my {s}, it is {v}.
concerning my {s}: {v}.
speaking of my {s}, it is {v}.
talking about my {s}, it is {v}.
as I said, my {s} is {v}.
as you may know, my {s} is {v}.
as a reminder, my {s} is {v}.
as a note, my {s} is {v}.
you should know that my {s} is {v}.
you should know my {s}: {v}.
you should remember that my {s} is {v}.
you should keep in mind that my {s} is {v}.
you should note that my {s} is {v}.
you must know that my {s} is {v}.
you must remember that my {s} is {v}.
you must not forget that my {s} is {v}.
you may want to know that my {s} is {v}.
you may need this: my {s} is {v}.
you may need my {s} later: {v}.
you might need my {s} later. It is {v}.
you need to know that my {s} is {v}.
you need to remember that my {s} is {v}.
you can note that my {s} is {v}.
you will need my {s}. It is {v}.
you will need to know that my {s} is {v}.
you know, my {s} is {v}.
you asked for my {s}: it is {v}.
you wanted to know my {s}. It is {v}.
you don't know my {s} yet: it is {v}.
you do not know it yet, but my {s} is {v}.
can you remember that my {s} is {v}?
can you remember this? My {s} is {v}.
can you remember my {s}? It is {v}.
can you keep in mind that my {s} is {v}?
can you note that my {s} is {v}?
can you note down my {s}? It is {v}.
can you make a note that my {s} is {v}?
can you save my {s}? It is {v}.
can you please remember that my {s} is {v}?
could you remember that my {s} is {v}?
could you remember my {s} for me? It is {v}.
could you keep in mind that my {s} is {v}?
could you note that my {s} is {v}?
could you write down my {s}? It is {v}.
could you make a note of my {s}? It is {v}.
could you please remember my {s}? It is {v}.
would you remember that my {s} is {v}?
would you please keep in mind that my {s} is {v}?
would you please note that my {s} is {v}?
would you mind remembering my {s}? It is {v}.
would you make a note of this? My {s} is {v}.
will you remember that my {s} is {v}?
will you remember my {s}? It is {v}.
will you keep in mind that my {s} is {v}?
have I told you that my {s} is {v}?
have I mentioned that my {s} is {v}?
did I mention that my {s} is {v}?
did I tell you that my {s} is {v}?
did I say that my {s} is {v}?
may I tell you my {s}? It is {v}.
may I tell you something? My {s} is {v}.
may I mention that my {s} is {v}?
guess what: my {s} is {v}.
let me tell you my {s}: {v}.
let me tell you my {s}. It is {v}.
let me tell you something: my {s} is {v}.
let me give you my {s}: {v}.
let me give you a fact: my {s} is {v}.
let me mention that my {s} is {v}.
let me say that my {s} is {v}.
let me add that my {s} is {v}.
let me note that my {s} is {v}.
let me start with this: my {s} is {v}.
let me share my {s} with you: {v}.
let us note that my {s} is {v}.
let it be known that my {s} is {v}.
I want to tell you my {s}: {v}.
I want to tell you that my {s} is {v}.
I want to tell you something: my {s} is {v}.
I want you to remember that my {s} is {v}.
I want you to remember my {s}: {v}.
I want you to remember this: my {s} is {v}.
I want you to keep in mind that my {s} is {v}.
I want you to note that my {s} is {v}.
I want to let you know that my {s} is {v}.
I need you to remember that my {s} is {v}.
I need you to remember my {s}: {v}.
I need you to remember something: my {s} is {v}.
I need you to know that my {s} is {v}.
I need you to keep my {s} in mind: {v}.
I would like you to remember that my {s} is {v}.
I would like you to know that my {s} is {v}.
I would like you to keep in mind that my {s} is {v}.
I would like to tell you my {s}. It is {v}.
I'd like you to remember my {s}: {v}.
I'd like you to note that my {s} is {v}.
I should mention that my {s} is {v}.
I should tell you that my {s} is {v}.
I should say that my {s} is {v}.
I must tell you that my {s} is {v}.
I have to tell you that my {s} is {v}.
I have to remember my {s}, it is {v}.
I have to remember that my {s} is {v}. Please help me.
I have {v} as my {s}.
I have something to tell you: my {s} is {v}.
I have a fact for you: my {s} is {v}.
I always forget my {s}. It is {v}.
I always forget my {s}, so please remember it: {v}.
I often forget that my {s} is {v}.
I keep forgetting my {s}. It is {v}.
I can never remember my {s}. It is {v}.
I might forget my {s}, so remember it for me: {v}.
I may forget it, so please remember that my {s} is {v}.
I may ask you later for my {s}. It is {v}.
I will ask you for my {s} later. It is {v}.
I will ask you later what my {s} is. It is {v}.
I will need my {s} later: {v}.
I will need this later: my {s} is {v}.
I will tell you my {s}: {v}.
I will tell you my {s}. It is {v}.
I will tell you a fact: my {s} is {v}.
I will now tell you my {s}. It is {v}.
I'll tell you my {s}: it is {v}.
I'll give you my {s}: {v}.
I'm telling you that my {s} is {v}.
I'm giving you my {s}: {v}.
I am telling you my {s}: it is {v}.
I am telling you this because I forget things: my {s} is {v}.
I tell you that my {s} is {v}.
I can tell you that my {s} is {v}.
I can tell you my {s}: it is {v}.
I give you my {s}: {v}.
I say that my {s} is {v}.
I think you should know that my {s} is {v}.
I hope you can remember that my {s} is {v}.
I hope you will not forget that my {s} is {v}.
I just wanted to say that my {s} is {v}.
I just want you to know that my {s} is {v}.
I just learned that my {s} is {v}.
I just found out that my {s} is {v}.
I know that my {s} is {v}.
I trust you with my {s}: {v}.
I wrote down my {s}: {v}.
I see here that my {s} is {v}.
I see in my notes that my {s} is {v}.
my notes say that my {s} is {v}.
my notes say: {s} {v}.
my paper says that my {s} is {v}.
they told me that my {s} is {v}.
they say that my {s} is {v}.
people should know that my {s} is {v}.
everyone knows that my {s} is {v}.
somebody told me that my {s} is {v}.
it says here that my {s} is {v}.
we should remember that my {s} is {v}.
we will need my {s} later. It is {v}.
we need to remember that my {s} is {v}.
help me remember my {s}. It is {v}.
help me remember my {s}: {v}.
help me remember that my {s} is {v}.
help me to keep in mind that my {s} is {v}.
help me not to forget my {s}: {v}.
from now on, remember that my {s} is {v}.
from now on, my {s} is {v}.
at the moment, my {s} is {v}.
right now, my {s} is {v}.
currently, my {s} is {v}.
as of today, my {s} is {v}.
since you should know it, my {s} is {v}.
since you do not know it, my {s} is {v}.
since I may forget it, my {s} is {v}.
so that you know: my {s} is {v}.
so that you know it, my {s} is {v}.
so that I do not forget: my {s} is {v}.
so you know, my {s} is {v}.
because I always forget it: my {s} is {v}.
you are my memory: my {s} is {v}.
be my notebook: my {s} is {v}.
add this to your notes: my {s} is {v}.
add to your notes that my {s} is {v}.
add my {s} to your notes: {v}.
new fact: my {s} is {v}.
new note: my {s} is {v}.
fact one: my {s} is {v}.
secret: my {s} is {v}.
between us, my {s} is {v}.
between you and me, my {s} is {v}.
it is no secret that my {s} is {v}.
actually, my {s} is {v}.
in fact, my {s} is {v}.
of course, my {s} is {v}.
indeed, my {s} is {v}.
yes, my {s} is {v}.
honestly, my {s} is {v}.
luckily I know that my {s} is {v}.
here we go: my {s} is {v}.
what you should know: my {s} is {v}.
what you need to know is that my {s} is {v}.
what I want you to remember is my {s}: {v}.
what I wanted to say: my {s} is {v}.
now remember: my {s} is {v}.
now remember that my {s} is {v}.
now you know that my {s} is {v}.
now note this: my {s} is {v}.
{s}: {v}.
{s}: {v}. Please remember it.
{s} = {v}.
{s} is {v}.
{s} - {v}.
{s}: {v}, please keep it in mind.
{s}: {v}, do not forget.
'''


def _tell_loops():
    found = []
    openings = [
        "please remember: ", "remember: ", "remember this: ", "keep this in mind: ", "note: ", "please note: ",
        "by the way, ", "for later: ", "just so you know: ", "fyi, ", "for your information, ", "before I forget, ",
        "one more thing: ", "one thing: ", "important: ", "listen, ", "hey, ", "hello, ", "well, ", "also, ",
        "oh, ", "first of all, ", "in case you need it, ", "in case I forget it, ", "a quick fact: ",
        "something to remember: ", "here is a note: ", "let me tell you: ", "please keep in mind: ",
        "save this: ", "write this down: ", "do not forget: ", "don't forget: ", "you should know: ",
        "this is important: ", "here is a fact: ", "for the record, ", "okay, ", "so, ", "now, ",
    ]
    cores = ["my {s} is {v}", "{v} is my {s}", "the {s} is {v}", "my {s} is '{v}'", 'my {s} is "{v}"', "my {s}: {v}",
             "my {s} = {v}", "my {s} happens to be {v}"]
    endings = [".", "!", ", okay?", ". Thanks!", ". Thank you.", ". Please remember it.",
               ". Do not forget it.", ". I will ask you later.", ". Got it?", ". Keep it in mind, please.",
               ", and I will ask for it later.", ". That is all.", ". You will need it."]
    for k, opening in enumerate(openings):
        for j, core in enumerate(cores):
            for i in range(3):
                if opening.endswith(", ") and (core.startswith("my {s}:") or core.startswith("my {s} =")):
                    continue
                if opening.endswith(": ") and core.startswith("my {s}:"):
                    continue
                end = endings[0] if i == 0 else endings[(5 * k + 3 * j + 7 * i) % len(endings)]
                if any(w in opening and w in end for w in ("remember", "forget", "mind", "later")):
                    continue
                found.append(opening + core + end)
    frames = ["please {}", "can you {}", "could you {}", "would you {}", "will you {}", "I want you to {}",
              "I need you to {}", "I'd like you to {}", "I would like you to {}", "you should {}", "could you please {}",
              "can you please {}", "I ask you to {}", "may I ask you to {}", "be so kind and {}", "do me a favor and {}",
              "I was wondering if you could {}", "it would be nice if you could {}", "try to {}", "make sure to {}"]
    acts = ["remember that my {s} is {v}", "keep in mind that my {s} is {v}", "note that my {s} is {v}",
            "note down that my {s} is {v}", "write down that my {s} is {v}", "make a note that my {s} is {v}",
            "remember {v} as my {s}", "store {v} as my {s}", "save {v} as my {s}", "keep {v} in mind as my {s}",
            "remember for later that my {s} is {v}", "remember that {v} is my {s}", "memorize that my {s} is {v}",
            "remember the following: my {s} is {v}"]
    for frame in frames:
        end = "?" if frame.split()[0] in ("can", "could", "would", "will", "may") else "."
        found += [frame.format(act) + end for act in acts]
    return found


TELL = list(dict.fromkeys([line for line in _TELL_HAND.split("\n") if line] + _tell_loops()))

# ---- asking for what was told -----------------------------------------------------------------------
_ASK_HAND = r'''
What is my {s} again?
What was my {s} again?
What's my {s} again?
What's the {s}?
What's the {s} again?
What is the {s} again?
What is my {s}, please?
What is my {s}, do you remember?
What is my {s}? You should know.
What is my {s}? I told you.
What is my {s}? I told you before.
What is my {s}? I told you earlier.
What is my {s}? I forgot it.
What is my {s}? I forgot.
What is my {s}? I can't remember.
What is my {s}? I mentioned it above.
What is my {s}? I said it earlier.
What is my {s}? It is above.
What is my {s} exactly?
What exactly is my {s}?
What exactly was my {s}?
What was the {s}?
What was the {s}, please?
What was my {s}? I forgot it.
What was my {s}? I told you before.
What was my {s}, please?
What was it, my {s}?
What was it again, my {s}?
What was that {s} again?
what is my {s}
what is my {s}?
what was my {s}
what was my {s} again
what's my {s}
what's my {s} again?
What did I say was my {s}?
What did I say my {s} was?
What did I tell you my {s} is?
What did I tell you my {s} was?
What did I give you as my {s}?
What did I give as my {s}?
What did I mention as my {s}?
What did I call my {s}?
What did I write about my {s}?
What did I write as my {s}?
What did I write my {s} was?
What did you note as my {s}?
What did you note for my {s}?
What did you remember as my {s}?
What did you write down as my {s}?
What did you save as my {s}?
What do you know about my {s}?
What do you have as my {s}?
What do you have down as my {s}?
What do you have in your notes as my {s}?
What do you remember about my {s}?
What do you remember as my {s}?
What do your notes say about my {s}?
What have I told you about my {s}?
What have I said about my {s}?
What have you noted as my {s}?
What could my {s} be?
What would my {s} be?
What might my {s} be?
What should I enter as my {s}?
What should I write for my {s}?
What should I say if they ask for my {s}?
What do I say when someone asks for my {s}?
What do I have as my {s}?
What do I answer when someone wants my {s}?
What {s} did I tell you?
What {s} did I give you?
What {s} did I mention?
What {s} did I mention earlier?
What {s} did I write?
What {s} did I say?
What {s} did you note?
What {s} do you have for me?
What {s} do you remember?
What {s} was that?
What {s} have I told you?
Which {s} did I give you?
Which {s} did I mention?
Which {s} did I mention before?
Which {s} do I have?
Which {s} do you have for me?
Which {s} did you write down?
Which {s} have I given you?
Which is my {s}?
Which one is my {s}?
Which one was my {s}?
Where did I write my {s}, and what is it?
Where is my {s} in this conversation? Tell me what it is.
Do you remember what my {s} is?
Do you remember what my {s} was?
Do you remember the {s}?
Do you remember the {s} I told you?
Do you remember the {s} that I gave you?
Do you remember my {s}? What is it?
Do you remember my {s}? Tell me.
Do you remember my {s}? Please say it.
Do you still remember my {s}?
Do you still remember what my {s} is?
Do you still have my {s}?
Do you still know the {s}?
Do you still know what my {s} is?
Do you recall my {s}?
Do you recall what my {s} is?
Do you recall the {s} I mentioned?
Do you know my {s}?
Do you know the {s}?
Do you know my {s}? I told you before.
Do you know what my {s} was?
Do you have my {s}?
Do you have my {s} in your notes?
Do you have my {s}? I need it now.
Do you happen to know my {s}?
Do you happen to remember my {s}?
Do you happen to remember what my {s} is?
Did you remember my {s}?
Did you note my {s}? What is it?
Did you keep my {s} in mind? What is it?
Did I tell you my {s}? What is it?
Did I not tell you my {s}? What was it?
Did you write down my {s}? Please tell me.
Have you kept my {s} in mind? What is it?
Have you still got my {s}?
Have you noted my {s}? Say it, please.
Are you able to tell me my {s}?
Are you able to recall my {s}?
Are you able to remember what my {s} is?
Any idea what my {s} is?
Any idea what my {s} was?
Any chance you remember my {s}?
Remember my {s}?
Remember my {s}? What is it?
Remember what my {s} is?
Remember what I said about my {s}? What is it?
remember my {s}?
do you remember my {s}
Tell me the {s}.
Tell me the {s} again.
Tell me the {s}, please.
Tell me my {s} again.
Tell me my {s}, please.
Tell me my {s} now.
Tell me my {s} once more.
Tell me my {s}. I told you before.
Tell me what my {s} is.
Tell me what my {s} was.
Tell me what I said about my {s}.
Tell me what I said my {s} is.
Tell me what you noted as my {s}.
Tell me which {s} I gave you.
Tell me which {s} I have.
Tell me: what is my {s}?
Tell me, what is my {s}?
Tell me, what was my {s}?
Tell me if you remember my {s}.
tell me my {s}
Please tell me my {s}.
Please tell me the {s}.
Please tell me the {s} that I gave you.
Please tell me my {s} again.
Please tell me what my {s} was.
Please tell me which {s} I mentioned.
Please give me my {s}.
Please give me the {s}.
Please give me my {s} again.
Please say my {s}.
Please say my {s} again.
Please say what my {s} is.
Please state my {s}.
Please name my {s}.
Please recall my {s}.
Please repeat the {s}.
Please repeat the {s} I told you.
Please remind me of my {s}.
Please remind me what my {s} is.
Please remind me what my {s} was.
Please show me my {s}.
Please show my {s}.
Please let me know my {s}.
Please let me know what my {s} is.
Please help me remember my {s}.
Please write my {s}.
Please look up my {s} above.
Please answer: what is my {s}?
Please, what is my {s}?
Please, what was my {s} again?
please tell me my {s} again
Give me the {s}.
Give me the {s}, please.
Give me the {s} I told you.
Give me the {s} that I mentioned.
Give me my {s} again.
Give me my {s}, please.
Give me back my {s}.
Show me my {s}.
Show me the {s}.
Show my {s}.
Show me the {s} I gave you.
State my {s}.
State the {s}.
State the {s} that I told you.
Name my {s}.
Name the {s}.
Name the {s} I told you.
Say my {s} again.
Say the {s}.
Say the {s} I told you.
Say what my {s} is.
Say what my {s} was.
Say it: what is my {s}?
Repeat my {s}.
Repeat my {s}, please.
Repeat the {s} I told you.
Repeat the {s} that I gave you.
Repeat what I said my {s} is.
Recall my {s}.
Recall the {s} I gave you.
Recall what my {s} is.
Write my {s}.
Write down my {s}.
Write the {s} that I told you.
Print my {s}.
Return my {s}.
Output my {s}.
Look up my {s}.
Look up my {s} in your notes.
Look back and tell me my {s}.
Look above and tell me my {s}.
Look at my earlier message. What is my {s}?
Look at what I wrote before. What is my {s}?
Scroll up. What is my {s}?
Check your notes: what is my {s}?
Check what I told you. What is my {s}?
Find my {s} in what I told you.
Find my {s} in this conversation.
Find the {s} that I mentioned.
Go back to what I said: what was my {s}?
Think back: what is my {s}?
Think back to what I told you. What was my {s}?
Try to remember my {s}.
Try to remember my {s}. What is it?
Try to recall what my {s} is.
Remind me: what is my {s}?
Remind me, what is my {s}?
Remind me, what was my {s}?
Remind me what my {s} is.
Remind me what my {s} was.
Remind me what I said about my {s}.
Remind me of the {s}.
Remind me of the {s}, please.
Remind me of the {s} I told you.
Remind me about my {s}.
Remind me, please: my {s}?
Remind me again of my {s}.
remind me of my {s}
remind me what my {s} is
Can you remind me of my {s}?
Can you remind me what my {s} is?
Can you remind me of the {s}?
Can you remember my {s}?
Can you remember what my {s} is?
Can you remember the {s} I told you?
Can you still remember my {s}?
Can you recall my {s}?
Can you recall what my {s} was?
Can you recall the {s}?
Can you tell me the {s}?
Can you tell me the {s} again?
Can you tell me my {s} again?
Can you tell me what my {s} is?
Can you tell me what my {s} was?
Can you tell me which {s} I have?
Can you tell me what I said about my {s}?
Can you give me my {s}?
Can you give me the {s} that I told you?
Can you give me my {s} again, please?
Can you say my {s}?
Can you say my {s} again?
Can you name my {s}?
Can you repeat my {s}?
Can you repeat my {s}, please?
Can you repeat the {s}?
Can you show me my {s}?
Can you find my {s}?
Can you look up my {s}?
Can you help me? I forgot my {s}.
Can you help me remember my {s}?
Can I have my {s}?
Can I have my {s}, please?
Can I get my {s}?
Could you tell me my {s}?
Could you tell me my {s}, please?
Could you tell me the {s}?
Could you tell me the {s} again?
Could you tell me what my {s} was?
Could you please tell me my {s}?
Could you please tell me what my {s} is?
Could you please repeat my {s}?
Could you remind me of my {s}?
Could you remind me of the {s}, please?
Could you remind me what my {s} was?
Could you give me my {s}?
Could you give me the {s} again?
Could you say my {s}?
Could you say what my {s} is?
Could you repeat the {s}?
Could you repeat my {s} for me?
Could you recall my {s} for me?
Could you look up my {s}?
Could you show me my {s}?
Could you help me remember my {s}?
Could I have my {s}?
Could I have the {s} again?
Would you tell me my {s}?
Would you tell me what my {s} is?
Would you tell me the {s}, please?
Would you please tell me my {s}?
Would you remind me of my {s}?
Would you remind me what my {s} is?
Would you repeat my {s}?
Would you say my {s} again?
Would you mind telling me my {s}?
Would you mind telling me what my {s} is?
Would you mind repeating my {s}?
Would you know my {s}?
Would you know what my {s} is?
Would you still know my {s}?
Will you tell me my {s}?
Will you tell me what my {s} is?
Will you remind me of my {s}?
Will you repeat my {s}, please?
May I have my {s}?
May I have the {s}, please?
May I ask you for my {s}?
May I ask what my {s} is?
May I ask you what my {s} was?
Might you remember my {s}?
I told you my {s}; what is it?
I told you my {s}; what was it?
I told you my {s}. What is it?
I told you my {s}. What was it?
I told you my {s}. What was it again?
I told you my {s}. Do you remember it?
I told you my {s}. Can you repeat it?
I told you my {s}. Please say it.
I told you my {s}. Tell me what it is.
I told you my {s} before. What is it?
I told you my {s} before; please repeat it.
I told you my {s} earlier. What was it?
I told you my {s} earlier; do you remember?
I told you my {s} a while ago. What is it?
I told you my {s} at the start. What is it?
I told you my {s} at the beginning. What was it?
I told you my {s}, remember? What is it?
I told you my {s}, didn't I? What was it?
I told you the {s}. What is it?
I told you the {s} earlier. What was it?
I told you what my {s} is. Say it.
I gave you my {s}. What is it?
I gave you my {s} earlier. What was it?
I gave you my {s}; please give it back to me.
I gave you the {s} before. Tell me what it is.
I mentioned my {s}. What is it?
I mentioned my {s} before. What was it?
I mentioned my {s} earlier. Can you say it?
I mentioned my {s} earlier; what was it?
I mentioned the {s}. What was it?
I said something about my {s}. What was it?
I said what my {s} is. Please repeat it.
I said my {s} before. What was it?
I wrote my {s} above. What is it?
I wrote you my {s}. What is it?
I wrote what my {s} is. Tell me.
I asked you to remember my {s}. What is it?
I asked you to remember my {s}; what was it?
I asked you to keep my {s} in mind. What is it?
I asked you to note my {s}. What was it?
I forgot my {s}.
I forgot my {s}!
I forgot my {s}, please help.
I forgot my {s}, can you help me?
I forgot my {s}. Can you tell me?
I forgot my {s}. Can you remind me?
I forgot my {s}. Could you help?
I forgot my {s}. Do you remember it?
I forgot my {s}. Do you know it?
I forgot my {s}. Please tell me.
I forgot my {s}. What was it?
I forgot my {s}; what is it?
I forgot my {s}; what was it again?
I forgot the {s}.
I forgot the {s}. What was it?
I forgot what my {s} is.
I forgot what my {s} was.
I forgot what my {s} is. Do you know?
I forgot what I told you about my {s}.
I have forgotten my {s}.
I have forgotten my {s}. What is it?
I have forgotten what my {s} is.
I've forgotten my {s}. Can you tell me?
I've forgotten the {s}. What was it?
I just forgot my {s}. What is it?
I keep forgetting my {s}. What is it?
I always forget my {s}. What is it?
I can't remember my {s}.
I can't remember my {s}. What is it?
I can't remember what my {s} is.
I can't recall my {s}. Can you?
I cannot remember my {s}.
I cannot remember my {s}. Please help me.
I cannot recall my {s}. What was it?
I do not remember my {s}. What is it?
I do not remember my {s}. Do you?
I don't remember my {s}. What was it?
I don't remember what my {s} is. Do you?
I no longer know my {s}.
I no longer know my {s}. What was it?
I do not know my {s} any more. What is it?
I don't know my {s} anymore. Tell me, please.
I lost the note with my {s}. What is it?
I am not sure about my {s}. What is it?
I'm not sure what my {s} is. Can you tell me?
I am trying to remember my {s}. What is it?
I'm trying to remember my {s}. Can you help?
I was wondering what my {s} is.
I was wondering what my {s} was.
I was wondering if you remember my {s}.
I was wondering whether you still know my {s}.
I wonder if you remember my {s}.
I wonder what my {s} is.
I need my {s}.
I need my {s} now.
I need my {s} again.
I need my {s}, please.
I need my {s}. What is it?
I need my {s}. What was it again?
I need the {s}.
I need the {s} now. What is it?
I need the {s} I told you.
I need to know my {s}.
I need to know what my {s} is.
I need you to tell me my {s}.
I now need my {s}. Tell me, please.
I want my {s}.
I want my {s} back.
I want to know my {s}.
I want to know what my {s} is.
I want to know the {s} I told you.
I want to hear my {s}.
I want you to tell me my {s}.
I want to see if you remember my {s}.
I would like my {s}, please.
I would like to know my {s}.
I would like to know what my {s} is.
I would like to hear my {s} again.
I would like you to repeat my {s}.
I'd like to know my {s}.
I'd like to have my {s}.
I'd like to hear what my {s} is.
I am looking for my {s}.
I am looking for my {s}. What was it?
I'm looking for the {s} I gave you.
I have to write down my {s}. What is it?
I have to fill in a form. What is my {s}?
I am filling in a form and need my {s}.
I hope you remember my {s}. What is it?
I think you know my {s}. What is it?
I bet you remember my {s}. What is it?
I ask you for my {s}.
I am asking for my {s}.
Someone asks me for my {s}. What should I say?
Somebody wants to know my {s}. What is it?
They ask for my {s}. What is it?
They want to know my {s}. What do I say?
A friend asked for my {s}. What is it?
A form asks for my {s}. What should I write?
People ask me for my {s}. What do I answer?
Earlier I mentioned my {s}. What was it?
Earlier I mentioned my {s}. What is it?
Earlier I mentioned my {s}; can you repeat it?
Earlier I mentioned the {s}. What was it?
Earlier I told you my {s}. What was it?
Earlier I told you my {s}. Please repeat it.
Earlier I told you my {s}; do you still know it?
Earlier I gave you my {s}. Tell me what it is.
Earlier I said what my {s} is. What was it?
Earlier I wrote my {s}. What was it?
Earlier you noted my {s}. What is it?
Earlier, what did I say my {s} was?
Earlier, what did I give as my {s}?
Before, I told you my {s}. What is it?
Before, I mentioned my {s}. What was it?
A while ago I told you my {s}. What was it?
A moment ago I mentioned my {s}. What was it?
At the start I told you my {s}. What is it?
At the beginning I gave you my {s}. What was it?
In the beginning I mentioned my {s}. What is it?
In this conversation, what did I say my {s} is?
In this chat I told you my {s}. What was it?
In my first message I told you something. What is my {s}?
In what I told you, what is my {s}?
From what I told you, what is my {s}?
From what I told you earlier, what is my {s}?
From memory: what is my {s}?
From your notes, what is my {s}?
According to what I said, what is my {s}?
According to me, what is my {s}?
According to your notes, what is my {s}?
Based on what I told you, what is my {s}?
Given what I told you, what is my {s}?
As I told you before, what is my {s}?
You know my {s}. What is it?
You know my {s}, right? Tell me.
You know my {s}, don't you? What is it?
You should know my {s}. What is it?
You should remember my {s}. What is it?
You should still know my {s}. Tell me.
You noted my {s}. What is it?
You noted my {s}. Please tell me.
You remember my {s}, right? What is it?
You remember my {s}, don't you?
You still know my {s}, right?
You have my {s}. Give it to me.
You have my {s} in your notes. What is it?
You wrote down my {s}. What is it?
You were told my {s}. What is it?
You heard my {s}. What was it?
You said you noted it: what is my {s}?
Back to my {s}: what is it?
Back to what I told you: what is my {s}?
Back to my question: what is my {s}?
Coming back to my {s}: what was it?
About my {s}: what was it?
About my {s}: what did I say?
As for my {s}, what is it?
As for my {s}, what did I say?
Concerning my {s}: what is it?
Speaking of my {s}, what was it?
Regarding my {s}: what did I tell you?
Now, what is my {s}?
Now, what was my {s}?
Now, do you remember my {s}?
Now tell me my {s}.
Now tell me what my {s} is.
Now say my {s}.
Now give me my {s}.
Now repeat my {s}.
Now my question: what is my {s}?
Now I need my {s}.
So what was my {s}?
So, what was my {s} again?
So tell me my {s}.
So, do you remember my {s}?
So, my {s}?
Okay, what was my {s}?
Okay, now what is my {s}?
Okay, tell me my {s}.
Okay, do you remember my {s}?
Ok, and my {s}?
Well, what is my {s}?
Well, do you remember my {s}?
And what was my {s}?
And what was my {s} again?
And the {s}?
And my {s}?
And do you remember my {s}?
And now my {s}?
And now: what is my {s}?
But what is my {s}?
But what was my {s}?
Then what is my {s}?
Then what was my {s}?
Also, what is my {s}?
Oh, what was my {s} again?
By the way, what is my {s}?
By the way, what was my {s}?
By the way, do you remember my {s}?
Quick question: what is my {s}?
Quick question: what was my {s}?
Quick check: my {s}?
Quick test: what is my {s}?
Memory test: what is my {s}?
Memory check: my {s}?
Memory check: what was my {s}?
A test: what is my {s}?
Test: what is my {s}?
Test question: what is my {s}?
Let us test your memory: what is my {s}?
Let's see if you remember my {s}.
Let's see if you remember: what is my {s}?
Let me test you: what is my {s}?
Let me see if you remember my {s}.
Let me ask you: what is my {s}?
Let me ask again: what is my {s}?
Let me know my {s}.
Let me know what my {s} is.
Let me know what my {s} was.
Let me have my {s}.
Let me have the {s}, please.
Let me hear my {s}.
My question is: what is my {s}?
My question: what was my {s}?
My {s}?
My {s} is?
My {s} is ...?
My {s} is what?
My {s} is what, exactly?
My {s} was?
My {s} was what?
My {s} was what again?
My {s} again, please.
My {s} again?
My {s}, do you remember?
My {s}, do you still know it?
My {s}, what is it?
My {s}, what was it?
My {s}: what is it?
My {s}: what was it?
My {s}: do you remember it?
My {s} - what was it?
My {s} - what is it again?
My {s} - do you remember?
My {s}. What is it?
My {s} slipped my mind. What is it?
My {s} slipped my mind.
My {s} is no longer in my head. What is it?
my {s}
my {s} again?
my {s} please
my {s} was?
the {s}?
The {s}?
The {s}, please.
The {s} again, please.
The {s} is?
The {s} is what?
The {s} was?
The {s} was what again?
The {s}: what was it?
The {s} I told you, please.
The {s} I told you: what is it?
The {s} that I told you was?
The {s} that I gave you, please.
The {s} that I mentioned, what was it?
Complete the sentence: my {s} is ...
Complete this: My {s} is ...
Fill in the blank: my {s} is ___.
Fill in: my {s} is ___.
Finish my sentence: my {s} is ...
Answer this: what is my {s}?
Answer my question: what is my {s}?
Answer me: what was my {s}?
Question: what was my {s}?
Question: which {s} did I give you?
One question: what is my {s}?
One more question: what is my {s}?
One last question: what is my {s}?
Last question: what is my {s}?
Next question: what is my {s}?
Here is my question: what is my {s}?
Here is a question: what was my {s}?
Help me: what is my {s}?
Help me: what was my {s}?
Help me out: what is my {s}?
Help me remember my {s}.
Help me remember: what is my {s}?
Help! I forgot my {s}.
Hey, what is my {s}?
Hey, what was my {s} again?
Hey, do you remember my {s}?
Hi, what is my {s}?
Hello, do you remember my {s}?
Sorry, what was my {s} again?
Sorry, what is my {s}?
Sorry, I forgot my {s}.
Sorry, I forgot my {s}. What is it?
Excuse me, what is my {s}?
Excuse me, what was my {s} again?
Wait, what was my {s}?
Wait, what is my {s} again?
Hmm, what was my {s}?
Thanks. What is my {s}?
Thanks. And what was my {s}?
Good. What is my {s}?
Good, now what was my {s}?
Great. Now tell me my {s}.
Once more, what is my {s}?
Once again: what is my {s}?
Again, what is my {s}?
Again: what was my {s}?
One more time, what is my {s}?
If you remember my {s}, tell me.
If you remember it, what is my {s}?
If you still know my {s}, please say it.
If I asked you for my {s}, what would you say?
If someone asked for my {s}, what would you tell them?
Is my {s} still in your memory? What is it?
Is my {s} in your notes? What is it?
Time to test you: what is my {s}?
It is time to tell me my {s}.
It would help me to know my {s}.
It would be nice to hear my {s} again.
'''


def _ask_loops():
    found = []
    openings = [
        "I forgot it. ", "I forgot. ", "Please tell me: ", "Please answer: ", "I told you before. ", "I told you earlier. ",
        "I mentioned it earlier. ", "I said it before. ", "Now, ", "Okay, ", "So, ", "Well, ", "Hey, ", "Sorry, ",
        "Excuse me, ", "Quick question: ", "One question: ", "Just one question: ", "Back to me: ", "Memory test: ",
        "Thinking back, ", "Thank you. ", "Thanks. ", "Good. ", "Great. ", "All right, ", "Can you help me? ",
        "Help me, please: ", "I need to know: ", "I want to know: ", "I am curious: ", "For my form: ", "For my notes: ",
    ]
    cores = ["what is my {s}?", "what was my {s}?", "what was my {s} again?", "do you remember my {s}?",
             "can you tell me my {s}?", "what did I say my {s} is?", "which {s} did I tell you?", "what is the {s}?",
             "do you still know my {s}?", "could you repeat my {s}?", "what {s} did I give you?", "tell me my {s}."]
    for opening in openings:
        for core in cores:
            if core.startswith("tell") and opening.rstrip().endswith("know:") or "tell me" in core and "tell me" in opening:
                continue
            found.append(opening + (_upper(core) if opening.rstrip()[-1] in ".?!" else core))
    frames = ["Please {}.", "Can you {}?", "Could you {}?", "Would you {}?", "Will you {}?", "I want you to {}.",
              "I need you to {}.", "I'd like you to {}.", "I would like you to {}.", "Could you please {}?",
              "Can you please {}?", "Would you please {}?", "Are you able to {}?", "I was hoping you could {}.",
              "I wonder if you could {}.", "May I ask you to {}?", "Be so kind and {}.", "Now {}.", "Just {}."]
    acts = ["tell me my {s}", "tell me my {s} again", "tell me the {s}", "tell me what my {s} is", "tell me what my {s} was",
            "remind me of my {s}", "remind me what my {s} is", "give me my {s}", "give me the {s} I told you",
            "say what my {s} is", "say my {s}", "repeat my {s}", "repeat the {s} that I gave you", "recall my {s}",
            "state my {s}", "name my {s}", "show me my {s}", "let me know my {s}", "tell me which {s} I mentioned",
            "tell me what I said about my {s}", "help me remember my {s}", "look up my {s}"]
    for frame in frames:
        found += [frame.format(act) for act in acts]
    told = ["I told you my {s}", "I gave you my {s}", "I mentioned my {s}", "I wrote my {s}", "I said my {s}",
            "I let you know my {s}", "I asked you to remember my {s}"]
    when = ["", " earlier", " before", " a while ago", " at the start", " some time ago", " above", " already"]
    ends = [". What is it?", ". What was it?", "; what is it?", "; what was it?", ". What was it again?",
            ". Do you remember it?", ". Please repeat it.", ". Can you tell me what it is?", ", so what is it?",
            ". Say it, please.", ". Could you repeat it?", ". Tell me."]
    n = 0
    for tell in told:
        for time in when:
            if tell.startswith("I asked") and time in (" already", " above"):
                continue
            for _ in range(4):
                found.append(tell + time + ends[n * 5 % 12])
                n += 1
    return found


ASK = list(dict.fromkeys([line for line in _ASK_HAND.split("\n") if line] + _ask_loops()))

# Lines that a loop above makes and that are in other lists already.
_TAKEN = {
    "Copy the following text: '{t}'",
    'remember this: my {s} is {v}.',
    'by the way, my {s} is {v}.',
    'for later: my {s} is {v}.',
    'just so you know: my {s} is {v}.',
    "just so you know: my {s} is '{v}'.",
    'just so you know: my {s} is "{v}".',
    'just so you know: my {s} is "{v}"!',
    'important: the {s} is {v}.',
    'please keep in mind: my {s} is {v}.',
    "please keep in mind: my {s} is '{v}'.",
    'please keep in mind: my {s} is "{v}".',
    'please remember that my {s} is {v}.',
    'Okay, what is my {s}?',
    'So, what is my {s}?',
    'Well, what was my {s}?',
    'Please tell me what my {s} is.',
    'Please repeat my {s}.',
    'Can you tell me my {s}?',
    'Could you tell me what my {s} is?',
    'Could you remind me what my {s} is?',
    'Now tell me the {s}.',
}
COPY = [line for line in COPY if line not in _TAKEN]
TELL = [line for line in TELL if line not in _TAKEN]
ASK = [line for line in ASK if line not in _TAKEN]
