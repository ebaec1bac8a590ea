#!/usr/bin/env bash
# Install the Vulkan loader, the validation layers and a recent lavapipe (Mesa 26.x, which has KHR cooperative matrices).
#
# usage: lavapipe.sh [PREFIX]        as root, on Debian 12 (bookworm) or 13 (trixie); PREFIX is /opt/lavapipe by default
#
# On trixie everything comes from trixie-backports. Bookworm's own backports stop at Mesa 25.0, which has no cooperative
# matrices; so there the driver of trixie-backports is put into PREFIX beside them, bound to bookworm's glibc
# (rebind_glibc.py) and to bookworm's own LLVM. The last line printed is the driver's manifest, for VK_DRIVER_FILES.
#
# apt's configured sources are read to find the mirror and are not changed: this script uses a source list of its own,
# in a temporary folder that is removed at the end. Running it again is safe and changes only what is out of date.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=${1:-/opt/lavapipe}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
export DEBIAN_FRONTEND=noninteractive

die() { echo "lavapipe.sh: $*" >&2; exit 1; }
say() { echo "lavapipe.sh: $*" >&2; }

[ "$(id -u)" = 0 ] || die "needs root: sudo bash $0"
[ -r /etc/os-release ] && . /etc/os-release
release=${VERSION_CODENAME:-unknown}
case "${ID:-unknown}:$release" in
  debian:bookworm | debian:trixie) ;;
  *) die "knows Debian 12 and 13 only, this is ${PRETTY_NAME:-unknown}: install a Vulkan driver of your system" ;;
esac
architecture=$(dpkg --print-architecture)
[ "$release" = trixie ] || [ "$architecture" = amd64 ] || die "bookworm is supported on amd64 only, this is $architecture"
[ -r "$keyring" ] || die "$keyring is missing: apt-get install debian-archive-keyring"

work=$(mktemp -d /tmp/lavapipe.XXXXXX)
trap 'rm -rf "$work"' EXIT

# The mirror that this machine already uses for its own release; one named .../debian wins over third parties.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
  awk -v release="$release" '($2 == release || $2 ~ /^(old)*stable$/) && $3 == "main" { print ($1 ~ /\/debian\/?$/) ? 0 : 1, $1 }' |
  sort -s -k1,1 | awk 'NR == 1 { print $2 }')
[ -n "$mirror" ] || die "apt has no source for $release main: add one to /etc/apt/sources.list.d and run this again"

# apt_with NAME SUITES: point the array `apt` at a source list, package lists and a cache of its own under $work/NAME.
# The database of installed packages stays the system's.
apt_with() {
  local root=$work/$1
  mkdir -p "$root"/{lists/partial,cache/archives/partial,sources,preferences}
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$mirror" "$2" "$keyring" >"$root/sources/own.sources"
  options=(-qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$root/sources" -o Dir::Etc::Preferences=/dev/null
    -o Dir::Etc::PreferencesParts="$root/preferences" -o Dir::State::Lists="$root/lists" -o Dir::Cache="$root/cache"
    -o Acquire::Languages=none -o Acquire::Retries=3 -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any
    -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
  say "reading the package lists of $2"
  apt-get "${options[@]}" update >"$work/log" 2>&1 || { cat "$work/log" >&2; die "apt-get update failed for $2 on $mirror (its messages are above)"; }
}

install() {
  apt-get "${options[@]}" install -y --no-install-recommends "$@" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; die "apt-get could not install $* (its messages are above)"; }
}

apt_with "$release" "$release $release-updates $release-backports"
say "installing the loader, the validation layers and Mesa of $release-backports"
install "mesa-vulkan-drivers/$release-backports" libvulkan1 vulkan-validationlayers
system_options=("${options[@]}")

# driver_of_trixie: put trixie-backports' lavapipe into $prefix, unless that very version is there.
driver_of_trixie() {
  local version deb depends llvm display
  apt_with trixie "trixie trixie-backports"
  version=$(apt-cache "${options[@]}" madison mesa-vulkan-drivers | awk -F'|' '$3 ~ /trixie-backports/ { gsub(/ /, "", $2); print $2; exit }')
  [ -n "$version" ] || die "trixie-backports on $mirror has no mesa-vulkan-drivers for $architecture"
  if [ -e "$prefix/libvulkan_lvp.so" ] && [ "$(cat "$prefix/VERSION" 2>/dev/null)" = "$version" ]; then
    say "$prefix already holds $version"
    return
  fi
  mkdir -p "$work/debs"
  (cd "$work/debs" && apt-get "${options[@]}" download "mesa-vulkan-drivers=$version" >"$work/log" 2>&1) || { cat "$work/log" >&2; die "cannot download mesa-vulkan-drivers $version"; }
  deb=$(echo "$work"/debs/mesa-vulkan-drivers_*.deb)
  depends=$(dpkg-deb -f "$deb" Depends)
  llvm=$(grep -o 'libllvm[0-9]*' <<<"$depends" | head -1) || die "mesa-vulkan-drivers $version names no libllvm in its Depends"
  display=$(grep -o 'libdisplay-info[0-9]*' <<<"$depends" | head -1) || true
  if [ -n "$display" ]; then
    (cd "$work/debs" && apt-get "${options[@]}" download "$display" >"$work/log" 2>&1) || { cat "$work/log" >&2; die "cannot download $display"; }
  fi
  options=("${system_options[@]}")   # LLVM is bookworm's own; libdisplay-info is the one library that bookworm lacks
  say "installing $llvm ${display:+and $display}"
  install "$llvm" ${display:+"$work/debs/$display"_*.deb}

  say "binding lavapipe of Mesa $version to this system's glibc"
  mkdir -p "$prefix" "$work/tree"
  dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/tree"
  python3 "$here/rebind_glibc.py" "$(echo "$work"/tree/usr/lib/*/libvulkan_lvp.so)" "$work/libvulkan_lvp.so" >&2 ||
    die "the driver of Mesa $version cannot be bound to this glibc: use Debian 13, or the driver of $release-backports"
  python3 - "$(echo "$work"/tree/usr/share/vulkan/icd.d/lvp_icd*.json)" "$prefix/libvulkan_lvp.so" >"$work/lvp_icd.json" <<'PY'
import json, sys
manifest = json.load(open(sys.argv[1]))
manifest["ICD"]["library_path"] = sys.argv[2]
json.dump(manifest, sys.stdout)
PY
  # Beside the old one first, then renamed over it: a process that runs on the old driver keeps it.
  for file in libvulkan_lvp.so lvp_icd.json; do
    install_file "$work/$file" "$prefix/$file"
  done
  echo "$version" >"$prefix/VERSION"
}

install_file() { cp "$1" "$2.new" && chmod 644 "$2.new" && mv "$2.new" "$2"; }

if [ "$release" = bookworm ]; then
  driver_of_trixie
  manifest=$prefix/lvp_icd.json
else
  manifest=$(ls /usr/share/vulkan/icd.d/lvp_icd*.json 2>/dev/null | head -1)
fi
devices=$(VK_DRIVER_FILES=$manifest XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/tmp} python3 "$here/probe.py") ||
  die "installed, but $manifest offers no device (the reason is above)"
say "ready: $(cut -f3,4 <<<"$devices" | tr '\t' ' ')"
echo "$manifest"
