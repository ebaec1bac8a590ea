"""Request fields that OpenAI or llama-server knows and this server does not serve: one row each.

A neutral value asks for what the server does anyway, so it passes. Anything else would change the answer, and ignoring
it would be a silent lie: 501 names the field. A value of the wrong JSON type is a 400, as for every other field.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.server.errors import ApiError
from runtime.server.fields import Fields

KINDS = {
    "a boolean": lambda fields, name: fields.boolean(name, None),
    "an integer": lambda fields, name: fields.integer(name, None),
    "a number": lambda fields, name: fields.number(name, None),
    "a string": lambda fields, name: fields.string(name, None),
    "an array": lambda fields, name: fields.array(name),
    "an object": lambda fields, name: fields.object(name),
    "a boolean or an integer": lambda fields, name: fields.one_of(name, (bool, int), "a boolean or an integer"),
    "an object or an array": lambda fields, name: fields.one_of(name, (dict, list), "an object or an array"),
    "a string or an object": lambda fields, name: fields.one_of(name, (str, dict), "a string or an object"),
}


@dataclass(frozen=True)
class Unserved:
    """A field, its JSON type, and the values (beside null) which are neutral."""

    name: str
    kind: str
    neutral: tuple = ()


UNSERVED = (
    # several answers, probabilities
    Unserved("n", "an integer", (1,)),
    Unserved("n_cmpl", "an integer", (1,)),
    Unserved("best_of", "an integer", (1,)),
    Unserved("logprobs", "a boolean or an integer", (False,)),
    Unserved("top_logprobs", "an integer", (0,)),
    Unserved("n_probs", "an integer", (0,)),
    Unserved("post_sampling_probs", "a boolean", (False,)),
    # the prompt's text around the answer
    Unserved("echo", "a boolean", (False,)),
    Unserved("suffix", "a string", ("",)),
    # penalties and further samplers
    Unserved("logit_bias", "an object or an array", ({}, [])),
    Unserved("presence_penalty", "a number", (0,)),
    Unserved("frequency_penalty", "a number", (0,)),
    Unserved("repeat_penalty", "a number", (1,)),
    Unserved("repetition_penalty", "a number", (1,)),
    Unserved("dry_multiplier", "a number", (0,)),
    Unserved("mirostat", "an integer", (0,)),
    Unserved("typical_p", "a number", (1,)),
    Unserved("typ_p", "a number", (1,)),
    Unserved("top_n_sigma", "a number", (-1, 0)),
    Unserved("xtc_probability", "a number", (0,)),
    Unserved("dynatemp_range", "a number", (0,)),
    Unserved("adaptive_target", "a number", (-1,)),
    Unserved("min_keep", "an integer", (0, 1)),
    Unserved("ignore_eos", "a boolean", (False,)),
    Unserved("samplers", "an array"),
    # constrained output
    Unserved("grammar", "a string", ("",)),
    Unserved("json_schema", "an object", ({},)),
    Unserved("response_format", "an object", ({"type": "text"},)),
    Unserved("functions", "an array", ([],)),
    Unserved("function_call", "a string or an object", ("none", "auto")),
    # llama-server's housekeeping
    Unserved("n_keep", "an integer", (0,)),
    Unserved("n_discard", "an integer", (0,)),
    Unserved("n_cache_reuse", "an integer", (0,)),
    Unserved("id_slot", "an integer", (-1,)),
    Unserved("return_progress", "a boolean", (False,)),
    Unserved("timings_per_token", "a boolean", (False,)),
    Unserved("response_fields", "an array", ([],)),
    Unserved("t_max_predict_ms", "a number", (0, -1)),
    Unserved("n_indent", "an integer", (0,)),
    Unserved("lora", "an array", ([],)),
    Unserved("image_data", "an array", ([],)),
    Unserved("reasoning_budget", "an integer", (-1,)),
    # OpenAI's services
    Unserved("modalities", "an array", (["text"],)),
    Unserved("audio", "an object"),
    Unserved("prediction", "an object"),
    Unserved("web_search_options", "an object"),
    Unserved("store", "a boolean", (False,)),
)


def refuse_unserved(fields: Fields) -> None:
    """Raise ApiError 400 or 501 for the first row of UNSERVED that the body sets to something not neutral."""
    for row in UNSERVED:
        value = KINDS[row.kind](fields, row.name)
        if value is not None and not any(_same(value, neutral) for neutral in row.neutral):
            raise ApiError(501, f"'{row.name}' is not served by this server: leave it out", row.name)


def _same(value: object, neutral: object) -> bool:
    """Equal, where a boolean is no number: `logprobs: 0` asks for more than `logprobs: false`."""
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)
