/* SPDX-License-Identifier: Apache-2.0 */
/* The context of a result; see context.h. The host's name is no part of it. */
#include "bench/micro/context.h"

#include <apus/core.h>
#include <commit.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* The first "model name" of /proc/cpuinfo, without the newline; "unknown" on other machines. */
static void cpu_model(char *model_out, size_t model_bytes)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[256];

	snprintf(model_out, model_bytes, "unknown");
	while (file && fgets(line, sizeof(line), file)) {
		const char *value = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || !value)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(model_out, model_bytes, "%s", value + 2);
		break;
	}
	if (file)
		fclose(file);
}

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
