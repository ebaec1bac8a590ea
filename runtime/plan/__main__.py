"""python -m runtime.plan MODEL [--json]: what would be resident, which arms, and why. Allocates nothing on the device."""

from __future__ import annotations

import argparse
import json
import sys

from ..cli import LineParser, device_choice, fail, model_options


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = LineParser("runtime.plan", description="What would be resident, which arms, and why.")
    model_options(parser)
    parser.add_argument("--json", action="store_true", help="the whole plan as JSON")
    args = parser.parse_args(argv)
    return fail("runtime.plan", lambda: _plan(args))


def _plan(args: argparse.Namespace) -> None:
    from ..engine.engine import free_bytes
    from ..gguf import open_gguf
    from ..models import read_model
    from ..vk import Device
    from . import make_plan
    from .explain import as_json, as_text

    with open_gguf(args.model) as file, Device(device_choice(args.device)) as device:
        plan = make_plan(read_model(file), device.caps, free_bytes(device), ctx=args.ctx, kv=args.kv, arm=args.arm, max_alloc_mib=args.max_alloc_mib)
        print(json.dumps(as_json(plan, device.caps), indent=1) if args.json else as_text(plan, device.caps))


if __name__ == "__main__":
    sys.exit(main())
