# Sourced by the Makefile's recipes: which Vulkan driver to use, and where compiled shaders are kept.
#
#   . scripts/setup/env.sh test     the software driver where there is one, so that tests mean the same on every machine
#   . scripts/setup/env.sh best     whatever hardware the loader finds; the software driver only where there is none
#
# A VK_DRIVER_FILES or VK_ICD_FILENAMES that is already set is left alone. For bash.

export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/tmp}"                        # without it the loader's Mesa layer complains on stderr
export MESA_SHADER_CACHE_DIR="${MESA_SHADER_CACHE_DIR:-$PWD/.cache/mesa}" # lavapipe compiles with LLVM: seconds once, then none

software_driver() {
  for manifest in /opt/lavapipe/lvp_icd.json /usr/share/vulkan/icd.d/lvp_icd*.json; do
    if [ -r "$manifest" ]; then echo "$manifest"; return; fi
  done
}

has_hardware() { python3 scripts/setup/probe.py 2>/dev/null | cut -f2 | grep -qE '^(discrete|integrated|virtual)$'; }

if [ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ] && [ -n "$(software_driver)" ]; then
  if [ "$1" = test ] || ! has_hardware; then
    VK_DRIVER_FILES=$(software_driver)
    export VK_DRIVER_FILES
  fi
fi
