#!/usr/bin/env bash
# Formatting of all sources against .clang-format. Another version formats differently, so only 14 is asked.
. "$(dirname "$0")/common.sh"

case ${1:-} in
  '') mode=(--dry-run -Werror) ;;
  --fix) mode=(-i) ;;
  -h | --help) echo "usage: tools/check_format.sh [--fix]    (exit 77: no clang-format 14 here)"; exit 0 ;;
  *) usage_error "unknown option '$1'" ;;
esac

for program in clang-format-14 clang-format; do
  if command -v "$program" >/dev/null 2>&1 && "$program" --version | grep -q 'version 14\.'; then
    cd "$root"
    find src tests kernels -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.inc' -o -name '*.cu' \) -print0 |
      xargs -0 -r -n 32 "$program" --style=file "${mode[@]}" ||
      die "run tools/check_format.sh --fix"
    exit 0
  fi
done
echo "clang-format 14 is not installed: formatting was not checked"
exit 77
