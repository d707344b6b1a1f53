#!/usr/bin/env bash
# Installs the packages of tools/packages.txt. If none is missing, the script does nothing and needs no privileges.
. "$(dirname "$0")/common.sh"

usage() {
  cat <<'HELP'
usage: tools/install_packages.sh [--all] [--cuda] [--fuzz] [--list]
Installs the Debian or Ubuntu packages of tools/packages.txt, as root or through sudo.
  --all    also the optional packages; their failure is not an error
  --cuda   also the packages that a build with CUDA needs
  --fuzz   also the packages that tools/fuzz.sh needs
  --list   print the missing packages and change nothing
HELP
}

all=no
list=no
kinds=(need)
optional=(want)
for argument in "$@"; do
  case $argument in
    --all) all=yes optional+=(check) ;;
    --cuda | --fuzz) kinds+=("${argument#--}") ;;
    --list) list=yes ;;
    -h | --help) usage; exit 0 ;;
    *) usage_error "unknown option '$argument'" ;;
  esac
done

command -v dpkg-query >/dev/null 2>&1 ||
  die "this is not Debian or Ubuntu: install the equivalents of tools/packages.txt by hand, then pass --no-install to test.sh or quickstart.sh"

missing() {  # missing KIND...: the packages of those kinds that are not installed
  local kind package
  while read -r kind package; do
    [[ " $* " == *" $kind "* ]] || continue
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^.i' || printf '%s\n' "$package"
  done <"$root/tools/packages.txt"
}

mapfile -t need < <(missing "${kinds[@]}")
mapfile -t want < <(missing "${optional[@]}")

if [ $list = yes ]; then
  [ ${#need[@]} -eq 0 ] || printf 'need %s\n' "${need[@]}"
  [ ${#want[@]} -eq 0 ] || printf 'want %s\n' "${want[@]}"
  exit 0
fi
if [ ${#need[@]} -eq 0 ] && { [ $all = no ] || [ ${#want[@]} -eq 0 ]; }; then
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    [ ${#need[@]} -gt 0 ] || exit 0
    die "neither root nor sudo: ask an administrator for 'apt-get install ${need[*]}'"
  fi
  as_root=(sudo)
  [ -t 0 ] || as_root=(sudo -n)  # nobody is there to type a password
fi

apt() { ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" </dev/null >&2; }

[ ${#need[@]} -eq 0 ] || say "installing ${need[*]}"
apt update || say "the package lists could not be updated: using the existing ones"
if [ ${#need[@]} -gt 0 ]; then
  apt install --no-install-recommends "${need[@]}" ||
    die "these packages could not be installed: ${need[*]}; check the network and 'apt-get update'"
fi
for package in ${want[@]+"${want[@]}"}; do  # one by one: a release that lacks one still gets the others
  apt install --no-install-recommends "$package" || say "optional package $package is not available: continuing without it"
done
