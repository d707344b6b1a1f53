#!/usr/bin/env bash
# Packs a built tree into an archive that runs on other machines: no root, no packages, any folder.
. "$(dirname "$0")/common.sh"

usage() {
  cat <<'HELP'
usage: tools/bundle.sh [--build DIR] [--kernels DIR] [--output FILE] [--glibc VERSION]
Writes an archive of at most 40 MiB with the program, Open MPI and their libraries, except glibc, GPU libraries and those
of fast networks (ranks on several hosts communicate over TCP). It also contains tools/gpu_check.sh and, if they are
built, the tests and the benchmark of the kernels. It needs patchelf and xz-utils. Prints the archive's path.
  --build DIR      the build folder (build/release)
  --kernels DIR    the programs of the target gpu_programs (kernels, in the build folder)
  --output FILE    the archive (DIR/cifar-train-VERSION-linux-MACHINE.tar.xz, in the build folder); if it does not end
                   in .xz, it is not compressed, and may be larger
  --glibc VERSION  the newest version of glibc that the bundle may need (2.36, Debian 12's)
HELP
}

build=$root/build/release
kernels=
output=
newest_glibc=2.36
while [ $# -gt 0 ]; do
  case $1 in
    --build | --kernels | --output | --glibc)
      [ $# -ge 2 ] || usage_error "$1 needs a value"
      case $1 in
        --build) build=$2 ;;
        --kernels) kernels=$2 ;;
        --output) output=$2 ;;
        --glibc) newest_glibc=$2 ;;
      esac
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage_error "unknown option '$1'" ;;
  esac
  shift
done

limit=$((40 << 20))  # bytes
program=$build/cifar-train
[ -x "$program" ] || die "there is no $program: build it first, or give --build DIR"
for tool in cmake patchelf xz objdump strip dpkg-query; do
  command -v "$tool" >/dev/null 2>&1 ||
    die "there is no $tool: install patchelf, xz-utils and binutils (Debian or Ubuntu)"
done

read -r _ version _ < <("$program" --version) || die "$program does not run here"
name=cifar-train-$version-linux-$(uname -m)
: "${output:=$build/$name.tar.xz}" "${kernels:=$build/kernels}"
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
tree=$temporary/$name
mkdir -p "$tree"/{lib,libexec,licences}

glibc='^(ld-linux.*|linux-vdso|lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|nsl))\.so'
gpu='^lib(cuda|cudart|cudnn|cublas|cublasLt|nccl|nvrtc|nvJitLink|nvidia.*|cufft|cusparse|cusolver|curand)[.-]'
open_mpi='^lib(mpi|open-pal|open-rte|mca_common_sm|hwloc|event.*|pmix|z)[.-]'

needed() { objdump -p "$1" | awk '$1 == "NEEDED" {print $2}'; }

libraries() {  # libraries FILE...: paths of all libraries that they need, except glibc
  local file line library path
  for file in "$@"; do
    while read -r library line; do
      [[ ! ${library##*/} =~ $glibc ]] || continue
      [[ ! $library =~ $gpu ]] || die "$file is linked with $library, which must not be in a bundle"
      path=${line#=> }
      [ "$path" != 'not found' ] || die "$file needs $library, which is not on this machine"
      printf '%s\n' "${path% (*}"
    done < <(ldd "$file")
  done | sort -u
}

# ---- programs, what is installed with them, and Open MPI's plug-ins

env -u DESTDIR cmake --install "$build" --prefix "$tree" >/dev/null || die "cmake cannot install $build"
rm "$tree/bin/cifar-train" # a launcher script takes its place
programs=("$program")
absent=()
for part in test_kernels_gpu kernel_benchmark; do
  file=$kernels/$part
  if [ -x "$file" ]; then programs+=("$file"); else absent+=("$part"); fi
done
[ ${#absent[@]} -eq 0 ] ||
  say "without ${absent[*]}, not in $kernels: cmake --build --preset release --target gpu_programs"
install -D -t "$tree/tools" "$root/tools/gpu_check.sh" "$root"/tests/bench/torch_*.py
install -D -m 644 -t "$tree/tools/gpu_check" "$root"/tools/gpu_check/*.sh
install -s -t "$tree/libexec" "${programs[@]}"
carried=()  # files of the distribution

if needed "$program" | grep '^libmpi\.' >/dev/null; then
  command -v ompi_info >/dev/null 2>&1 || die "$program needs Open MPI, but there is no ompi_info: install openmpi-bin"
  open_mpi_folder() { ompi_info --path "$1" --parseable | cut -d: -f3; }
  launcher=$(open_mpi_folder bindir)
  install -T "$launcher/orterun" "$tree/libexec/mpirun"
  install -t "$tree/libexec" "$launcher/orted"
  carried+=("$launcher/orterun" "$launcher/orted")
  mkdir -p "$tree/lib/openmpi" "$tree/lib/pmix" "$tree/share/openmpi" "$tree/share/pmix" "$tree/etc"
  for plugin in "$(open_mpi_folder pkglibdir)"/mca_*.so; do
    # Plug-ins with further libraries are for fast networks, OpenSHMEM and MPI-IO.
    if ! needed "$plugin" | grep -vE "$glibc" | grep -vE "$open_mpi" >/dev/null; then
      install -m 644 -t "$tree/lib/openmpi" "$plugin"
      carried+=("$plugin")
    fi
  done
  install -m 644 -t "$tree/share/openmpi" "$(open_mpi_folder pkgdatadir)"/help-*.txt
  install -m 644 -t "$tree/etc" "$(open_mpi_folder sysconfdir)"/openmpi-*{.conf,hostfile}
  pmix=$(libraries "${carried[@]}" | grep '/libpmix\.' || true)
  if [ -n "$pmix" ]; then
    pmix=$(dirname "$(realpath "$pmix")")
    for plugin in "$pmix"/pmix/*.so; do
      install -m 644 -t "$tree/lib/pmix" "$plugin"
      carried+=("$plugin")
    done
    install -m 644 -t "$tree/share/pmix" "$pmix"/../share/pmix/help-*.txt
  fi
fi

# ---- libraries

opened=()  # at run time
if grep -q 'libcurl\.so\.4' "$program"; then
  opened+=("$(ldconfig -p | awk '$1 == "libcurl.so.4" && /x86-64|AArch64/ { print $NF; exit }')")
  [ -n "${opened[0]}" ] || die "$program downloads by libcurl.so.4, which is not on this machine: install libcurl4"
fi
found=$(libraries "${programs[@]}" ${carried[@]+"${carried[@]}"} ${opened[@]+"${opened[@]}"})
mapfile -t found <<<"$found"
found+=(${opened[@]+"${opened[@]}"})
install -m 644 -t "$tree/lib" "${found[@]}"
carried+=("${found[@]}")

# The programs' DT_RPATH applies to all loaded libraries, plug-ins included, and precedes LD_LIBRARY_PATH, where a
# cluster's modules put other builds of the same libraries. DT_RUNPATH would do neither, so that every DT_RUNPATH is
# removed.
find "$tree/lib" -type f -exec patchelf --remove-rpath {} +
# shellcheck disable=SC2016
find "$tree/libexec" -type f -exec patchelf --force-rpath --set-rpath '$ORIGIN/../lib' {} +

# Lines "VERSION FILE: SYMBOL" of what glibc must provide, the newest last. libstdc++ is in the bundle.
find "$tree/lib" "$tree/libexec" -type f -exec objdump -T {} + |
  awk '/file format/ { file = $1; sub(/:$/, "", file) }
       /\*UND\*/ && match($0, /GLIBC_[0-9.]+/) { print substr($0, RSTART + 6, RLENGTH - 6), file, $NF }' |
  sort -V >"$temporary/symbols"
read -r glibc_needed file symbol < <(tail -n 1 "$temporary/symbols")
[ "$(printf '%s\n' "$glibc_needed" "$newest_glibc" | sort -V | tail -n 1)" = "$newest_glibc" ] ||
  die "${file#"$tree"/} needs $symbol of glibc $glibc_needed, newer than $newest_glibc: bundle on an older system, or" \
    "give --glibc $glibc_needed"

# ---- launcher scripts

launcher_script() {
  cat <<'SCRIPT'
#!/bin/sh
# Starts the program of this name in libexec/, if glibc is new enough. The programs find their libraries through
# DT_RPATH; the variables are for Open MPI's plug-ins and for mpirun, which runs orted on other hosts.
self=$0
[ ! -L "$self" ] || self=$(readlink -f "$self")
name=${self##*/}
root=$(CDPATH='' cd "${self%/*}/.." && pwd) || exit 2

if command -v getconf >/dev/null; then
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
  glibc=${glibc#glibc }
  minor=${glibc#*.}
  minor=${minor%%.*}
  if [ -z "$glibc" ] || [ "${glibc%%.*}" -lt @MAJOR@ ] ||
    { [ "${glibc%%.*}" -eq @MAJOR@ ] && [ "$minor" -lt @MINOR@ ]; }; then
    echo "error: $name: needs glibc @MAJOR@.@MINOR@ or later, this machine has ${glibc:-another C library}:" \
      "use a newer system, or build the program there" >&2
    exit 2
  fi
fi

export OPAL_PREFIX="$root" OPAL_PKGLIBDIR="$root/lib/openmpi"
export OPAL_PKGDATADIR="$root/share/openmpi" OPAL_SYSCONFDIR="$root/etc"
export PMIX_PREFIX="$root" PMIX_PKGLIBDIR="$root/lib/pmix"
export PMIX_PKGDATADIR="$root/share/pmix" PMIX_SYSCONFDIR="$root/etc"
export HWLOC_PLUGINS_PATH="$root/lib/hwloc" # an empty folder: the system's plug-ins have another version
case $name in
  mpirun | mpiexec | orted)
    export OMPI_MCA_orte_launch_agent="$root/bin/orted" PATH="$root/bin:$PATH"
    # Without ssh, which it needs for other hosts, mpirun would not even start ranks on this one.
    command -v ssh >/dev/null || command -v rsh >/dev/null || export OMPI_MCA_plm_rsh_agent=false
    # A prefix would add lib/ to LD_LIBRARY_PATH, also for programs of the system.
    [ "$name" = orted ] || set -- --noprefix "$@"
    ;;
esac
exec "$root/libexec/$name" "$@"
SCRIPT
}

mkdir -p "$tree/bin"
for file in "$tree"/libexec/*; do
  launcher_script | sed "s/@MAJOR@/${glibc_needed%%.*}/g; s/@MINOR@/${glibc_needed#*.}/g" >"$tree/bin/${file##*/}"
  chmod 755 "$tree/bin/${file##*/}"
done
[ ! -e "$tree/bin/mpirun" ] || ln -s mpirun "$tree/bin/mpiexec"

# ---- configurations, licences, README

ln -s share/cifar-train/configs "$tree/configs"
ln -s share/doc/cifar-train/LICENSE "$tree/LICENSE"

# /lib may be a link to /usr/lib; dpkg may list a file under either path.
mapfile -t carried < <(realpath "${carried[@]}" | sort -u)
owners=$(dpkg-query -S "${carried[@]}" "${carried[@]#/usr}" 2>/dev/null || true)$'\n'
for file in "${carried[@]}"; do
  [[ $owners == *": $file"$'\n'* || $owners == *": ${file#/usr}"$'\n'* ]] ||
    die "no package owns $file, so its licence is unknown: bundle on Debian or Ubuntu"
done
{
  printf '%s' "$owners" | cut -d: -f1
  printf '%s\n' libcli11-dev nlohmann-json3-dev  # header files only
  needed "$program" | grep '^libarchive\.' >/dev/null || printf '%s\n' libarchive-dev  # linked statically
  [[ ${programs[*]} != */test_kernels_gpu* ]] || printf '%s\n' libgtest-dev  # linked statically
} | sort -u >"$temporary/packages"
while read -r package; do
  install -m 644 -T "/usr/share/doc/$package/copyright" "$tree/licences/$package.txt" ||
    die "the licence of $package is missing: reinstall the package"
done <"$temporary/packages"
grep -hoE '/usr/share/common-licenses/[A-Za-z]+(-[0-9]+(\.[0-9]+)*)?' "$tree"/licences/*.txt | sort -u |
  while read -r file; do
    [ ! -f "$file" ] || install -D -m 644 -t "$tree/licences/common-licenses" "$file"
  done
if "$program" --version | grep -q '^GPUs: CUDA'; then  # header files, not of the distribution
  for file in "$root"/.third_party/cudnn-frontend/*/licenses/*; do
    install -m 644 -T "$file" "$tree/licences/cudnn-frontend-${file##*/}" ||
      die "the licence of cuDNN's frontend is missing: run tools/install_cudnn_frontend.sh"
  done
fi

cat >"$tree/README" <<README
$("$program" --version | head -n 1), for Linux on $(uname -m) with glibc $glibc_needed or later.
It needs no root and no packages, and runs from any folder:

  bin/cifar-train doctor                                    lists devices and libraries
  bin/cifar-train data synth --out data                     a synthetic data set (176 MB)
  bin/cifar-train train --config configs/default.yaml --output runs/one
  bin/cifar-train eval --ckpt runs/one/best.bin
  bin/mpirun -np 2 bin/cifar-train train --config configs/default.yaml --output runs/two
  tools/gpu_check.sh                                        checks and measures everything on a GPU

Add bin/ to PATH, or link to its programs from a folder of PATH. The shipped configurations are found by name from any
folder: --config default.yaml. For several hosts, put this folder at the same path, without spaces, on all of them;
ranks communicate over TCP.
As root, or with more ranks than cores, Open MPI needs these variables:
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_rmaps_base_oversubscribe=1

lib/ has libraries of $(. /etc/os-release && echo "$PRETTY_NAME"), unchanged except for the search path (that
distribution has their sources); licences/ has their licences. The bundle contains no GPU libraries.
README

time=$(git -C "$root" log -1 --format=%ct 2>/dev/null) || time=$(stat -c %Y "$program")
printf '%s' "$owners" >"$temporary/owners"
python3 "$root/tools/spdx.py" "$tree" "$temporary/owners" "$time" >"$temporary/sbom.spdx"
mv "$temporary/sbom.spdx" "$tree"

# ---- the archive

mkdir -p "$(dirname "$output")"
trap 'rm -rf "$temporary" "$output.part"' EXIT
pack=xz
[[ $output == *.xz ]] || pack=cat
tar -C "$temporary" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w --mtime="@$time" \
  -c "$name" | "$pack" >"$output.part" || die "cannot write $output"
size=$(stat -c %s "$output.part")
[ $pack = cat ] || [ "$size" -le $limit ] || die "the archive has $size bytes, more than $limit"
mv "$output.part" "$output"
say "$size bytes, $(find "$tree" -type f | wc -l) files, glibc $glibc_needed or later"
printf '%s\n' "$output"
