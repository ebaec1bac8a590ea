"""Chat templates that mean harm or break: every one ends in one line, and the next render works."""

from __future__ import annotations

import os
import threading
import time

import pytest

from runtime.text import ChatTemplate, TextError
from runtime.text.template_process import TemplateProcess

HELLO = [{"role": "user", "content": "hello"}]
ATTACKS = (
    "{{ ''.__class__.__mro__ }}",
    "{{ messages.append(1) }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ (''|attr('__class__')).mro() }}",
    "{{ messages.__class__.__base__.__subclasses__() }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{{ strftime_now.__globals__.sys.exit() }}",
    "{{ raise_exception.__globals__.json }}",
    "{% for x in range(10**9) %}{% endfor %}",
    "{{ 'a' * 10**10 }}",
    "{{ 'a'|center(10**10) }}",
    "{{ [1] * 10**9 }}",
    "{{ '%3000000000d' % 1 }}",
    "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{% for i in range(99999) %}{{ 'x' * 99 }}{% endfor %}",
    "{{ messages['a'].b.c }}",
    "{{ 1 / 0 }}",
    "{{ messages[0].content + 1 }}",
    "{{ messages|tojson(cls=5) }}",
    "{{ undefined_thing.name }}",
    "{{ raise_exception('two\nlines') }}",
    "{{ '{0.__class__.__init__.__globals__}'.format(raise_exception) ~ raise_exception('formatted') }}",
)


SILENT = (
    "{{ self._TemplateReference__context }}",
    "{{ raise_exception.__globals__ }}",
    "{{ namespace.__init__ }}",
    "{{ ''.__class__ }}",
)


@pytest.fixture(scope="module")
def attacked():
    """One worker that holds every attack: none may take it down."""
    process = TemplateProcess({source: source for source in ATTACKS + SILENT}, seconds=20, characters=1 << 20)
    process.render(SILENT[0], {"messages": HELLO})  # it starts on first use; started here it belongs to the module
    yield process
    process.close()


@pytest.mark.parametrize("source", ATTACKS)
def test_attacks_end_in_one_line(attacked, source):
    with pytest.raises(TextError) as caught:
        attacked.render(source, {"messages": HELLO})
    message = str(caught.value)
    assert (
        message.startswith("chat template: ")
        and "\n" not in message
        and len(message) < 450
        and "Traceback" not in message
    )
    assert "ended the process" not in message and "did not finish" not in message


@pytest.mark.parametrize("source", SILENT)
def test_insides_print_as_nothing(attacked, source):
    assert attacked.render(source, {"messages": HELLO}) == ""


ENDLESS = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(99) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
)


@pytest.mark.parametrize("source", ENDLESS)
def test_endless_templates_are_refused_at_load(template, source):
    start = time.monotonic()
    with pytest.raises(TextError, match=r"did not finish in 0.7 s"):
        template(source, seconds=0.7)
    assert time.monotonic() - start < 8


def test_templates_that_do_not_compile_are_refused_at_load(template):
    for source in (
        "{% if %}",
        "{{ 'x' ",
        "{% for x in %}",
        "{{ x|no_such_filter }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    ):
        with pytest.raises(TextError, match="chat template: "):
            template(source)


def test_a_late_template_leaves_the_next_render_alone(template):
    t = template(
        "{% if loops %}{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{% endif %}ok",
        seconds=1.5,
    )
    with pytest.raises(TextError, match="did not finish"):
        t.render(HELLO, loops=True)
    assert t.render(HELLO) == "ok"
    big = template("{% if grow %}{{ 'a' * 10**10 }}{% endif %}ok")
    with pytest.raises(TextError, match="needs more than"):
        big.render(HELLO, grow=True)
    assert big.render(HELLO) == "ok"


def test_a_killed_worker_is_one_error_then_replaced(template):
    t = template(None)
    os.kill(t._process._process.pid, 9)
    with pytest.raises(TextError, match="ended the process"):
        t.render(HELLO)
    assert t.render(HELLO).startswith("<|im_start|>")


def test_the_worker_is_no_child_of_the_terminal_and_ends(template):
    t = template(None)
    process = t._process._process
    assert os.getsid(process.pid) != os.getsid(0)  # Ctrl-C goes to the foreground group only
    t.close()
    assert process.poll() is not None
    gone = ChatTemplate(template.tokenizer(), None)
    process = gone._process._process
    del gone
    assert process.poll() is not None


def test_renders_from_many_threads(template):
    t = template(None)
    out: dict[int, str] = {}

    def work(n: int) -> None:
        for _ in range(20):
            out[n] = t.render([{"role": "user", "content": f"m{n}"}])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(f"m{n}<" in out[n] for n in range(6))
