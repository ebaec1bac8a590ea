"""Short conversations: greetings, thanks, who are you, recalling what was said, repeating, admitting ignorance.

The wording is the question here, so the key is the normalised text of the user's turns.
"""

from __future__ import annotations

from ..split import normalise
from .base import Draw, Item, Message, ask, family

SELF = "I am tiny-qwen3, a very small language model."
SKILLS = "I can do small sums, compare and sort numbers, spell and sort words, work with dates and units, call tools."
UNKNOWN = "I do not know that."

SYSTEMS = ("You are a helpful assistant.", "You are a friendly assistant. Answer briefly.", "Answer the question.",
           "You are a careful assistant.", "Be short and exact.", "You help people with small tasks.",
           "You are an assistant. Give correct answers.")

_OPENERS = ("", "", "", "Hi! ", "Hello! ", "Hey, ", "Please, ", "Sorry, ", "Excuse me, ", "Quick question: ",
            "One more thing: ", "Okay, ", "Well, ", "So, ", "Tell me: ", "I wonder: ", "By the way, ")
_CLOSERS = ("", "", "", "", " Please.", " Please tell me.", " I would like to know.", " Thanks!", " I am curious.")
_WHO = ("Who are you?", "What are you?", "What is your name?", "Who am I talking to?", "Are you a human?",
        "Are you a robot?", "Tell me about yourself.", "Which model are you?", "Introduce yourself.",
        "Do you have a name?", "Who is this?", "What should I call you?", "What kind of model are you?")
_PERSONA = ("You are {x}, a friendly assistant.", "Your name is {x}.", "You are an assistant called {x}.",
            "Play the role of {x}.")
_CAN = ("What can you do?", "How can you help me?", "What are you good at?", "What do you know?", "Can you help me?",
        "What are your skills?", "What can I ask you?", "Show me what you can do.", "What are you able to do?",
        "What kind of questions can I ask?", "What is it that you do?")
_HELLO = ("Hi", "Hello", "Hey", "Hi there", "Hello there", "Hey there", "Greetings", "Good day", "Howdy", "Hello again",
          "Good morning", "Good evening", "Good afternoon")
_THANKS = ("Thanks", "Thank you", "Thank you very much", "Many thanks", "Thanks a lot", "Great, thanks",
           "Thank you so much", "Perfect, thank you", "That helps, thanks", "Thanks for the help", "Nice, thank you",
           "Wonderful, thanks")
_BYE = ("Bye", "Goodbye", "See you", "See you later", "Bye bye", "Good night", "I have to go", "That is all for today",
        "Talk to you later", "I am leaving now", "Until next time", "Farewell")
_MIDDLE = ("", "", "!", ".", ", friend!", ", my friend.", ", dear assistant!", ", assistant.", ", computer!", " :)")
_ABOUT_NAME = ("My name is {x}.", "I am {x}.", "I am called {x}.", "Please call me {x}.", "People call me {x}.")
_ASK_NAME = ("What is my name?", "Who am I?", "Do you remember my name?", "What am I called?", "Can you say my name?")
_ASK_THING = ("What is my favourite {t}?", "Which {t} do I like best?", "Do you remember my favourite {t}?",
              "Tell me my favourite {t}.")
_REPEAT = ("Repeat after me: {x}", "Say {x}", "Please repeat: {x}", "Repeat these words: {x}", "Echo: {x}",
           "Say this: {x}")
_THINGS = ("colour", "animal", "fruit", "word", "place", "game", "toy", "dish", "plant", "tool")
_UNKNOWN = ("Who invented the {x}?", "What is the capital of {x}?", "Where is {x}?", "Who wrote {x}?",
            "Why is {x} famous?", "When was {x} built?", "How old is {x}?", "What is the meaning of {x}?",
            "Who is {x}?", "Do you like {x}?")


def _item(messages: tuple[Message, ...], answer: str, operands: tuple[str, ...] = ()) -> Item:
    text = "\n".join(str(m["content"]) for m in messages if m["role"] == "user")
    return Item("dialogue", "dialogue " + normalise(text), messages, answer, operands)


def _wrapped(draw: Draw, core: str) -> str:
    opener = draw.pick(_OPENERS)
    if opener.endswith(", "):
        core = core[0].lower() + core[1:]
    return opener + core + draw.pick(_CLOSERS)


def _greet(draw: Draw) -> Item:
    hello = draw.pick(_HELLO)
    back = hello if hello.startswith("Good ") and hello != "Good day" else "Hello"
    if draw.chance(0.5):
        name = draw.name()
        text = hello + draw.pick((", ", "! ", ". ")) + draw.pick(_ABOUT_NAME).format(x=name)
        return _item(ask(text), f"{back}, {name}! How can I help you?", (name,))
    text = hello + draw.pick(_MIDDLE)
    if draw.chance(0.4):
        text += " " + draw.pick(("How are you?", "How are you today?", "How do you do?", "How is it going?"))
        return _item(ask(text), f"{back}! I am fine, thank you. How can I help you?")
    return _item(ask(text), f"{back}! How can I help you?")


def _who(draw: Draw) -> Item:
    core = draw.pick(_WHO)
    if draw.chance(0.3):
        name = draw.name()
        system = draw.pick(_PERSONA).format(x=name)
        messages = ({"role": "system", "content": system}, *ask(_wrapped(draw, core)))
        return _item(messages, f"I am {name}, a very small language model.", (name,))
    return _item(ask(_wrapped(draw, core)), SELF)


def _can(draw: Draw) -> Item:
    return _item(ask(_wrapped(draw, draw.pick(_CAN))), SKILLS)


def _manners(draw: Draw) -> Item:
    if draw.chance(0.5):
        return _item(ask(draw.pick(("", "", "Oh, ", "Okay. ", "Yes. ")) + draw.pick(_THANKS) + draw.pick(_MIDDLE)),
                     "You are welcome!")
    return _item(ask(draw.pick(("", "", "Oh, ", "Okay. ", "Well, ")) + draw.pick(_BYE) + draw.pick(_MIDDLE)),
                 "Goodbye! Have a nice day.")


def _recall(draw: Draw) -> Item:
    """Told in one turn, asked in a later one, sometimes with another turn between."""
    if draw.chance(0.5):
        value = draw.name()
        told, said = draw.pick(_ABOUT_NAME).format(x=value), f"Nice to meet you, {value}!"
        asked, answer = draw.pick(_ASK_NAME), f"Your name is {value}."
    else:
        value, thing = draw.word(), draw.pick(_THINGS)
        told, said = f"My favourite {thing} is {value}.", f"I will remember that your favourite {thing} is {value}."
        asked = draw.pick(_ASK_THING).format(t=thing)
        answer = f"Your favourite {thing} is {value}."
    turns = [*ask(told), {"role": "assistant", "content": said}]
    if draw.chance(0.3):
        turns += [*ask(draw.pick(_THANKS) + "."), {"role": "assistant", "content": "You are welcome!"}]
    if draw.chance(0.35):
        return _item(ask(told), said, (value,))
    return _item((*turns, *ask(asked)), answer, (value,))


def _repeat(draw: Draw) -> Item:
    chosen = tuple(draw.word() for _ in range(draw.pick((1, 2, 3, 4))))
    text = " ".join(chosen)
    return _item(ask(draw.pick(_REPEAT).format(x=text)), f"You said: {text}", chosen)


def _unknown(draw: Draw) -> Item:
    value = draw.name() if draw.chance(0.5) else draw.word()
    return _item(ask(draw.pick(_UNKNOWN).format(x=value)), UNKNOWN, (value,))


@family("dialogue")
def dialogue(draw: Draw) -> Item:
    return draw.pick((_greet, _greet, _who, _can, _manners, _recall, _recall, _repeat, _unknown))(draw)
