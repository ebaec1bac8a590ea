#!/usr/bin/env bash
# Make the checkout ready: .venv with this project in it, and a Vulkan device. Does nothing when both are there.
#
# usage: setup.sh [--no-vulkan] [EXTRA,...]      run from anywhere; EXTRA is one of pyproject.toml's extras
#
# System packages are installed only by root on Debian 12 or 13. Elsewhere the commands are printed, nothing is changed, and
# the exit status is 1. Python packages come by pip, with whatever index and proxy the machine's pip is configured for.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=${PYTHON:-python3}
vulkan=yes
if [ "${1:-}" = --no-vulkan ]; then vulkan=no; shift; fi
extras=${1:-}

die() { echo "setup.sh: $*" >&2; exit 1; }
say() { echo "setup.sh: $*" >&2; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
  die "$python is missing or older than 3.11 ($("$python" --version 2>&1)): install Python 3.11 or later, or set PYTHON="

# --- What is missing? Asked before anything is changed. ---

venv_works() { .venv/bin/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("pip") is None)' 2>/dev/null; }
can_make_venv() { "$python" -c 'import ensurepip, venv' 2>/dev/null; }
has_device() { python3 scripts/setup/probe.py >/dev/null 2>&1; }
has_vulkan() { has_device || (. scripts/setup/env.sh test && has_device); }

on_debian() { (. /etc/os-release && [[ "${ID:-}:${VERSION_CODENAME:-}" =~ ^debian:(bookworm|trixie)$ ]]) 2>/dev/null; }

need_venv=no need_vulkan=no
venv_works || can_make_venv || need_venv=yes
[ "$vulkan" = no ] || has_vulkan || need_vulkan=yes

if [ "$need_venv$need_vulkan" != nono ]; then
  if ! on_debian; then
    [ "$need_venv" = no ] || echo "  # Python's venv module with ensurepip, from your system's packages"
    [ "$need_vulkan" = no ] || echo "  # a Vulkan loader and driver: Fedora: dnf install vulkan-loader mesa-vulkan-drivers
  #   Arch: pacman -S vulkan-icd-loader vulkan-swrast    Ubuntu: apt-get install libvulkan1 mesa-vulkan-drivers"
    die "something is missing that only your system's packages offer (listed above); nothing was changed"
  fi
  if [ "$(id -u)" != 0 ]; then
    [ "$need_venv" = no ] || echo "  sudo apt-get update && sudo apt-get install -y python3-venv"
    [ "$need_vulkan" = no ] || echo "  sudo bash $PWD/scripts/setup/lavapipe.sh"
    die "system packages are missing and this is not root: run the commands above, then this again; nothing was changed"
  fi
fi

# --- System packages ---

if [ "$need_venv" = yes ]; then
  say "installing python3-venv"
  export DEBIAN_FRONTEND=noninteractive
  install=(apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install -y --no-install-recommends python3-venv)
  # The package lists may be there and fresh; only if they do not serve are they read anew.
  "${install[@]}" >/dev/null 2>&1 || { apt-get -qq update >&2 || true; "${install[@]}" >&2; } ||
    die "apt-get could not install python3-venv (its messages are above)"
  can_make_venv || die "$python still has no ensurepip: it is not Debian's python3; set PYTHON=/usr/bin/python3"
fi
[ "$need_vulkan" = no ] || bash scripts/setup/lavapipe.sh >/dev/null

# --- The virtual environment. A stamp per set of extras holds what it was made from, so that a second run costs nothing. ---

venv_works || { say "making .venv with $("$python" --version)"; "$python" -m venv --clear .venv; }
stamp=.venv/installed-${extras:-base}
made_from="$PWD $(sha256sum <pyproject.toml)"
if [ "$(cat "$stamp" 2>/dev/null)" != "$made_from" ]; then
  say "installing the project${extras:+ and its extras $extras} into .venv (once)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".${extras:+[$extras]}" ||
    die "pip could not install the project (its messages are above): check the network, or PIP_INDEX_URL"
  echo "$made_from" >"$stamp"
  echo "$made_from" >.venv/installed-base
fi
