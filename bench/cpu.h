/* SPDX-License-Identifier: Apache-2.0 */
/* The processor's name, which every result carries. */
#ifndef APUS_BENCH_CPU_H
#define APUS_BENCH_CPU_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/** The first "model name" of /proc/cpuinfo, fit to stand in a JSON string; "unknown" on other machines. */
static inline void cpu_model(char *model_out, size_t model_bytes)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[256];

	snprintf(model_out, model_bytes, "unknown");
	while (file && fgets(line, sizeof(line), file)) {
		const char *value = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || !value)
			continue;
		line[strcspn(line, "\n\"\\")] = '\0';
		snprintf(model_out, model_bytes, "%s", value + 2);
		break;
	}
	if (file)
		fclose(file);
}

#endif
