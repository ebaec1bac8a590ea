"""runtime.engine.request: the protocol between the engine's thread and whoever reads a stream."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from runtime.engine.request import Request, RequestError, Sampling, Stream


def stream(**fields) -> Stream:
    return Stream(Request([1, 2, 3], **fields))


def produce(target: Stream, tokens, finish="stop", error=None, delay=0.0) -> threading.Thread:
    def work():
        for token in tokens:
            time.sleep(delay)
            target.put(token)
        target.done(finish, error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_iteration_gets_every_token_in_order():
    one = stream()
    thread = produce(one, range(1000))
    assert list(one) == list(range(1000))
    thread.join()
    assert (one.finish, one.error, one.prompt_tokens, one.completion_tokens) == ("stop", None, 3, 1000)


def test_the_async_side_gets_every_token_in_order():
    async def read(one):
        tokens = [await one.next()]
        while batch := await one.take():
            tokens += batch
            if (single := await one.next()) is None:
                break
            tokens.append(single)
        assert await one.take() == [] and await one.next() is None
        return tokens

    for delay in (0.0, 0.0005):
        one = stream()
        thread = produce(one, range(200), delay=delay)
        assert asyncio.run(read(one)) == list(range(200))
        thread.join()


def test_an_abandoned_take_loses_nothing():
    async def read(one):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(one.take(), 0.02)
        one.put(7)
        return await one.take()

    assert asyncio.run(read(stream())) == [7]


def test_the_first_done_counts_and_later_tokens_are_dropped():
    one = stream()
    one.put(1)
    assert one.done("error", "lost") and not one.done("stop")
    one.put(2)
    assert list(one) == [1] and (one.finish, one.error, one.completion_tokens) == ("error", "lost", 1)
    with pytest.raises(ValueError, match="finish"):
        one.done("over")


def test_a_reader_whose_loop_is_gone_does_not_disturb_the_engine():
    one = stream()

    async def abandon():
        task = asyncio.ensure_future(one.take())
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(abandon())
    one.put(5)
    one.done("stop")
    assert list(one) == [5]


def test_cancel_is_seen_by_the_producer():
    one = stream()
    assert not one.cancelled
    one.cancel()
    assert one.cancelled and one.finish is None


def test_times_are_measured_unless_the_engine_sets_them():
    one = stream()
    time.sleep(0.01)
    one.put(1)
    time.sleep(0.01)
    one.put(2)
    assert one.prompt_ms >= 10 and one.predicted_ms >= 10
    two = stream()
    two.prompt_ms = 1.5
    two.put(1)
    assert two.prompt_ms == 1.5


def test_random_seeds_are_resolved_and_given_ones_kept():
    assert stream(sampling=Sampling(seed=9)).seed == 9
    seeds = {stream().seed for _ in range(8)}
    assert len(seeds) > 1 and all(0 <= seed < 1 << 32 for seed in seeds)


@pytest.mark.parametrize(
    "field, value",
    [
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_p", 1.5),
        ("top_p", float("nan")),
        ("min_p", -0.1),
        ("top_k", 1 << 40),
        ("seed", -2),
        ("seed", 1 << 63),
    ],
)
def test_sampling_out_of_range(field, value):
    with pytest.raises(RequestError) as caught:
        Sampling(**{field: value})
    assert caught.value.field == field and "\n" not in str(caught.value)


def test_greedy():
    assert Sampling(temperature=0).greedy and Sampling(temperature=-1).greedy and not Sampling().greedy


@pytest.mark.parametrize(
    "prompt, max_tokens, field",
    [([], -1, "prompt"), ([5, -1], -1, "prompt"), ([100], -1, "prompt"), ([1] * 8, -1, "prompt"), ([1], -2, "max_tokens")],
)
def test_requests_that_cannot_run(prompt, max_tokens, field):
    with pytest.raises(RequestError) as caught:
        Request(prompt, max_tokens).check(n_ctx=8, vocab_size=100)
    assert caught.value.field == field
    too_long = len(prompt) == 8
    assert (caught.value.n_prompt_tokens, caught.value.n_ctx) == ((8, 8) if too_long else (None, None))


def test_the_longest_prompt_that_fits():
    Request([1] * 7, 0).check(n_ctx=8, vocab_size=2)
