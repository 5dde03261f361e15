#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Goal: an installed Apus can be found and linked by C and C++ programs, by pkg-config and by CMake.
# Method: install into a scratch directory, build tests/rules/consumer.c there each way, run it.
# Usage: install.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1
here=$2/tests/rules
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
DESTDIR=$scratch meson install -C "$build" --no-rebuild --quiet >/dev/null
pc=$(find "$scratch" -name apus.pc)
[ -n "$pc" ] || { echo "FAIL: no apus.pc installed"; exit 1; }
library=$(dirname "$(find "$scratch" -name libapus.so)")
export LD_LIBRARY_PATH="$library"
export PKG_CONFIG_PATH="${pc%/*}" PKG_CONFIG_SYSROOT_DIR="$scratch"
# A library built with a sanitizer needs its run-time in the program as well.
sanitize=${APUS_SANITIZE:+-fsanitize=$APUS_SANITIZE}
flags="$sanitize $(pkg-config --cflags --libs apus)"

check()
{
	got=$("$2") || { echo "FAIL: $1 does not run"; exit 1; }
	[ "$got" = "$(pkg-config --modversion apus)" ] || { echo "FAIL: $1 prints $got"; exit 1; }
	echo "ok: $1"
}

# shellcheck disable=SC2086  # the flags are words
cc -std=c11 -Wall -Wextra -Werror "$here/consumer.c" $flags -o "$scratch/c"
check "C program by pkg-config" "$scratch/c"
# shellcheck disable=SC2086
c++ -std=c++11 -Wall -Wextra -Werror -x c++ "$here/consumer.c" -x none $flags -o "$scratch/cc"
check "C++ program by pkg-config" "$scratch/cc"
if command -v cmake >/dev/null; then
	config=$(dirname "$(find "$scratch" -name apusConfig.cmake)")
	cmake -S "$here" -B "$scratch/cmake" -Dapus_DIR="$config" \
		-DCMAKE_C_FLAGS="$sanitize" >/dev/null
	cmake --build "$scratch/cmake" >/dev/null
	check "program by CMake" "$scratch/cmake/consumer"
fi
