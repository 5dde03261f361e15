#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Goal: each public header stands alone, in strict C11 and in C++11.
# Method: a translation unit that includes nothing else, all warnings errors, with each compiler found.
# Usage: headers.sh INCLUDE_DIR
include=$1
failed=0
for header in "$include"/apus/*.h; do
	name=apus/$(basename "$header")
	for compiler in "gcc -xc -std=c11" "g++ -xc++ -std=c++11" "clang -xc -std=c11" "clang++ -xc++ -std=c++11"; do
		command -v "${compiler%% *}" >/dev/null || continue
		if ! echo "#include <$name>" | $compiler -Wall -Wextra -Wpedantic -Werror \
			-fsyntax-only -I "$include" -; then
			echo "FAIL: <$name> alone with $compiler"
			failed=1
		fi
	done
done
exit $failed
