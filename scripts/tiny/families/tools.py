"""JSON tool calls: which of the offered tools, with which arguments; what to say about a tool's result; and when no
tool is called for.

Names of tools and parameters vary, so that they have to be read from the system message.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from ..split import normalise
from .base import FAMILIES, Draw, Item, Message, family


@dataclass(frozen=True)
class Tool:
    """names: what it may be called. about: its description. slots: (kind of operand, names of the parameter, meaning).
    asks: wordings with {0}, {1} for the slots. reply: (make a result, say it) or None when the result is {"ok": true}.
    """

    names: tuple[str, ...]
    about: str
    slots: tuple[tuple[str, tuple[str, ...], str], ...]
    asks: tuple[str, ...]
    result: Callable[[Draw], dict] | None = None
    say: str = "Done."


_PLACE = ("place", ("city", "place", "location", "town"), "Name of the city")

TOOLS = (
    Tool(("get_weather", "weather", "current_weather", "weather_report"), "Get the weather of a city.", (_PLACE,),
         ("What is the weather in {0}?", "How is the weather in {0} today?", "Is it raining in {0}?",
          "Tell me the weather for {0}.", "Do I need an umbrella in {0}?"),
         lambda d: {"temperature": d.between(1, 40), "sky": d.pick(("sunny", "cloudy", "rainy", "windy", "foggy"))},
         "It is {temperature} degrees and {sky} in {0}."),
    Tool(("get_time", "local_time", "clock", "time_in"), "Get the local time of a city.", (_PLACE,),
         ("What time is it in {0}?", "Tell me the time in {0}.", "What is the local time in {0}?",
          "How late is it in {0}?"),
         lambda d: {"time": f"{d.between(0, 23):02d}:{d.between(0, 59):02d}"}, "It is {time} in {0}."),
    Tool(("get_population", "population", "count_people"), "Look up how many people live in a city.", (_PLACE,),
         ("How many people live in {0}?", "What is the population of {0}?", "Tell me the population of {0}."),
         lambda d: {"population": d.between(100, 9999)}, "{population} people live in {0}."),
    Tool(("get_price", "price_of", "product_price"), "Look up the price of a product in euros.",
         (("word", ("product", "item", "article"), "Name of the product"),),
         ("How much is a {0}?", "What does a {0} cost?", "What is the price of a {0}?", "Tell me the price of a {0}."),
         lambda d: {"price": d.between(2, 999)}, "A {0} costs {price} euros."),
    Tool(("set_timer", "start_timer", "timer"), "Start a timer.",
         (("count", ("minutes", "duration", "length_minutes"), "Length in minutes"),),
         ("Set a timer for {0} minutes.", "Start a timer of {0} minutes.", "Wake me in {0} minutes.",
          "Please start a {0} minute timer.")),
    Tool(("set_volume", "volume", "change_volume"), "Set the volume of the speaker.",
         (("percent", ("level", "percent", "volume"), "Volume from 0 to 99"),),
         ("Set the volume to {0}.", "Turn the volume to {0} percent.", "Make the speaker volume {0}.")),
    Tool(("send_message", "message", "write_message"), "Send a message to a person.",
         (("name", ("to", "person", "recipient"), "Who gets the message"),
          ("phrase", ("text", "body", "content"), "The message")),
         ("Send {0} a message: {1}", "Write to {0}: {1}", "Message {0}: {1}", "Please tell {0} this: {1}")),
    Tool(("call_person", "phone_call", "make_call"), "Call a person by phone.",
         (("name", ("person", "contact", "name"), "Who to call"),),
         ("Call {0}.", "Please phone {0}.", "Give {0} a call.", "Start a phone call with {0}.")),
    Tool(("create_note", "add_note", "save_note"), "Save a note.",
         (("phrase", ("text", "note", "content"), "Text of the note"),),
         ("Make a note: {0}", "Save this note: {0}", "Write down: {0}", "Note this: {0}")),
    Tool(("define_word", "dictionary", "lookup_word"), "Look up the meaning of a word.",
         (("word", ("word", "term", "entry"), "The word"),),
         ("Look up the word {0}.", "Define {0}.", "Search the dictionary for {0}.", "Give me the definition of {0}.")),
    Tool(("translate", "translate_word", "translator"), "Translate a word into another language.",
         (("word", ("word", "text", "source"), "The word"),
          ("language", ("language", "target", "to"), "Target language")),
         ("Translate {0} into {1}.", "How do you say {0} in {1}?", "What is {0} in {1}?", "Give me {0} in {1}.")),
    Tool(("switch_light", "light", "set_light"), "Switch the light of a room on or off.",
         (("room", ("room", "area", "where"), "The room"), ("state", ("state", "power", "value"), "on or off")),
         ("Turn the light in the {0} {1}.", "Switch {1} the light in the {0}.", "Light {1} in the {0}, please.")),
    Tool(("book_table", "reserve_table", "reservation"), "Book a table in a restaurant.",
         (("name", ("restaurant", "place", "name"), "Name of the restaurant"),
          ("guests", ("people", "guests", "seats"), "How many people")),
         ("Book a table at {0} for {1} people.", "Reserve a table for {1} at {0}.",
          "I want to eat at {0} with {1} people.")),
    Tool(("find_route", "route", "directions"), "Find the way from one city to another.",
         (("place", ("start", "from", "origin"), "Where it starts"), ("place", ("end", "to", "goal"), "Where it ends")),
         ("How do I get from {0} to {1}?", "Find the way from {0} to {1}.", "Show me the route from {0} to {1}.")),
)

_ROOMS = ("kitchen", "bedroom", "bathroom", "hall", "office", "attic", "cellar", "garage")
_LANGUAGES = ("French", "German", "Spanish", "Italian", "Dutch", "Polish", "Greek", "Danish")
_INTEGERS = ("count", "percent", "guests")


def _operand(draw: Draw, kind: str):
    if kind in ("place", "name"):
        return draw.name()
    if kind == "word":
        return draw.word()
    if kind == "phrase":
        return " ".join(draw.word() for _ in range(draw.pick((1, 2, 3))))
    if kind == "language":
        return draw.pick(_LANGUAGES)
    if kind == "room":
        return draw.pick(_ROOMS)
    if kind == "state":
        return draw.pick(("on", "off"))
    if kind == "count":
        return draw.between(100, 999) if draw.want_held else draw.between(1, 90)
    return draw.between(0, 99) if kind == "percent" else draw.between(1, 12)


@dataclass(frozen=True)
class Offer:
    """One tool as it is offered in one conversation: its chosen name and parameter names."""

    tool: Tool
    name: str
    parameters: tuple[str, ...]

    def schema(self) -> dict:
        properties = {
            parameter: {"type": "integer" if kind in _INTEGERS else "string", "description": meaning}
            for parameter, (kind, _, meaning) in zip(self.parameters, self.tool.slots, strict=True)
        }
        return {"type": "function", "function": {
            "name": self.name, "description": self.tool.about,
            "parameters": {"type": "object", "properties": properties, "required": list(self.parameters)}}}


def _offer(draw: Draw, tool: Tool) -> Offer:
    return Offer(tool, draw.pick(tool.names), tuple(draw.pick(names) for _, names, _ in tool.slots))


def call_text(name: str, arguments: dict) -> str:
    """The call as the model writes it."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def _request(draw: Draw, offer: Offer) -> tuple[str, dict, list]:
    values = [_operand(draw, kind) for kind, _, _ in offer.tool.slots]
    return draw.pick(offer.tool.asks).format(*values), dict(zip(offer.parameters, values, strict=True)), values


def _after(draw: Draw, offer: Offer, arguments: dict, values: list) -> tuple[list[Message], str]:
    """The call, its result, and what the assistant says about it."""
    result = offer.tool.result(draw) if offer.tool.result else {"ok": True}
    call = {"type": "function", "function": {"name": offer.name, "arguments": arguments}}
    turns: list[Message] = [{"role": "assistant", "content": "", "tool_calls": [call]},
                            {"role": "tool", "content": json.dumps(result)}]
    return turns, offer.tool.say.format(*values, **result)


_PLAIN = ("add", "subtract", "compare", "spell", "units", "dates", "sort_numbers")


def _plain(draw: Draw) -> Item:
    return FAMILIES[draw.pick(_PLAIN)](draw)


@family("tools")
def tools(draw: Draw) -> Item:
    """One to three tools; the last turn is a call (most often), a sentence about a result, or an ordinary answer."""
    offers = [_offer(draw, tool) for tool in draw.rng.sample(TOOLS, draw.pick((1, 2, 2, 3)))]
    kind = draw.rng.choices(("call", "say", "plain"), (7, 2, 1))[0]
    system = ({"role": "system", "content": draw.pick(("You are a helpful assistant.", "Answer briefly."))},) \
        if draw.chance(0.2) else ()
    schemas = tuple(offer.schema() for offer in offers)
    if kind == "plain":
        item = _plain(draw)
        return Item("tools", item.key, (*system, *item.messages), item.answer, item.operands, schemas)
    chosen = draw.pick(offers)
    turns: list[Message] = list(system)
    operands: list = []
    if draw.chance(0.25):  # an earlier call in the same conversation
        earlier = draw.pick(offers)
        question, arguments, values = _request(draw, earlier)
        done, said = _after(draw, earlier, arguments, values)
        turns += [{"role": "user", "content": question}, *done, {"role": "assistant", "content": said}]
        operands += values
    question, arguments, values = _request(draw, chosen)
    operands += values
    turns.append({"role": "user", "content": question})
    answer = call_text(chosen.name, arguments)
    if kind == "say":
        done, answer = _after(draw, chosen, arguments, values)
        turns += done
    key = f"tools {kind} " + normalise(" ".join(str(m["content"]) for m in turns if m["role"] in ("user", "tool")))
    return Item("tools", key, tuple(turns), answer, schema_operands(operands), schemas)


def schema_operands(values: list) -> tuple[str, ...]:
    """Numbers, and the single words of phrases and names (languages, rooms and states are no operands)."""
    fixed = {*_ROOMS, *_LANGUAGES, "on", "off"}
    return tuple(part for value in values if value not in fixed for part in str(value).split())
