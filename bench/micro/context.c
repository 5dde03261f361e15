/* SPDX-License-Identifier: Apache-2.0 */
/* The context of a result; see context.h. The host's name is no part of it. */
#include "bench/micro/context.h"

#include "bench/cpu.h"

#include <apus/core.h>
#include <commit.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

int micro_main(int argc, char **argv)
{
	struct utsname uts;
	char model[256];

	cpu_model(model, sizeof(model));
	bench_context("cpu", model);
	if (uname(&uts) == 0)
		bench_context("kernel", uts.release);
	bench_context("commit", BENCH_COMMIT);
	bench_context("apus", apus_version());
	bench_context("compiler", __VERSION__);
	return bench_main(argc, argv);
}
