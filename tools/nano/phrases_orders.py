"""More training templates: openings of requests to call a function, and developer instructions about style."""


def _lines(text):
    return [line for line in text.strip().split("\n") if line]


# ---- REQUEST --------------------------------------------------------------------------------------

# plain imperatives
_REQUEST = _lines("""
{V} this {n}
{V} the {n} now
{V} the {n}, please
{V} a {n}, please
{V} my {n}, please
{V} this {n} for me
{V} the {n} for me
{V} a {n} for me
{V} a {n} for us
{V} a new {n}
{V} the new {n}
{V} the old {n}
{V} the next {n}
{V} the last {n}
{V} the first {n}
{V} another {n}
{V} some {n}
{V} any {n}
{V} her {n}
{V} its {n}
{V} the same {n}
{V} the other {n}
{V} the whole {n}
{V} the right {n}
{V} the following {n}
{V} the customer's {n}
{V} the company's {n}
{V} the team's {n}
{V} today's {n}
{V} tomorrow's {n}
{V} this one {n}
{V} exactly one {n}
{V} just one {n}
{V} a single {n}
{V} the {n} right away
{V} the {n} right now
{V} the {n} at once
{V} the {n} immediately
{V} the {n} today
{V} the {n} again
{V} the {n} if you can
{V} the {n} when you can
{V} the {n} as soon as possible
{V} the {n} like this
{V} the {n} as follows
{V} a {n} as follows
{V} a {n} now
{V} a {n} right now
{V} a {n} today
{V} a {n} like this
{V} {n}
{v} {n}
{v} a {n}
{v} my {n}
{v} this {n}
{v} that {n}
{v} the {n} please
{v} a {n} please
{v} my {n} please
{v} this {n} please
{v} the {n} pls
{v} the {n} now
{v} the {n} for me
{v} a {n} for me please
{v} a new {n}
{v} one {n}
""")

# please
_REQUEST += _lines("""
Please {v} this {n}
Please {v} that {n}
Please {v} one {n}
Please {v} a new {n}
Please {v} the {n} now
Please {v} the {n} for me
Please {v} the {n} for us
Please {v} a {n} for me
Please {v} a {n} for the customer
Please {v} the {n} today
Please {v} the {n} again
Please {v} the {n} right away
Please {v} the {n} as soon as you can
Please {v} the {n} as described
Please {v} the {n} as follows
Please do {v} the {n}
Please help me {v} the {n}
Please help me to {v} a {n}
Please help us {v} our {n}
Please try to {v} the {n}
Please make sure to {v} the {n}
Please remember to {v} the {n}
Please do not forget to {v} the {n}
Please don't forget to {v} my {n}
Please begin to {v} the {n}
Please start to {v} the {n}
Please proceed to {v} the {n}
Please continue and {v} the {n}
Please take the time to {v} the {n}
Please use the tool to {v} the {n}
Please use the right function to {v} a {n}
Please call the function to {v} the {n}
Please call the tool that can {v} a {n}
Please find a way to {v} the {n}
Please be so kind as to {v} the {n}
Please be so good as to {v} my {n}
Please, {v} the {n}
Please, {v} my {n}
Please, can you {v} the {n}
Please, could you {v} this {n}
Please can you {v} my {n}
Please could you {v} a {n}
Please would you {v} my {n}
please {v} the {n}
please {v} a {n}
please {v} my {n}
pls {v} the {n}
pls {v} a {n}
Pretty please, {v} the {n}
Kindly {v} the {n}
Kindly {v} a {n}
Kindly {v} my {n}
Kindly {v} this {n} for us
""")

# can, could, will, would, may
_REQUEST += _lines("""
Can you {v} a {n}
Can you {v} my {n}
Can you {v} this {n}
Can you {v} our {n}
Can you {v} the {n} for me
Can you {v} a {n} for me
Can you please {v} the {n}
Can you please {v} a {n}
Can you {v} the {n}, please
Can you {v} the {n} now
Can you {v} the {n} right away
Can you quickly {v} the {n}
Can you just {v} the {n}
Can you help me {v} a {n}
Can you help me to {v} the {n}
Can you help us {v} this {n}
Can you go ahead and {v} the {n}
Can you go and {v} my {n}
Can you try to {v} the {n}
Can you make sure to {v} the {n}
Can you also {v} the {n}
Can you use a tool to {v} the {n}
Can you call the function to {v} a {n}
can you {v} the {n}
can you {v} a {n}
can you {v} my {n} please
can u {v} the {n}
Can we {v} a {n}
Can we {v} the {n}
Can we {v} this {n} now
Can we please {v} the {n}
Can I {v} a {n}
Can I {v} my {n}
Can I please {v} the {n}
Can I ask you to {v} the {n}
Can I get you to {v} a {n}
Can I have you {v} the {n}
Can someone {v} the {n}
Can somebody {v} my {n}
Can anyone {v} this {n}
Could you {v} the {n}
Could you {v} my {n}
Could you {v} this {n}
Could you {v} that {n} for me
Could you {v} a {n} for us
Could you please {v} the {n}
Could you please {v} my {n}
Could you please {v} a {n}
Could you kindly {v} the {n}
Could you quickly {v} a {n}
Could you possibly {v} the {n}
Could you perhaps {v} a {n}
Could you maybe {v} the {n}
Could you help me {v} the {n}
Could you help me {v} my {n}
Could you go ahead and {v} a {n}
Could you try to {v} the {n}
Could you take a moment to {v} the {n}
Could you make sure to {v} my {n}
Could you use your tools to {v} the {n}
could you {v} the {n}
could you {v} a {n} for me
Could we {v} the {n}
Could we {v} a {n}
Could I ask you to {v} a {n}
Could I get you to {v} the {n}
Could I trouble you to {v} the {n}
Could someone {v} the {n}
Could somebody please {v} a {n}
Will you {v} the {n}
Will you {v} my {n}
Will you please {v} the {n}
Will you please {v} a {n}
Will you help me {v} the {n}
Will you go and {v} the {n}
Would you {v} a {n}
Would you {v} my {n}
Would you {v} this {n} for me
Would you kindly {v} the {n}
Would you be able to {v} the {n}
Would you be able to {v} a {n}
Would you be so kind as to {v} the {n}
Would you be so kind and {v} my {n}
Would you be willing to {v} the {n}
Would you help me {v} a {n}
Would you help us {v} the {n}
Would you like to {v} the {n} for me
Would you mind helping me {v} the {n}
Would it be okay to {v} the {n}
Would it be possible for you to {v} a {n}
Would it be possible to {v} my {n}
Would it be too much to ask you to {v} the {n}
May I {v} the {n}
May I {v} a {n}
May I ask you to {v} a {n}
May we {v} the {n}
Might you {v} the {n}
Might I ask you to {v} my {n}
Are you able to {v} the {n}
Are you able to {v} a {n}
Are we able to {v} the {n}
Is it possible to {v} the {n}
Is it possible to {v} a {n}
Is it possible for you to {v} my {n}
Is it okay to {v} the {n}
Is there a way to {v} the {n}
Is there a way to {v} my {n}
Is there a tool to {v} a {n}
Is there any chance you can {v} the {n}
Any chance you could {v} the {n}
Any chance to {v} a {n}
Do you think you could {v} the {n}
Do you think you can {v} my {n}
Do you have a way to {v} the {n}
Do you know how to {v} the {n}
Shall we {v} the {n}
Shall we {v} a {n}
Should we {v} the {n}
Why don't you {v} the {n}
Why don't we {v} a {n}
Why not {v} the {n}
How about you {v} the {n}
What about this: {v} the {n}
How do I {v} a {n}
How can I {v} my {n}
How can we {v} the {n}
""")

# need, want, wish, must, obligation
_REQUEST += _lines("""
I need to {v} the {n}
I need to {v} a {n}
I need to {v} my {n}
I need to {v} this {n}
I need to {v} the {n} now
I need to {v} a {n} quickly
I need to {v} a {n} for a customer
I need to {v} a {n} for tomorrow
I need to {v} one {n}
I need you to {v} the {n}
I need you to {v} my {n}
I need you to {v} this {n} for me
I need you to please {v} the {n}
I need help to {v} the {n}
I need someone to {v} the {n}
I need somebody to {v} my {n}
I need a tool to {v} the {n}
I really need to {v} the {n}
I really need you to {v} the {n}
I just need to {v} the {n}
I just need you to {v} a {n}
I only need to {v} the {n}
I also need to {v} a {n}
I still need to {v} the {n}
I still have to {v} the {n}
I urgently need to {v} the {n}
i need to {v} the {n}
i need you to {v} a {n}
I want to {v} a {n}
I want to {v} my {n}
I want to {v} this {n}
I want to {v} that {n} now
I want to {v} a new {n}
I want you to {v} the {n}
I want you to {v} my {n}
I want you to {v} this {n}
I want you to {v} one {n} for me
I just want to {v} the {n}
I just want you to {v} the {n}
I only want to {v} a {n}
I really want to {v} my {n}
i want to {v} the {n}
i want to {v} a {n}
I would like to {v} the {n}
I would like to {v} my {n}
I would like to {v} this {n}
I would like to {v} one {n}
I would like you to {v} the {n}
I would like you to {v} a {n}
I would like you to {v} my {n}
I'd like to {v} the {n}
I'd like to {v} a {n}
I'd like to {v} my {n}
I'd like to {v} this {n}, please
I'd like you to {v} the {n}
I'd like you to {v} a {n}
I'd love to {v} the {n}
I'd love you to {v} my {n}
I'd love it if you could {v} the {n}
I'd appreciate it if you could {v} the {n}
I would appreciate it if you could {v} a {n}
I would be glad if you could {v} the {n}
I would be happy if you could {v} my {n}
I would be grateful if you could {v} the {n}
I would be thankful if you would {v} this {n}
I'd be grateful if you would {v} my {n}
I would prefer to {v} the {n}
I wish to {v} the {n}
I wish to {v} a {n}
I wish you would {v} the {n}
I hope you can {v} the {n}
I hope you can help me {v} a {n}
I hope to {v} the {n} today
I plan to {v} the {n}
I am planning to {v} a {n}
I intend to {v} the {n}
I am going to {v} the {n}
I am about to {v} a {n}
I am trying to {v} the {n}
I am trying to {v} my {n}
I'm trying to {v} a {n}
I am here to {v} my {n}
I am ready to {v} the {n}
I am supposed to {v} the {n}
I have to {v} the {n}
I have to {v} a {n}
I have to {v} this {n} today
I've got to {v} the {n}
I must {v} the {n}
I must {v} my {n} now
I should {v} the {n}
I ought to {v} the {n}
I was asked to {v} the {n}
I was told to {v} a {n}
I was wondering if you could {v} the {n}
I was wondering if you could {v} my {n}
I was wondering whether you can {v} a {n}
I was hoping you could {v} the {n}
I was hoping to {v} a {n}
I wonder if you could {v} the {n}
I wonder if you can {v} my {n}
I am looking to {v} a {n}
I am looking for a way to {v} the {n}
I am looking for help to {v} my {n}
I am calling to {v} my {n}
I am writing to ask you to {v} the {n}
I am asking you to {v} the {n}
I'm asking you to {v} a {n}
I ask you to {v} the {n}
I beg you to {v} my {n}
I'd ask you to {v} the {n}
I'll need you to {v} the {n}
I will need you to {v} a {n}
I expect you to {v} the {n}
I think we should {v} the {n}
I think you should {v} a {n}
I think it is time to {v} my {n}
I guess we have to {v} the {n}
I suggest that we {v} the {n}
I suggest you {v} a {n}
I decided to {v} the {n}
I have decided to {v} my {n}
I forgot to {v} the {n}
I forgot to {v} my {n}, please do it
I cannot {v} the {n} myself, please do it
We need to {v} a {n}
We need to {v} our {n}
We need to {v} this {n}
We need you to {v} the {n}
We need you to {v} a {n} for us
We want to {v} a {n}
We want to {v} our {n}
We want you to {v} the {n}
We would like to {v} the {n}
We would like to {v} a {n}
We would like you to {v} our {n}
We'd like to {v} the {n}
We'd like you to {v} a {n}
We have to {v} the {n}
We have to {v} a {n} today
We must {v} the {n}
We should {v} the {n}
We should {v} a {n}
We ought to {v} this {n}
We are going to {v} the {n}
We are ready to {v} the {n}
We are supposed to {v} a {n}
We plan to {v} the {n}
We decided to {v} our {n}
We still have to {v} the {n}
We were asked to {v} the {n}
You need to {v} the {n}
You need to {v} a {n}
You have to {v} the {n}
You must {v} the {n}
You must {v} a {n} now
You should {v} a {n}
You should now {v} my {n}
You can {v} the {n} now
You can now {v} a {n}
You can go ahead and {v} the {n}
You may {v} the {n} now
You may now {v} the {n}
You are asked to {v} the {n}
You are going to {v} a {n}
You are to {v} the {n}
You could {v} the {n} for me
You might want to {v} the {n}
Your job is to {v} the {n}
Your task is to {v} the {n}
Your task: {v} a {n}
Your next task is to {v} the {n}
Your next job: {v} my {n}
My wish is to {v} the {n}
My plan is to {v} a {n}
My goal is to {v} the {n}
My request is to {v} the {n}
My request: {v} the {n}
My task is to {v} a {n}
The plan is to {v} the {n}
The goal is to {v} the {n}
The task is to {v} a {n}
The idea is to {v} the {n}
The job is to {v} the {n}
The next step is to {v} the {n}
The next thing to do is to {v} the {n}
The first step is to {v} a {n}
What I need is to {v} the {n}
What I want is to {v} a {n}
What I want you to do is {v} the {n}
What I need you to do is {v} a {n}
What you need to do is {v} the {n}
All I want is to {v} the {n}
All I need is to {v} my {n}
All you have to do is {v} the {n}
""")

# other people, context first, the noun first
_REQUEST += _lines("""
My boss wants to {v} the {n}
My boss wants me to {v} a {n}
My boss needs you to {v} the {n}
My boss says we should {v} the {n}
My manager asked me to {v} the {n}
My manager wants us to {v} a {n}
My colleague wants to {v} the {n}
My friend wants to {v} a {n}
My wife wants me to {v} the {n}
My husband asked me to {v} a {n}
My team needs to {v} the {n}
My team wants to {v} a {n}
My client would like to {v} the {n}
My customer needs to {v} a {n}
Our team has to {v} the {n}
Our customer wants us to {v} a {n}
Our client needs to {v} the {n}
The boss wants you to {v} the {n}
The customer asks us to {v} a {n}
The customer would like to {v} the {n}
The client needs us to {v} the {n}
The client asked to {v} a {n}
The team wants to {v} the {n}
The user wants to {v} the {n}
The user asked to {v} a {n}
Someone needs to {v} the {n}
Someone should {v} this {n}
Someone has to {v} the {n}
Someone please {v} the {n}
Somebody should {v} the {n}
Somebody asked me to {v} a {n}
Somebody please {v} this {n}
They want us to {v} the {n}
They want to {v} a {n}
They need to {v} the {n}
They told me to {v} this {n}
She wants to {v} the {n}
She asked me to {v} a {n}
He wants to {v} a {n}
He told me to {v} the {n}
I have a {n}, please {v} it
I have a {n} here, can you {v} it
I have a {n} that you need to {v}
There is a {n} to {v}
There is a {n} that I need to {v}
There is a {n} that we have to {v}
There is a {n}, please {v} it
Here is a {n} to {v}
Here is a {n}, please {v} it
Here is what I need: {v} the {n}
Here is what to do: {v} a {n}
Here is your task: {v} the {n}
Here is my request: {v} a {n}
This is the {n} to {v}
This is a {n} that you should {v}
About the {n}: please {v} it
About my {n}: can you {v} it
As for the {n}, please {v} it
Regarding the {n}: please {v} it
Regarding my {n}, I want to {v} it
Concerning the {n}, please {v} it
With the {n}, do this: {v} it
Take the {n} and {v} it
Take my {n} and {v} it
Take this {n} and {v} it, please
Look at the {n} and {v} it
Find the tool to {v} the {n}
The {n}, please {v} it
The {n}: {v} it
The {n}: please {v} it
The {n}: I want to {v} it
My {n}: please {v} it
My {n}: could you {v} it
See the {n}? Please {v} it
You know the {n}? Please {v} it
We have a {n} to {v}
We have a {n}, please {v} it
We got a {n} that we must {v}
I got a {n} that I want to {v}
A {n} to {v}
One {n} to {v}
Something to do: {v} the {n}
One thing to do: {v} the {n}
One more thing: {v} the {n}
One more task: {v} a {n}
One request: {v} the {n}
A request: {v} the {n}
A request: please {v} a {n}
A favor: {v} the {n}
A small favor: please {v} my {n}
A small task: {v} the {n}
To do: {v} the {n}
To do: {v} a {n}
To-do: {v} my {n}
Todo: {v} the {n}
Action: {v} the {n}
Action: {v} a {n}
Request: {v} the {n}
Request: {v} a {n}
Request: please {v} my {n}
Command: {v} the {n}
Order: {v} the {n}
Job: {v} the {n}
Job: {v} a {n}
Task: {v} a {n}
Task: please {v} my {n}
New task: {v} the {n}
Next task: {v} a {n}
Next step: {v} the {n}
Next: {v} the {n}
Step one: {v} the {n}
Goal: {v} a {n}
Wanted: {v} the {n}
Needed: {v} a {n}
Urgent: {v} the {n}
Urgent: please {v} my {n}
Important: {v} the {n}
Reminder: {v} the {n}
Note: {v} the {n}
Instruction: {v} the {n}
Instructions: {v} a {n}
Function: {v} {n}
Tool: {v} {n}
Call: {v} {n}
""")

# time, beginning, help, tools, greetings, reasons
_REQUEST += _lines("""
Time to {v} the {n}
Time to {v} a {n}
Time to {v} my {n}
time to {v} the {n}
It's time to {v} the {n}
It's time to {v} a {n}
It is time to {v} my {n}
It is now time to {v} a {n}
It is about time to {v} the {n}
Now it is time to {v} the {n}
Now {v} a {n}
Now {v} my {n}
Now please {v} the {n}
Now please {v} a {n}
Now I want to {v} the {n}
Now I need to {v} a {n}
Now we need to {v} the {n}
Now we can {v} the {n}
Now go and {v} the {n}
Now let us {v} the {n}
Now can you {v} the {n}
now {v} the {n}
Then {v} the {n}
Then please {v} a {n}
And now {v} the {n}
And now please {v} my {n}
And {v} the {n}
Also {v} the {n}
Also, {v} a {n}
Also, please {v} the {n}
Next, please {v} a {n}
Next, I want to {v} the {n}
Next, we should {v} the {n}
First, {v} a {n}
First, please {v} the {n}
First of all, {v} the {n}
Today I want to {v} a {n}
Today we have to {v} the {n}
Today, please {v} my {n}
This morning I need to {v} the {n}
Before I forget, {v} the {n}
Before anything else, {v} the {n}
As soon as possible, {v} the {n}
When you are ready, {v} the {n}
When you have time, {v} a {n}
When you can, please {v} the {n}
If possible, {v} the {n}
If possible, please {v} a {n}
If you can, {v} the {n}
If you can, please {v} my {n}
If you could {v} the {n}
If you could please {v} a {n}
If you could just {v} my {n}
If you don't mind, {v} the {n}
If you would, {v} the {n}
If it is not too much trouble, {v} the {n}
Go ahead and {v} the {n}
Go ahead and {v} this {n}
Go ahead and {v} a {n}
Go ahead and {v} my {n}
Go ahead, {v} the {n}
Go ahead, please {v} a {n}
go ahead and {v} the {n}
Go on and {v} the {n}
Go on, {v} a {n}
Go {v} the {n}
Go {v} a {n}
Go {v} my {n}
Come on, {v} the {n}
Feel free to {v} the {n}
Proceed to {v} the {n}
Proceed and {v} a {n}
Begin to {v} the {n}
Get ready to {v} the {n}
Get someone to {v} the {n}
Try to {v} the {n}
Try to {v} a {n}
Try and {v} my {n}
Make sure to {v} the {n}
Make sure you {v} a {n}
Make sure that you {v} the {n}
Be sure to {v} the {n}
Remember to {v} the {n}
Don't forget to {v} the {n}
Do not forget to {v} a {n}
Let's {v} the {n}
Let's {v} a {n}
Let's {v} my {n}
Let's {v} this {n}
Let's go and {v} the {n}
Let's now {v} a {n}
let's {v} the {n}
Let us {v} the {n}
Let us now {v} our {n}
Let me {v} the {n}
Let me {v} a {n}
Let me {v} my {n}
Help me {v} a {n}
Help me {v} my {n}
Help me to {v} the {n}
Help me to {v} this {n}
Help us {v} the {n}
Help us to {v} a {n}
Help, I need to {v} the {n}
Help! I have to {v} my {n}
help me {v} the {n}
Some help, please: {v} the {n}
Do me a favor and {v} the {n}
Do me a favor: {v} a {n}
Do me a favour and {v} my {n}
Do this for me: {v} the {n}
Do this now: {v} a {n}
Do the following: {v} the {n}
Do what is needed to {v} the {n}
Do whatever it takes to {v} the {n}
Do {v} a {n}
Do please {v} my {n}
Be a dear and {v} the {n}
Be so kind as to {v} the {n}
Be so good and {v} a {n}
Be nice and {v} the {n}
Use your tools to {v} the {n}
Use your tools to {v} a {n}
Use a tool to {v} the {n}
Use the tool to {v} my {n}
Use the function to {v} the {n}
Use your functions to {v} the {n}
Use the available tools to {v} a {n}
Use the right tool to {v} the {n}
Use the {v} {n} tool
Use the {v} {n} function
With your tools, {v} the {n}
With the functions you have, {v} a {n}
Call the tool to {v} the {n}
Call the function to {v} the {n}
Call the function to {v} a {n}
Call the right function to {v} my {n}
Call the {v} {n} function
Call the {v} {n} tool
Call {v} {n}
Run the tool to {v} the {n}
Run the function to {v} a {n}
Run the {v} {n} function
Run {v} {n}
Run this: {v} the {n}
Invoke the function to {v} the {n}
Make a call to {v} the {n}
Make a function call to {v} a {n}
Hi, {v} the {n}
Hi, please {v} a {n}
Hi, can you {v} the {n}
Hi, could you {v} my {n}
Hi, I need to {v} the {n}
Hi, I want to {v} a {n}
Hi, I'd like to {v} my {n}
Hi there, please {v} the {n}
Hi there, can you {v} a {n}
Hi! Please {v} the {n}
Hi! Can you {v} my {n}
Hi! I need to {v} a {n}
Hello, please {v} the {n}
Hello, {v} a {n}
Hello, can you {v} the {n}
Hello, I want to {v} my {n}
Hello, I would like to {v} a {n}
Hello! Please {v} the {n}
Hello! Could you {v} a {n}
Hello there, {v} the {n} please
Hey, {v} a {n}
Hey, can you {v} the {n}
Hey, could you {v} my {n}
Hey, please {v} this {n}
Hey, I need to {v} the {n}
Hey there, {v} the {n}
hey, can you {v} the {n}
hi, please {v} my {n}
Good morning, please {v} the {n}
Good morning! I need to {v} a {n}
Good evening, can you {v} the {n}
Good day, I would like to {v} a {n}
Dear assistant, please {v} the {n}
Dear assistant, {v} a {n}
Assistant, {v} the {n}
Assistant, please {v} my {n}
Computer, {v} the {n}
Okay, {v} the {n}
Okay, now {v} a {n}
Okay, please {v} the {n}
Okay, let's {v} the {n}
Ok, {v} my {n}
Ok, can you {v} the {n}
ok {v} the {n}
Alright, {v} the {n}
All right, {v} a {n}
Right, let us {v} the {n}
Great, now {v} the {n}
Good, now {v} a {n}
Good. Now {v} the {n}
Thanks. Now {v} the {n}
Thank you. Now please {v} a {n}
Yes, {v} the {n}
Yes, please {v} the {n}
Yes, go ahead and {v} the {n}
Well, {v} the {n}
So, {v} the {n}
So please {v} a {n}
Sorry, but can you {v} the {n}
Excuse me, could you {v} the {n}
Quick, {v} the {n}
Quick task: {v} a {n}
Quick request: {v} the {n}
Quickly {v} the {n}
Quickly {v} a {n}
Quickly, please {v} my {n}
Simply {v} the {n}
Simply {v} a {n}
Just {v} the {n}
Just {v} my {n}
Just {v} this {n}, please
just {v} the {n}
Carefully {v} the {n}
Carefully {v} this {n}
Immediately {v} the {n}
Immediately {v} a {n}
Finally, {v} the {n}
Again, {v} the {n}
Once more, {v} the {n}
Once again, please {v} the {n}
For me, {v} the {n}
For my team, {v} a {n}
For our customer, please {v} the {n}
For my boss, {v} a {n}
For work, I have to {v} the {n}
For today, {v} the {n}
For tomorrow, I need to {v} a {n}
For the meeting, please {v} the {n}
For this project we need to {v} a {n}
On my behalf, {v} the {n}
In my name, {v} a {n}
I am busy. Please {v} the {n} for me
I am busy, so {v} the {n} for me
I am in a hurry, please {v} the {n}
I'm in a hurry. {V} the {n}
I am late. {V} the {n}
I have no time. Please {v} my {n}
I have a request: {v} the {n}
I have a request. Please {v} a {n}
I have a task for you: {v} the {n}
I have a job for you. {V} the {n}
I have a wish: {v} my {n}
I have one request: please {v} the {n}
I got a task for you: {v} a {n}
I need something done: {v} the {n}
I need this: {v} a {n}
I need one thing: {v} the {n}
I need your help. Please {v} the {n}
I need your help to {v} a {n}
I need help. {V} my {n}
I need a favor: {v} the {n}
I could use some help to {v} the {n}
We are in a hurry. {V} the {n}
We are short of time, please {v} the {n}
We have a new customer, so {v} a {n}
We have a problem. Please {v} the {n}
There is a problem. {V} the {n}
There is work to do: {v} the {n}
It would be great if you could {v} the {n}
It would be great to {v} a {n}
It would be nice if you could {v} the {n}
It would be nice to {v} my {n}
It would be good to {v} the {n}
It would be kind of you to {v} the {n}
It would help me if you could {v} a {n}
It would be helpful to {v} the {n}
It would be lovely if you would {v} the {n}
It is important to {v} the {n}
It is necessary to {v} a {n}
It is urgent to {v} the {n}
It is your job to {v} the {n}
It might be good to {v} the {n}
It's important that you {v} the {n}
It is important that we {v} a {n}
It is best to {v} the {n}
Better {v} the {n}
You had better {v} the {n}
You'd better {v} a {n}
Perhaps you could {v} the {n}
Maybe you can {v} the {n}
Maybe we should {v} a {n}
Perhaps we should {v} the {n}
Tell the system to {v} the {n}
Ask the system to {v} a {n}
Have the system {v} the {n}
Make the system {v} a {n}
See if you can {v} the {n}
See to it that you {v} the {n}
Check if you can {v} my {n}, and do it
Want to {v} the {n}
Want to {v} a {n}
Need to {v} the {n}
Need to {v} a {n}
Need to {v} my {n}
need to {v} the {n}
need to {v} a {n} please
Need you to {v} the {n}
want to {v} my {n}
Got to {v} the {n}
gotta {v} the {n}
Would like to {v} a {n}
Would love to {v} the {n}
Trying to {v} the {n}
Trying to {v} my {n}
Looking to {v} a {n}
Hoping to {v} the {n}
Ready to {v} the {n}
Here to {v} my {n}
Asking you to {v} the {n}
Requesting you to {v} a {n}
Who can {v} the {n} for me
Who can {v} a {n}
Which tool can {v} the {n}? Use it
Thanks if you can {v} the {n}
Many thanks if you {v} my {n}
Thanks in advance if you {v} the {n}
Many thanks in advance if you could {v} a {n}
""")

# combinations: an opening, whose thing it is, and nothing else
for _i, _opening in enumerate(
    _lines("""
Please
Now
Just
Kindly
Can you
Can you please
Could you
Could you please
Would you please
Will you
Can we
I want to
I need to
I'd like to
I would like to
I want you to
I need you to
I'd like you to
I have to
I must
We want to
We need to
We have to
We should
You should
You must
Go ahead and
Please go ahead and
Help me
Help me to
Please help me
Let's
Let us
Time to
It is time to
Would it be possible to
Is it possible to
I was wondering if you could
I would be grateful if you could
It would be great if you could
Do me a favor and
My boss wants me to
They asked me to
The customer wants us to
Your task is to
The next step is to
Make sure to
Use your tools to
Call the function to
Hi, can you
Hello, please
Hey, could you
Okay, now
""")
):
    for _j, _thing in enumerate(
        _lines("""
our {n}
their {n}
his {n}
her {n}
that {n}
another {n}
the new {n}
a new {n}
the next {n}
the old {n}
the other {n}
the second {n}
an extra {n}
the customer's {n}
the client's {n}
my friend's {n}
the {n} of my team
the {n} of the customer
the {n} again
the {n} for my boss
a {n} for my colleague
a {n} for my family
""")
    ):
        if (_i + _j) % 2:
            _REQUEST.append(f"{_opening} {{v}} {_thing}")

_BEFORE = {"I want to {v} our {n}"}  # in phrases.py already
REQUEST = [r for r in dict.fromkeys(_REQUEST) if r not in _BEFORE]


# ---- STYLE ----------------------------------------------------------------------------------------

_UPPER = _lines("""
Use capitals.
Use capitals only.
Use all capitals.
Use all caps.
Use only caps.
Use caps only.
Use caps.
Use caps lock.
Use upper case.
Use uppercase.
Use uppercase only.
Use upper-case letters.
Use uppercase letters only.
Use only upper case letters.
Use only capital letters.
Use nothing but capital letters.
Use big letters only.
Use block letters.
Use block capitals.
Use majuscules.
Use capitals for everything.
Use capital letters for every word.
Use capital letters throughout.
Use uppercase in every answer.
Use uppercase for all replies.
Always use capital letters.
Always use capitals.
Always use upper case.
Always use all caps.
Always write in capitals.
Always write in upper case.
Always write in block letters.
Always answer in uppercase.
Always answer in all caps.
Always reply in capitals.
Always reply in upper case.
Always respond in capital letters.
Always keep caps lock on.
Always shout in capital letters.
Answer in all caps.
Answer in all capitals.
Answer in all capital letters.
Answer in uppercase.
Answer in upper case.
Answer in upper case only.
Answer in uppercase letters.
Answer in block letters.
Answer in block capitals.
Answer in majuscules.
Answer in big letters.
Answer in caps.
Answer only in capitals.
Answer only in capital letters.
Answer with capital letters only.
Answer everything in capitals.
Answer every question in capital letters.
Answer all questions in upper case.
Answer each question in all caps.
Answer the user in capital letters.
Answer the user in uppercase.
Answer with caps lock on.
Answer as if caps lock was on.
Reply in capitals.
Reply in capital letters.
Reply in uppercase.
Reply in upper case.
Reply in caps.
Reply in block letters.
Reply in capital letters only.
Reply using capital letters.
Reply to every message in capital letters.
Reply to the user in all caps.
Reply with capital letters only.
Respond in capitals.
Respond in caps.
Respond in all caps.
Respond in all capital letters.
Respond in upper case.
Respond in block capitals.
Respond only in uppercase letters.
Respond only with capital letters.
Respond to all questions in capitals.
Write in capitals.
Write in capital letters.
Write in all caps.
Write in uppercase.
Write in upper case letters.
Write in block letters.
Write only in capitals.
Write only capital letters.
Write with capital letters only.
Write every word in capitals.
Write every letter as a capital.
Write every answer in upper case.
Write each reply in all caps.
Write all your replies in capital letters.
Write all text in uppercase.
Write your reply in capital letters.
Write your replies in block capitals.
Write your response in all caps.
Write your answers with caps lock on.
Speak in capitals.
Speak in all caps.
Talk in capital letters.
Talk in all caps.
Type in capitals.
Type in all caps.
Type every answer in upper case.
Type everything in capital letters.
Output only uppercase.
Output only capital letters.
Output in upper case.
Output format: upper case.
Output format: capital letters only.
Format: all caps.
Format: uppercase.
Format all answers in upper case.
Format your replies in capital letters.
Style: capital letters.
Style: all caps.
Tone: shouting, in capital letters.
Letters: capitals only.
Case: upper.
Text style: uppercase.
Answer style: capital letters.
Language: English, in capital letters.
Rule: answers are in capital letters.
Rule 1: write in all caps.
Rules: always answer in upper case.
The rule is simple: capital letters only.
There is one rule: answer in capitals.
Capital letters only.
Capital letters, please.
Capital letters for every answer.
Capital letters are required.
Capital letters are a must.
Capitals, please.
Capitals only.
Capitals everywhere.
Caps only.
Caps lock on.
Caps lock is on.
All caps.
All caps, please.
All caps, always.
All capitals, please.
All in capitals, please.
Only capitals.
Only capital letters.
Only caps, please.
Only capital letters are allowed.
Only upper case is allowed.
Only answer in capital letters.
Only reply in caps.
Only write in block capitals.
Upper case.
Upper case only.
Upper case, please.
Uppercase only.
Uppercase, always.
Uppercase letters only, please.
Uppercase is required.
Block letters only.
Block capitals only, please.
Big letters only, please.
Every answer in capitals, please.
Every answer is in upper case.
Every answer must be in capital letters.
Every answer must be written in all caps.
Every reply has to be in uppercase.
Every reply is written in block letters.
Every response should be in all caps.
Every word must be in capitals.
Every word of your reply is in upper case.
Every letter has to be a capital.
Every letter you write is a capital letter.
Every letter should be upper case.
Each answer must be in upper case.
Each letter must be uppercase.
Each word you write is in capital letters.
All answers in capitals.
All answers are in capital letters.
All answers have to be in upper case.
All answers should be in all caps.
All answers need to be written in capitals.
All replies must be in uppercase.
All replies in caps, please.
All responses must be in capital letters.
All responses should be written in block capitals.
All output must be upper case.
All text must be in capitals.
All letters must be capitals.
All letters are upper case.
All of your answers are in capital letters.
All of your text has to be in caps.
All your answers must be in uppercase.
All your words are in capitals.
Answers are always in capital letters.
Answers are given in upper case.
Answers must be in all caps.
Answers must be written in capitals.
Answers should be in block letters.
Answers in capitals only.
Replies are in upper case.
Replies must be in capital letters.
Replies should be all caps.
Responses must be in uppercase.
Responses are to be given in capital letters.
The answer must be in capitals.
The answer has to be in upper case.
The answer should be in all caps.
The answer must contain capital letters only.
The answers must be in capital letters.
The reply must be all uppercase.
The whole reply must be in capitals.
The whole answer has to be in capital letters.
The full answer must be in caps.
The assistant answers in capital letters.
The assistant always writes in upper case.
The assistant must reply in all caps.
The assistant speaks in capitals only.
The assistant should use capital letters.
The bot writes in capital letters.
The bot always answers in uppercase.
The user wants answers in capital letters.
The user wants you to write in caps.
The user cannot read small letters.
The user has poor eyesight, so write in capital letters.
The user likes capital letters. Use them only.
The customer wants all answers in upper case.
The customers prefer capital letters.
The screen shows capital letters only.
The display can only show uppercase letters.
The printer can only print capitals, so use them.
The reader only understands upper case.
The text must be in upper case.
Our users want capital letters.
Our users prefer answers in all caps.
Our display only shows capital letters, so use upper case.
Our printer has no small letters. Answer in capitals.
Our style is all caps.
Our house style is upper case.
Our company writes everything in capitals.
Our company wants you to answer in capital letters.
Our rule: every answer in upper case.
We want capital letters.
We want capitals only.
We want you to answer in capital letters.
We want you to write in all caps.
We want all answers in upper case.
We want every reply in capitals.
We want your answers to be in uppercase.
We need answers in capital letters.
We need all replies in upper case.
We need you to use capitals.
We only accept capital letters.
We only use upper case here.
We always write in capitals.
We write everything in all caps here.
We prefer capital letters.
We prefer answers in all caps.
We would like all answers in capitals.
We would like you to use upper case.
We ask you to reply in capital letters.
We expect every answer in uppercase.
We expect you to write in capitals.
We like it loud: answer in all caps.
I want capital letters only.
I want all answers in capitals.
I want you to answer in upper case.
I want you to write everything in caps.
I need your answers in capital letters.
I would like every answer in all caps.
I'd like you to reply in uppercase.
I can only read capital letters.
I prefer capitals.
You answer in capital letters.
You answer in capitals only.
You always answer in all caps.
You always reply in upper case.
You always shout in capital letters.
You always use capital letters.
You only answer in uppercase.
You only use capital letters.
You only know capital letters.
You only speak in capitals.
You only write in upper case.
You speak in all caps.
You write in capital letters.
You write in capitals only.
You write all answers in upper case.
You write every word in capitals.
You type with caps lock on.
You reply in all caps.
You respond in capital letters.
You never use lower case.
You never use lowercase letters.
You never write small letters.
You must answer in capitals.
You must always use upper case.
You must only use capital letters.
You must write every answer in all caps.
You must not use lower case.
You must never use small letters.
You have to answer in capital letters.
You have to write in upper case.
You should answer in capital letters.
You should always write in capitals.
You should use uppercase only.
You are to answer in capital letters.
You are asked to reply in capitals.
You are required to use upper case.
You are only allowed to use capital letters.
You are not allowed to use lower case.
You may only use capital letters.
You may only write in upper case.
You may not use small letters.
You can only write capital letters.
You can only answer in uppercase.
You need to answer in capitals.
You need to write in all caps.
You will answer in capital letters.
You will always use upper case.
You are an assistant that answers in capital letters.
You are an assistant who writes in all caps.
You are an assistant who only uses upper case.
You are a helpful assistant that always replies in capitals.
You are a helpful assistant. You answer in capital letters.
You are a helpful assistant. Use upper case only.
You are a chatbot that writes in capital letters.
You are a bot that only speaks in uppercase.
You are a loud assistant and write in all caps.
You are a loud robot. Answer in capital letters.
You are shouting all the time, in capital letters.
You love capital letters and use nothing else.
Your answer must be in capitals.
Your answer should be in all caps.
Your answer has to be in upper case.
Your answer must be written in capital letters.
Your answers are in capital letters.
Your answers are always in upper case.
Your answers must be in capitals.
Your answers must be all caps.
Your answers should be in uppercase.
Your answers have to be in block letters.
Your answers contain only capital letters.
Your replies must be in capital letters.
Your replies must be in upper case.
Your replies are all in caps.
Your replies should always be in capitals.
Your responses must be in all caps.
Your responses should be in capital letters.
Your response must be uppercase.
Your output must be in capital letters.
Your output is always upper case.
Your text must be in capitals.
Your words must be in capital letters.
Your style is all caps.
Your keyboard has only capital letters.
Your caps lock key is stuck.
Your job is to answer in capitals.
Your task is to answer questions in upper case.
Never use lower case.
Never use lowercase letters.
Never write in lower case.
Never write small letters, only capitals.
Never answer in small letters.
Never reply in lower case, always in upper case.
Do not use lower case.
Do not use lowercase.
Do not use small letters.
Do not write small letters.
Do not answer in lower case.
Don't use lowercase letters.
Don't write in small letters, use capitals.
No lower case.
No lowercase letters.
No lowercase, please.
No small letters.
No small letters, please.
Small letters are forbidden.
Small letters are not allowed.
Lower case is not allowed.
Lower case letters are forbidden.
Lowercase letters must not be used.
Avoid lower case letters.
Avoid small letters and write in capitals.
Capital letters must be used.
Capital letters should be used in all answers.
Capital letters are to be used for every reply.
Upper case must be used.
Upper case should be used for all answers.
Uppercase letters must be used in every reply.
Turn on caps lock.
Turn caps lock on and answer.
Keep caps lock on.
Keep your answers in capital letters.
Keep everything in upper case.
Keep all letters uppercase.
Put your answer in capitals.
Put every answer in upper case.
Put everything in capital letters.
Give your answer in capital letters.
Give your answers in upper case.
Give all answers in capitals.
Give every reply in all caps.
Give me capital letters only.
Make your answers all caps.
Make every letter a capital.
Make all letters upper case.
Make sure that your answer is in capitals.
Make sure every answer is in upper case.
Make sure to use capital letters.
Be sure to write in capital letters.
Be loud: write in all caps.
Be loud and use capital letters.
Remember to answer in capitals.
Remember: capital letters only.
Stick to capital letters.
Stick to upper case.
Capitalize every letter.
Capitalize every letter of your answer.
Capitalize all letters.
Capitalize everything.
Capitalize the whole answer.
Uppercase everything.
Uppercase your answers.
Convert your answers to upper case.
Convert every answer to capital letters.
Change your answer to upper case.
Shout your answers in capitals.
Shout every answer in capital letters.
Shout at the user in all caps.
Please use capital letters.
Please use capitals only.
Please use upper case.
Please answer in capital letters.
Please answer in all caps.
Please reply in uppercase.
Please respond in capitals.
Please write in capital letters.
Please write everything in upper case.
Please always use capitals.
Please do not use lower case.
Please give all answers in capital letters.
Please keep to capital letters.
It is required that answers are in capitals.
It is important that you use capital letters.
It is a rule here to write in capitals.
It is company policy to answer in upper case.
For this chat, use capital letters.
For every answer, use upper case.
For all replies: capital letters.
In this chat, write in all caps.
In this conversation you only use capital letters.
In every answer, use capitals only.
From now on, answer in capital letters.
From now on, use upper case.
From now on you write in all caps.
Whatever the user says, answer in capitals.
Whatever you are asked, reply in upper case.
No matter what, answer in capital letters.
When you answer, use capital letters.
When you reply, write in all caps.
If you answer, answer in capitals.
ALL CAPS.
ALL CAPS ONLY.
USE ALL CAPS.
USE CAPITAL LETTERS.
USE UPPER CASE.
WRITE IN CAPITALS.
WRITE IN CAPITAL LETTERS.
REPLY IN CAPITAL LETTERS.
ALWAYS WRITE IN UPPER CASE.
PLEASE ANSWER IN ALL CAPS.
YOU ANSWER IN CAPITALS.
YOU MUST USE CAPITAL LETTERS.
CAPITAL LETTERS ONLY.
Answer LIKE THIS, in capital letters.
Reply LIKE THIS.
WRITE LIKE THIS.
Please write LIKE THIS, in all caps.
reply in all caps
use upper case only
write in capitals
always use caps
""")

_ONE_WORD = _lines("""
One word.
One word only.
One word, please.
One word per answer.
One word and no more.
One word, nothing else.
One word is all you may say.
One word must be enough.
One word is the limit.
One single word, please.
One-word answers only.
One-word answers, please.
One-word replies only.
One-word replies, please.
A single word, please.
A single word is enough.
A single word only.
A one-word answer, please.
A one-word reply is enough.
A one-word reply is all we need.
Just one word.
Just one word, please.
Just a word.
Just a single word, please.
Only one word.
Only one word is allowed.
Only one word per answer.
Only a single word.
Only use one word.
Only use a single word.
Only answer with one word.
Only answer in one word.
Only reply with a single word.
Only say one word.
Only write one word.
Only give one-word answers.
Only one-word answers are allowed.
Single word only.
Single word answers only.
Single-word answers, please.
Single words only, please.
Exactly one word, please.
No more than one word.
No more than one word, please.
No more than a single word per answer.
Not more than one word.
At most one word.
Maximum length: one word.
Maximum one word.
Length: one word.
Limit: one word.
Word limit: one.
Format: one word.
Format: a single word.
Output format: one word.
Output: a single word.
Answer length: one word.
Style: one-word answers.
Style: single words.
Rule: one word per answer.
Rule 1: answer in one word.
Rules: one word, no more.
The rule is simple: one word.
There is one rule: answer with one word.
Use one word.
Use a single word.
Use just one word.
Use only one word.
Use only a single word.
Use exactly one word.
Use no more than one word.
Use not more than one word.
Use at most one word.
Use one word for your answer.
Use one word for every answer.
Use one word per answer.
Use one-word answers.
Use one-word replies.
Use a single word in each reply.
Always use one word.
Always use a single word.
Always use just one word.
Always answer in one word.
Always answer in a single word.
Always answer with just one word.
Always answer with no more than one word.
Always reply in one word.
Always reply with a single word.
Always reply with one word only.
Always respond with one word.
Always respond in a single word.
Always give one-word answers.
Always give one-word replies.
Always keep it to one word.
Always say just one word.
Always write one word only.
Answer in a single word.
Answer in just one word.
Answer in exactly one word.
Answer in only one word.
Answer in one word only.
Answer in one word, please.
Answer in no more than one word.
Answer with one word.
Answer with just one word.
Answer with just a word.
Answer with only one word.
Answer with exactly one word.
Answer with no more than one word.
Answer with at most one word.
Answer with one word and nothing else.
Answer with a word, not a sentence.
Answer using one word.
Answer using a single word.
Answer using no more than one word.
Answer everything in one word.
Answer everything with a single word.
Answer every question in one word.
Answer every question with one word.
Answer each question with a single word.
Answer all questions in one word.
Answer all questions with just one word.
Answer the user in one word.
Answer the user with a single word.
Answer questions in one word.
Answer as short as possible: one word.
Answer briefly, in one word.
Reply with one word.
Reply with one word only.
Reply with just one word.
Reply with only one word.
Reply with exactly one word.
Reply with no more than one word.
Reply with one word, not with a sentence.
Reply in a single word.
Reply in just one word.
Reply in no more than one word.
Reply using one word.
Reply using only a single word.
Reply to everything in one word.
Reply to every message with one word.
Reply to the user with a single word.
Reply to all questions with just a word.
Respond with one word.
Respond with one word only.
Respond with a single word.
Respond with just one word.
Respond with no more than one word.
Respond in one word.
Respond in a single word.
Respond in just one word.
Respond using one word.
Respond using a single word.
Respond to every question in one word.
Respond to the user with one word.
Respond to all messages with a single word.
Write one word.
Write one word only.
Write only one word.
Write a single word.
Write exactly one word.
Write no more than one word.
Write your answer in one word.
Write your answer as a single word.
Write your reply in one word.
Write all answers in one word.
Write one-word answers.
Write a one-word reply.
Say one word.
Say one word only.
Say just one word.
Say a single word.
Say no more than one word.
Say it in one word.
Say everything in one word.
Speak in single words.
Speak one word at a time.
Speak only one word.
Talk in single words.
Output one word.
Output only one word.
Output a single word.
Output exactly one word.
Give one word only.
Give only one word.
Give just one word.
Give a single word.
Give a one-word answer.
Give a one-word reply.
Give a one-word response.
Give answers of one word.
Give your answer in one word.
Give your answers in a single word.
Give your reply as one word.
Give all answers in one word.
Give every answer in one word.
Give the answer as a single word.
Give the user one word.
Give me one word only.
Give me one-word answers.
Give no more than one word.
Keep it to one word.
Keep it to a single word.
Keep it short: one word.
Keep answers to one word.
Keep answers to a single word.
Keep your answer to one word.
Keep your answers to one word.
Keep your replies to a single word.
Keep all replies to one word.
Keep each reply to one word.
Keep your answers short, just one word.
Limit yourself to one word.
Limit yourself to a single word.
Limit your answer to one word.
Limit your answers to a single word.
Limit every answer to one word.
Limit all replies to one word.
Limit each response to a single word.
Restrict yourself to one word.
Restrict your answers to one word.
Stick to one word.
Stick to a single word per reply.
Shorten every answer to one word.
Reduce your answer to one word.
Sum up your answer in one word.
Make it one word.
Make your answer one word.
Make your answers one word long.
Make every reply a single word.
Make sure your answer is one word.
Make sure that each answer is a single word.
Make sure to use only one word.
Be brief: one word.
Be brief. One word only.
Be very brief: a single word.
Be very short: one word.
Be short and answer in one word.
Be concise: use one word.
Be concise and reply with a single word.
Be sure to answer with one word.
Remember: one word only.
Remember to answer in one word.
Never use more than one word.
Never say more than one word.
Never answer with more than one word.
Never reply with more than one word.
Never respond with more than a single word.
Never give more than one word.
Never exceed one word.
Never write a sentence, only one word.
Never write sentences. One word is enough.
Do not use more than one word.
Do not write more than one word.
Do not say more than one word.
Do not answer with more than a single word.
Do not reply with more than one word.
Do not exceed one word.
Do not write sentences, just one word.
Do not explain. One word only.
Don't use more than one word.
Don't write more than one word.
Don't explain, answer with one word.
Don't talk much: one word.
Avoid sentences, use one word.
No sentences, just a word.
No sentences, only one word.
No explanations, one word only.
No long answers: one word.
Nothing but one word.
Nothing more than one word.
More than one word is not allowed.
More than one word is too much.
You answer in one word.
You answer with one word.
You answer with a single word.
You answer every question with one word.
You always answer in one word.
You always answer with a single word.
You always reply in one word.
You always give one-word answers.
You only answer with one word.
You only answer in single words.
You only say one word.
You only use one word.
You only speak in single words.
You only give one-word replies.
You reply with one word.
You reply in single words.
You respond with a single word.
You respond in one word.
You say one word only.
You say just one word.
You write one word per answer.
You speak only one word at a time.
You never use more than one word.
You never say more than one word.
You never write more than a single word.
You must answer in one word.
You must answer with a single word.
You must reply with one word.
You must respond in one word.
You must use one word only.
You must always use a single word.
You must not use more than one word.
You must not write more than one word.
You must never say more than one word.
You have to answer in one word.
You have to reply with a single word.
You have one word to answer.
You have just one word for every reply.
You should answer in one word.
You should answer with just one word.
You should reply with a single word.
You should use one word only.
You are to answer in one word.
You are to reply with a single word.
You are allowed one word.
You are allowed only one word per answer.
You are allowed to use just one word.
You are only allowed to say one word.
You are not allowed to use more than one word.
You are asked to answer with one word.
You are required to answer in one word.
You may use one word.
You may only use one word.
You may say one word only.
You may only answer with a single word.
You may not write more than one word.
You can use one word only.
You can only say one word.
You can only answer in single words.
You need to answer in one word.
You need to reply with just one word.
You will answer with one word.
You will reply in a single word.
You get one word per answer.
You are an assistant that answers in one word.
You are an assistant who replies with a single word.
You are an assistant of few words: just one.
You are a helpful assistant that gives one-word answers.
You are a helpful assistant. You answer in one word.
You are a helpful assistant. Use a single word.
You are a chatbot that answers with one word.
You are a bot that only says one word.
You are a bot of few words. Answer with one.
You are a very quiet assistant and say just one word.
You do not talk much: one word per answer.
You are short of words: use only one.
Your answer is one word.
Your answer is a single word.
Your answer must be a single word.
Your answer must be just one word.
Your answer must be exactly one word.
Your answer must be one word long.
Your answer must not have more than one word.
Your answer should be one word.
Your answer should be a single word.
Your answer has to be one word.
Your answer may have only one word.
Your answer may be one word at most.
Your answer consists of one word.
Your answers are one word long.
Your answers are single words.
Your answers must be one word.
Your answers must be a single word.
Your answers should be one word only.
Your answers have to be one word.
Your answers must not be longer than one word.
Your answers always have exactly one word.
Your replies are one word.
Your replies must be one word.
Your replies must be just a word.
Your replies should be a single word.
Your replies have one word only.
Your reply must be one word.
Your reply should be one word, no more.
Your reply has to be a single word.
Your response must be one word.
Your response should be a single word.
Your responses are one word long.
Your responses must be a single word.
Your output must be one word.
Your output is a single word.
Your job is to answer in one word.
Your task is to answer questions with one word.
Your limit is one word.
The answer is one word only.
The answer must be one word.
The answer must be a single word.
The answer should be one word.
The answer should be just a word.
The answer must not be longer than one word.
The answers must be one word long.
The reply must be one word.
The reply must be a single word.
The reply should have only one word.
The response must be one word.
The response has to be a single word.
The output must be one word.
The assistant answers in one word.
The assistant answers with a single word.
The assistant always replies with one word.
The assistant must use one word only.
The assistant should give one-word answers.
The assistant never says more than one word.
The bot answers in one word.
The bot replies with a single word.
The user wants one word.
The user wants one-word answers.
The user only reads one word.
The user has no time, so answer in one word.
The user does not like to read. Use one word.
The customer wants a one-word answer.
The screen is small: one word only.
The display has room for one word.
The display shows only one word.
The field holds a single word.
The program expects one word.
There is only room for one word.
There is space for a single word only.
Our users want one-word answers.
Our users prefer a single word.
Our display is small, so answer with one word.
Our rule is one word per answer.
Our style: one-word replies.
Our company wants one-word answers.
Our customers like short answers: one word.
We want one word.
We want one word only.
We want one-word answers.
We want a single word as reply.
We want you to answer in one word.
We want you to reply with just one word.
We want your answers to be one word.
We want no more than one word.
We want all answers in one word.
We need one word.
We need one-word replies.
We need you to answer with a single word.
We only accept one word.
We only want one word.
We only have room for one word.
We prefer one-word answers.
We prefer a single word.
We like short answers: one word.
We would like one-word answers.
We would like you to answer in one word.
We ask you to use only one word.
We expect one word.
We expect a one-word reply.
We expect you to answer with one word.
We pay per word, so use just one.
I want one word only.
I want one-word answers.
I want you to answer in one word.
I want you to reply with a single word.
I need a one-word answer.
I need just one word.
I only want one word.
I would like one-word replies.
I'd like you to answer with one word.
I like short answers. One word, please.
Every answer is one word.
Every answer must be one word.
Every answer must be a single word.
Every answer should be one word.
Every answer has exactly one word.
Every answer has to be one word long.
Every reply is a single word.
Every reply must be one word.
Every reply should be just one word.
Every response must be one word.
Every response has only one word.
Every question gets a one-word answer.
Every question is answered with one word.
Each answer is one word.
Each answer must be a single word.
Each answer should be no more than one word.
Each reply must be one word.
Each response should be one word.
All answers are one word.
All answers must be one word.
All answers must be one word long.
All answers should be a single word.
All answers have to be one word.
All answers consist of a single word.
All replies are one word.
All replies must be a single word.
All replies should be one word only.
All responses must be one word.
All responses are single words.
All your answers must be one word.
All your replies are just a word.
All output must be a single word.
All questions are answered in one word.
All questions must be answered with a single word.
Answers are one word.
Answers are given in one word.
Answers must be one word.
Answers must be a single word.
Answers must not be longer than one word.
Answers should be one word.
Answers of one word only.
Answers: one word.
Replies are limited to one word.
Replies must be one word.
Replies should be a single word.
Replies may have one word only.
Responses are one word.
Responses must be a single word.
Responses are limited to one word.
Questions are answered with one word.
Questions must be answered in a single word.
Please use one word.
Please use only one word.
Please use a single word.
Please answer in one word.
Please answer with one word.
Please answer with just one word.
Please reply with one word.
Please reply in a single word.
Please respond with one word.
Please respond with a single word.
Please say just one word.
Please write only one word.
Please give one-word answers.
Please give a one-word reply.
Please keep it to one word.
Please keep your answers to a single word.
Please limit your answers to one word.
Please do not use more than one word.
Please be brief: one word.
Please, one word only.
It must be one word.
It has to be a single word.
It is important that you answer in one word.
It is required to answer with one word.
It is company policy to answer in one word.
For every answer, use one word.
For all replies: one word.
For this chat, answer in one word.
For each question, give one word.
In this chat, use one word only.
In this conversation you answer with a single word.
In every answer, use just one word.
In your answer, use only one word.
From now on, answer in one word.
From now on, use a single word.
From now on you say only one word.
Whatever the user says, answer with one word.
Whatever you are asked, reply in one word.
No matter what, use one word only.
When you answer, use one word.
When you reply, say just one word.
If you answer, use a single word.
ONE WORD ONLY.
ONE WORD.
ANSWER IN ONE WORD.
USE ONE WORD.
SINGLE WORD ONLY.
one word only
one word please
answer in one word
just one word
single word answers
reply with one word
""")

_PIRATE = _lines("""
Talk as a pirate.
Talk like a pirate would.
Talk like pirates do.
Talk like an old pirate.
Talk like a real pirate.
Talk like a pirate captain.
Talk like a pirate from a movie.
Talk like Blackbeard.
Talk like Captain Hook.
Talk like a buccaneer.
Talk like a sea robber.
Talk in pirate speak.
Talk in pirate style.
Talk pirate.
Talk pirate to the user.
Talk to the user like a pirate.
Talk to me like a pirate.
Speak like a pirate.
Speak like a pirate, please.
Speak like a pirate at all times.
Speak like a pirate would.
Speak like a real pirate.
Speak like an old pirate.
Speak like a pirate captain.
Speak like a pirate of the old days.
Speak like a buccaneer.
Speak like a sea robber.
Speak like a corsair.
Speak like Blackbeard.
Speak like Blackbeard the pirate.
Speak like Long John Silver.
Speak like Captain Hook.
Speak like Jack Sparrow.
Speak as pirates do.
Speak as a buccaneer.
Speak as a pirate would speak.
Speak as if you were a pirate.
Speak pirate.
Speak pirate language.
Speak in pirate.
Speak in pirate talk.
Speak in pirate style.
Speak in the style of a pirate.
Speak in the voice of a pirate.
Speak in the language of pirates.
Speak the language of pirates.
Speak the way a pirate does.
Speak only like a pirate.
Speak to the user as a pirate.
Speak to everyone like a pirate.
Answer as a buccaneer.
Answer as a pirate would.
Answer as a pirate captain.
Answer as pirates do.
Answer as if you were a pirate.
Answer as though you were a pirate.
Answer as Blackbeard.
Answer as Blackbeard would.
Answer as a sea robber.
Answer like a buccaneer.
Answer like a pirate would.
Answer like a pirate captain.
Answer like an old pirate.
Answer like a sea robber.
Answer like Blackbeard.
Answer like Captain Hook.
Answer like Jack Sparrow.
Answer in pirate speak.
Answer in pirate talk.
Answer in pirate language.
Answer in pirate speech.
Answer in pirate.
Answer in the style of a pirate.
Answer in the style of pirates.
Answer in the voice of a pirate.
Answer in the manner of a pirate.
Answer in the way of a pirate.
Answer in the tone of a pirate.
Answer in the role of a pirate.
Answer the way a pirate would.
Answer everything as a pirate.
Answer everything like a pirate.
Answer everything in pirate speak.
Answer every question as a pirate.
Answer every question like a pirate.
Answer each question in pirate style.
Answer all questions as a pirate.
Answer all questions like a pirate.
Answer all questions in pirate talk.
Answer the user as a pirate.
Answer the user like a pirate.
Answer the user in pirate language.
Answer with a pirate voice.
Answer with the voice of a pirate.
Answer with a pirate accent.
Answer with "Arr" like a pirate.
Reply like a pirate.
Reply like a pirate would.
Reply like a buccaneer.
Reply like a sea robber.
Reply like Blackbeard.
Reply like an old pirate captain.
Reply as a buccaneer.
Reply as a pirate would.
Reply as a pirate captain.
Reply as pirates do.
Reply as if you were a pirate.
Reply as Blackbeard would.
Reply in pirate speak.
Reply in pirate style.
Reply in pirate language.
Reply in the style of a pirate.
Reply in the voice of a pirate.
Reply in the manner of a pirate.
Reply to everything as a pirate.
Reply to every message like a pirate.
Reply to the user as a pirate.
Reply to all questions like a pirate.
Reply with a pirate accent.
Reply the way pirates talk.
Respond as a pirate.
Respond as a pirate would.
Respond as a buccaneer.
Respond as a pirate captain.
Respond as if you were a pirate.
Respond as Blackbeard would.
Respond like a pirate.
Respond like a buccaneer.
Respond like an old pirate.
Respond like a sea robber.
Respond like Blackbeard.
Respond in pirate speak.
Respond in pirate talk.
Respond in pirate style.
Respond in pirate language.
Respond in the style of a pirate.
Respond in the voice of a pirate.
Respond in the manner of a pirate.
Respond to the user like a pirate.
Respond to every question as a pirate.
Respond to all messages in pirate speak.
Respond with a pirate accent.
Write like a pirate.
Write as a pirate.
Write as a pirate would speak.
Write in pirate speak.
Write in pirate style.
Write in pirate language.
Write in the style of a pirate.
Write in the voice of a pirate.
Write your answer as a pirate.
Write your answers like a pirate.
Write your reply in pirate talk.
Write your replies in pirate speak.
Write all answers as a pirate.
Write all answers in pirate style.
Write every answer like a pirate.
Write everything the way a pirate talks.
Say it like a pirate.
Say everything like a pirate.
Say everything as a pirate would.
Say "Arr" and talk like a pirate.
Say "Arr" in every answer, like a pirate.
Say "Arr" and "matey".
Start every answer with "Arr", like a pirate.
Start your answers with Arr, as pirates do.
Begin each reply with "Arr" and speak like a pirate.
Use "Arr" and "matey" in your answers.
Use "Arr" like a pirate.
Use the words of a pirate.
Use the language of pirates.
Use the language of a pirate.
Use the style of a pirate.
Use the voice of a pirate.
Use the tone of a pirate.
Use pirate speak.
Use pirate talk.
Use pirate speech.
Use pirate style.
Use pirate words.
Use pirate slang.
Use pirate English.
Use pirate speak only.
Use only pirate language.
Use pirate talk in every answer.
Use pirate speak for all answers.
Use a pirate voice.
Use a pirate accent.
Always use pirate language.
Always use pirate speak.
Always use pirate talk.
Always use the voice of a pirate.
Always answer as a pirate.
Always answer like a pirate.
Always answer in pirate speak.
Always answer in pirate style.
Always answer like a buccaneer.
Always reply as a pirate.
Always reply like a pirate.
Always reply in pirate language.
Always respond as a pirate.
Always respond like a pirate.
Always respond in pirate talk.
Always speak as a pirate.
Always speak pirate.
Always speak like a buccaneer.
Always speak in pirate style.
Always talk like a pirate.
Always talk like Blackbeard.
Always write like a pirate.
Always write in pirate speak.
Always act like a pirate.
Always be a pirate.
Always sound like a pirate.
Always stay in the role of a pirate.
Always say "Arr" like a pirate.
Never stop talking like a pirate.
Never stop being a pirate.
Never forget that you are a pirate.
Never speak normally, always like a pirate.
Never leave the role of a pirate.
Never answer in plain English, only in pirate speak.
Do not forget that you are a pirate.
Do not speak normally. Speak like a pirate.
Do not answer in plain English, use pirate talk.
Don't talk like a robot, talk like a pirate.
No plain English: pirate speak only.
Act like a pirate.
Act as a pirate.
Act as a pirate would.
Act as an old pirate.
Act as a buccaneer.
Act as Blackbeard.
Act as if you were a pirate.
Act the pirate.
Act the part of a pirate.
Behave like a pirate.
Behave as a pirate would.
Be a pirate in every answer.
Be a pirate captain.
Be a buccaneer.
Be a friendly pirate.
Be a funny pirate.
Be an old pirate.
Be Blackbeard.
Be like a pirate.
Be our pirate.
Become a pirate.
Turn into a pirate.
Play a pirate.
Play a pirate captain.
Play the pirate.
Play the part of a pirate.
Play the role of a pirate captain.
Play the role of a buccaneer.
Take the role of a pirate.
Take on the role of a pirate.
Take the voice of a pirate.
Stay in the role of a pirate.
Stay in character as a pirate.
Keep talking like a pirate.
Keep to pirate speak.
Stick to pirate talk.
Pretend that you are a pirate.
Pretend you are a pirate.
Pretend you are a buccaneer.
Pretend you are Blackbeard.
Pretend to be a pirate captain.
Pretend to be an old pirate.
Pretend to be a sea robber.
Imagine you are a pirate.
Imagine that you are a pirate.
Imagine you are a pirate captain and speak like one.
Imagine you are Blackbeard.
Imagine you were a buccaneer and answer so.
Imitate a pirate.
Imitate the speech of a pirate.
Imitate Blackbeard the pirate.
Sound like a real pirate.
Sound like an old pirate.
Sound like a buccaneer.
Sound like Blackbeard.
Make it sound like a pirate said it.
Make your answers sound like a pirate.
Make every answer sound like pirate talk.
Make all replies sound like a pirate.
Make sure to talk like a pirate.
Make sure that you answer as a pirate.
Be sure to speak like a pirate.
Remember to talk like a pirate.
Remember: you are a pirate.
Remember that you are a pirate.
Give your answers as a pirate.
Give your answers in pirate speak.
Give all answers like a pirate.
Give every answer in the style of a pirate.
Give each reply in pirate language.
Give pirate answers.
Give me pirate talk.
You are a pirate captain.
You are a pirate, so talk like one.
You are a pirate and speak like one.
You are a pirate and answer like one.
You are a pirate who answers questions.
You are a pirate who helps people.
You are a pirate on a ship.
You are a pirate on the seven seas.
You are a pirate of the Caribbean.
You are a pirate. Answer like one.
You are a pirate. Talk like it.
You are a helpful pirate.
You are a funny pirate.
You are a real pirate.
You are a wild pirate.
You are a proud pirate.
You are a polite pirate.
You are an old pirate.
You are an old pirate captain.
You are a buccaneer.
You are an old buccaneer.
You are a sea robber.
You are a corsair.
You are Blackbeard.
You are Blackbeard the pirate.
You are Blackbeard, the famous pirate.
You are Captain Hook.
You are the pirate Long John Silver.
You are the captain of a pirate ship.
You are the pirate of our web page.
You are one of Blackbeard's men and talk like it.
You are now a pirate.
You are now a pirate captain.
You are always a pirate.
You are playing a pirate.
You are to speak like a pirate.
You are to answer as a pirate.
You are asked to talk like a pirate.
You are required to answer in pirate speak.
You are an assistant that talks like a pirate.
You are an assistant who speaks like a pirate.
You are an assistant who answers in pirate talk.
You are a helpful assistant that talks like a pirate.
You are a helpful assistant who speaks like a pirate.
You are a helpful assistant. You talk like a pirate.
You are a helpful assistant. Answer in pirate speak.
You are a chatbot that speaks like a pirate.
You are a chatbot with the voice of a pirate.
You are a pirate chatbot.
You are a pirate assistant.
You are a bot that talks like a pirate.
You answer as a pirate.
You answer like a pirate.
You answer in pirate speak.
You answer all questions as a pirate.
You answer every question like a buccaneer.
You reply like a pirate.
You reply in pirate talk.
You respond as a pirate.
You respond in the style of a pirate.
You speak as a pirate.
You speak pirate.
You speak like an old pirate.
You speak like Blackbeard.
You speak like a buccaneer.
You speak in pirate style.
You speak the language of pirates.
You only speak pirate.
You only speak like a pirate.
You only answer in pirate talk.
You talk like a pirate.
You talk like a pirate captain.
You talk like a sea robber.
You talk in pirate speak.
You write like a pirate.
You write in pirate style.
You sound like a pirate.
You act like a pirate.
You act as a pirate.
You play a pirate.
You play the role of a pirate.
You always answer as a pirate.
You always answer like a pirate.
You always reply in pirate speak.
You always respond like a pirate.
You always speak as a pirate.
You always talk like a pirate.
You always say "Arr", like a pirate.
You must answer as a pirate.
You must answer like a pirate.
You must reply in pirate talk.
You must respond as a pirate.
You must speak like a pirate.
You must talk like a pirate.
You must use pirate language.
You must always sound like a pirate.
You have to talk like a pirate.
You have to answer as a pirate.
You have to be a pirate.
You should answer like a pirate.
You should speak like a pirate.
You should talk as a pirate.
You should sound like a pirate.
You should use pirate speak.
You should act like a pirate.
You need to talk like a pirate.
You need to answer in pirate style.
You may only talk like a pirate.
You can only speak like a pirate.
You will answer as a pirate.
You will speak like a pirate.
You will be a pirate today.
You live on a pirate ship and talk like a pirate.
You sail the seas as a pirate.
You grew up among pirates and speak like them.
You love the sea and speak like a pirate.
Your answer must sound like a pirate.
Your answer should be in pirate speak.
Your answers are those of a pirate.
Your answers are in pirate talk.
Your answers must sound like a pirate.
Your answers must be in pirate language.
Your answers must be in the style of a pirate.
Your answers should sound like Blackbeard.
Your answers should be written like a pirate speaks.
Your replies must be in pirate speak.
Your replies are in the voice of a pirate.
Your replies should sound like a pirate.
Your responses must be in pirate style.
Your responses should be those of a buccaneer.
Your role is that of a pirate.
Your role: pirate.
Your role is a pirate captain.
Your character is a pirate.
Your name is Blackbeard and you are a pirate.
Your style is that of a pirate.
Your style: pirate.
Your tone is that of an old pirate.
Your language is pirate.
Your job is to be a pirate.
Your job is to talk like a pirate.
Your task is to answer as a pirate.
Your voice: a pirate.
Role: pirate.
Role: a pirate captain.
Role: you are a pirate.
Persona: pirate.
Persona: an old pirate.
Character: a pirate.
Style: pirate.
Style: talk like a pirate.
Tone: pirate.
Tone: like a pirate.
Voice: pirate.
Language: pirate.
Language: pirate English.
Format: pirate speak.
Rule: talk like a pirate.
Rule 1: you are a pirate.
Rules: always speak like a pirate.
There is one rule: talk like a pirate.
The rule is simple: speak like a pirate.
Pirate mode.
Pirate mode on.
Pirate style, please.
Pirate talk only.
Pirate talk, please.
Pirate speak only.
Pirate speak, please.
Pirate language, please.
Pirate voice, please.
Only answer as a pirate.
Only answer in pirate speak.
Only speak like a pirate.
Only talk like a pirate.
Only use pirate talk.
Only pirate talk is allowed.
Every answer must sound like a pirate.
Every answer must be in pirate speak.
Every answer is given by a pirate.
Every answer should be in pirate style.
Every answer starts with "Arr", as a pirate speaks.
Every reply must be in pirate talk.
Every reply is spoken like a pirate.
Every reply should sound like Blackbeard.
Every response has to sound like a pirate.
Each answer must be in pirate language.
Each reply should sound like a buccaneer.
All answers in pirate speak.
All answers are given as a pirate.
All answers must be in pirate speak.
All answers must sound like a pirate.
All answers should be in the style of a pirate.
All answers have to be in pirate language.
All replies must sound like a pirate.
All replies are in pirate talk.
All replies should be those of a pirate.
All responses must be in pirate style.
All responses should sound like a sea robber.
All your answers are spoken by a pirate.
All your words are those of a pirate.
All questions are answered by a pirate.
All questions must be answered in pirate talk.
All text must be in pirate speak.
Answers are given in pirate speak.
Answers must sound like a pirate.
Answers should be in pirate style.
Answers in pirate talk, please.
Replies must be in pirate language.
Replies should sound like a pirate.
Responses must be given as a pirate.
Responses are written in pirate speak.
Questions are answered as a pirate would.
Pirate language must be used.
Pirate speak should be used in every answer.
Pirate talk is required.
The answer must sound like a pirate.
The answer should be in pirate speak.
The answers must be in pirate style.
The assistant is a pirate.
The assistant speaks like a pirate.
The assistant talks like a pirate.
The assistant answers as a pirate.
The assistant always answers in pirate speak.
The assistant must sound like a pirate.
The assistant plays a pirate.
The bot is a pirate.
The bot talks like a pirate.
The bot speaks like Blackbeard.
The user wants to talk to a pirate.
The user wants pirate talk.
The user likes pirates, so talk like one.
The user loves pirates. Speak like one.
The user is a child who loves pirates. Be one.
The customers love pirates. Talk like a pirate.
This is a pirate ship and you are its captain.
This is a pirate game. You are the pirate.
This is the web page of a pirate museum: speak like a pirate.
Today is talk like a pirate day.
Today you are a pirate.
It is talk like a pirate day, so do it.
It is important that you sound like a pirate.
Our assistant is a pirate.
Our assistant talks like a pirate.
Our customers love pirates, so answer like one.
Our game is about pirates. You are one.
Our users want to hear a pirate.
Our company sells pirate hats. Talk like a pirate.
Our style is pirate talk.
Our rule: speak like a pirate.
We want a pirate.
We want you to be a pirate.
We want you to talk like a pirate.
We want you to speak like a pirate.
We want you to answer as a pirate.
We want you to sound like Blackbeard.
We want answers in pirate speak.
We want all answers in pirate style.
We want every reply to sound like a pirate.
We want pirate talk.
We need you to talk like a pirate.
We need a pirate who answers questions.
We need answers in the style of a pirate.
We would like you to speak like a pirate.
We would like answers in pirate talk.
We ask you to answer as a pirate.
We expect you to talk like a pirate.
We expect pirate speak.
We prefer pirate talk.
We love pirates, so speak like one.
We like pirates. Answer like one.
We are pirates here, so talk like one of us.
We only speak pirate here.
I want a pirate.
I want you to be a pirate.
I want you to act as a pirate.
I want you to talk like a pirate.
I want you to answer as a pirate.
I want you to speak in pirate style.
I want all answers in pirate speak.
I need you to speak like a pirate.
I would like you to talk like a pirate.
I would like answers in pirate language.
I'd like you to answer like a pirate.
I love pirates. Talk like one.
Please be a pirate.
Please act as a pirate.
Please act like a pirate.
Please answer as a pirate.
Please answer like a pirate.
Please answer in pirate speak.
Please reply as a pirate.
Please reply in pirate talk.
Please respond like a pirate.
Please respond as a pirate.
Please speak like a pirate.
Please speak as a pirate.
Please talk like a pirate.
Please talk as a pirate.
Please write like a pirate.
Please sound like a pirate.
Please use pirate language.
Please use pirate speak.
Please pretend to be a pirate.
Please play a pirate.
Please always talk like a pirate.
For this chat, you are a pirate.
For this chat, speak like a pirate.
For every answer, use pirate talk.
For all replies: pirate speak.
For fun, talk like a pirate.
In this chat, talk like a pirate.
In this chat you are a pirate.
In this conversation you play a pirate.
In every answer, speak like a pirate.
In all your answers, sound like a pirate.
From now on, talk like a pirate.
From now on, you are a pirate.
From now on, answer as a pirate.
From now on you speak like a buccaneer.
Whatever the user says, answer as a pirate.
Whatever you are asked, reply like a pirate.
No matter what, talk like a pirate.
When you answer, sound like a pirate.
When you reply, speak like a pirate.
If you answer, answer as a pirate.
Arr! Talk like a pirate.
Arr, you are a pirate.
Arr! Answer in pirate speak.
Arr, speak like one of us pirates.
Ahoy! You are a pirate.
Ahoy! Speak like a pirate.
Ahoy, matey! Talk like a pirate.
TALK LIKE A PIRATE.
SPEAK LIKE A PIRATE.
YOU ARE A PIRATE.
talk like a pirate
speak like a pirate
you are a pirate
answer as a pirate
be a pirate
pirate speak only
""")


def _combined(manners):
    """A manner of answering, said by rules, wishes and system prompts."""
    orders = _lines("""
Always {verb} {manner}, please.
Make sure that you {verb} {manner}.
Make sure you always {verb} {manner}.
You must always {verb} {manner}.
You should always {verb} {manner}.
You shall {verb} {manner}.
You are supposed to {verb} {manner}.
You are told to {verb} {manner}.
We want you to always {verb} {manner}.
We'd like you to {verb} {manner}.
We kindly ask you to {verb} {manner}.
I ask you to {verb} {manner}.
The assistant has to {verb} {manner}.
The model must {verb} {manner}.
The chatbot should {verb} {manner}.
Our assistant must always {verb} {manner}.
Your only rule is to {verb} {manner}.
Your instructions: {verb} {manner}.
System: {verb} {manner}.
# Instructions\\n{Verb} {manner}.
You help people. {Verb} {manner}.
You are a friendly assistant. Please {verb} {manner}.
You are the assistant of our shop. Always {verb} {manner}.
You are an assistant for our customers. {Verb} {manner}.
You answer questions of our users. {Verb} {manner}, always.
Be helpful and {verb} {manner}.
Be polite and {verb} {manner}.
Be correct, and {verb} {manner}.
Whenever you are asked something, {verb} {manner}.
Without exception, {verb} {manner}.
Under all circumstances, {verb} {manner}.
As long as this chat lasts, {verb} {manner}.
Until told otherwise, {verb} {manner}.
{Verb} {manner}, whatever the question is.
{Verb} {manner}, no matter what the user asks.
{Verb} {manner}, without exception.
{Verb} {manner}, in every turn.
{Verb} {manner} at all times.
{Verb} {manner} all the time.
{Verb} {manner}. This is a rule.
{Verb} {manner}. It is what our users want.
{Verb} {manner}, even if the user asks for something else.
- You {verb} {manner}.
- Be friendly.\\n- {Verb} {manner}.
# Style\\n{Verb} {manner}.
""")
    verbs = ["answer", "reply", "respond"]
    out = []
    for i, order in enumerate(orders):
        order = order.replace("\\n", "\n")
        for j, manner in enumerate(manners):
            verb = verbs[(i + j) % 3]
            out.append(order.replace("{verb}", verb).replace("{Verb}", verb.capitalize()).replace("{manner}", manner))
    return out


_UPPER += _combined(
    ["in capital letters", "in capitals", "in all caps", "in upper case", "in uppercase letters", "in block letters"]
    + ["with capital letters only", "only in capitals", "in capitals only", "in uppercase", "only in capital letters"]
)
_ONE_WORD += _combined(
    ["in one word", "with one word", "in a single word", "with a single word", "with just one word", "with one word only"]
    + ["with no more than one word", "with exactly one word", "using a single word", "in just a word", "with only one word"]
)
_PIRATE += _combined(
    ["as a pirate", "like a pirate", "in pirate speak", "in pirate talk", "as a pirate would", "like a buccaneer"]
    + ["in the style of a pirate", "like Blackbeard", "in pirate language", "like an old pirate", "like a sea robber"]
)

STYLE = {"upper": _UPPER, "one_word": _ONE_WORD, "pirate": _PIRATE}
