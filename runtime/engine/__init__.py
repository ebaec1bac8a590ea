"""The engine: sequences, KV pages, sampler, step loop; `request.py` is all that a server needs to know of it."""
