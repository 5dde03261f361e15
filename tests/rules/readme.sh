#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Goal: the program printed in the README compiles. Method: cut out its C block, all warnings errors.
# Usage: readme.sh SOURCE_DIR
sed -n '/^```c$/,/^```$/p' "$1/README.md" | sed '/^```/d' |
	cc -xc -std=c11 -Wall -Wextra -Werror -fsyntax-only -I "$1/include" -
