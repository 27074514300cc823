# The one place for what kvgate needs from the system. Sourced by the scripts; sets nothing else.
#
# kvgate_setup [GROUP]...: installs what is missing with apt, as root or through sudo. It does
# nothing, and asks for no rights, when all is there. Groups: build (always), test (tools without
# which a test skips by name), full (fuzzers: clang), package (cpack), package-tests (and a clean
# system to install packages in), tidy.

KVGATE_PACKAGES_BUILD=(
  g++ cmake ninja-build make ccache pkg-config python3 curl ca-certificates
  libboost1.81-dev libssl-dev librocksdb-dev libxxhash-dev nlohmann-json3-dev libsimdjson-dev
  libexpected-dev libhwy-dev libpcre2-dev libutf8proc-dev libcli11-dev libspdlog-dev libfmt-dev
  libzstd-dev zlib1g-dev libbrotli-dev libtomlplusplus-dev libgtest-dev libgmock-dev
)
KVGATE_PACKAGES_TEST=(abigail-tools doxygen python3-yaml redis-server)
KVGATE_PACKAGES_PACKAGE=(dpkg-dev file)
KVGATE_PACKAGES_PACKAGE_TESTS=("${KVGATE_PACKAGES_PACKAGE[@]}" lintian debootstrap groff zsh)
KVGATE_PACKAGES_FULL=(clang libclang-rt-dev)
KVGATE_PACKAGES_TIDY=(clang-format clang-tidy)

kvgate_say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }
kvgate_die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Prints those of the given packages that are not installed, one a line.
kvgate_packages_missing() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' \
      || printf '%s\n' "$package"
  done
}

kvgate_setup() {
  local wanted=("${KVGATE_PACKAGES_BUILD[@]}") group missing=()
  for group in "$@"; do
    case "$group" in
      test) wanted+=("${KVGATE_PACKAGES_TEST[@]}") ;;
      package) wanted+=("${KVGATE_PACKAGES_PACKAGE[@]}") ;;
      package-tests) wanted+=("${KVGATE_PACKAGES_PACKAGE_TESTS[@]}") ;;
      full) wanted+=("${KVGATE_PACKAGES_FULL[@]}") ;;
      tidy) wanted+=("${KVGATE_PACKAGES_TIDY[@]}") ;;
      *) kvgate_die "kvgate_setup: unknown group '$group'" ;;
    esac
  done
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    kvgate_die "this script installs with apt on Debian 12; on another system install the like of:
  ${wanted[*]}
then build with: cmake --preset release && cmake --build --preset release"
  fi
  mapfile -t missing < <(kvgate_packages_missing "${wanted[@]}")
  [ "${#missing[@]}" -eq 0 ] && return 0
  kvgate_apt "${missing[*]}" install --no-install-recommends "${missing[@]}"
}

# kvgate_apt WHAT COMMAND [ARGUMENT]...: apt-get as root or through sudo. WHAT is for people.
kvgate_apt() {
  local what="$1" command="$2" as_root=()
  shift 2
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || kvgate_die "missing packages: $what; run as root, or install sudo"
    as_root=(sudo)
  fi
  kvgate_say "installing with apt: $what"
  "${as_root[@]}" apt-get update -q \
    || kvgate_die "apt-get update failed; see the lines above"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$command" -y -q "$@" \
    || kvgate_die "apt-get could not install: $what (kvgate is built on Debian 12 bookworm)"
}

# kvgate_unpack PACKAGE FOLDER: a package's files below the folder, and what the program needs. The
# package itself is not installed, so that no service starts.
kvgate_unpack() {
  local package="$1" folder="$2" needs missing
  [ -r "$package" ] || kvgate_die "$package cannot be read"
  [ "$(dpkg-deb -f "$package" Package 2>/dev/null)" = kvgate ] \
    || kvgate_die "$package is not the package kvgate (cpack -G DEB makes it)"
  rm -rf "$folder"
  mkdir -p "$folder"
  dpkg-deb -x "$package" "$folder"
  command -v python3 >/dev/null || kvgate_apt python3 install --no-install-recommends python3
  missing="$(ldd "$folder/usr/bin/kvgate" | sed -n 's/ => not found//p')"
  [ -n "$missing" ] || return 0
  needs="$(dpkg-deb -f "$package" Depends)"
  kvgate_apt "$needs" satisfy --no-install-recommends "$needs"
}

# Whether fuzzers can be built: clang is there, or could be installed now. Fuzzing is an extra, so
# that nothing ends where it cannot.
kvgate_can_fuzz() {
  local source binary built=1
  command -v clang++ >/dev/null || (kvgate_setup full) || return 1
  source="$(mktemp --suffix=.cc)" && binary="$(mktemp)" || return 1
  echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }' >"$source"
  clang++ -fsanitize=fuzzer,address "$source" -o "$binary" 2>/dev/null || built=0
  rm -f "$source" "$binary"
  [ "$built" = 1 ]
}

# kvgate_build PRESET [CMAKE ARGUMENT]... [-- TARGET...]: configures and builds, progress visible.
# Without a target everything is built.
kvgate_build() {
  local preset="$1" configure=() targets=()
  shift
  while [ "$#" -gt 0 ] && [ "$1" != -- ]; do
    configure+=("$1")
    shift
  done
  [ "$#" -gt 0 ] && shift && targets=(--target "$@")
  # Checkouts in different folders share one compiler cache.
  export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
  kvgate_say "building: $preset"
  cmake --preset "$preset" "${configure[@]}" >"build-$preset.log" 2>&1 || {
    cat "build-$preset.log" >&2
    kvgate_die "cmake --preset $preset failed"
  }
  rm -f "build-$preset.log"
  cmake --build "build/$preset" -j "$(kvgate_jobs)" "${targets[@]}"
}

# One compiler per core, but no more than memory allows: the heaviest sources take 2 GB.
kvgate_jobs() {
  local cores memory
  cores="$(nproc)"
  memory="$(awk '/MemAvailable/ { print int($2 / 2000000) }' /proc/meminfo)"
  [ "$memory" -lt 1 ] && memory=1
  echo $((cores < memory ? cores : memory))
}
