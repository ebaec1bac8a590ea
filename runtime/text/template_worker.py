"""The process that renders chat templates: `python -P template_worker.py`, started by runtime.text.template_process.

A template is a program from the model file. jinja2's sandbox keeps it from Python's insides, but not from looping
for ever or from doubling a string until memory ends, so it runs here, where address space is limited and the parent
can kill. The worker opens no files and no processes once it is up. Frames on stdin and stdout are a little-endian
u32 length and that many bytes of JSON:
  first request   {"sources": {name: text}, "limits": {"seconds": s, "characters": n}}      -> {"ready": "yes"}
  then            {"template": name, "variables": {...}}                                     -> {"text": "..."}
An answer may instead be {"error": "..."}. Only the standard library and jinja2 are imported.
"""

from __future__ import annotations

import datetime
import json
import signal
import struct
import sys

try:
    import resource
except ImportError:  # not on Windows: there the parent's time-out is the only limit
    resource = None

ADDRESS_SPACE = 512 << 20

# What templates commonly use.
_COMMON = """{% macro m(a, b=1) %}{{ caller is defined }}{% endmacro %}{% set ns = namespace(x='\\n\\u00e9') %}
{% for a, b in {'k': 1}|items %}{{ m(a) }}{{ loop.first or loop.previtem }}{% if b > 0 %}{% continue %}{% endif %}
{% endfor %}{{ [1, 'a']|tojson(indent=2) }}{{ 'a b'.split(' ')[::-1]|join(',') }}{{ strftime_now('%d %b %Y') }}
{{ ' x '|trim|upper|title|replace('X', 'y')|urlencode }}{{ 1.5|round|int|string|length }}{{ 'ab' ~ 1 }}{{ '%s' % 1 }}
{{ [{'a': 1}]|map(attribute='a')|list }}{{ [{'a': 1}]|selectattr('a', 'equalto', 1)|list }}{{ 'word '|wordwrap(3) }}
{{ '{:>4}'.format('e') }}{{ 'a b'|indent(2) }}
"""


class Refused(Exception):
    """The template called raise_exception."""


class TooLong(Exception):
    """The text passed the cap."""


def _raise_exception(message):
    raise Refused(message)


def _strftime_now(form: str) -> str:
    return datetime.datetime.now().strftime(form)


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    """As Hugging Face's chat templates define it: plain JSON, no HTML escapes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment():
    """The jinja2 environment of Hugging Face's chat templates, sandboxed."""
    from jinja2 import ext, sandbox

    class Generation(ext.Extension):
        """{% generation %}...{% endgeneration %} marks words for training; the text is what is inside."""

        tags = {"generation"}

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols], cache_size=0
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def render(template, variables: dict, characters: int) -> str:
    """The text of a compiled template. Raises TooLong, and whatever the template raises."""
    now = datetime.datetime.now()
    dates = {"date_string": now.strftime("%d %b %Y"), "datetime": now.strftime("%b %d %Y %H:%M:%S GMT")}
    parts, size = [], 0
    for part in template.generate(dates | variables):
        size += len(part)
        if size > characters:
            raise TooLong
        parts.append(part)
    return "".join(parts)


def _explain(error: BaseException, characters: int) -> str:
    from jinja2 import TemplateSyntaxError
    from jinja2.exceptions import SecurityError

    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, TooLong):
        return f"makes more than {characters} characters"
    if isinstance(error, MemoryError):
        return f"needs more than {ADDRESS_SPACE >> 20} MiB of memory"
    if isinstance(error, RecursionError):
        return "nests too deeply"
    if isinstance(error, TemplateSyntaxError):
        return f"syntax error in line {error.lineno}: {error.message}"
    if isinstance(error, SecurityError):
        return f"is not allowed by the sandbox: {error}"
    return f"{type(error).__name__}: {error}{_line_of(error)}"


def _line_of(error: BaseException) -> str:
    """Where in the template: jinja2 puts its lines into the traceback."""
    line, frame = None, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == "<template>":
            line = frame.tb_lineno
        frame = frame.tb_next
    return "" if line is None else f" (line {line})"


def _read(stream):
    head = stream.read(4)
    if len(head) < 4:
        raise SystemExit(0)
    return json.loads(stream.read(struct.unpack("<I", head)[0]))


def _write(stream, answer: dict) -> None:
    body = json.dumps(answer).encode()
    stream.write(struct.pack("<I", len(body)) + body)
    stream.flush()


def _confine() -> None:
    """No more memory than the cap, no new files, no children. Everything that is needed is imported by now."""
    if resource is None:
        return
    for name, limit in (
        ("RLIMIT_AS", ADDRESS_SPACE),
        ("RLIMIT_NOFILE", 3),
        ("RLIMIT_FSIZE", 0),
        ("RLIMIT_NPROC", 0),
        ("RLIMIT_CORE", 0),
    ):
        try:
            resource.setrlimit(getattr(resource, name), (limit, limit))
        except (AttributeError, ValueError, OSError):
            continue  # a system without this limit: the others and the parent's time-out still hold


def _warm_up(environment) -> None:
    """Load what jinja2 imports on first use: after `_confine` no file opens any more."""
    import pprint  # noqa: F401
    import random  # noqa: F401
    import textwrap  # noqa: F401
    import urllib.parse  # noqa: F401

    import jinja2.debug  # noqa: F401

    for source in (_COMMON, "{{ missing.name }}", "{% if %}", "{{ ''.__class__.x }}"):
        try:
            environment.from_string(source).render()
        except Exception as error:
            _explain(error, 0)


def _alarm(seconds: float) -> None:
    """Ends the process should the parent be gone while a template loops."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def main() -> None:
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    start = _read(requests)
    characters, seconds = start["limits"]["characters"], start["limits"]["seconds"]
    try:
        environment = make_environment()
        _warm_up(environment)
    except ImportError as error:
        _write(answers, {"error": f"needs jinja2: {error}; pip install jinja2"})
        return
    _confine()
    _alarm(2 * seconds + 5)
    templates = {}
    for name, source in start["sources"].items():
        try:
            templates[name] = environment.from_string(source)
        except BaseException as error:
            _write(answers, {"error": _explain(error, characters)})
            return
    _alarm(0)
    _write(answers, {"ready": "yes"})
    while True:
        request = _read(requests)
        _alarm(2 * seconds + 5)
        try:
            answer = {"text": render(templates[request["template"]], request["variables"], characters)}
        except BaseException as error:
            answer = {"error": _explain(error, characters)}
        _write(answers, answer)
        _alarm(0)


if __name__ == "__main__":
    main()
